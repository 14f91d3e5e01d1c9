"""Architectures other than dense are records, from which the same module can be built again."""

import pytest
import torch
from pydantic import ValidationError
from torch import nn

from pacbayes.networks.modules import Convolutions, OwnModule, grouped, named_function

OWN = """
from dataclasses import dataclass
from torch import nn

@dataclass
class Plan:
    width: int = 3

def build(shape, outputs):
    width = Plan().width
    return nn.Sequential(nn.Flatten(), nn.Linear(shape[0] * shape[1] * shape[2], width),
                         nn.ReLU(), nn.Linear(width, outputs))

def nothing(shape, outputs):
    return shape
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    return path


@pytest.mark.parametrize(
    ("given", "shape"),
    [
        ({}, (1, 28, 28)),
        ({"channels": (4,), "kernels": (2,), "strides": (3,)}, (3, 9, 11)),
        ({"padding": True, "pooling": 2, "widths": (7, 5)}, (2, 8, 8)),
        ({"batch_norm": True, "strides": (1, 2)}, (1, 12, 9)),
    ],
)
def test_convolutions_give_a_row_of_scores_for_images_of_any_shape(given, shape):
    module = Convolutions(**given).build(shape, 4)
    assert module.eval()(torch.rand(3, *shape)).shape == (3, 4)


def test_convolutions_are_those_of_the_record():
    record = Convolutions(channels=(4, 6), kernels=(5, 3), strides=(2, 1), widths=(9,))
    layers = [m for m in record.build((1, 20, 20), 2).modules() if isinstance(m, nn.Conv2d)]
    assert [(m.out_channels, m.kernel_size[0], m.stride[0]) for m in layers] == [
        (4, 5, 2),
        (6, 3, 1),
    ]
    assert record.title == "conv 5×5/2 to 4, 3×3/1 to 6, dense 9"


def test_a_seed_gives_the_same_first_weights_and_leaves_torch_s_generator_alone():
    before = torch.get_rng_state()
    a, b, c = (Convolutions().build((1, 28, 28), 1, seed) for seed in (0, 0, 1))
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(a[0].weight, b[0].weight)
    assert not torch.equal(a[0].weight, c[0].weight)


def test_images_that_are_too_small_are_refused():
    with pytest.raises(ValueError, match="3×3 pixels are too small for a convolution of 5×5"):
        Convolutions().build((1, 3, 3), 1)
    with pytest.raises(ValueError, match=r"need images of shape .* got examples of shape \(7,\)"):
        Convolutions().build((7,), 1)


def test_every_convolution_needs_all_its_numbers():
    with pytest.raises(ValidationError, match="needs channels, a kernel and a stride"):
        Convolutions(channels=(3,))
    with pytest.raises(ValidationError):
        Convolutions(channels=(), kernels=(), strides=())


def test_defaults_have_more_layers_where_the_prior_learns():
    assert len(Convolutions(**Convolutions.usual(learned=True)).channels) == 5
    assert Convolutions(**Convolutions.usual(learned=False)) == Convolutions()
    given = Convolutions.usual(3, learned=False) | {"channels": (2, 2, 2)}
    assert Convolutions(**given).strides == (1, 2, 1)


@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("side", [1, 2, 4, 8, 9, 28, 32])
def test_defaults_suit_images_of_every_size(learned, side):
    usual = Convolutions.usual(learned=learned, shape=(3, side, side))
    module = Convolutions(**usual).build((3, side, side), 2)
    assert module.eval()(torch.rand(2, 3, side, side)).shape == (2, 2)
    if side >= 9:
        assert usual == Convolutions.usual(learned=learned)


def test_a_function_of_the_user_s_own_builds_a_module(file):
    own = OwnModule.of(file, "build")
    module = own.build((1, 4, 4), 3, 0, file)
    assert module(torch.rand(2, 1, 4, 4)).shape == (2, 3)
    assert OwnModule.model_validate_json(own.model_dump_json()) == own
    again = own.build((1, 4, 4), 3, 0, file)
    assert torch.equal(module[1].weight, again[1].weight)


def test_a_file_that_changed_does_not_run(file):
    own = OwnModule.of(file, "build")
    file.write_text(OWN + "\nraise RuntimeError('ran')")
    with pytest.raises(ValueError, match=r"is not the file that the network was built from"):
        own.build((1, 4, 4), 3, 0, file)


def test_describing_a_file_does_not_run_it(file):
    file.write_text("raise RuntimeError('ran')")
    assert OwnModule.of(file, "build").title == "mine.py:build"


def test_functions_that_build_no_module_are_refused(file):
    with pytest.raises(ValueError, match=r"nothing must return an nn.Module, got tuple"):
        OwnModule.of(file, "nothing").build((1, 4, 4), 3, 0, file)
    with pytest.raises(ValueError, match="has no function 'absent'"):
        OwnModule.of(file, "absent").build((1, 4, 4), 3, 0, file)


@pytest.mark.parametrize("text", ["mine.py", "mine:build", "mine.py:", "mine.py:a b", "conv2"])
def test_names_of_functions_are_checked(text):
    with pytest.raises(ValueError, match=r"as in my_network.py:build, got"):
        named_function(text)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(ValueError, match=r"absent.py cannot be read: No such file"):
        OwnModule.of(tmp_path / "absent.py", "build")


SCORES = torch.tensor([[0.1, 2.0, 1.9, 0.3], [3.0, 0.0, 2.9, -1.0]], dtype=torch.float64)


def test_two_groups_have_the_difference_of_their_probabilities():
    p = SCORES.softmax(-1)
    want = p[:, [0, 2]].sum(1) - p[:, [1, 3]].sum(1)
    module = grouped(nn.Identity(), (1, 0, 1, 0)).double()
    assert torch.allclose(module(SCORES).squeeze(-1), want, rtol=0, atol=1e-15)


def test_more_groups_have_the_sums_of_probabilities():
    p = SCORES.softmax(-1)
    want = torch.stack([p[:, 3], p[:, 0] + p[:, 1], p[:, 2]], 1)
    module = grouped(nn.Identity(), (1, 1, 2, 0)).double()
    assert torch.allclose(module(SCORES), want, rtol=0, atol=1e-15)
