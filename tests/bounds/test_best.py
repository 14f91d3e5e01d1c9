"""The best of several bounds pays for its choice."""

import pytest

from pacbayes.bounds import best_of, catoni, mcallester, small_kl, unexpected_bernstein


def test_each_bound_gets_its_part_of_delta():
    several = {"small-kl": small_kl, "bernstein": unexpected_bernstein}
    name, value = best_of(several, 0.01, 50, 6000, 0.05)
    values = {n: b(0.01, 50, 6000, 0.025) for n, b in several.items()}
    assert value == min(values.values())
    assert values[name] == value
    assert best_of({"catoni": catoni}, 0.1, 5, 600, 0.05) == ("catoni", catoni(0.1, 5, 600, 0.05))
    assert best_of({"a": small_kl, "b": mcallester}, 0.1, 5, 600, 0.05)[0] == "a"


def test_nothing_has_no_best():
    with pytest.raises(ValueError, match="at least one bound"):
        best_of({}, 0.1, 1, 100, 0.05)
