"""The options of train that choose a network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pacbayes.cli.options import given

if TYPE_CHECKING:
    from pacbayes.folders.blueprint import Choice

__all__ = ["choice_of", "whole_numbers"]


def whole_numbers(option: str, text: str | None) -> tuple[int, ...] | None:
    """Parse numbers separated by commas, if the option was given."""
    if text is None:
        return None
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{option} must look like 16,32, got {text!r}") from None


_SIZES = ("channels", "kernels", "strides", "padding")


def choice_of(
    network: str, options: dict[str, Any], *, learned: bool, shape: tuple[int, ...] | None
) -> Choice | None:
    """Return the network of a run; None if it is dense. Code that is named may run from now on.

    Args:
        learned, shape: whether its prior learns, and the shape of an example; the defaults of
            convolutions follow them.
    """
    from pacbayes.folders.blueprint import chosen
    from pacbayes.networks.modules import Convolutions

    if network != "conv":
        return chosen(network)
    wanted = given(options)
    own = wanted.keys() & set(_SIZES)  # which small images then have to suit
    layers = len(wanted.get("channels", ()))
    usual = Convolutions.usual(layers, learned=learned, shape=() if own else shape or ())
    found = usual | wanted
    found["pooling"] = found.get("pooling") or None
    return chosen(Convolutions(**found))
