import pytest
from pydantic import ValidationError

from pacbayes import Settings
from pacbayes.paper import printed
from pacbayes.settings import NETWORKS, OPTIONS


def test_the_paper_protocol_is_the_papers():
    for (objective, activation), result in printed.RESULTS.items():
        s = Settings.of("paper", activation, objective)
        assert (s.epochs, s.batch_size, s.evaluate_every) == (200, 256, 5)
        assert s.widths == (100, 100, 100)
        assert not s.learned_scale
        assert s.lam is None  # n
        assert (s.learning_rate, s.samples) == (result.learning_rate, result.samples)
        assert s.estimator == "marginal"
        assert s.delta == 0.05


def test_the_fast_network_has_one_hidden_layer_unless_its_prior_learns():
    assert Settings.of("fast").widths == (100,)
    assert Settings.of("fast", prior_fraction=0.5).widths == (100, 100, 100)
    assert Settings.of("fast", prior_fraction=0.0, widths=(7, 7)).widths == (7, 7)


def test_the_batch_follows_the_data_unless_given():
    assert [Settings().batch(n) for n in (10, 3000, 60_000)] == [16, 30, 512]
    assert Settings(batch_size=7).batch(60_000) == 7


def test_changes_override_a_protocol_and_survive_json():
    s = Settings.of("fast", "sign", epochs=3, widths=(7,))
    assert (s.epochs, s.widths, s.learned_scale) == (3, (7,), True)
    assert Settings(**s.model_dump(mode="json")) == s


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"delta": 0.0}, "delta"),
        ({"delta": 1.0}, "delta"),
        ({"samples": 0}, "samples"),
        (
            {"activation": "sign", "estimator": "leave-one-out", "samples": 1},
            "at least 2 samples, got 1",
        ),
        ({"activation": "sign", "estimator": "local-expectation", "samples": 1}, "at least 2"),
        ({"widths": (3, 0)}, "widths must be between"),
        ({"widths": "none"}, r"widths must be integers such as \(100, 100\), or \(\), got 'none'"),
        ({"prior_scale": 1e-30}, "prior_scale"),
        ({"prior_scale": float("inf")}, "prior_scale"),
        ({"epochs": 10**20}, "epochs"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"lam": 1.0}, "lam"),
        ({"seed": -1}, "seed"),
        ({"typo": 1}, "typo"),
        ({"activation": "tanh"}, "activation"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(ValidationError, match=message):
        Settings(**changes)


def test_one_sample_is_enough_where_no_baseline_needs_more():
    Settings(activation="sign", estimator="marginal", samples=1)
    Settings(activation="sign", estimator="local-expectation", widths=(5,), samples=1)
    Settings(activation="sign", estimator="leave-one-out", widths=(), samples=1)
    Settings(activation="relu", estimator="leave-one-out", samples=1)


def test_an_objective_that_there_is_not_is_named():
    for protocol in ("paper", "fast"):
        with pytest.raises(ValueError, match=r"objective must be one of fix-lambda.*got 'catoni'"):
            Settings.of(protocol, "relu", "catoni")


def test_every_setting_has_an_option_except_what_another_option_gives():
    assert Settings.model_fields.keys() - OPTIONS.keys() == {"prior_scales"}
    assert all(option.help and option.panel for option in OPTIONS.values())
    assert {kind for option in OPTIONS.values() for kind in option.networks} == set(NETWORKS)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("objective", [None, "fix-lambda", "optim-lambda", "small-kl"])
@pytest.mark.parametrize("learned", [False, True])
def test_an_option_without_effect_says_what_it_needs(network, objective, learned):
    needed = {
        name: option.needs(network, objective, learned=learned) for name, option in OPTIONS.items()
    }
    of_dense = {"protocol", "activation", "estimator", "basis", "prior_smooth"}
    only_dense = of_dense if network != "dense" else set()
    idle = only_dense | ({"widths"} if network == "module" else set())
    modules = {"prior_decay", "prior_precision", "prior_finer"}
    learning = {name for name in OPTIONS if name.startswith("prior_")} - {
        "prior_scale",
        "prior_smooth",
        "prior_fraction",
    }
    idle |= modules if network == "dense" else set()
    idle |= set() if learned else learning
    idle |= set() if objective == "optim-lambda" else {"lambda_rate"}
    if network == "kernel":  # a closed form: nothing is drawn, and no prior learns
        idle = OPTIONS.keys() - {"seed", "delta", "epochs", "repeats"}
    assert {name for name, need in needed.items() if need} == idle
    assert network == "kernel" or needed["prior_rate"] == (
        None if learned else "a prior that learns; give --prior-fraction too"
    )
    if network == "dense":
        assert needed["prior_decay"] == "--network conv or a module of your own"
    if network == "module":
        assert needed["widths"] == "--network dense or conv"
