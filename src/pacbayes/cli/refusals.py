"""Options of train that would have no effect are refused, before anything is loaded or run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pacbayes.defaults import OF_LEARNING

__all__ = ["check_effective", "check_network", "check_no_model"]

_OF_CONVOLUTIONS = ("channels", "kernels", "strides", "padding", "pooling", "batch_norm")
_OF_MODULES = ("prior_decay", "prior_precision", "prior_finer")


def check_no_model(*, per_class: bool, cost: list[str] | None, target_error: float | None) -> None:
    """Refuse the options of models other than networks."""
    if per_class:
        raise ValueError("--per-class is for other models; use pacbayes certify --per-class later")
    options = {"cost": cost, "target_error": target_error}
    wanted = [name for name, value in options.items() if value is not None]
    _refuse(wanted, options, "--model boosting, forest, linear or best")


def check_network(network: str, wanted: dict[str, Any], activation: str, protocol: str) -> None:
    """Refuse options of another kind of network.

    Args:
        wanted: the options that were given.
    """
    if network != "conv":
        _refuse(wanted, _OF_CONVOLUTIONS, "--network conv")
    if network == "dense":
        _refuse(wanted, _OF_MODULES, "--network conv or a module of your own")
        return
    _refuse(wanted, ("estimator",), "--network dense")
    if network != "conv":
        _refuse(wanted, ("widths",), "--network dense or conv")
        _check_file(network)
    if activation != "relu":
        raise ValueError(f"--activation {activation} needs --network dense")
    if protocol != "fast":
        raise ValueError(f"--protocol {protocol} needs --network dense")


def check_effective(changes: dict[str, Any], objective: str | None, *, learned: bool) -> None:
    """Refuse options of a prior that learns, or of an objective, where there is none."""
    if not learned:
        _refuse(changes, OF_LEARNING, "a prior that learns; give --prior-fraction too")
    if objective != "optim-lambda":
        _refuse(changes, ("lambda_rate",), "--objective optim-lambda")


def _check_file(network: str) -> None:
    file, _, function = network.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ValueError(
            f"--network must be dense, conv or a function such as my_network.py:build, got "
            f"{network!r}"
        )
    if not Path(file).is_file():
        raise ValueError(f"--network {network}: {file} does not exist")


def _refuse(wanted: Iterable[str], names: Iterable[str], needed: str) -> None:
    for name in names:
        if name in wanted:
            raise ValueError(f"--{name.replace('_', '-')} needs {needed}")
