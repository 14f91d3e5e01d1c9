"""What was fitted before a classifier saw its examples is found, in workers too."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.model_selection import cross_validate
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pacbayes import CertifiedClassifier
from pacbayes.data.sample import NoSampleError
from pacbayes.models.asking import check_batches, check_origin

pytestmark = pytest.mark.filterwarnings("ignore:no certificate")
NUMBERS = np.random.default_rng(0).random((200, 2))
MODEL = CertifiedClassifier(GaussianNB(), random_state=0)
CANCER = load_breast_cancer(return_X_y=True)


def test_a_pipeline_around_an_ensemble_with_workers_does_not_hide():
    ensemble = VotingClassifier([("it", MODEL), ("other", GaussianNB())], n_jobs=2)
    chosen = SelectKBest(k=10)  # by all labels, which the features do not show
    found = make_pipeline(chosen, ensemble).fit(*CANCER)[-1].estimators_[0]
    assert found.certificate_ is None
    alone = VotingClassifier([("it", MODEL), ("other", GaussianNB())]).fit(*CANCER)
    assert alone.estimators_[0].certificate_ is not None


def test_an_ensembles_function_that_fits_it_is_seen_where_the_ensemble_is_not():
    worker = {"__name__": "sklearn.ensemble._base"}
    exec("def fit(call): call()", worker)
    with pytest.raises(NoSampleError, match=r"sklearn\.ensemble\._base fits this classifier in a"):
        worker["fit"](lambda: check_origin(MODEL))


def test_workers_of_a_cross_validation_hide_nothing():
    found = cross_validate(MODEL, *CANCER, cv=2, n_jobs=2, return_estimator=True)["estimator"]
    assert all(model.certificate_ is not None for model in found)
    pipeline = make_pipeline(StandardScaler(), MODEL)
    found = cross_validate(pipeline, *CANCER, cv=2, n_jobs=2, return_estimator=True)["estimator"]
    assert all(model[-1].certificate_ is None for model in found)


def test_answers_may_not_depend_on_the_batch():
    check_batches(lambda x: x[:, 0] > 0.5, NUMBERS, NUMBERS[:, 0] > 0.5)
    middle = np.median(NUMBERS)
    with pytest.raises(NoSampleError, match="half of the examples at a time, in another order"):
        check_batches(lambda x: x[:, 0] > np.median(x), NUMBERS, NUMBERS[:, 0] > middle)
