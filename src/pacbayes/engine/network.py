"""The native engine for networks: steps on a CPU, several times faster than eager PyTorch.

The engine is plain C (`c/`), compiled with the package if there is a compiler. The PyTorch path is
the reference, and handles every other body, device, precision and processor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from pacbayes.engine.interface import Activation, AdamTensor, Estimator, Update
from pacbayes.engine.library import Engine, address, unfit
from pacbayes.networks.architecture import DenseArchitecture
from pacbayes.networks.bodies import Dense
from pacbayes.networks.draws import leave_one_out
from pacbayes.networks.gaussian import Gaussian
from pacbayes.networks.network import Network

__all__ = ["NativeEngine", "unsupported"]


def unsupported(network: Network, x: Tensor) -> str | None:
    """Why the engine cannot take this network and data; None where it can."""
    if why := unfit((x, *network.buffers()), network.parameters()):
        return why
    if _architecture(network) is None:
        return "the native engine takes networks made by dense_network, unchanged"
    if network.body.freshness == "exact" and network.classes > 2:
        # In float32 an unlikely label has no gradient of its log-probability, and no draw helps.
        return "the native engine takes networks without hidden layers for two classes"
    gaussians = _gaussians(network)
    pairs = zip(gaussians[::2], gaussians[1::2], strict=True)
    if len({id(g) for g in gaussians}) < len(gaussians):
        return "the native engine takes layers that share no weights"
    if len({g.learned_scale for g in gaussians}) != 1:
        return "the native engine takes scales that are all learned or all fixed"
    if any(not torch.equal(w.log_scale, b.log_scale) for w, b in pairs if not w.learned_scale):
        return "the native engine takes one fixed scale for the weights and bias of a layer"
    return None


class NativeEngine(Engine):
    """Run a network's steps at T samples.

    Args:
        reinforce: estimate gradients by REINFORCE, from `samples` draws of all weights that the
            batch shares. `loss_and_grad` then returns their 0-1 loss, and `loss` uses one sample.
    """

    def __init__(self, network: Network, samples: int, *, reinforce: bool = False) -> None:
        architecture = _architecture(network)
        if architecture is None:
            raise ValueError("the native engine takes networks made by dense_network, unchanged")
        if reinforce and (network.classes > 2 or architecture.learned_scale):
            raise ValueError("native REINFORCE needs two classes and fixed scales")
        if reinforce and not architecture.widths:
            raise ValueError("native REINFORCE needs hidden layers")
        scored = network.baseline is leave_one_out and not reinforce
        gaussians = _gaussians(network)
        super().__init__(
            architecture.sizes,
            _ACTIVATIONS[architecture.activation] if architecture.widths else Activation.RELU,
            Estimator.REINFORCE if reinforce else _estimator(architecture),
            samples,
            _parameters(network),
            learned=architecture.learned_scale,
            least_samples=2 if scored else 1,
        )
        self._trained = [(g.mean, g.prior_mean, g.prior_log_scale) for g in gaussians] + [
            (g.log_scale, None, g.prior_log_scale) for g in gaussians if g.learned_scale
        ]
        self._steps = torch.zeros(())  # one counter for all of Adam's slots
        self._adam_addresses: list[tuple[int | None, ...]] = []

    def adam_step(self, optimiser: torch.optim.Adam, coefficient: float) -> None:
        """Take a step on risk + coefficient·KL(Q|P), with the gradient that `loss_and_grad` gave.

        The moments are kept in the optimiser's own state, so PyTorch can save it and continue.
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
                raise ValueError("adam_step needs a gradient; call loss_and_grad first")
            self._adam_addresses = used
            rows = zip(self._trained, used, strict=True)
            self._adam_tensors = (AdamTensor * len(used))(
                *(
                    AdamTensor(*each, address(mean), address(log_scale), p.numel())
                    for (p, mean, log_scale), each in rows
                )
            )
        self._steps += 1
        group = optimiser.param_groups[0]
        beta1, beta2 = group["betas"]
        update = Update(
            tensors=self._adam_tensors,
            steps=int(self._steps.item()),
            coefficient=coefficient,
            rate=group["lr"],
            beta1=beta1,
            beta2=beta2,
            epsilon=group["eps"],
            count=len(used),
            threads=torch.get_num_threads(),
        )
        with self._lock:
            self._native.pb_adam(self._handle, update)


_ACTIVATIONS = {
    "relu": Activation.RELU,
    "sigmoid": Activation.SIGMOID,
    "sign": Activation.SIGN,
}
_ESTIMATORS = {
    "leave-one-out": Estimator.LEAVE_ONE_OUT,
    "local-expectation": Estimator.LOCAL_EXPECTATION,
    "straight-through": Estimator.STRAIGHT_THROUGH,
}


def _architecture(network: Network) -> DenseArchitecture | None:
    """Return what the network was built from, if it still is that."""
    architecture = network.architecture
    return architecture if architecture and architecture.describes(network) else None


def _estimator(architecture: DenseArchitecture) -> Estimator:
    """Return the engine's estimator: relu and sigmoid are pathwise, which it calls marginal."""
    if architecture.activation != "sign":
        return Estimator.MARGINAL
    return _ESTIMATORS.get(architecture.estimator, Estimator.MARGINAL)


def _gaussians(network: Network) -> list[Gaussian]:
    hidden = network.body.layers if isinstance(network.body, Dense) else []
    return [g for layer in (*hidden, network.layer) for g in (layer.weight, layer.bias)]


def _parameters(network: Network) -> list[Tensor]:
    """Layer by layer: means of weights and of biases, then their log-scales."""
    pairs = _gaussians(network)
    return [
        t
        for weight, bias in zip(pairs[::2], pairs[1::2], strict=True)
        for t in (weight.mean, bias.mean, weight.log_scale, bias.log_scale)
    ]
