"""How many examples a law is tried with: all of them, or a quarter under the profile ``quick`` of hypothesis."""

from hypothesis import settings

ALL = 100
QUICK = 25
"""What a law without a number of its own is tried with, in `make test-rest` and in `make test`."""


def examples(count: int) -> int:
    """Return how many of these examples the profile asks for."""
    return max(count * settings.default.max_examples // ALL, 1)
