"""A fitted classifier as a run folder, like those of `pacbayes train`, and back."""

from __future__ import annotations

import io
from copy import deepcopy
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from sklearn.utils.validation import check_is_fitted, validate_data

from pacbayes.certificates.certificate import Certificate, read_certificate
from pacbayes.choices import Predictor
from pacbayes.data import Dataset, DataSource
from pacbayes.data.preprocessing import Standardiser, transformed
from pacbayes.files import (
    DamagedFileError,
    load_tensors,
    load_versioned,
    new_folder,
    save_json,
    save_tensors,
    write_atomically,
)
from pacbayes.folders import certify_run, featured, open_run
from pacbayes.folders.folder import Run
from pacbayes.folders.preparation import record_run
from pacbayes.networks.modules import Convolutions, OwnModule
from pacbayes.networks.network import Network
from pacbayes.networks.predictors import prior_weights
from pacbayes.settings import Settings
from pacbayes.sklearn.parameters import Input, flat
from pacbayes.training.blueprint import Choice
from pacbayes.training.checkpoints import read_history

if TYPE_CHECKING:
    from pacbayes.sklearn.classifier import PACBayesClassifier

__all__ = ["load_estimator", "save_estimator"]

Array = NDArray[Any]
_STATE, _DRAWN, _LABEL = "classifier.json", "drawn.safetensors", "label"
_FILES = (
    *("run.json", "features.json", "*.safetensors", "history.json", "certificate*.json"),
    *("test.json", "data.*", "report.html", "network.py", _STATE),
)
_BOUNDS = {
    "fixed": "held-out",
    "drawn": "disintegrated",
    "vote": "first-order",
    "randomised": "small-kl",
}


def save_estimator(model: PACBayesClassifier, folder: Path, X: Any, y: Any, *, data: bool) -> None:
    """Write a fitted classifier as a run folder, all of it or nothing.

    Args:
        X, y: the examples that it was fitted to.
        data: keep a copy of them in the folder.
    """
    check_is_fitted(model)
    if not isinstance(model.preprocessing_, Standardiser | None):
        raise ValueError(
            f"{type(model.preprocessing_).__name__} cannot be kept in a run folder; use "
            "preprocessing='auto' or None, or certify the pipeline by CertifiedClassifier"
        )
    names = getattr(model, "feature_names_in_", None)
    X = validate_data(model, flat(X), dtype=np.float64, reset=False)
    with new_folder(folder, _FILES) as building:
        source = _stored(model, building, X, np.asarray(y), names)
        settings = _settings(model)
        examples = featured(source.read(), settings)
        _check_same(model, examples, X)
        network = deepcopy(model.network_).float()
        run = record_run(building, settings, source, examples, network, model._choice)
        posterior = {k: p for k, p in network.named_parameters() if p.requires_grad}
        save_tensors(building / "posterior.safetensors", posterior, {"run": run.sha256})
        save_json(building / "history.json", [asdict(e) for e in model.history_])
        save_json(building / _STATE, _state(model))
        if model.certificate_ is not None:
            _certify(model, run, examples)
        elif model.predictor_ == "drawn":
            save_tensors(building / _DRAWN, model.weights_, {"run": run.sha256})
        if not data:
            Path(source.name).unlink()


def _settings(model: PACBayesClassifier) -> Settings:
    """Return the settings as fitted; a data-free prior is always that of seed 0."""
    settings: Settings = model._settings
    return settings if settings.prior_fraction else settings.model_copy(update={"seed": 0})


def _stored(
    model: PACBayesClassifier, folder: Path, X: Array, y: Array, names: Array | None
) -> DataSource:
    """Write the examples: a table if features are standardised, else arrays as they are."""
    if model.preprocessing_ is None:
        path = folder / "data.npz"
        shape = X.shape[1:] if model._choice is None else model._shape or X.shape[1:]
        content = io.BytesIO()
        np.savez_compressed(content, x=X.astype(np.float32).reshape(len(X), *shape), y=y)
        write_atomically(path, content.getvalue())
        return DataSource(str(path))
    words = [str(label) for label in model.classes_]
    if sorted(words) != words:
        raise ValueError(
            f"classes {', '.join(words[:5])}… are in another order as texts, which a table has; "
            "name them so that they sort alike, as 01 and 10"
        )
    import pyarrow as pa
    from pyarrow import parquet

    columns = [str(name) for name in (range(X.shape[1]) if names is None else names)]
    label = _LABEL if _LABEL not in columns else f"{_LABEL} of the classifier"
    arrays = [pa.array(column) for column in X.T.astype(np.float32)]
    table = pa.table([*arrays, pa.array(map(str, y))], names=[*columns, label])
    path = folder / "data.parquet"
    buffer = io.BytesIO()
    parquet.write_table(table, buffer)
    write_atomically(path, buffer.getvalue())
    return DataSource(str(path), label=label)


def _check_same(model: PACBayesClassifier, examples: Dataset, X: Array) -> None:
    """Raise ValueError unless the run's features and labels are those that were fitted."""
    same = np.array_equal(examples.x_train, transformed(model.preprocessing_, X).numpy())
    words = tuple(str(label) for label in model.classes_)
    if not same or examples.classes != words:
        raise ValueError("X and y are not the examples that the classifier was fitted to")


