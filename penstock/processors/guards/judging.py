"""What guards do with a judge's verdict, and which texts that can only be read are worth judging."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from penstock.engine.text_guards.reading import has_words
from penstock.engine.values.errors import DetectorError
from penstock.engine.values.model import JudgeError
from penstock.engine.workers import TimeLimitError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.values.frozen import Value
    from penstock.models.detectors.calls import DetectorCalls

R = TypeVar("R")

UNLISTED = "unlisted"
"""The category of a judge's findings whose category the judge was not offered."""


def listing(names: Iterable[str], meant: Mapping[str, str]) -> str:
    """Return names as lines of a list for a judge, each with what it means, if that is known."""
    return "\n".join(f"- {name}: {meant[name]}" if name in meant else f"- {name}" for name in names)


def require_complete(judged: Value, *, flagged: bool, model: str) -> None:
    """Refuse a verdict that flags nothing but lacks entries that could not be parsed, since those may matter.

    Raises:
        JudgeError: it is such a verdict.
    """
    if judged.dropped and not flagged:
        raise JudgeError(model, "unreadable", f"{len(judged.dropped)} entries of its verdict could not be read")


def without_failures(answers: Iterable[R | DetectorError], ctx: AnyContext) -> list[R]:
    """Return the answers of a detector without those that failed, if the step's policy lets a text pass on that.

    Raises:
        DetectorError: one failed, and the policy does not.
    """
    known: list[R] = []
    for answer in answers:
        if isinstance(answer, DetectorError):
            ctx.let_pass(answer)
        else:
            known.append(answer)
    return known


async def answers_in_time(calls: DetectorCalls[R], texts: Sequence[str], ctx: AnyContext) -> list[R | DetectorError]:
    """Return a detector's answer about each text; if there is none in time (`Context.in_time`), that is its error."""
    try:
        return await ctx.in_time(calls.answers(texts))
    except TimeLimitError as error:
        failures: list[R | DetectorError] = [DetectorError(calls.name, str(error)) for _ in texts]
        return failures


def unquoted(reason: str | None, text: str) -> str | None:
    """Return a judge's reason; None if it quotes the text, since it could show what must stay hidden."""
    from penstock.models.judges.verdict_requests import quotes  # loaded where a judge has given a reason

    return None if reason is None or quotes(reason, text) else reason


def highest_scores(entries: Iterable[tuple[str, float]], categories: Iterable[str]) -> dict[str, float]:
    """Return the highest score of each category; entries of other categories count as `UNLISTED`."""
    known = {category.casefold(): category for category in categories}
    scores: dict[str, float] = {}
    for name, score in entries:
        category = known.get(name.strip().casefold(), UNLISTED)
        scores[category] = max(score, scores.get(category, 0.0))
    return scores


_SHORT_CODE = 40
"""Characters: a shorter code, such as most ids, is too short for a sentence."""


def says_something(text: str) -> bool:
    """Return whether a fixed text holds words, plain or encoded. Guards that judge what is said skip other ones."""
    if has_words(text):
        return True
    if len(text) <= _SHORT_CODE:
        return False
    from penstock.detection.encoded import spoken  # loaded where texts are searched

    return any(map(has_words, spoken(text)))


def split_fixed(texts: Iterable[Text]) -> tuple[list[Text], list[list[Text]]]:
    """Return the texts that can be edited, and the others that say something: those of a message as one."""
    free: list[Text] = []
    fixed: dict[str, list[Text]] = {}
    for text in texts:
        if not text.fixed:
            free.append(text)
        elif says_something(text.text):
            fixed.setdefault(text.place.message_id, []).append(text)
    return free, [*fixed.values()]
