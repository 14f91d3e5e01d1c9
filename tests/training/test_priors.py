"""A prior may look at its own part of the data, and at nothing else."""

import hashlib
import json

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from torch import nn

from pacbayes import Settings, folders, kl, learn_prior, stochastic
from pacbayes.certificates.kept import certify_fixed, certify_network
from pacbayes.data import DataSource
from pacbayes.folders import preparation
from pacbayes.folders.preparation import prepare
from pacbayes.networks.families.diagonal import Gaussian
from pacbayes.networks.posterior import digest_prior, gaussians
from pacbayes.training import loop, priors
from pacbayes.training.priors import Teacher, as_prior, split
from pacbayes.verify import verify


def examples(n=400):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 4, generator=generator)
    return x, torch.where(x[:, 0] + x[:, 1] > 0, 1.0, -1.0)


def settings(**changes):
    given = {"widths": (6,), "epochs": 3, "prior_fraction": 0.5, "prior_epochs": 30} | changes
    return Settings.of("fast", "relu", prior_rate=0.03, prior_scale=0.3, batch_size=20, **given)


def learned(x, y, settings, classes=2):
    teacher = Teacher(x, y, settings, classes)
    for _ in teacher.steps():
        pass
    return as_prior(teacher, settings)


@pytest.mark.parametrize(("n", "fraction"), [(100, 0.5), (101, 0.3), (60_000, 0.7)])
def test_parts_are_disjoint_and_complete(n, fraction):
    own, bound = split(n, fraction, 0)
    assert len(own) == round(fraction * n)
    assert np.array_equal(np.sort(np.concatenate([own, bound])), np.arange(n))
    assert (np.diff(own) > 0).all()
    assert (np.diff(bound) > 0).all()
    assert not np.array_equal(split(n, fraction, 1)[0], own)
    assert np.array_equal(split(n, fraction, 0)[0], own)
    assert not np.array_equal(own, np.arange(len(own)))


@pytest.mark.parametrize("fraction", [0.001, 0.95, 0.999])
def test_a_bound_needs_examples_and_a_prior_too(fraction):
    with pytest.raises(ValueError, match=r"a prior fraction of 0\.\d+ gives \d+ of 100"):
        split(100, fraction, 0)


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_the_learned_network_has_learned_and_is_its_own_prior(engine):
    x, y = examples()
    network = learned(x, y, settings(engine=engine))
    assert kl(network).item() == 0
    with torch.no_grad():
        risk = (0.5 * (1 - y * network(x, 50))).mean().item()
    assert risk < 0.1
    scales = {g.prior_log_scale.item() for g in network.modules() if isinstance(g, Gaussian)}
    assert scales == {torch.tensor(0.3).log().item()}


def test_it_depends_on_its_part_and_its_seed_only():
    x, y = examples()
    first, again = (learned(x, y, settings()).state_dict() for _ in range(2))
    assert all(torch.equal(first[k], again[k]) for k in first)
    other = learned(x, y, settings(seed=1)).state_dict()
    assert not torch.equal(first["layer.weight.mean"], other["layer.weight.mean"])


@pytest.fixture
def run(tmp_path):
    x, y = examples()
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    source = DataSource(str(tmp_path / "data.npz"))
    data = source.load()
    return prepare(tmp_path / "run", settings(), source, data), data, source


def finish(run, data):
    for _ in folders.train_run(run, data):
        pass
    return folders.certify_run(
        run, run.load_network(), data, delta=0.05, bound="small-kl", samples=10
    )


def test_the_bound_is_on_the_other_part(run):
    opened, data, _ = run
    own, bound = split(400, 0.5, 0)
    x, y = opened.bound_set(data)
    assert np.array_equal(x.numpy(), data.x_train[bound])
    assert np.array_equal(y.numpy(), data.signs()[bound])
    c = finish(opened, data)
    assert c.n == 200
    assert c.provenance["split_sha256"] == opened.record.data.split_sha256
    assert c.bound < 0.35
    assert all(f.holds for f in verify(opened.folder / "certificate.json", full=True))
    assert len(own) == 200


def test_examples_of_the_bound_set_do_not_change_the_prior(run, tmp_path):
    opened, data, _ = run
    _, bound = split(400, 0.5, 0)
    x, y = data.x_train.copy(), data.signs().copy()
    x[bound] += 1
    y[bound] *= -1
    np.savez(tmp_path / "other.npz", x=x, y=y)
    source = DataSource(str(tmp_path / "other.npz"))
    other = prepare(tmp_path / "other", settings(), source, source.load())
    prior, same = opened.load_prior(), other.load_prior()
    assert all(torch.equal(prior[k], same[k]) for k in prior)


