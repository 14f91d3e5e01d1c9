"""Write a run's predictors as files: ONNX models or programs of torch.export.

Before a file is written, its graph is run and must give the library's results for the same examples
and the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.special import ndtr

import pacbayes
from pacbayes.choices import Format, Predictor
from pacbayes.data.tasks import Task
from pacbayes.export.coverage import covering_certificate
from pacbayes.export.graphs import as_onnx, as_torch, ask_onnx, ask_torch, noise_for
from pacbayes.export.modules import weights_at
from pacbayes.export.ports import Explicit, Port
from pacbayes.export.predictors import explicit
from pacbayes.files import write_atomically
from pacbayes.networks.evaluated import Evaluated
from pacbayes.networks.network import Network
from pacbayes.networks.weights import prior_weights, scores
from pacbayes.runs.folder import Run

__all__ = ["Export", "export_run"]

_EXAMPLES, _ROWS = 16, 4096  # inputs to compare, and the limit for inputs times T
# Far above the rounding errors of float64, of the error function of a vote, which is float32, and
# of whole modules in float32.
_FLOAT64, _FLOAT32_ERF, _FLOAT32 = 1e-9, 1e-5, 1e-3


@dataclass(frozen=True)
class Export:
    """A description of the file that was written.

    Attributes:
        certificate: the certificate that covers the predictor and its claim, or why none does.
        difference: largest difference between the scores of the file and of the library.
        examples: number of random inputs that were compared.
        code: two lines of Python that predict for `x`, a float32 array or tensor.
    """

    file: str
    format: Format
    method: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    classes: tuple[str, ...]
    certificate: str
    difference: float
    examples: int
    code: str


def export_run(
    run: Run,
    out: Path,
    format: Format,
    method: Predictor | str = Predictor.RANDOMISED,
    *,
    samples: int = 100,
) -> Export:
    """Write a predictor of a trained run, after comparing it with the library's.

    Args:
        samples: T, draws of a vote.
    """
    form = _FORMS[format]
    if out.suffix != form.suffix:
        raise ValueError(f"the file name for {format} must end in {form.suffix}, got {out}")
    method = Predictor(method)
    network = run.load_network().double().eval()
    weights = _weights(run, network, method)
    features, dtype = run.record.data.features, _arithmetic(network, format)
    predictor = explicit(
        network, method, features=features, samples=samples, weights=weights, dtype=dtype
    )
    metadata = _metadata(run, predictor, method, rounded=dtype is torch.float32)
    content = form.write(predictor, metadata)
    x = _inputs(features, samples)
    noise = noise_for(predictor, len(x))
    expected = _library(network, method, x, noise, weights)
    found = form.answer(content, (x, *noise))
    tolerance = _FLOAT32_ERF if method is Predictor.VOTE else _FLOAT64
    tolerance = _FLOAT32 if dtype is torch.float32 else tolerance
    difference = _difference(network.task, expected, *found, tolerance=tolerance)
    write_atomically(out, content)
    return Export(
        file=str(out),
        format=format,
        method=method.value,
        inputs=predictor.inputs,
        outputs=predictor.outputs,
        classes=run.record.data.classes,
        certificate=metadata["certificate"]["says"],
        difference=difference,
        examples=len(x),
        code=form.code(out, predictor.noise),
    )


def _weights(run: Run, network: Network, method: Predictor) -> dict[str, Tensor]:
    """Return the weights of the predictor, if it is one network."""
    if method is Predictor.DRAWN:
        return run.load_drawn()
    return prior_weights(network) if method is Predictor.FIXED else {}


def _arithmetic(network: Network, format: Format) -> torch.dtype:
    """Return float64, but float32 for modules in ONNX: onnxruntime has no other convolutions."""
    dense = network.architecture is not None
    return torch.float64 if dense or format != "onnx" else torch.float32


def _inputs(features: int, samples: int) -> Tensor:
    """Return normal inputs, fewer where each needs many draws; the same every time."""
    count = max(1, min(_EXAMPLES, _ROWS // samples))
    return torch.randn(count, features, generator=torch.Generator().manual_seed(0))


def _metadata(run: Run, predictor: Explicit, method: Predictor, *, rounded: bool) -> dict[str, Any]:
    sampled = bool(predictor.noise)
    return {
        "pacbayes": pacbayes.__version__,
        "run_sha256": run.sha256,
        "method": method.value,
        "classes": list(run.record.data.classes),
        "inputs": [asdict(port) for port in predictor.inputs],
        "outputs": [asdict(port) for port in predictor.outputs],
        "certificate": covering_certificate(run, method, sampled=sampled, rounded=rounded),
    }


class _Given(TorchFunctionMode):
    """A context in which torch returns given noise instead of drawing it.

    A uniform number u becomes Φ(−ε), so that a sign unit's condition u < Φ(mean/deviation) is
    mean + deviation·ε > 0.
    """

    def __init__(self, noise: Sequence[Tensor]) -> None:
        super().__init__()
        self.noise = iter(noise)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if func is torch.randn:
            return next(self.noise)
        return ndtr(-next(self.noise)) if func is torch.rand else func(*args, **(kwargs or {}))


@torch.no_grad()
def _library(
    network: Network,
    method: Predictor,
    x: Tensor,
    noise: Sequence[Tensor],
    weights: Mapping[str, Tensor],
) -> Tensor:
    """Return scores computed by the library's own functions."""
    x = x.double()
    if method in (Predictor.DRAWN, Predictor.FIXED):
        return scores(network, dict(weights), x)
    if method is Predictor.VOTE:
        with _Given(noise):
            return network.draw(x, max((len(e) for e in noise), default=1)).value.mean(0)
    if isinstance(network.body, Evaluated):
        a = network.body.at(x, weights_at(network.body, noise[0]))
    else:
        with _Given([e.unsqueeze(0) for e in noise[:-1]]):
            a = network.body.draw(x, 1).value[0]
    mean, deviation = network.layer.moments(a)
    return network.task.scores(mean + deviation * noise[-1])


