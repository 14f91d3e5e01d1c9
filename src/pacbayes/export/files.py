"""A run's predictors as files for others: ONNX, or an exported program of torch.

What is written was run first: the file's own graph must give what the library gives for the same
examples and the same noise.
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
from pacbayes.choices import Format, Method, Predictor
from pacbayes.export.graphs import as_onnx, as_torch, ask_onnx, ask_torch, noise_for
from pacbayes.export.predictors import Explicit, Port, explicit
from pacbayes.files import DamagedFileError, file_sha256, load_json, write_atomically
from pacbayes.networks.network import Network
from pacbayes.networks.weights import scores
from pacbayes.runs.folder import Run

__all__ = ["Export", "export_run"]

_SUFFIX = {"onnx": ".onnx", "torch": ".pt2"}
_EXAMPLES, _ROWS = 16, 4096  # to compare, and of them times T
# Far above the roundings of float64, and for a vote of its error function in float32.
_TOLERANCE = {"randomised": 1e-9, "drawn": 1e-9, "vote": 1e-5}


@dataclass(frozen=True)
class Export:
    """What was written.

    Attributes:
        certificate: which certificate covers the predictor and what it says, or that none does.
        difference: the greatest between a score of the file and of the library.
        examples: how many were compared.
        code: two lines of Python that predict for `x`, an array or tensor of float32.
    """

    file: str
    format: Format
    method: Method
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    classes: tuple[str, ...]
    certificate: str
    difference: float
    examples: int
    code: str


def export_run(
    run: Run, out: Path, format: Format, method: Method = "randomised", *, samples: int = 100
) -> Export:
    """Write a predictor of a trained run, after comparing it with the library's.

    Args:
        samples: T, draws of a vote.
    """
    if out.suffix != _SUFFIX[format]:
        raise ValueError(f"a file for {format} ends in {_SUFFIX[format]}, got {out}")
    network = run.load_network().double().eval()
    weights = run.load_drawn() if method == "drawn" else {}
    features = run.record.data.features
    predictor = explicit(network, method, features=features, samples=samples, weights=weights)
    sampled = len(predictor.inputs) > 1
    metadata = _metadata(run, predictor, method, sampled=sampled)
    write, answer = (as_onnx, ask_onnx) if format == "onnx" else (as_torch, ask_torch)
    content = write(predictor, metadata)
    x = torch.from_numpy(run.load_data().x_train)
    count = max(1, min(_EXAMPLES, len(x), _ROWS // samples))
    x = x[:: len(x) // count][:count].contiguous()
    noise = noise_for(predictor, count)
    expected = _library(network, method, x, noise, weights)
    found = answer(content, (x, *noise))
    difference = _difference(expected, *found, tolerance=_TOLERANCE[method])
    write_atomically(out, content)
    return Export(
        file=str(out),
        format=format,
        method=method,
        inputs=predictor.inputs,
        outputs=predictor.outputs,
        classes=run.record.data.classes,
        certificate=metadata["certificate"]["says"],
        difference=difference,
        examples=count,
        code=_code(out, format, predictor.inputs[1:]),
    )


def _metadata(run: Run, predictor: Explicit, method: Method, *, sampled: bool) -> dict[str, Any]:
    return {
        "pacbayes": pacbayes.__version__,
        "run_sha256": run.sha256,
        "method": method,
        "classes": list(run.record.data.classes),
        "inputs": [asdict(port) for port in predictor.inputs],
        "outputs": [asdict(port) for port in predictor.outputs],
        "certificate": _certificate(run, method, sampled=sampled),
    }


def _certificate(run: Run, method: Method, *, sampled: bool) -> dict[str, Any]:
    """What the certificate in the folder says of the predictor, if it is about this one."""
    path, no = run.certificate_path(Predictor(method)), "not covered by a certificate"
    if not path.exists():
        return {"says": f"{no}: the run has no {path.name}"}
    claim = load_json(path)
    try:
        about = claim["provenance"]["posterior_sha256"]
        bound, name, delta = claim["bound"], claim["bound_name"], claim["delta"]
    except (KeyError, TypeError) as error:
        raise DamagedFileError(f"{path} is damaged: it is no certificate") from error
    if about != file_sha256(run.folder / "posterior.safetensors"):
        return {"says": f"{no}: {path.name} is about another posterior"}
    if method == "vote" and sampled and name != "first-order":  # Markov's holds for any T
        return {"says": f"{no}: {name} is about the vote of all of Q, not of some draws"}
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
    """Inside, what the library draws is given: a uniform number u is Φ(−ε), so that a sign unit's
    u < Φ(mean/deviation) is mean + deviation·ε > 0."""

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
    method: Method,
    x: Tensor,
    noise: Sequence[Tensor],
    weights: Mapping[str, Tensor],
) -> Tensor:
    """Scores by the library's own functions."""
    x = x.double()
    if method == "drawn":
        return scores(network, dict(weights), x)
    if method == "vote":
        with _Given(noise):
            return network.draw(x, max((len(e) for e in noise), default=1)).value.mean(0)
    with _Given([e.unsqueeze(0) for e in noise[:-1]]):
        mean, deviation = network.layer.moments(network.body.draw(x, 1).value[0])
    z = mean + deviation * noise[-1]
    return z.squeeze(-1) if network.outputs == 1 else z


def _difference(expected: Tensor, score: Tensor, label: Tensor, *, tolerance: float) -> float:
    """The greatest there is, refused beyond the tolerance; labels may differ at ties only."""
    if score.shape != expected.shape:
        raise RuntimeError(f"the graph gives {score.shape}, the library {expected.shape}")
    difference = (score - expected).abs().max().item()
    if expected.dim() == 1:
        chosen = torch.where(label == 1, expected, -expected)
    else:
        chosen = expected.gather(1, label.unsqueeze(1)).squeeze(1) - expected.amax(1)
    limit = tolerance * max(1.0, expected.abs().max().item())
    if not (difference <= limit and (chosen >= -limit).all()):
        raise RuntimeError(
            f"the graph is not what the library computes: scores differ by {difference:.1e}; "
            "nothing was written"
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
