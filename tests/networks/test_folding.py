"""Folding batch norm leaves the function as it is."""

import copy

import pytest
import torch
from torch import nn

from pacbayes import fold_batch_norm, stochastic


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4)
        self.conv2, self.norm2 = nn.Conv2d(4, 4, 3, padding="same", groups=2), nn.BatchNorm2d(4)
        self.norm3, self.fc = nn.BatchNorm1d(4), nn.Linear(4, 5)
        self.norm4 = nn.BatchNorm1d(5)

    def forward(self, x):
        a = self.norm1(self.conv1(x)).relu()
        a = (a + self.norm2(self.conv2(a))).relu().mean((2, 3))
        return self.norm4(self.fc(self.norm3(a)))


def trained(module, x):
    """The module with statistics and gains that training left."""
    for _ in range(3):
        module(x)
    with torch.no_grad():
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
                part.weight.uniform_(0.5, 2)
                part.bias.normal_()
    return module


def test_the_function_stays_and_norms_after_layers_go():
    x = 3 + 2 * torch.randn(50, 3, 6, 6, dtype=torch.float64)
    module = trained(Residual().double(), x)
    state = copy.deepcopy(module.state_dict())
    folded = fold_batch_norm(module)
    assert torch.allclose(folded(x), module.eval()(x), rtol=1e-10)
    left = [name for name, part in folded.named_modules() if "BatchNorm" in type(part).__name__]
    assert left == ["norm3"]  # after a mean, not after a layer
    assert all(torch.equal(state[k], v) for k, v in module.state_dict().items())
    stochastic(folded, nn.Linear(5, 1))  # is accepted


def test_a_layer_that_is_also_used_elsewhere_is_not_folded():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)

        def forward(self, x):
            a = self.fc(x)
            return a + self.norm(a)

    class Twice(Both):
        def forward(self, x):
            return self.norm(self.fc(self.fc(x)))

    x = torch.randn(20, 3, dtype=torch.float64)
    for kind in (Both, Twice):
        module = trained(kind().double(), x)
        folded = fold_batch_norm(module)
        assert torch.allclose(folded(x), module.eval()(x), rtol=1e-10)
        assert isinstance(folded.norm, nn.BatchNorm1d)


def test_a_module_that_looks_at_its_input_is_refused():
    class Looking(nn.Sequential):
        def forward(self, x):
            return super().forward(x) if x.sum() > 0 else x

    with pytest.raises(ValueError, match="one by one"):
        fold_batch_norm(Looking(nn.Linear(2, 2), nn.BatchNorm1d(2)))
    assert isinstance(fold_batch_norm(Looking(nn.Linear(2, 2)))[0], nn.Linear)
