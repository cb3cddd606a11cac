"""`secret_places`: where the secrets of a text are, for code that shows texts without them."""

from functools import cache

from penstock.detection.patterns.matching import Finder
from penstock.detection.secrets import SECRETS


def secret_places(text: str) -> list[tuple[int, int]]:
    """Return where the secrets of a text begin and end, in order; places may overlap."""
    return sorted((match.start, match.end) for match in _finder().find(text))


@cache
def _finder() -> Finder:
    return Finder(SECRETS)
