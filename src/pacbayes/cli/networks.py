"""The options of train that choose a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pacbayes.cli.options import given

if TYPE_CHECKING:
    from pacbayes.runs.blueprint import Choice

__all__ = ["choice_of", "whole_numbers"]


def whole_numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Parse numbers separated by commas, if the option was given."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} must look like 16,32, got {text!r}") from None


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
