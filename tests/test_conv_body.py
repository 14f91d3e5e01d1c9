"""The examples run."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture
def conv_body():
    specification = importlib.util.spec_from_file_location("conv_body", EXAMPLES / "conv_body.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_a_convolutional_body_trains_and_is_certified(conv_body):
    certificate, error = conv_body.train(epochs=30, samples=8)
    assert certificate.n == 1438
    assert certificate.draws == 1438 * 8 / 64
    assert set(certificate.kl_by_part) == {
        "body.module.1.weight",
        "body.module.1.bias",
        "layer.weight",
        "layer.bias",
    }
    assert certificate.risk < 0.35
    assert error < 0.35
