"""Ways to a certificate that is too small by careless use; each is refused, withheld or honest."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, QuantileTransformer, StandardScaler
from torch import nn

from pacbayes import (
    CertificateWarning,
    CertifiedClassifier,
    Dense,
    GaussianLinear,
    Network,
    PACBayesClassifier,
    Settings,
    build_network,
    certify,
    dense_network,
    empirical_risk,
    kl,
    train,
)
from pacbayes.certificates.explanation import sentence
from pacbayes.data.sample import check_sample
from pacbayes.networks import activations, heads
from pacbayes.networks.bodies import Deterministic

pytestmark = pytest.mark.filterwarnings("ignore:The certificate of .* is above")  # few data

QUICK = {"widths": (), "epochs": 2, "prior_epochs": 2, "random_state": 0}


def noise(n=400, d=30, seed=0):
    """Return labels that have nothing to do with the features."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(0, 2, n)


def toy(n=200, d=4):
    x = torch.randn(n, d)
    return x, torch.where(x[:, 0] > 0, 1.0, -1.0)


@pytest.mark.parametrize(
    "step",
    [
        LinearDiscriminantAnalysis(),
        SelectKBest(k=5),
        SelectFromModel(LogisticRegression()),
        QuantileTransformer(n_quantiles=50),
        SimpleImputer(),
        StandardScaler(),
    ],
    ids=lambda step: type(step).__name__,
)
def test_1_a_step_fitted_before_the_classifier_costs_the_certificate(step):
    pipeline = make_pipeline(step, PACBayesClassifier(**QUICK))
    with pytest.warns(CertificateWarning, match=f"{type(step).__name__}.*preprocessing="):
        pipeline.fit(*noise())
    assert pipeline[-1].certificate_ is None


def test_1_any_estimator_that_fits_the_classifier_to_changed_data_costs_the_certificate():
    bagging = BaggingClassifier(PACBayesClassifier(**QUICK), n_estimators=1, random_state=0)
    with pytest.warns(CertificateWarning, match="BaggingClassifier"):
        bagging.fit(*noise())
    assert bagging.estimators_[0].certificate_ is None


def test_1_steps_that_are_not_fitted_keep_the_certificate():
    pipeline = make_pipeline(FunctionTransformer(np.tanh), PACBayesClassifier(**QUICK))
    assert pipeline.fit(*noise())[-1].certificate_ is not None


def test_1_supervised_steps_work_as_preprocessing_and_are_honest():
    model = PACBayesClassifier(preprocessing=SelectKBest(k=5), **QUICK).fit(*noise())
    assert model.preprocessing_.scores_ is not None
    assert model.certificate_.bound > 0.45  # the labels are noise


@pytest.mark.parametrize("smuggled", ["bound method", "closure", "argument"])
def test_2_fitted_state_in_a_function_is_refused(smuggled):
    x, y = noise()
    scaler = StandardScaler().fit(x)
    step = {
        "bound method": FunctionTransformer(scaler.transform),
        "closure": FunctionTransformer(lambda a: scaler.transform(a)),
        "argument": FunctionTransformer(lambda a, by: by.transform(a), kw_args={"by": scaler}),
    }[smuggled]
    with pytest.raises(ValueError, match="carries a fitted StandardScaler"):
        PACBayesClassifier(preprocessing=step, **QUICK).fit(x, y)


class MeansInEvaluation(nn.Module):
    """Draws in training mode, as usual, and uses its means in evaluation mode."""

    def __init__(self):
        super().__init__()
        self.layer = GaussianLinear(4, 8)

    def forward(self, x):
        weight, bias = self.layer.weight, self.layer.bias
        if self.training:
            return torch.tanh(x @ weight.sample().T + bias.sample())
        return torch.tanh(x @ weight.mean.T + bias.mean)


class OneDrawForEver(MeansInEvaluation):
    """Returns the same draw at every call."""

    def __init__(self):
        super().__init__()
        self.noise = torch.randn(8, 4)

    def forward(self, x):
        weight = self.layer.weight
        return torch.tanh(x @ (weight.mean + weight.log_scale.exp() * self.noise.to(x)).T)


class AlwaysSamples(MeansInEvaluation):
    """Draws at every call, in either mode."""

    def forward(self, x):
        return torch.tanh(x @ self.layer.weight.sample().T + self.layer.bias.sample())


