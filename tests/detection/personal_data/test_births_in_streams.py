"""Dates right before a word for birth, in streams: they are held while such a word may follow."""

from __future__ import annotations

import random
import re

import pytest

from penstock import PIIDetector, Workflow
from penstock.detection.patterns.scanner import last_word
from penstock.detection.personal_data.birth_dates import _MONTH_NAMES, BIRTHS  # pyright: ignore[reportPrivateUsage]
from penstock.detection.personal_data.national_ids import NATIONAL_IDS

GUARD = Workflow("guard").then(PIIDetector(redaction_method="placeholder"))


@pytest.mark.parametrize("date", ["12.03.1985", "1985-03-12", "12 March 1985", "March 12, 1985"])
@pytest.mark.parametrize(
    "behind", [" geboren", " in Wien geboren", ", geb.", " i Oslo født", " INFO ok", " in Bad Town", "\t"]
)
def test_a_stream_hides_the_dates_that_the_whole_text_hides(date: str, behind: str) -> None:
    """Wherever it is cut."""
    text = f"Am {date}{behind} und mehr Text."
    whole = GUARD.check_sync(text).text
    for size in (1, 3, 8, 40):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        with GUARD.start_sync(records=False).process_output_stream(pieces) as chunks:
            assert "".join(chunk.text for chunk in chunks) == whole


@pytest.mark.parametrize("date", ["12.03.1985", "1985-03-12", "12 March 1985", "March 12, 1985", "1985年3月12日"])
@pytest.mark.parametrize("word", ["生まれ", "出生", "생 ", "출생", "태어", "को जन्म"])
def test_a_word_for_birth_right_behind_a_date_is_awaited(date: str, word: str) -> None:
    """Without a blank between them, cut in three anywhere near."""
    text = f"Am {date}{word} und mehr Text."
    whole = GUARD.check_sync(text).text
    assert "1985" not in whole
    end = 3 + len(date)
    for first in range(end - 8, end + 1):
        for second in range(first + 1, end + len(word) + 1):
            pieces = [text[:first], text[first:second], text[second:]]
            with GUARD.start_sync(records=False).process_output_stream(pieces) as chunks:
                assert "".join(chunk.text for chunk in chunks) == whole


@pytest.mark.parametrize(
    "text",
    [
        "生年月日: 昭和60年3月1日 です",
        "生年月日:令和元年5月1日。",
        "生年月日は大正10年12月1日",
        "born 21ST-DE MARCH 1985 in X",
        "born 7TH of JUNE 1985 and more",
    ],
)
def test_a_date_of_an_era_or_with_a_large_ending_is_found(text: str) -> None:
    """In the whole text, and in pieces of any size."""
    whole = GUARD.check_sync(text).text
    assert "[DATE-OF-BIRTH]" in whole
    for size in (1, 2, 3, 5):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        with GUARD.start_sync(records=False).process_output_stream(pieces) as chunks:
            assert "".join(chunk.text for chunk in chunks) == whole


@pytest.mark.parametrize("seed", range(4))
def test_whatever_a_date_or_a_prefix_holds_has_a_trigger(seed: int) -> None:
    """At each cut: a rule is not asked without one, and more than the last word would leave."""
    drawn = random.Random(seed)  # noqa: S311 - dice, no secrets
    rules = [rule for rule in (*BIRTHS, *NATIONAL_IDS) if not rule.digits]
    asked = 0
    for _ in range(100):
        text = drawn.choice(("", "Am ")) + drawn.choice(_LABELS) + drawn.choice((_date, _date, _number))(drawn)
        text += drawn.choice((" geboren", " in Wien geboren", "生まれ", ", geb.", ""))
        for cut in range(1, len(text) + 1):
            read = text[:cut]
            held = last_word(read, 0)
            for rule in rules:
                traces, hold = rule.search(read, 0, final=False)
                if hold < held or any(trace.counts for trace in traces):
                    asked += 1
                    assert re.search(rule.trigger, read), (rule.name, read)
    assert asked > 300


_LABELS = ("born ", "DOB: ", "geboren am ", "Passport: ", "NI number ", "生年月日: ", "né le ", "see ")
_MONTHS = [*_MONTH_NAMES.split(), "Jan", "January", "March", "Sept", "December"]


def _date(drawn: random.Random) -> str:
    day, number, year = (
        drawn.choice((f"{one}", f"{one:02}")) for one in map(drawn.randint, (1, 1, 1900), (31, 12, 2019))
    )
    month = drawn.choice((str, str.upper, str.title))(drawn.choice(_MONTHS))
    sign, blank = drawn.choice(("-", ".", "/", "\u2013", ". ", "- ", " ", "  ")), drawn.choice(" -")
    ending = drawn.choice(("", "st", "nd", "rd", "th", ".", "er", "º", "TH"))
    return drawn.choice(
        (
            f"{year}{sign}{number}{sign}{day}",
            f"{day}{sign}{number}{sign}{year}",
            f"{day}{sign}{number}{sign}{year[2:]}",
            f"{day}{ending}{blank}{drawn.choice(('', 'of ', 'de ', 'De '))}{month}{drawn.choice(('', '.'))} {year}",
            f"{day} tháng {number}, năm {year}",
            f"{year}. {month} {day}",
            f"{month} {day}{ending}, {year}",
            f"{year}{number:0>2}{day:0>2}",
            f"{year}{drawn.choice(('', ' '))}年 {number}月{day}日",
            f"{drawn.choice(('昭和60', '令和元', '民國 9'))}年{number}月{day}日",
            f"{year}년 {number}월 {day}일",
        )
    )


def _number(drawn: random.Random) -> str:
    shape = drawn.choice(
        ("AA 99 99 99 A", "AA-AAA 999999", "AAAAA9999A", "AA99999AA", "AAAAAA AAAAAA 999", "A 99999999")
    )
    return re.sub("[A9]", lambda found: drawn.choice("ABCXYZ" if found.group() == "A" else "0123456789"), shape)