def test_training_starts_at_the_prior_and_resumes(run):
    opened, data, source = run
    assert kl(opened.start_network()).item() == 0
    again = prepare(opened.folder, settings(), source, data)
    assert again.record == opened.record


def test_another_split_is_refused_and_noticed(run):
    opened, data, _ = run
    finish(opened, data)
    path = opened.folder / "split.safetensors"
    path.write_bytes(path.read_bytes()[:-8] + bytes(8))
    with pytest.raises(ValueError, match="is not the run's split"):
        opened.bound_set(data)
    names = [f.name for f in verify(opened.folder / "certificate.json") if not f.holds]
    assert "bound set" in names
    assert "size of the bound set" in names


def test_an_example_counted_twice_is_noticed(run):
    """With every hash forged to fit."""
    opened, data, _ = run
    finish(opened, data)
    _, bound = split(400, 0.5, 0)
    bound[1] = bound[0]
    path = opened.folder / "split.safetensors"
    save_file({"bound": bound}, path)
    forged = hashlib.sha256(path.read_bytes()).hexdigest()
    for name in ("run.json", "certificate.json"):
        text = (opened.folder / name).read_text()
        (opened.folder / name).write_text(text.replace(opened.record.data.split_sha256, forged))
    names = [f.name for f in verify(opened.folder / "certificate.json") if not f.holds]
    assert "bound set" in names


def images(n=60, side=8):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(n, side * side, generator=generator)
    return x, torch.where(x[:, 0] > 0.5, 1.0, -1.0)


def test_augmentation_changes_what_steps_see_and_not_what_is_evaluated():
    x, y = images()
    teacher = Teacher(x, y, settings(prior_epochs=100, prior_augmentation="images"))
    before, seen = x.clone(), []
    for progress in teacher.steps():
        if progress.batch == progress.batches:
            seen.append(teacher.shown)
    assert torch.equal(teacher.x, before)
    assert not torch.equal(seen[0], x)
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[-1], x)  # it ends with the examples as they are


def test_the_log_loss_comes_first_and_the_linear_loss_last():
    x, y = examples(60)
    teacher, log_loss = Teacher(x, y, settings(prior_epochs=10)), []
    for progress in teacher.steps():
        if progress.batch == progress.batches:
            log_loss.append(teacher.log_loss)
    assert log_loss == [True] * 7 + [False] * 3


@pytest.mark.parametrize("augmentation", ["none", "images"])
def test_learning_resumes_with_the_same_bits(augmentation, tmp_path):
    x, y = images(200)
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    source, asked = (
        DataSource(str(tmp_path / "data.npz")),
        settings(prior_augmentation=augmentation),
    )
    data = source.load()
    whole = prepare(tmp_path / "whole", asked, source, data)
    loop.CHECKPOINT_SECONDS, kept = 0.0, loop.CHECKPOINT_SECONDS
    for i, _ in enumerate(preparation.prior_steps(tmp_path / "parts", asked, source, data)):
        if i == 57:
            break
    loop.CHECKPOINT_SECONDS = kept
    assert (tmp_path / "parts" / "learning.safetensors").exists()
    with pytest.raises(ValueError, match="half-learned prior of another run"):
        prepare(tmp_path / "parts", asked.model_copy(update={"seed": 5}), source, data)
    parts = prepare(tmp_path / "parts", asked, source, data)
    assert not (tmp_path / "parts" / "learning.safetensors").exists()
    assert parts.record.prior_sha256 == whole.record.prior_sha256
    assert list(preparation.prior_steps(tmp_path / "parts", asked, source, data)) == []


def test_what_is_learned_can_be_resumed_from_the_first_epoch_on(tmp_path):
    x, y = images(200)
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    source = DataSource(str(tmp_path / "data.npz"))
    for progress in preparation.prior_steps(tmp_path / "r", settings(), source, source.load()):
        if progress.epoch == 2:
            break
    assert (tmp_path / "r" / "learning.safetensors").exists()


def test_many_classes_have_learned_priors_too():
    x, _ = examples()
    y = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    network = learned(x, y, settings(prior_epochs=60), classes=4)
    with torch.no_grad():
        assert network.loss(network(x, 50), y).mean().item() < 0.2


