"""Where a pattern may begin with few characters, it is open in the same place as if all were asked."""

from __future__ import annotations

import random

import pytest

from penstock.detection.patterns.open_matches import StreamPattern
from penstock.detection.personal_data import birth_dates
from penstock.detection.secrets import shapes

_DATE = birth_dates._DATE  # pyright: ignore[reportPrivateUsage]
DATES = "1985-03-04 12. 3. 1985 04/03/85 March 4, Mar 19 20 1 2 昭和 60年 民國 平成元年 令 大 ב- 1985年 at T12:30 é x"
KEYS = """ id": "d": "dp":" qi: d: "k":"Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4 - _ p q : " ' éd:" ."""
PIECES = [*DATES.split(), *KEYS.split()]


def _jwk() -> StreamPattern:
    pattern = r"""[dkpq](?<![\w-].)[pqi]?["']?\s{0,4}:\s{0,4}["'](?P<secret>[\w-]{43,1400})["']"""
    return StreamPattern(pattern, begins=r"[dkpq](?<![A-Za-z0-9_-].)")


@pytest.mark.parametrize("pattern", [_DATE, _jwk()], ids=["dates", "keys"])
@pytest.mark.parametrize("seed", range(10))
def test_a_pattern_is_open_where_it_is_without_the_hint(pattern: StreamPattern, seed: int) -> None:
    """Whatever the text ends with, and from whatever place on."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    plain = StreamPattern(pattern.compiled)
    for _ in range(150):
        words = drawn.choices(PIECES, k=drawn.randrange(1, 12))
        text = "".join(word + drawn.choice((" ", "", "\n", "/", "%", "_")) for word in words)
        text = text[: drawn.randrange(len(text) + 1)]
        start = drawn.randrange(len(text) + 1)
        assert pattern.open_at(text, start) == plain.open_at(text, start), (text, start)


def test_the_rule_for_keys_of_json_has_that_pattern() -> None:
    """A key whose end is missing is held from its name on."""
    rule = next(rule for rule in shapes.UNMARKED if rule.name == "jwk-key")
    text = 'its key {"id": 1, "d": "Zm9vYmFyYmF6'
    assert rule.search(text, 0, final=False)[1] == text.index('d": "Zm')
