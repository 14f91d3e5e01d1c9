"""The native engine for networks: steps on a CPU, several times faster than eager PyTorch.

The engine is plain C (`c/`), compiled with the package if there is a compiler. The PyTorch path is
the reference, and handles every other body, device, precision and processor.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from pacbayes.engine.interface import Activation, AdamTensor, Estimator, Training, Update
from pacbayes.engine.library import Engine, address, unfit
from pacbayes.networks.activations import leave_one_out
from pacbayes.networks.architecture import DenseArchitecture
from pacbayes.networks.bodies import Dense
from pacbayes.networks.families import law_of
from pacbayes.networks.families.diagonal import Gaussian, trained, variance
from pacbayes.networks.network import Network

__all__ = ["NativeEngine", "unsupported"]

_AT_ONCE = 2**27  # examples × samples × weights of steps that are made in one call


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
    fixed = ((law_of(w), law_of(b)) for w, b in pairs if not w.learned_scale)
    if any(not torch.equal(variance(w), variance(b)) for w, b in fixed):
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
        every = [trained(g) for g in gaussians]
        self._trained = [own[0] for own in every] + [t for own in every for t in own[1:]]
        self._steps = torch.zeros(())  # one counter for all of Adam's slots
        self._adam_addresses: list[tuple[int | None, ...]] = []

    def adam_step(self, optimiser: torch.optim.Adam, coefficient: float) -> None:
        """Take a step on risk + coefficient·KL(Q|P), with the gradient that `loss_and_grad` gave.

        The moments are kept in the optimiser's own state, so PyTorch can save it and continue.
        """
        update = self._update(optimiser, coefficient)
        with self._lock:
            self._native.pb_adam(self._handle, update)
        self._steps += 1

    def at_once(self, batch: int) -> int:
        """Return how many steps to make in one call, so that it takes some hundredths of a second.

        In between, Ctrl-C is heard and progress is shown.
        """
        weights = sum(p.numel() for p, *_ in self._trained)
        return max(1, _AT_ONCE // (batch * self.samples * weights))

    def train(
        self,
        x: Tensor,
        y: Tensor,
        batches: Sequence[Tensor],
        seed: int,
        first: int,
        optimiser: torch.optim.Adam,
        rates: Sequence[float],
        coefficients: Sequence[float],
        *,
        log_loss: bool = False,
    ) -> list[float]:
        """Make steps in one call: `loss_and_grad` on each batch, then `adam_step`.

        Python would take longer for a step of a small network than the engine does.

        Args:
            batches: indices of the examples of each step.
            first: number of the first step.
            rates, coefficients: of each step.

        Returns:
            The loss of each batch before its step, summed over its examples.
        """
        count, index = len(batches), torch.cat(list(batches))
        gradients = self._gradients(log_loss=log_loss)
        job, alive = self._job(x, y, index, seed, first, gradients, log_loss=log_loss)
        sizes = [batch.numel() for batch in batches]
        job.count = max(sizes)
        losses = (ctypes.c_double * count)()
        training = Training(
            first=job,
            adam=self._update(optimiser, coefficients[0]),
            counts=(ctypes.c_int32 * count)(*sizes),
            rates=(ctypes.c_double * count)(*rates),
            coefficients=(ctypes.c_double * count)(*coefficients),
            losses=losses,
            steps=count,
        )
        with self._lock:
            status = self._native.pb_train(self._handle, training)
        self._steps += training.done
        self._check(status, job, alive)
        return list(losses)

    def _update(self, optimiser: torch.optim.Adam, coefficient: float) -> Update:
        """Return what Adam is told about its next step."""
        tensors = self._tensors(optimiser)
        group = optimiser.param_groups[0]
        beta1, beta2 = group["betas"]
        return Update(
            tensors=tensors,
            steps=int(self._steps.item()) + 1,
            coefficient=coefficient,
            rate=group["lr"],
            beta1=beta1,
            beta2=beta2,
            epsilon=group["eps"],
            count=len(self._trained),
            threads=torch.get_num_threads(),
        )

    def _tensors(self, optimiser: torch.optim.Adam) -> ctypes.Array[AdamTensor]:
        """Return where parameters, gradients and moments are, and let the optimiser have them."""
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
        return self._adam_tensors


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
    if architecture is None or architecture.turned:  # `without_basis` is trained in its place
        return None
    return architecture if architecture.describes(network) else None


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
    laws = [law_of(g).posterior for g in _gaussians(network)]
    pairs = zip(laws[::2], laws[1::2], strict=True)
    return [t for both in pairs for same in zip(*both, strict=True) for t in same]
