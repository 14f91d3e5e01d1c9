"""A checkpoint continues its loop, or is refused before anything is restored."""

import pytest
import torch

from pacbayes import Settings, build_network
from pacbayes.files import DamagedFileError, save_json
from pacbayes.training.checkpoints import read_history, restore
from pacbayes.training.trainer import Trainer

SETTINGS = Settings.of("fast", "relu", widths=(3,), epochs=2, evaluate_every=1, batch_size=8)


def begun(steps=4):
    x = torch.randn(16, 2, generator=torch.Generator().manual_seed(0))
    trainer = Trainer(build_network(SETTINGS, 2), x, x[:, 0].sign(), SETTINGS)
    for _, _ in zip(range(steps), trainer.steps(), strict=False):
        pass
    return trainer


def test_a_checkpoint_continues_its_loop(tmp_path):
    tensors, record = begun().state()
    again = begun(0)
    restore(again, tmp_path / "a", tensors, record)
    assert again.state()[1] == record
    assert all(torch.equal(again.state()[0][name], tensors[name]) for name in tensors)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors, record: record.pop("epoch"),
        lambda tensors, record: record.update(epoch="1"),
        lambda tensors, record: record.update(seconds=None),
        lambda tensors, record: record["history"][0].pop("bound"),
        lambda tensors, record: record["history"][0].update(more=1),
        lambda tensors, record: record.update(history=[3]),
        lambda tensors, record: tensors.pop("generator"),
        lambda tensors, record: tensors.update(generator=tensors["generator"][:8]),
        lambda tensors, record: tensors.update(other=torch.zeros(1)),
        lambda tensors, record: tensors.update({"optimiser.0.exp_avg": torch.zeros(1)}),
        lambda tensors, record: tensors.pop("optimiser.0.step"),
        lambda tensors, record: tensors.update({"optimiser.99.step": torch.zeros(())}),
        lambda tensors, record: tensors.update(log_lambda=torch.zeros(3)),
    ],
)
def test_other_contents_are_refused(tmp_path, change):
    tensors, record = begun().state()
    change(tensors, record)
    with pytest.raises(DamagedFileError, match="checkpoint"):
        restore(begun(0), tmp_path / "checkpoint", tensors, record)


@pytest.mark.parametrize("epoch", [-1, -(2**31), 1_000])
def test_an_epoch_that_the_run_does_not_have_is_refused(tmp_path, epoch):
    tensors, record = begun().state()
    with pytest.raises(DamagedFileError, match=f"damaged: epoch {epoch} of"):
        restore(begun(0), tmp_path / "checkpoint", tensors, record | {"epoch": epoch})


@pytest.mark.parametrize("record", [None, [], "text", 3])
def test_a_record_of_another_type_is_refused(tmp_path, record):
    with pytest.raises(DamagedFileError):
        restore(begun(0), tmp_path / "checkpoint", begun().state()[0], record)


@pytest.mark.parametrize("record", [[], {}, [{}], [{"epoch": 1}], [None]])
def test_a_history_without_its_fields_is_refused(tmp_path, record):
    save_json(tmp_path / "history.json", record)
    with pytest.raises(DamagedFileError, match=r"history\.json"):
        read_history(tmp_path / "history.json")
