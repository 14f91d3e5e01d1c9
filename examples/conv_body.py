"""Use your own body: a small stochastic convolution before the paper's aggregated sign.

Any module that returns activations (B, d) can come before the last layer. The weights of this body
are Gaussian as well, so they belong to Q and the KL pays for them. In training mode noise is drawn
for every pixel separately, which gives a better gradient. In evaluation mode the weights are drawn
and shared by a batch, and the certificate counts this as one draw.

    python examples/conv_body.py [--epochs 150]
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

from pacbayes import (
    Certificate,
    GaussianConv2d,
    GaussianLinear,
    Network,
    certify,
    kl,
    majority_vote,
)
from pacbayes.data import load


def train(epochs: int, samples: int) -> tuple[Certificate, float]:
    """Train on the digits of scikit-learn; return the certificate and the vote's test error."""
    torch.manual_seed(0)
    data = load("digits")
    x, y = data.tensors("train")
    body = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        GaussianConv2d(1, 8, 3, stride=2, learned_scale=True),
        nn.ReLU(),
        nn.Flatten(),
    )
    network = Network(body, GaussianLinear(8 * 3 * 3, 1, learned_scale=True))
    optimiser = torch.optim.Adam(network.parameters(), lr=0.02)
    for epoch in range(epochs):
        for index in torch.randperm(len(x)).split(128):
            risk = network.loss(network(x[index], 4), y[index]).mean()
            loss = risk + kl(network) / len(x)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        if (epoch + 1) % 25 == 0:
            print(f"epoch {epoch + 1:3d}  loss {loss.item():.3f}  KL {kl(network).item():.1f}")
    certificate = certify(network, x, y, samples=samples)
    x_test, y_test = data.tensors("test")
    vote = majority_vote(network.eval(), x_test, 100).sign()
    error = (vote != y_test).double().mean().item()
    return certificate, error


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--samples", type=int, default=200)
    arguments = parser.parse_args()
    certificate, error = train(arguments.epochs, arguments.samples)
    print(f"training risk {certificate.risk:.3f}, upper limit {certificate.risk_upper:.3f}")
    print(f"certificate {certificate.bound:.3f}, test error of the majority vote {error:.3f}")