@pytest.mark.parametrize("priors", [1, 3])
def test_every_prior_that_was_tried_is_paid_for(priors, tmp_path):
    x, y = examples()
    np.savez(tmp_path / "data.npz", x=x.numpy(), y=y.numpy())
    source, scales = DataSource(str(tmp_path / "data.npz")), (0.3, 0.1, 0.2)[:priors]
    asked = settings(prior_scales=scales)
    data = source.load()
    run = prepare(tmp_path / "run", asked, source, data)
    c = finish(run, data)
    assert c.ledger["pac-bayes"] == pytest.approx(0.025 / priors)
    assert c.ledger["monte-carlo"] == pytest.approx(0.025 / priors)  # a draw for each, too
    assert sum(name.startswith("other prior") for name in c.ledger) == 2 * (priors - 1)
    path = run.folder / "certificate.json"
    assert all(f.holds for f in verify(path))
    for bound in ("disintegrated", "best-of", "tandem"):
        asked = {"delta": 0.05, "bound": bound, "samples": 10}
        issued = folders.certify_run(run, run.load_network(), data, **asked)
        assert all(f.holds for f in verify(run.certificate_path(issued.kind))), bound
    finish(run, data)
    record = json.loads(path.read_text())
    if priors > 1:
        less = {k: v * 0.9 if k.startswith("other") else v for k, v in c.ledger.items()}
        for ledger in ({"pac-bayes": 0.025, "monte-carlo": 0.025}, less):
            path.write_text(json.dumps(record | {"ledger": ledger}))
            assert "δ ledger" in [f.name for f in verify(path) if not f.holds]


def test_a_scale_that_is_not_among_those_tried_is_refused():
    with pytest.raises(ValueError, match="is not among"):
        settings(prior_scales=(0.1, 0.2))
    with pytest.raises(ValueError, match="occurs twice"):
        settings(prior_scales=(0.3, 0.3))


def test_the_bound_set_is_never_augmented():
    with pytest.raises(ValueError, match="augmentation is for a prior that learns"):
        Settings.of("fast", "relu", prior_augmentation="images")
    with pytest.raises(ValueError, match=r"needs square images.*got 4 features"):
        Teacher(*examples(), settings(prior_augmentation="images"))


def test_copies_of_the_bound_set_in_the_priors_part_are_refused(tmp_path):
    """Every example three times: the prior would know the labels of what it is bounded on."""
    x, y = examples()
    copies = {"x": x.repeat(3, 1).numpy(), "y": y.repeat(3).numpy()}
    np.savez(tmp_path / "data.npz", **copies)
    source = DataSource(str(tmp_path / "data.npz"))
    asked = settings(prior_fraction=0.93)
    with pytest.raises(ValueError, match="800 of 1200 examples are duplicates"):
        prepare(tmp_path / "run", asked, source, source.load())
    assert not (tmp_path / "run").exists()
    natural = asked.model_copy(update={"repeats": True, "prior_epochs": 1})
    prepare(tmp_path / "run", natural, source, source.load())


def test_preprocessing_fitted_to_all_training_data_is_refused_whoever_has_which_part(tmp_path):
    x, y = examples()
    np.savez(tmp_path / "data.npz", x=((x - x.mean(0)) / x.std(0)).numpy(), y=y.numpy())
    source = DataSource(str(tmp_path / "data.npz"))
    for fraction in (0.0, 0.5):
        with pytest.raises(ValueError, match="mean zero"):
            prepare(tmp_path / "run", settings(prior_fraction=fraction), source, source.load())


def test_a_split_of_ones_own_is_noticed(run):
    """The easiest examples first, every hash made to fit."""
    opened, data, _ = run
    finish(opened, data)
    path = opened.folder / "split.safetensors"
    save_file({"bound": np.arange(200)}, path)
    forged = hashlib.sha256(path.read_bytes()).hexdigest()
    for name in ("run.json", "certificate.json"):
        text = (opened.folder / name).read_text()
        (opened.folder / name).write_text(text.replace(opened.record.data.split_sha256, forged))
    assert "bound set" in [
        f.name for f in verify(opened.folder / "certificate.json") if not f.holds
    ]


def test_several_scales_must_all_be_scales():
    with pytest.raises(ValueError, match="between 1e-9 and 1e9"):
        settings(prior_scales=(0.3, -1.0))


