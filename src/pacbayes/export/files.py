"""Write a run's predictors as files: ONNX models or programs of torch.export.

Before a file is written, its graph is run and must give the library's results for the same examples
and the same noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.special import ndtr

import pacbayes
from pacbayes.bounds import percent_up
from pacbayes.choices import Format, Predictor
from pacbayes.data.tasks import Task
from pacbayes.export.graphs import as_onnx, as_torch, ask_onnx, ask_torch, noise_for
from pacbayes.export.predictors import Explicit, Port, explicit
from pacbayes.files import DamagedFileError, file_sha256, load_json, write_atomically
from pacbayes.networks.network import Network
from pacbayes.networks.weights import scores
from pacbayes.runs.folder import Run

__all__ = ["Export", "export_run"]

_SUFFIX = {"onnx": ".onnx", "torch": ".pt2"}
_EXAMPLES, _ROWS = 16, 4096  # examples to compare, and the limit for examples times T
# Far above the rounding errors of float64; a vote's error function is float32.
_TOLERANCE = {Predictor.RANDOMISED: 1e-9, Predictor.DRAWN: 1e-9, Predictor.VOTE: 1e-5}


@dataclass(frozen=True)
class Export:
    """A description of the file that was written.

    Attributes:
        certificate: the certificate that covers the predictor and its claim, or why none does.
        difference: largest difference between the scores of the file and of the library.
        examples: number of examples that were compared.
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
    if out.suffix != _SUFFIX[format]:
        raise ValueError(f"the file name for {format} must end in {_SUFFIX[format]}, got {out}")
    method = Predictor(method)
    network = run.load_network().double().eval()
    weights = run.load_drawn() if method is Predictor.DRAWN else {}
    features = run.record.data.features
    predictor = explicit(network, method, features=features, samples=samples, weights=weights)
    metadata = _metadata(run, predictor, method)
    write, answer = (as_onnx, ask_onnx) if format == "onnx" else (as_torch, ask_torch)
    content = write(predictor, metadata)
    x = torch.from_numpy(run.load_data().x_train)
    count = max(1, min(_EXAMPLES, len(x), _ROWS // samples))
    x = x[:: len(x) // count][:count].contiguous()
    noise = noise_for(predictor, count)
    expected = _library(network, method, x, noise, weights)
    found = answer(content, (x, *noise))
    difference = _difference(network.task, expected, *found, tolerance=_TOLERANCE[method])
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
        examples=count,
        code=_code(out, format, predictor.inputs[1:]),
    )


def _metadata(run: Run, predictor: Explicit, method: Predictor) -> dict[str, Any]:
    return {
        "pacbayes": pacbayes.__version__,
        "run_sha256": run.sha256,
        "method": method.value,
        "classes": list(run.record.data.classes),
        "inputs": [asdict(port) for port in predictor.inputs],
        "outputs": [asdict(port) for port in predictor.outputs],
        "certificate": _certificate(run, method, sampled=len(predictor.inputs) > 1),
    }


def _certificate(run: Run, method: Predictor, *, sampled: bool) -> dict[str, Any]:
    """Return the claim of the certificate in the folder, if it covers this predictor."""
    path, no = run.certificate_path(method), "not covered by a certificate"
    if not path.exists():
        return {"says": f"{no}: the run has no {path.name}"}
    claim = load_json(path)
    try:
        certified = claim["provenance"]["posterior_sha256"]
        bound, name, delta = claim["bound"], claim["bound_name"], claim["delta"]
    except (KeyError, TypeError) as error:
        raise DamagedFileError(
            f"{path} is damaged: it lacks the fields of a certificate; issue it again with certify"
        ) from error
    if certified != file_sha256(run.folder / "posterior.safetensors"):
        return {"says": f"{no}: {path.name} covers another posterior"}
    if method is Predictor.VOTE and sampled and name != "first-order":  # Markov's holds for any T
        return {"says": f"{no}: {name} covers the vote of all of Q, not of T draws"}
    says = f"covered by {path.name} ({name}, δ = {delta:g}): at most {percent_up(bound)} error"
    fresh = " if every prediction has fresh noise" if sampled else ""
    nothing = " (vacuous: it says nothing)" if bound >= 1 else ""
    return {
        "says": f"{says}{fresh}{nothing}",
        "file": path.name,
        "sha256": file_sha256(path),
        "bound_name": name,
        "bound": bound,
        "delta": delta,
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
    if method is Predictor.DRAWN:
        return scores(network, dict(weights), x)
    if method is Predictor.VOTE:
        with _Given(noise):
            return network.draw(x, max((len(e) for e in noise), default=1)).value.mean(0)
    with _Given([e.unsqueeze(0) for e in noise[:-1]]):
        mean, deviation = network.layer.moments(network.body.draw(x, 1).value[0])
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


def _code(out: Path, format: Format, noise: Sequence[Port]) -> str:
    sizes = [", ".join("len(x)" if d == "batch" else str(d) for d in p.shape) for p in noise]
    if format == "torch":
        drawn = [f"torch.randn({size}, dtype=torch.float64)" for size in sizes]
        return (
            f"import torch; predict = torch.export.load({str(out)!r}).module()\n"
            f"score, label = predict({', '.join(['x', *drawn])})"
        )
    drawn = [f'"{p.name}": normal(size=({size}))' for p, size in zip(noise, sizes, strict=True)]
    given = ", ".join(['"x": x', *drawn])
    generator = "import numpy; normal = numpy.random.default_rng().normal; " if noise else ""
    return (
        f"{generator}import onnxruntime; model = onnxruntime.InferenceSession({str(out)!r})\n"
        f"score, label = model.run(None, {{{given}}})"
    )