@pytest.mark.parametrize("body", [MeansInEvaluation, OneDrawForEver, AlwaysSamples])
def test_3_a_body_is_evaluated_at_drawn_weights_whatever_it_does(body):
    torch.manual_seed(0)
    x, y = toy(400)
    network = Network(body(), GaussianLinear(8, 1, scale=0.01)).double().eval()
    hidden, last = network.body.module.layer, network.layer
    with torch.no_grad():  # the means predict well, and a draw does not
        hidden.weight.mean.copy_(torch.eye(4)[0].expand(8, 4))
        hidden.bias.mean.zero_()
        last.weight.mean.fill_(1.0)
        last.bias.mean.zero_()
    risk = empirical_risk(network, x.double(), y, 50)
    losses = []
    for _ in range(4000):  # the risk of Q, drawn by hand
        W, b = hidden.weight.sample(), hidden.bias.sample()
        b = 0 * b if body is OneDrawForEver else b
        z = torch.tanh(x.double() @ W.T + b) @ last.weight.sample().T + last.bias.sample()
        losses.append((z.squeeze(-1) * y <= 0).double().mean())
    truth = torch.stack(losses).mean().item()
    at_means = torch.tanh(x.double() @ hidden.weight.mean.T).sum(-1)
    assert ((at_means * y) <= 0).double().mean() == 0
    assert truth > 0.1
    assert risk.mean == pytest.approx(truth, abs=0.03)  # 300 shared draws: false alarm below 1e-6
    assert risk.draws < 400 * 50


def test_3_noise_outside_the_posterior_is_refused():
    network = Network(nn.Dropout(0.5), GaussianLinear(4, 1))
    network.body.module.train()
    with pytest.raises(ValueError, match="different activations"), torch.no_grad():
        network.draw(toy()[0], 2)


@pytest.mark.parametrize(
    "network",
    [
        Network(Deterministic(nn.Identity()), GaussianLinear(4, 1), lambda *a: heads.sampled(*a)),
        Network(
            Dense([GaussianLinear(4, 3)], [lambda m, d, T: activations.relu(m, 0 * d, T)]),
            GaussianLinear(3, 1),
        ),
        Network(Deterministic(nn.Identity()), type("Mine", (GaussianLinear,), {})(4, 1)),
    ],
    ids=["head", "rule", "layer"],
)
def test_3_heads_rules_and_layers_must_be_known_to_draw_from_q(network):
    with pytest.raises(ValueError, match="not one of the library's own"):
        certify(network, *toy(), samples=2)


def test_5_the_variance_charged_is_the_variance_used():
    layer, x = GaussianLinear(4, 2), torch.randn(5, 4)
    layer.bias.log_scale.fill_(-3.0)
    _, deviation = layer.moments(x)
    expected = (x.square().sum(-1, keepdim=True) + np.exp(-6.0)).sqrt()
    assert torch.allclose(deviation, expected)


def test_6_a_layer_used_twice_is_refused():
    layer = GaussianLinear(4, 4)
    network = Network(Dense([layer, layer], [activations.relu] * 2), GaussianLinear(4, 1))
    with pytest.raises(ValueError, match=r"one Gaussian is used as body\.layers\.0\.weight and as"):
        kl(network)


def test_7_every_look_at_data_seals_the_prior():
    network = dense_network(4, (3,))
    empirical_risk(network, *toy(), 2)
    with torch.no_grad():
        network.layer.weight.prior_mean.add_(1.0)
    with pytest.raises(ValueError, match="the prior changed after the network first saw data"):
        certify(network, *toy(), samples=2)


def test_8_a_fit_that_fails_leaves_nothing_of_the_one_before():
    x, y = noise()
    model = PACBayesClassifier(**QUICK).fit(x, y)
    assert model.certificate_ is not None
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full_like(x, np.nan), y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_9_a_search_that_pays_for_one_candidate_warns():
    search = GridSearchCV(PACBayesClassifier(**QUICK), {"learning_rate": [0.001, 0.01]}, cv=2)
    with pytest.warns(CertificateWarning, match="set priors to their number"):
        search.fit(*noise(100))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*set priors", CertificateWarning)
        search.set_params(estimator__priors=2).fit(*noise(100))


def test_12_a_frozen_body_stays_in_evaluation_mode_during_training():
    body = nn.Sequential(nn.BatchNorm1d(4), nn.ReLU()).requires_grad_(False)
    network = Network(Deterministic(body), GaussianLinear(4, 1))
    network.train()
    network(toy()[0], 1)
    assert not any(module.training for module in body.modules())
    assert certify(network, *toy(), samples=2).bound <= 1


def test_11_a_probability_is_never_printed_as_one():
    network, data = dense_network(4, (3,)), toy()
    for delta, shown in ((1e-7, "0.9999999"), (0.05, "0.95"), (1e-20, "1 − 1e-20")):
        certificate = certify(network, *data, delta=delta, samples=2)
        assert f"probability {shown}," in str(certificate)
        assert f"probability {shown} over" in sentence(certificate)


def test_2_a_transformer_of_ones_own_stands_among_the_assumptions():
    x, y = noise(200, 3)
    step = FunctionTransformer(np.tanh)
    certificate = PACBayesClassifier(preprocessing=step, **QUICK).fit(x, y).certificate_
    said = " ".join(certificate.assumptions.sentences())
    assert "FunctionTransformer, fitted to the prior's part alone" in said
    assert "Their features were computed without looking at the bound set." in said


