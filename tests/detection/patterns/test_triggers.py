"""`Triggers` says of a text what its patterns say one by one."""

from __future__ import annotations

import random
import re

import pytest

from penstock.detection.patterns.built_in import RUN
from penstock.detection.patterns.kinds import digits_from, number_from
from penstock.detection.patterns.triggers import Triggers
from penstock.detection.personal_data.detector import EMBEDDED, PersonalData

RULES = [rule for _, rule in PersonalData(EMBEDDED)._built_in() if not rule.prefix and rule.trigger != RUN]  # pyright: ignore[reportPrivateUsage]
TRIGGERS = [
    *dict.fromkeys(rule.trigger for rule in RULES),
    r"(?i:[x]y)|q(?=\()",
    "ä[bc]",
    r"[^\W\d]{2}~",
    "vw*z",
    "vw{2}",
    "[Zz](?i:oom|ap)",
    "[jn](?:ol|um)?t",
    "ju(?:mp|nk)+!",
    "l(?i:ux)?y",
    "l(?<![a-z].)(?:om|um)",
]
_WORDS = (
    "api app Access auth' auth clients basic Bearer zation Key word key 00 0x12ab 1st 3. .5 1.2 a.b @ : = :: - -u -key"
    " sig= Q~ eyJ {SSHA $2b$ > t> ( f( d( passe ontrase enha cret May Jan xy XY q( äb äx é٣ ab~ é~ k_live_ https://hooks."
    " vz vwwz vww zAp ZOOM zo zſap"
    " jolt nt numt jt junk! jump jumpnk! lUxy ly luxY lum al om lom lo"
)
PIECES = _WORDS.split()


@pytest.mark.parametrize("seed", range(20))
def test_the_triggers_that_stand_in_a_text_are_those_whose_patterns_match(seed: int) -> None:
    """From any place on, with short texts and with long ones, at one look and one by one."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    triggers = Triggers({trigger: trigger for trigger in TRIGGERS})
    for _ in range(60):
        words = drawn.choices(PIECES, k=drawn.choice((0, 1, 2, 5, 15, 40, 200)))
        text = "".join(word + drawn.choice((" ", "", "\n", "e")) for word in words)
        start = drawn.choice((0, 0, len(text) // 2))
        standing = {trigger for trigger in TRIGGERS if re.compile(trigger).search(text, start)}
        assert set(triggers.standing_in(text, start)) == standing, text
        assert triggers.none_in(text, start) == (not standing and len(text) - start <= 400), text


@pytest.mark.parametrize(
    ("said", "name", "found"),
    [
        ("1.2 s of 3.11.7", "ip-address", "at 10.0.1.7 of"),
        ("AB 12, C12, 12", "iban", "FR76 3000 6000 0112 3456 7890 189"),
        ("2026-11-26, 1-2", "figma-key", "figma 1234-0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"),
        ("2026-11-26, 1-2", "truenas-key", f"1-{'Ab3dE6gH' * 8}"),
        ("007, 00", "okta-key", "okta 00aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789abAb"),
        ("(`--quick`), pre-set", "command-password", "mysql -u root -pS3cr3t!x"),
        ("print(x), f(a)", "password", 'PDO("mysql", "root", "s3cr3t!!")'),
    ],
)
def test_a_trigger_is_as_much_of_a_match_as_stands_in_one_word(said: str, name: str, found: str) -> None:
    """Numbers, dates and calls of prose are none; what matches has one."""
    triggers = Triggers({rule.trigger: rule.name for rule in RULES if rule.name != "private-ip"})
    assert name not in triggers.standing_in(said, 0)
    assert name in triggers.standing_in(found, 0)


def test_a_look_sees_the_characters_that_are_not_read_as_they_are_written() -> None:
    """They belong to no trigger, but a text with one of them is not passed over."""
    triggers = Triggers({"zation": 1}, "\\%")
    assert triggers.none_in("a plain text", 0)
    assert not triggers.none_in("50% of it", 0)
    assert [*triggers.standing_in("50% of it", 0)] == []


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("in 2019 they", 12),
        ("call 555 01", 5),
        ("call +(49", 5),
        ("12 a lot 3", 9),
        ("12 a 3", 0),
        ("1\n2", 2),
        ("none", 4),
        ("７ ", 0),
    ],
)
def test_digits_at_the_end_of_a_text_begin_where_they_stand_close_together(text: str, at: int) -> None:
    """Three characters may stand between two of them, but no line end; signs before them belong to them."""
    assert digits_from(text, 0) == at


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("12 a 3", 5),
        ("12, 3", 4),
        ("12 - 3", 0),
        ("call +(1/2 \u2013 ", 5),
        ("1\n2", 2),
        ("1,", 2),
        ("7 ", 0),
    ],
)
def test_a_number_at_the_end_of_a_text_has_nothing_within_it_but_signs_of_numbers(text: str, at: int) -> None:
    """Three of them may stand between two digits."""
    assert number_from(text, 0) == at
