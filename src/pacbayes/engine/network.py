"""The native engine: steps of dense networks on a CPU, several times faster than eager torch.

C behind a plain interface, built with the package where there is a compiler (`c/`). The torch
path stays the reference, and serves every other body, device, precision and processor.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from pacbayes.engine.library import Activation, Engine, Estimator, address, unfit
from pacbayes.networks import activations, heads
from pacbayes.networks.bodies import Dense, Deterministic
from pacbayes.networks.draws import leave_one_out, no_baseline
from pacbayes.networks.gaussian import Gaussian
from pacbayes.networks.network import Network

__all__ = ["NativeEngine", "unsupported"]


def unsupported(network: Network, x: Tensor) -> str | None:
    """Why the engine cannot take this network and data; None where it can."""
    if why := unfit((x, *network.buffers()), network.parameters()):
        return why
    if isinstance(network.body, Deterministic):
        return "the native engine takes networks with hidden layers"
    if _kind(network) is None:
        return "the native engine takes dense networks with the library's own rules and head"
    gaussians = _gaussians(network)
    if len({id(g) for g in gaussians}) < len(gaussians):
        return "the native engine takes layers that share no weights"
    if len({g.learned_scale for g in gaussians}) != 1:
        return "the native engine takes scales that are all learned or all fixed"
    return None


class _Tensor(ctypes.Structure):
    """`tensor` of c/adam.h."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("value", "gradient", "m", "v")),
        *((name, ctypes.c_void_p) for name in ("prior_mean", "prior_log_scale")),
        ("count", ctypes.c_int64),
    )


class NativeEngine(Engine):
    """A network's steps at T samples.

    Args:
        reinforce: gradients are REINFORCE's, by `samples` draws of all weights, which the batch
            shares, and go with their 0-1 loss; losses alone are then of one sample.
    """

    def __init__(self, network: Network, samples: int, *, reinforce: bool = False) -> None:
        kind = _kind(network)
        if kind is None or not isinstance(network.body, Dense):
            raise ValueError("the native engine cannot take this network")
        activation, estimator = kind
        if reinforce:
            if network.outputs > 1 or network.layer.weight.learned_scale:
                raise ValueError("native REINFORCE takes two classes and scales that are fixed")
            estimator = Estimator.REINFORCE
        layers, gaussians = [*network.body.layers, network.layer], _gaussians(network)
        widths = [layers[0].weight.mean.shape[1], *(y.bias.mean.shape[0] for y in layers)]
        learned = gaussians[0].learned_scale
        parameters = _parameters(network)
        signs = activation is Activation.SIGN and not reinforce
        least = 2 if signs and network.baseline is leave_one_out else 1
        super().__init__(
            *(widths, activation, estimator, samples, parameters),
            learned=learned,
            least_samples=least,
        )
        self._trained = [(g.mean, g.prior_mean, g.prior_log_scale) for g in gaussians] + [
            (g.log_scale, None, g.prior_log_scale) for g in gaussians if g.learned_scale
        ]
        self._steps = torch.zeros(())  # one counter for all of Adam's slots
        self._adam_addresses: list[tuple[int | None, ...]] = []

    def adam_step(self, optimiser: torch.optim.Adam, coefficient: float) -> None:
        """A step on the risk, whose gradient `loss_and_grad` left, plus coefficient·KL(Q|P).

        The optimiser's own slots are used, so that it can be saved and taken up by torch.
        """
        used: list[tuple[int | None, ...]] = []
        first = optimiser.state[self._trained[0][0]]
        if first.get("step") is not self._steps:  # another optimiser, or a restored one
            self._steps = first["step"].clone() if first else torch.zeros(())
        for p, *_ in self._trained:
            slot = optimiser.state[p]
            if not slot:
                slot["exp_avg"], slot["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
            slot["step"] = self._steps
            used.append(tuple(map(address, (p, p.grad, slot["exp_avg"], slot["exp_avg_sq"]))))
        if used != self._adam_addresses:  # they stay where they are from step to step
            if any(None in each for each in used):
                raise ValueError("a step of Adam needs the gradient that loss_and_grad leaves")
            self._adam_addresses = used
            rows = zip(self._trained, used, strict=True)
            self._adam_tensors = (_Tensor * len(used))(
                *(
                    _Tensor(*each, address(mean), address(log_scale), p.numel())
                    for (p, mean, log_scale), each in rows
                )
            )
        self._steps += 1
        group = optimiser.param_groups[0]
        with self._lock:
            self._native.pb_adam(
                self._handle,
                self._adam_tensors,
                len(used),
                coefficient,
                group["lr"],
                *group["betas"],
                group["eps"],
                int(self._steps.item()),
                torch.get_num_threads(),
            )


def _kind(network: Network) -> tuple[Activation, Estimator] | None:
    """Activation and estimator of what `dense_network` makes; None for anything else."""
    if not isinstance(network.body, Dense):
        return None
    rules, head, baseline = network.body.rules, network.head, network.baseline
    *below, last = rules
    straight = all(rule is activations.sign_straight for rule in rules)
    signs = all(rule is activations.sign for rule in below)
    if head in (heads.aggregated, heads.aggregated_classes):
        if all(rule is activations.relu for rule in rules):
            return Activation.RELU, Estimator.MARGINAL
        if all(rule is activations.sigmoid for rule in rules):
            return Activation.SIGMOID, Estimator.MARGINAL
        if straight:
            return Activation.SIGN, Estimator.STRAIGHT_THROUGH
        if signs and last is activations.sign and baseline is no_baseline:
            return Activation.SIGN, Estimator.MARGINAL
        if signs and last is activations.sign and baseline is leave_one_out:
            return Activation.SIGN, Estimator.LEAVE_ONE_OUT
    unbiased = not below or baseline is leave_one_out
    if head is heads.differenced and signs and last is activations.sign_straight and unbiased:
        return Activation.SIGN, Estimator.LOCAL_EXPECTATION
    return None


def _gaussians(network: Network) -> list[Gaussian]:
    layers = [*network.body.layers, network.layer] if isinstance(network.body, Dense) else []
    return [g for y in layers for g in (y.weight, y.bias)]


def _parameters(network: Network) -> list[Tensor]:
    """Layer by layer: means of weights and of biases, then their log-scales."""
    pairs = _gaussians(network)
    return [
        t
        for weight, bias in zip(pairs[::2], pairs[1::2], strict=True)
        for t in (weight.mean, bias.mean, weight.log_scale, bias.log_scale)
    ]
