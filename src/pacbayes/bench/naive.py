"""The same step in plain PyTorch: eager mode, autograd and `torch.optim.Adam`.

It uses nothing of this library, so it is also an independent check of the mathematics.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from pacbayes.choices import Activation

__all__ = ["NaiveNetwork"]

_PATHS = {"relu": torch.relu, "sigmoid": torch.sigmoid}


class NaiveNetwork(nn.Module):
    """A partially aggregated network with unit variance; sign units use marginalised REINFORCE."""

    def __init__(self, widths: tuple[int, ...], activation: Activation) -> None:
        super().__init__()
        self.activation = activation
        self.weights = nn.ParameterList([torch.randn(e, d) * 0.2 for d, e in pairwise(widths)])
        self.biases = nn.ParameterList([torch.randn(e) * 0.2 for e in widths[1:]])
        self.prior = [p.detach().clone() for p in self.parameters()]

    def objective(self, x: Tensor, y: Tensor, T: int, lam: float) -> Tensor:
        """Return linear loss plus KL/λ; with sign units only its gradient is meaningful."""
        a, log_prob = self.hidden(x, T)
        mean, deviation = moments(a, self.weights[-1], self.biases[-1])
        loss = 0.5 * (1 - y * torch.erf(mean / deviation / 2**0.5).squeeze(-1))  # (T, B)
        if self.activation == "sign":
            loss = loss + loss.detach() * log_prob
        return loss.mean() + self.kl() / lam

    def hidden(self, x: Tensor, T: int) -> tuple[Tensor, Tensor]:
        """Return T samples of the last hidden layer, and log P(signs) if its units are signs."""
        a, log_prob = x.unsqueeze(0), torch.zeros(())
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            mean, deviation = moments(a, weight, bias)
            shape = (T, *mean.shape[1:])
            if self.activation == "sign":
                p = (0.5 * (1 + torch.erf(mean / deviation / 2**0.5))).expand(shape)
                a = 2 * torch.bernoulli(p.detach()) - 1
                q = torch.where(a > 0, p, 1 - p)
                log_prob = log_prob + torch.log(q).sum(-1)
            else:
                a = _PATHS[self.activation](mean + deviation * torch.randn(shape))
        return a, log_prob

    def kl(self) -> Tensor:
        """Return KL(Q|P) at unit variance."""
        pairs = zip(self.parameters(), self.prior, strict=True)
        return sum((0.5 * (p - q).square().sum() for p, q in pairs), torch.zeros(()))


def moments(a: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation of the pre-activations."""
    return linear(a, weight, bias), (a.square().sum(-1, keepdim=True) + 1).sqrt()
