"""Banned words: found whole, in any letter case and behind disguises, in streams as in whole answers."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from penstock import Message, OptionError, Workflow
from penstock.processors.text import RegexFilterProcessor

WORDS = ["damn", "project x", "Straße", "müll", "坏蛋", "c++", "Ὀδυσσεύς", "darn"]
GUARD = RegexFilterProcessor(banned_words=WORDS, strategy="redact")


def whole(text: str) -> str:
    """Return what is left of a whole answer."""
    return Workflow("w").then(GUARD).check_sync([Message.assistant(text)], stage="process_output_step").text


@pytest.mark.parametrize(
    "text",
    [
        "damn",
        "DAMN",
        "dam\u200bn",
        "ｄａｍｎ",
        "dаmn",  # a Cyrillic letter
        "da\u0301mn",
        "Project   X",
        "project\nx",
        "STRASSE",
        "strasse",
        "straẞe",
        "MÜLL",
        "mu\u0308ll",
        "坏蛋",
        "坏\u200b蛋",
        "C++",
        "ὈΔΥΣΣΕΎΣ",
        "𝐝𝐚𝐦𝐧",
    ],
)
def test_a_banned_word_is_found_however_it_is_written(text: str) -> None:
    """Alone, in a sentence, in marks, and cut into characters."""
    hidden = "[REDACTED]"
    for around in ("{}", "Oh {}!", "_{}_, **{}**", "“{}”的{}"):
        said, left = around.replace("{}", text), around.replace("{}", hidden)
        assert whole(said) == left
        for pieces in ([*said], [said], [said[:3], said[3:]]):
            with Workflow("w").then(GUARD).start_sync().process_output_stream(pieces) as chunks:
                assert "".join(chunk.text for chunk in chunks) == left


@pytest.mark.parametrize("text", ["damnation goddamn damn2", "projects x, project xy", "Müller, mulle, mull", "c+"])
def test_other_words_stay(text: str) -> None:
    """A word is banned whole."""
    assert whole(text) == text


def test_one_line_blocks_and_names_no_word() -> None:
    """Neither in the reason nor in the fact's name."""
    guard = RegexFilterProcessor(banned_words=["damn"])
    outcome = Workflow("w").then(guard).check_sync("Damn it")
    assert outcome.blocked
    assert "damn" not in f"{outcome.tripwire} {guard.findings}".lower()
    assert Workflow("w").then(pickle.loads(pickle.dumps(guard))).check_sync("Damn it").blocked  # noqa: S301


@pytest.mark.parametrize("wrong", ["", [""], ["\u200b"], [3], [" "]])
def test_a_banned_word_is_a_word(wrong: Any) -> None:
    """One that is empty would be found everywhere."""
    with pytest.raises(OptionError, match=r"banned_words|rules"):
        RegexFilterProcessor(banned_words=wrong)
