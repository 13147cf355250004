"""A training in Equinox that is killed again and again ends as if it had not been."""

import pytest
from killed_training import end_of_killed_training

for package in ("equinox", "optax"):
    pytest.importorskip(package)


def test_a_training_that_is_killed_ends_with_the_same_bits(tmp_path):
    end_of_killed_training("equinox_training", tmp_path)