@pytest.mark.parametrize("engine", ["auto", "torch"])
def test_the_log_loss_learns_from_examples_that_are_far_from_right(engine):
    """A small scale makes scores certain: three separable classes, by either engine."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(3, (600,), generator=generator)
    x = 3 * torch.nn.functional.one_hot(y, 3).float()
    x += 0.05 * torch.randn(600, 3, generator=generator)
    for widths in ((), (10,)):
        asked = Settings.of(
            *("fast", "relu"), prior_fraction=0.5, prior_epochs=60, widths=widths, engine=engine
        )
        network = learned(x, y, asked, classes=3)
        with torch.no_grad():
            assert network.loss(network(x, 20), y).mean().item() < 0.05, widths


def module(outputs=1):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Unflatten(1, (1, 6, 6)),
        nn.Conv2d(1, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Flatten(),
        nn.Linear(64, outputs),
    )


def lessons(n, seed, classes=2):
    g = torch.Generator().manual_seed(seed)
    x, label = torch.rand(n, 36, generator=g), torch.randint(classes, (n,), generator=g)
    x[torch.arange(n), label] += 1.0
    x[torch.arange(n), label + 6] += 1.0
    return x, (2.0 * label - 1 if classes == 2 else label)


@pytest.mark.parametrize("classes", [2, 3])
def test_a_prior_learns_from_its_part_and_is_certified_on_the_other(classes):
    start = module(1 if classes == 2 else 3)
    before = {k: v.clone() for k, v in start.state_dict().items()}
    learned = learn_prior(start, *lessons(400, 0, classes), epochs=10, batch_size=32)
    assert all(torch.equal(before[k], v) for k, v in start.state_dict().items())
    assert not any(isinstance(part, nn.BatchNorm2d) for part in learned.modules())
    network = stochastic(learned, scale=0.01)
    assert torch.equal(gaussians(network)["body.posterior.1.weight"].mean, learned[1].weight)
    assert len(digest_prior(network)) == 64
    bound_set = lessons(300, 1, classes)
    held_out = certify_fixed(network, *bound_set)
    assert held_out.risk < held_out.bound < 0.15
    best, _ = certify_network(network, *bound_set)
    assert best.bound < 0.2


def test_an_interrupted_prior_ends_with_the_same_bits(tmp_path, monkeypatch):
    given = {"epochs": 4, "batch_size": 32, "augment": shifted}
    x, y = lessons(200, 0)
    whole = learn_prior(module(), x, y, **given)
    monkeypatch.setattr(priors, "run_to_end", stop_after(2, priors.run_to_end))
    with pytest.raises(KeyboardInterrupt):
        learn_prior(module(), x, y, **given, checkpoint=tmp_path / "c.safetensors")
    monkeypatch.undo()
    resumed = learn_prior(module(), x, y, **given, checkpoint=tmp_path / "c.safetensors")
    assert all(
        torch.equal(a, b) for a, b in zip(whole.parameters(), resumed.parameters(), strict=True)
    )
    with pytest.raises(ValueError, match="belongs to other examples"):
        learn_prior(module(), x + 1, y, **given, checkpoint=tmp_path / "c.safetensors")


def shifted(x, generator):
    return x + 0.1 * torch.rand(len(x), 1, generator=generator)


def stop_after(epochs, run_to_end):
    def run(loop, save):
        for progress in run_to_end(loop, save):
            yield progress
            if loop.epoch == epochs:
                save()
                raise KeyboardInterrupt

    return run


def test_products_in_bfloat16_train_weights_in_float32():
    x, y = lessons(400, 0)
    narrow = learn_prior(module(), x, y, epochs=10, batch_size=32, precision="bfloat16")
    assert {p.dtype for p in narrow.parameters()} == {torch.float32}
    plain = learn_prior(module(), x, y, epochs=10, batch_size=32)
    assert not torch.equal(narrow[1].weight, plain[1].weight)
    unseen, label = lessons(300, 1)
    assert (narrow(unseen).squeeze(1) * label <= 0).float().mean() < 0.1


def test_examples_are_augmented_until_shortly_before_the_end():
    x = torch.zeros(2, 3)
    shown = [priors.augmented(x, shifted, 0, epoch, 100) for epoch in (0, 1, 96, 97, 99)]
    assert [bool(s.any()) for s in shown] == [True, True, True, False, False]
    assert not torch.equal(shown[0], shown[1])
    assert torch.equal(shown[0], priors.augmented(x, shifted, 0, 0, 100))


def test_statistics_can_stay_frozen_instead():
    learned = learn_prior(module(), *lessons(100, 0), epochs=1, fold=False)
    assert isinstance(learned[2], nn.BatchNorm2d)
    assert not learned[2].training
    stochastic(learned)  # is accepted


def test_wrong_labels_are_refused():
    x, _ = lessons(50, 0)
    with pytest.raises(ValueError, match="labels must be -1 or"):
        learn_prior(module(), x, torch.zeros(50), epochs=1)
