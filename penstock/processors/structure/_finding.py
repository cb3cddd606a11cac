"""JSON in an answer: the whole of it, in fences, within prose; it knows no schema.

Never made up: what is cut off, and values that differ and could both be meant, are refused. Only `guessed` guesses.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MissingExtraError
from penstock.models.judges._json import UnreadableError, objects
from penstock.processors.structure._problems import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.values.frozen import Value

LONGEST = 1_000_000
"""How many characters of an answer are read at most."""

_MOST_TO_GUESS = 100_000  # characters: the library that guesses took 0.2 s for so many at its worst, nesting apart
_DEEPEST_TO_GUESS = 64  # levels: it took a second for 8,000 of them
_FENCED = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_OPENS = re.compile(r"[{\[]")
_BRACKETS = re.compile(r"[{\[\]}]")


def spoken(text: str) -> str:
    """Return an answer without what an open model thinks aloud before it."""
    thought, end, said = text.partition("</think>")
    return (said if end and thought.lstrip().startswith("<think>") else text).strip()


def groups(text: str) -> Iterator[list[Value]]:
    """Yield the values that an answer may mean, those first that are more surely meant.

    Raises:
        UnfitError: an object begins, but cannot be read, or the answer is too long.
    """
    if len(text) > LONGEST:
        raise unreadable(f"it has more than {LONGEST:,} characters")
    yield _alone(text)
    yield [value for fenced in _FENCED.findall(text) for value in _alone(fenced)]
    try:
        found: list[Value] = [*objects(text)]
    except UnreadableError as error:
        raise unreadable(str(error)) from None
    yield found


def _alone(text: str) -> list[Value]:
    """Return what a text is as a whole; nothing if it is no JSON."""
    try:
        held = objects(f'{{"value": {text}\n}}')  # read as a field, any value can be read as patiently as an object
    except UnreadableError:
        return []
    return [held[0]["value"]] if len(held) == 1 and held[0].keys() == {"value"} else []


def check_guesses() -> None:
    """See that guessing is possible.

    Raises:
        MissingExtraError: its library is not installed.
    """
    try:
        import json_repair as _  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("repair=True", "repair") from error


def _is_deep(text: str) -> bool:
    """Tell whether brackets nest deeper than is guessed about; those in strings count, too."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "{[" else max(depth - 1, 0)
        if depth > _DEEPEST_TO_GUESS:
            return True
    return False


def guessed(text: str) -> list[Value]:
    """Return the value that broken JSON was probably meant to be; nothing if that cannot be guessed."""
    import json_repair

    start = _OPENS.search(text)
    if start is None or len(text) > _MOST_TO_GUESS or _is_deep(text):
        return []
    try:
        value: Value = json_repair.loads(text[start.start() :], skip_json_loads=True, strict=True)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, (dict, list)) else []
