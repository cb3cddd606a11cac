"""The table against reality: a request with a marker in each channel, and what a guard was given of it in time."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING, Any

import pytest

from penstock import (
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    RegexFilterProcessor,
    SystemPromptScrubber,
)
from penstock.engine.text_guards.scope import choose_texts
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.processors.guards import LanguageDetector
from penstock.workflows.coverage import CHANNELS, Coverage
from tests.workflows.coverage.planting import Given, record, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from penstock.workflows.coverage import Cell, ContentChannel


class Own(TextGuard):
    """A guard of a user."""

    reach = 8

    def __init__(self, **options: Any) -> None:
        choose_texts(self, **{"phase": "all", "parts": None, **options})

    def find(self, text: str, ctx: object, *, final: bool) -> list[Any]:
        """Find nothing."""
        return []


GUARDS: dict[str, Callable[..., TextGuard]] = {
    "personal": PIIDetector,
    "regex": lambda **options: RegexFilterProcessor(presets=["secrets"], **options),
    "moderation": ModerationProcessor,
    "injection": PromptInjectionDetector,
    "leaks": lambda **options: SystemPromptScrubber(prompts=["You are a clerk of the town hall of Ulm."], **options),
    "language": LanguageDetector,
    "own": Own,
}
PHASES: tuple[dict[str, Any], ...] = ({}, {"phase": "input"}, {"phase": "output"}, {"phase": "all"})
PARTS: tuple[dict[str, Any], ...] = (
    {},
    {"parts": ("text",)},
    {"parts": ("tool", "reasoning")},
    {"parts": ("file", "data", "source")},
    {"parts": ("audio", "image", "text", "unknown", "step-start")},
)
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"history": True},
    {"system": "all"},
    {"system": "none"},
    {"last_message_only": True},
    {"history": True, "system": "all"},
    {"history": True, "last_message_only": True},
)
FAST, MOST = 40, 300
_EVERY = list(itertools.product(GUARDS, PHASES, PARTS, ASKED))
random.Random(7).shuffle(_EVERY)  # noqa: S311 - dice, no secrets


def _options() -> Iterator[Any]:
    for number, (guard, *given) in enumerate(_EVERY[:MOST]):
        options = {key: value for one in given for key, value in one.items()}
        if guard == "regex" and "last_message_only" in options:
            continue
        if options.get("phase", "") == "output" and ("history" in options or options.get("system") == "all"):
            continue
        if guard == "leaks" and "phase" not in options and ("history" in options or options.get("system") == "all"):
            continue
        marks = [pytest.mark.rest] if number >= FAST else []
        yield pytest.param(guard, options, marks=marks, id=f"{guard}-{number}")


def _told(cell: Cell, channel: ContentChannel, planted: set[str]) -> set[str]:
    """Return the kinds of parts that the table says are read in time."""
    if cell.reads == "unread":
        return set()
    only = next((one for one in cell.conditions if one.startswith("only ") and " in the " not in one), "")
    named = set(only.removeprefix("only ").split(", ")) if only else set(channel.kinds)
    if any(one.startswith("only in the last") for one in cell.conditions):
        return set()  # not whole: what is in an earlier message is not read, and may be
    return named & planted


def _check(made: Coverage, given: Given) -> list[str]:
    wrong: list[str] = []
    for channel in CHANNELS:
        cell = made.steps[0].cells[channel.name]
        planted = set(given.used.get(channel.name, {}))
        told, real = _told(cell, channel, planted), given.kinds(channel.name)
        if channel.name == "structured" and cell.reads != "unread":
            told = planted  # the same text in both forms
        partly = any(one.startswith("only in the last") for one in cell.conditions)
        if told != real and not (partly and told <= real):
            wrong.append(f"{channel.name}: the table says {sorted(told)}, it was given {sorted(real)}")
    return wrong


@pytest.mark.parametrize(("guard", "options"), list(_options()))
async def test_the_table_says_what_a_guard_is_given(
    monkeypatch: pytest.MonkeyPatch, guard: str, options: dict[str, Any]
) -> None:
    """Of each channel, each kind of parts, in time; whatever the options."""
    made, given = GUARDS[guard](**options), Given()
    record(monkeypatch, made, given)
    agent = await run([made], given)

    assert _check(agent.coverage(), given) == []


async def test_every_channel_is_planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """All but errors of the provider, with all kinds of parts that a request can have there."""
    given = Given()
    guard = PIIDetector()
    record(monkeypatch, guard, given)
    await run([guard], given)

    assert {channel.name for channel in CHANNELS} - set(given.used) == {"model_error"}
