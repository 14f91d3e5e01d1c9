"""Store scikit-learn models without code: only types on a short list are loaded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile

from pacbayes.extras import require
from pacbayes.files import DamagedFileError
from pacbayes.models.saved.trees import all_closed

__all__ = ["TRUSTED", "ForbiddenTypeError", "as_bytes", "from_bytes", "unknown_types"]

# Beside what skops trusts by itself: estimators of scikit-learn, numbers, arrays, containers.
TRUSTED = (
    "numpy.dtype",
    "pacbayes.certified.encoder.TableEncoder",  # as folders of 1.0 name it
    "pacbayes.data.preprocessing.TableEncoder",
    "pacbayes.models.encoder.TableEncoder",
    "pacbayes.sklearn.classifier.PACBayesClassifier",  # its parameters; networks are arrays
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",  # checked when loaded
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.tree._tree.Tree",  # checked when loaded
)


class ForbiddenTypeError(ValueError):
    """Raised when a stored model needs a type that is not trusted."""


def as_bytes(state: dict[str, Any]) -> bytes:
    """Return models, parameters and arrays as the bytes of a skops file."""
    require("models", "save")
    import skops.io

    try:
        content: bytes = skops.io.dumps(state, compression=ZIP_DEFLATED)
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        raise ValueError(f"a candidate cannot be stored as plain data ({error})") from error
    return content


def unknown_types(content: bytes) -> list[str]:
    """Return the types in a skops file that are not trusted, without loading any."""
    import skops.io

    return sorted(set(skops.io.get_untrusted_types(data=content)) - set(TRUSTED))


def from_bytes(content: bytes, trusted: Sequence[str] = (), where: str = "the file") -> Any:
    """Load models from the bytes of a skops file.

    Args:
        trusted: types to load beside those on the list, such as `my_package.MyModel`. Loading one
            may execute its code.
        where: the file, for messages.

    Raises:
        ForbiddenTypeError: the file has other types; nothing of it has been loaded.
        DamagedFileError: it is not a skops file, or a tree in it leads out of its own nodes.
    """
    require("models", "load")
    import skops.io

    try:
        if refused := [name for name in unknown_types(content) if name not in trusted]:
            raise ForbiddenTypeError(
                f"{where} holds {', '.join(refused)}, which is not trusted; if you know what it "
                f"does, load it with load(folder, trusted={refused!r})"
            )
        with warnings.catch_warnings():  # older folders name types by the modules of then
            warnings.filterwarnings("ignore", "pacbayes", DeprecationWarning)
            state = skops.io.loads(content, trusted=[*TRUSTED, *trusted])
    except ForbiddenTypeError:
        raise
    except (
        BadZipFile,
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OSError,
        RecursionError,
    ) as error:
        raise DamagedFileError(f"{where} is damaged: {error}") from error
    if not all_closed(state):
        raise DamagedFileError(f"{where} is damaged: a tree leads out of its own nodes")
    return state