def test_4_near_copies_across_the_split_leave_no_certificate():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(30, 10)), 20, axis=0)
    y = np.repeat(rng.integers(0, 2, 30), 20)
    x = x + 0.01 * rng.normal(size=x.shape)
    with pytest.warns(CertificateWarning, match="are near copies of the prior's examples"):
        model = PACBayesClassifier(**QUICK).fit(x, y)
    assert model.certificate_ is None
    declared = PACBayesClassifier(repeats=True, **QUICK).fit(x, y).certificate_
    assert "Examples that repeat are natural" in " ".join(declared.assumptions.sentences())


def test_9_a_data_free_prior_of_a_classifier_has_no_seed_to_choose():
    x, y = noise(100, 3)
    given = QUICK | {"prior_fraction": 0}
    one, two = (PACBayesClassifier(**given | {"random_state": s}).fit(x, y) for s in (1, 2))
    for name, prior in one.network_.named_buffers():
        assert torch.equal(prior, two.network_.get_buffer(name))
    assert one.certificate_.assumptions.prior_seed == 0


def test_10_a_frozen_body_is_named_with_its_hash():
    body = nn.Sequential(nn.Linear(4, 6), nn.ReLU()).requires_grad_(False)
    network = Network(Deterministic(body), GaussianLinear(6, 1))
    certificate = certify(network, *toy(), samples=2)
    said = " ".join(certificate.assumptions.sentences())
    assert f"has not seen the bound set (SHA-256 {certificate.assumptions.body_sha256})" in said
    with torch.no_grad():
        body[0].weight.add_(1.0)
    other = certify(Network(Deterministic(body), GaussianLinear(6, 1)), *toy(), samples=2)
    assert other.assumptions.body_sha256 != certificate.assumptions.body_sha256
    assert certify(dense_network(4, (3,)), *toy(), samples=2).assumptions.body_sha256 is None


def test_12_a_prior_scale_that_does_nothing_is_refused():
    network = dense_network(4, (3,))
    with pytest.raises(ValueError, match=r"prior_scale=0\.1 in the settings has no effect"):
        train(network, *toy(), Settings(prior_scale=0.1, epochs=1))
    train(network, *toy(), Settings(epochs=1))
    train(dense_network(4, (3,), scale=0.1), *toy(), Settings(prior_scale=0.1, epochs=1))


REMEMBERED = StandardScaler().fit(np.random.default_rng(0).normal(size=(50, 3)))


def global_leak(x):
    return REMEMBERED.transform(x)


@pytest.mark.parametrize("step", [FunctionTransformer(global_leak), FrozenEstimator(REMEMBERED)])
def test_2_fitted_state_that_survives_cloning_is_refused(step):
    with pytest.raises(ValueError, match="carries a fitted"):
        PACBayesClassifier(preprocessing=step, **QUICK).fit(*noise(100, 3))
    frozen = FrozenEstimator(LogisticRegression().fit(*noise(100, 3)))
    for model in (frozen, make_pipeline(StandardScaler(), frozen)):
        with pytest.raises(ValueError, match="carries a fitted"):
            CertifiedClassifier(model).fit(*noise(100, 3))


def test_7_a_prior_that_was_changed_is_not_what_its_seed_draws():
    network = build_network(Settings(widths=(3,), epochs=1), 4)
    assert network.prior_seed == 0
    with torch.no_grad():
        network.layer.weight.prior_mean.add_(1.0)
    assert network.prior_seed is None
    said = " ".join(certify(network, *toy(), samples=2).assumptions.sentences())
    assert "The prior was fixed before the bound set was seen." in said


def test_4_copies_that_differ_by_less_than_float32_shows_are_copies():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(40, 3)), 5, axis=0) + 1e-13 * rng.normal(size=(200, 3))
    with pytest.warns(CertificateWarning, match="are duplicates"):
        PACBayesClassifier(**QUICK).fit(x, rng.integers(0, 2, 40).repeat(5))
    zeros = np.where(rng.random((200, 3)) < 0.5, 0.0, -0.0)
    with pytest.raises(ValueError, match="199 of 200 examples are duplicates"):
        check_sample(zeros, np.zeros(200), repeats=False)


@pytest.mark.parametrize(
    "model",
    ["boosting", LogisticRegression, LinearRegression(), KMeans(2), nn.Linear(3, 2), abs, 5],
)
def test_2_what_cannot_predict_labels_is_no_candidate(model):
    for given in ({"estimator": model}, {"candidates": {"mine": model}}):
        with pytest.raises(ValueError, match=r"must be a scikit-learn classifier.*, got "):
            CertifiedClassifier(**given).fit(*noise(100, 3))