def _certify(model: PACBayesClassifier, run: Run, examples: Dataset) -> None:
    """Issue the certificate again on the run's files; it must come out as it was."""
    known: Certificate | None = model.certificate_
    best = model.predictor == "best" and model._settings.prior_fraction
    bound: Any = "best-of" if best else _BOUNDS[model.predictor_]
    sampled = model.predictor_ in ("vote", "randomised")
    issued = certify_run(
        run,
        run.load_network(),
        examples,
        delta=known.delta if known else model.delta,
        bound=bound,
        samples=model.votes_ if sampled else None,
        priors=model.priors,
        loss=model.loss,
    )
    if known is None or (issued.bound, issued.n, issued.kind) != (known.bound, known.n, known.kind):
        raise ValueError("X and y are not the examples that the classifier was certified on")


def _state(model: PACBayesClassifier) -> dict[str, Any]:
    """Return what a run folder does not say: parameters, and how probabilities are computed."""
    parameters = model.get_params(deep=False)
    seed = parameters["random_state"]
    parameters["random_state"] = seed if isinstance(seed, int) else None
    parameters["widths"] = list(parameters["widths"])
    if model._shape is not None:
        parameters["image_shape"] = list(model._shape)
    if model._choice is not None:  # also where a function was given
        architecture, code = model._choice.architecture, model._choice.code
        parameters["network"] = architecture.model_dump()
        if isinstance(architecture, OwnModule):
            parameters["network"] = f"{code}:{architecture.function}"
    names = getattr(model, "feature_names_in_", None)
    return {
        "format": 1,
        "parameters": parameters,
        "classes": model.classes_.tolist(),
        "dtype": model.classes_.dtype.str,
        "names": None if names is None else names.tolist(),
        "seed": model._seed,
        "predictor": model.predictor_,
        "votes": model.votes_,
        "temperature": getattr(model, "temperature_", None),
        "epochs": model.n_iter_,
    }


class _State(BaseModel):
    """The contents of classifier.json."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    format: Literal[1]
    parameters: dict[str, Any]
    classes: list[Any] = Field(min_length=2)
    dtype: str
    names: list[str] | None
    seed: int = Field(ge=0)
    predictor: Literal["fixed", "drawn", "vote", "randomised"]
    votes: int = Field(ge=1)
    temperature: float | None = Field(gt=0)
    epochs: int = Field(ge=0)


def load_estimator(folder: Path) -> PACBayesClassifier:
    """Return the classifier that `save` wrote, with the same predictions."""
    run, path = open_run(folder), folder / _STATE
    if not path.exists():
        raise ValueError(
            f"{folder} was made by pacbayes train, not saved from a classifier; use pacbayes.load"
        )
    network, record = run.load_network().double().eval(), load_versioned(path, 1)
    try:
        state = _State.model_validate(record).model_dump()
        return _restored(run, network, state)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise DamagedFileError(f"{path} is damaged: {error!r}") from error


def _restored(run: Run, network: Network, state: dict[str, Any]) -> PACBayesClassifier:
    from pacbayes.sklearn.classifier import PACBayesClassifier

    model = PACBayesClassifier(**state["parameters"])
    model.widths = tuple(model.widths)
    model._choice, model._shape, model._blueprint = _choice(run), None, run.blueprint
    if model.image_shape is not None:
        model.image_shape = model._shape = tuple(model.image_shape)
    if isinstance(model.network, dict):
        model.network = Convolutions(**model.network)
    model._input = Input()
    model._seed, model._settings = state["seed"], run.settings
    objects = state["dtype"] == "|O"
    model.classes_ = np.array(state["classes"], object if objects else state["dtype"])
    if tuple(map(str, model.classes_)) != run.record.data.classes:
        raise KeyError("classes other than those of run.json, or in another order")
    model.preprocessing_ = None
    if run.record.data.features_sha256 is not None:
        model.preprocessing_ = Standardiser.of(run.encoding)
    model.n_features_in_ = run.record.data.features
    if state["names"] is not None:
        model.feature_names_in_ = np.array(state["names"], object)
    model.network_ = network
    model.predictor_, model.votes_ = state["predictor"], state["votes"]
    model.history_ = list(read_history(run.folder / "history.json"))
    model.n_iter_, model.bound_set_ = state["epochs"], _bound_rows(run)
    path = run.certificate_path(Predictor(model.predictor_))
    model.certificate_ = read_certificate(path) if path.exists() else None
    model.weights_ = {}
    if model.predictor_ == "fixed":
        model.weights_ = prior_weights(model.network_)
    elif model.predictor_ == "drawn":
        certified = model.certificate_ is not None
        model.weights_ = run.load_drawn() if certified else run.load_own(_DRAWN)[0]
    if state["temperature"] is not None:
        model.temperature_ = state["temperature"]
    return model


def _choice(run: Run) -> Choice | None:
    """Return the network of a run as a choice, for saving it again."""
    if run.record.network is None:
        return None
    return Choice(run.record.network.architecture, run.blueprint.code)


def _bound_rows(run: Run) -> Array:
    """Return the indices of the bound set."""
    data = run.record.data
    if data.split_sha256 is None:
        return np.arange(data.n)
    rows: Array = load_tensors(run.folder / "split.safetensors")[0]["bound"].numpy()
    return rows
