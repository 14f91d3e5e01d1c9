"""Packages that may be missing, and how to install them."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["EXTRAS", "missing", "remedy", "require"]

EXTRAS = {
    "plots": ("matplotlib",),
    "cluster": ("distributed",),
    "export": ("onnx", "onnxscript", "onnxruntime"),
    "tensorboard": ("tensorboard",),
    "models": ("skops",),
}
_DISTRIBUTIONS = {"sklearn": "scikit-learn", "flint": "python-flint"}


def missing(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed."""
    return [package for package in EXTRAS[extra] if not _installed(package)]


def require(extra: str, purpose: str) -> None:
    """Raise ValueError if a package of the extra is missing.

    Args:
        purpose: what needs the extra, the subject of the message: "--tensorboard".
    """
    if packages := missing(extra):
        names = ", ".join(packages)
        raise ValueError(f"{purpose} needs {names}: pip install 'pacbayes[{extra}]'")


def remedy(error: ModuleNotFoundError) -> str | None:
    """Return what to install if a package of others is missing; None for a module of this one."""
    package = str(error.name).partition(".")[0]
    if error.name is None or package == "pacbayes":
        return None
    distribution = _DISTRIBUTIONS.get(package, package)
    return f"needs {distribution}, which is not installed: pip install {distribution}"


def _installed(package: str) -> bool:
    spec = find_spec(package)
    return spec is not None and spec.origin is not None  # a folder of that name has no origin
