"""The options of train that choose a network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from pacbayes.cli.options import given

if TYPE_CHECKING:
    from pacbayes.runs.blueprint import Choice

__all__ = ["check_network", "choice_of", "whole_numbers"]

_CONVOLUTIONAL = ("channels", "kernels", "strides", "padding", "pooling", "batch_norm")
_DENSE = ("estimator",)


def whole_numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Parse numbers separated by commas, if the option was given."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} must look like 16,32, got {text!r}") from None


def check_network(network: str, options: dict[str, Any]) -> None:
    """Refuse options of another kind of network, before anything is loaded or run."""
    wanted = given(options)
    if network != "conv":
        _refuse(wanted, _CONVOLUTIONAL, "--network conv")
    if network != "dense":
        _refuse(wanted, _DENSE, "--network dense")
    if network not in ("dense", "conv"):
        _refuse(wanted, ("widths",), "--network dense or conv")
        _check_file(network)


def _check_file(network: str) -> None:
    file, _, function = network.rpartition(":")
    if not file.endswith(".py") or not function.isidentifier():
        raise ValueError(
            f"--network must be dense, conv or a function such as my_network.py:build, got "
            f"{network!r}"
        )
    if not Path(file).is_file():
        raise ValueError(f"--network {network}: {file} does not exist")


def _refuse(wanted: dict[str, Any], names: tuple[str, ...], needed: str) -> None:
    for name in names:
        if name in wanted:
            raise ValueError(f"--{name.replace('_', '-')} needs {needed}")


def choice_of(network: str, options: dict[str, Any], *, learned: bool) -> Choice | None:
    """Return the network of a run; None if it is dense. Code that is named may run from now on.

    Args:
        learned: whether its prior learns, for which convolutions have other defaults.
    """
    from pacbayes.networks.modules import Convolutions
    from pacbayes.runs.blueprint import chosen

    if network != "conv":
        return chosen(network)
    wanted = given(options)
    usual = Convolutions.usual(len(wanted.get("channels", ())), learned=learned)
    found = usual | wanted
    found["pooling"] = found.get("pooling") or None
    return chosen(Convolutions(**found))