def _difference(
    task: Task, expected: Tensor, score: Tensor, label: Tensor, *, tolerance: float
) -> float:
    """Return the largest difference of scores.

    Raises RuntimeError if it exceeds the tolerance or if labels differ, except at ties.
    """
    if score.shape != expected.shape:
        raise RuntimeError(
            f"the exported graph returns scores of shape {tuple(score.shape)}, the library "
            f"{tuple(expected.shape)}; nothing was written"
        )
    difference = (score - expected).abs().max().item()
    margin = task.margin(expected, task.encode(label))
    limit = tolerance * max(1.0, expected.abs().max().item())
    if not (difference <= limit and (margin >= -limit).all()):
        raise RuntimeError(
            "the exported graph does not compute what the library does: scores differ by "
            f"{difference:.1e}, at most {limit:.1e} is allowed; nothing was written"
        )
    return difference


def _torch_code(out: Path, noise: Sequence[Port]) -> str:
    drawn = [f"torch.randn({_sizes(port)}, dtype=torch.float64)" for port in noise]
    return (
        f"import torch; predict = torch.export.load({str(out)!r}).module()\n"
        f"score, label = predict({', '.join(['x', *drawn])})"
    )


def _onnx_code(out: Path, noise: Sequence[Port]) -> str:
    drawn = [f'"{port.name}": normal(size=({_sizes(port)}))' for port in noise]
    given = ", ".join(['"x": x', *drawn])
    generator = "import numpy; normal = numpy.random.default_rng().normal; " if noise else ""
    return (
        f"{generator}import onnxruntime; model = onnxruntime.InferenceSession({str(out)!r})\n"
        f"score, label = model.run(None, {{{given}}})"
    )


def _sizes(port: Port) -> str:
    return ", ".join(map(str, port.sizes("len(x)")))


class _Form(NamedTuple):
    """A kind of file: how it is named, written, run, and used in Python."""

    suffix: str
    write: Callable[[Explicit, Mapping[str, Any]], bytes]
    answer: Callable[[bytes, Sequence[Tensor]], tuple[Tensor, Tensor]]
    code: Callable[[Path, Sequence[Port]], str]


_FORMS: dict[Format, _Form] = {
    "onnx": _Form(".onnx", as_onnx, ask_onnx, _onnx_code),
    "torch": _Form(".pt2", as_torch, ask_torch, _torch_code),
}
