"""Places of a certificate's random numbers."""

import pytest

from pacbayes.networks.sampler import Places


def test_more_examples_than_places_are_refused():
    with pytest.raises(ValueError, match="at most 4294967296 examples, got 4294967297"):
        Places.of_set(b"key", range((1 << 32) + 1), draws=1)
