"""REINFORCE without aggregation: the paper's baseline, which draws weights and scores them."""

from __future__ import annotations

import torch
from torch import Tensor

from pacbayes.networks import activations
from pacbayes.networks.bodies import Dense
from pacbayes.networks.draws import Draw
from pacbayes.networks.layers import GaussianLinear
from pacbayes.networks.network import Network

__all__ = ["draw_weights"]


@torch.no_grad()
def _layer_draw(layer: GaussianLinear, a: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, ...]:
    """Weights and biases (*sizes, …) and the pre-activations (T, B, outputs) they give."""
    W, b = layer.weight.sample(*sizes), layer.bias.sample(*sizes)
    if len(sizes) == 1:  # (T, out, in): a draw shared by the batch
        return W, b, torch.baddbmm(b.unsqueeze(1), a, W.mT)
    return W, b, (W @ a.unsqueeze(-1)).squeeze(-1) + b  # (T, B, out, in)


def draw_weights(network: Network, x: Tensor, T: int, *, per_example: bool = False) -> Draw:
    r"""T outputs sign(w·η_θ(x)) ∈ {−1, +1} of drawn weights, with log q(θ) counted (appendix).

    With `estimate` on the loss this is

        (1/TB) Σ_t Σ_i ℓ(f_{θ^t}(x_i), y_i) ∇log q(θ^t)            T draws shared by the batch, or
        (1/TB) Σ_t Σ_i ℓ(f_{θ^{t,i}}(x_i), y_i) ∇log q(θ^{t,i})    a draw for every example,

    the second at the price of T·B weight matrices in memory.

    Returns:
        Draw of value (T, B); log_prob is (T, 1) where a draw is shared.
    """
    if not isinstance(network.body, Dense) or network.outputs > 1:
        raise ValueError("REINFORCE on weights needs a dense body and two classes")
    sizes = (T, len(x)) if per_example else (T,)
    a, log_q = x.expand(T, *x.shape), x.new_zeros(())
    layers = [*network.body.layers, network.layer]
    functions = [*(activations.FUNCTIONS[rule] for rule in network.body.rules), activations.sign_of]
    for layer, function in zip(layers, functions, strict=True):
        W, b, z = _layer_draw(layer, a, sizes)
        a = function(z)
        log_q = log_q + layer.weight.log_density(W) + layer.bias.log_density(b)
    return Draw(a.squeeze(-1), log_q if per_example else log_q.unsqueeze(-1))
