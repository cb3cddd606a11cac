"""Find, repair and validate the JSON object in an answer, and write an object as texts that guards can read.

Nothing is made up: JSON that is cut off, and several values that differ, are refused. Only `repaired` guesses.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred
from penstock.engine.values.errors import MissingExtraError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.models.judges.lenient_json import UnreadableError, objects
from penstock.processors.structure.schemas import SchemaMismatchError, mismatch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.frozen import Value
    from penstock.processors.structure.schemas import ObjectSchema


_MOST_TRIED = 100  # values in one answer
_MOST_OUT_OF_ORDER = (
    1_000  # words that stand in a text elsewhere than an object has them: each takes a look at all of it
)


class ParsedObject(NamedTuple):
    """An object from an answer: its JSON data, and the validated value."""

    data: Value
    value: Value


def parse_object(text: str, schema: ObjectSchema, *, repair: bool = False) -> ParsedObject:
    """Return the object that an answer holds.

    Args:
        text: the answer.
        schema: the schema that the object must fit.
        repair: whether broken JSON may be guessed.

    Raises:
        SchemaMismatchError: the answer holds no object that fits, or several that differ.
    """
    said = without_thinking(text)
    if not said:
        raise mismatch("it is empty", "empty")
    wrong: SchemaMismatchError | None = None
    try:
        for found in groups(said):
            fitting, misfit = _fitting(found, schema)
            if fitting is not None:
                return fitting
            wrong = wrong or misfit
    except SchemaMismatchError as error:
        wrong = wrong or error
    return _without_json(said, schema, wrong or mismatch("there is no JSON in it"), repair=repair)


_MOST_ROUNDS = 20  # each finds some more of the places, since only the first problems are told


def filled(text: str, schema: ObjectSchema) -> tuple[ParsedObject, list[str]] | None:
    """Return the object of a JSON text with 0 for each null that does not fit the schema, and the places of these.

    None if there is no such null, or the object does not fit then.
    """
    try:
        data: Value = json.loads(_WHOLE_FENCE.sub(r"\1", text.strip()))
    except (ValueError, RecursionError):
        return None
    places: list[str] = []
    for _ in range(_MOST_ROUNDS):
        try:
            made = ParsedObject(data, schema.validate(data))
        except SchemaMismatchError as error:
            wanted = [re.escape(one.place).replace(r"\*", "[^.]*") for one in error.problems]
        else:
            return (made, places) if places else None
        pattern = re.compile("|".join(wanted))
        before = len(places)
        data = _with_zeros(data, "", pattern, places)
        if len(places) == before:
            return None
    return None


_WHOLE_FENCE = deferred(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


def _with_zeros(data: Value, place: str, wanted: re.Pattern[str], places: list[str]) -> Value:
    """Return JSON data with 0 for each null at one of the places, which are added to a list."""
    if is_mapping(data):
        return {key: _with_zeros(item, f"{place}.{key}".lstrip("."), wanted, places) for key, item in data.items()}
    if is_items(data):
        return [_with_zeros(item, f"{place}[{at}]", wanted, places) for at, item in enumerate(data)]
    if data is None and wanted.fullmatch(place):
        places.append(place)
        return 0
    return data


def _without_json(said: str, schema: ObjectSchema, wrong: SchemaMismatchError, *, repair: bool) -> ParsedObject:
    """Return the object of a text without valid JSON: the text itself, or what its broken JSON probably means."""
    tried: list[Value] = [said] if schema.takes_text else []
    fitting, _ = _fitting([*tried, *(repaired(said) if repair else ())], schema)
    if fitting is None:
        raise wrong
    return fitting


def _fitting(found: Iterable[Value], schema: ObjectSchema) -> tuple[ParsedObject | None, SchemaMismatchError | None]:
    """Return the only value that fits, and the error of the first that does not.

    Raises:
        SchemaMismatchError: several values fit and differ; one may be a quotation.
    """
    fits: list[ParsedObject] = []
    wrong: SchemaMismatchError | None = None
    for number, data in enumerate(found):
        if number == _MOST_TRIED:
            raise mismatch("it holds too many JSON values")
        try:
            fits.append(ParsedObject(data, schema.validate(data)))
        except SchemaMismatchError as error:
            wrong = wrong or error
    if any(other.data != fits[0].data for other in fits):
        raise mismatch("it holds several objects that differ", "ambiguous")
    return (fits[0] if fits else None), wrong


def is_shown_in(data: Value, text: str) -> bool:
    """Tell whether a text shows all keys and values of JSON data as they are: a guard of the text has then seen them.

    A JSON escape hides its character from a guard, so it does not count. Each value is searched for after the one
    before; if more than ``_MOST_OUT_OF_ORDER`` are out of order, the answer is False.
    """
    place, left = 0, _MOST_OUT_OF_ORDER
    for word in _values_of(data):
        found = text.find(word, place)
        if found >= 0:
            place = found + len(word)
        elif left and word in text:
            left -= 1
        else:
            return False
    return True


def _values_of(data: Value) -> Iterator[str]:
    if is_mapping(data):
        for key, item in data.items():
            yield str(key)
            yield from _values_of(item)
    elif is_items(data):
        for item in data:
            yield from _values_of(item)
    elif isinstance(data, str):
        yield data
    elif isinstance(data, (int, float)) and not isinstance(data, bool):
        yield json.dumps(data)


LONGEST = 1_000_000
"""The most characters that an answer may have."""

_LONGEST_TO_REPAIR = 100_000  # characters: in the worst case without nesting, json_repair took 0.2 s for them
_DEEPEST_TO_REPAIR = 64  # levels: json_repair took a second for 8,000
_FENCED = deferred(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)
_OPENS = deferred(r"[{\[]")
_BRACKETS = deferred(r"[{\[\]}]")


def without_thinking(text: str) -> str:
    """Return an answer without the ``<think>`` block that some open models write before it."""
    thought, end, said = text.partition("</think>")
    return (said if end and thought.lstrip().startswith("<think>") else text).strip()


def groups(text: str) -> Iterator[list[Value]]:
    """Yield the JSON values of an answer in groups: the whole text, fenced blocks, then values within prose.

    Raises:
        SchemaMismatchError: an object begins but cannot be parsed, or the answer is too long.
    """
    if len(text) > LONGEST:
        raise mismatch(f"it has more than {LONGEST:,} characters")
    yield _alone(text)
    yield [value for fenced in _FENCED.findall(text) for value in _alone(fenced)]
    try:
        found: list[Value] = [*objects(text)]
    except UnreadableError as error:
        raise mismatch(str(error)) from None
    yield found


def _alone(text: str) -> list[Value]:
    """Return the value of a text that is JSON as a whole; an empty list if it is not."""
    try:
        held = objects(f'{{"value": {text}\n}}')  # as a field, any value is parsed as leniently as an object
    except UnreadableError:
        return []
    return [held[0]["value"]] if len(held) == 1 and held[0].keys() == {"value"} else []


def check_repair() -> None:
    """Check that broken JSON can be repaired.

    Raises:
        MissingExtraError: the extra ``repair`` is not installed.
    """
    try:
        import json_repair as _  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("repair=True", "repair") from error


def _is_deep(text: str) -> bool:
    """Tell whether brackets nest too deeply for a repair; those in strings count, too."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "{[" else max(depth - 1, 0)
        if depth > _DEEPEST_TO_REPAIR:
            return True
    return False


def repaired(text: str) -> list[Value]:
    """Return the value that broken JSON probably means; an empty list if it cannot be guessed."""
    import json_repair

    start = _OPENS.search(text)
    if start is None or len(text) > _LONGEST_TO_REPAIR or _is_deep(text):
        return []
    try:
        value: Value = json_repair.loads(text[start.start() :], skip_json_loads=True, strict=True)
    except (ValueError, RecursionError):
        return []
    return [value] if isinstance(value, (dict, list)) else []


def to_texts(data: Value) -> list[str]:
    """Return JSON data as texts that guards can read: strings that JSON would escape stand unescaped at odd indices.

    The texts at even indices are JSON. `from_texts` makes JSON of all of them.
    """
    texts = [""]
    for piece, is_raw in _pieces(data):
        if is_raw:
            texts += [piece, ""]
        else:
            texts[-1] += piece
    return texts


def from_texts(texts: Sequence[str]) -> str:
    """Return the JSON of texts that `to_texts` made, whatever they hold by now."""
    return "".join(_json(text)[1:-1] if place % 2 else text for place, text in enumerate(texts))


def _pieces(data: Value) -> Iterator[tuple[str, bool]]:
    if is_mapping(data):
        pairs = ([*_pieces(str(key)), (": ", False), *_pieces(item)] for key, item in data.items())
        yield from _listed("{", pairs, "}")
    elif is_items(data):
        yield from _listed("[", map(_pieces, data), "]")
    elif isinstance(data, str) and _json(data) != f'"{data}"':
        yield from (('"', False), (data, True), ('"', False))
    else:
        yield _json(data), False


def _listed(begin: str, entries: Iterable[Iterable[tuple[str, bool]]], end: str) -> Iterator[tuple[str, bool]]:
    yield begin, False
    for number, entry in enumerate(entries):
        if number:
            yield ", ", False
        yield from entry
    yield end, False


def _json(data: Value) -> str:
    return json.dumps(data, ensure_ascii=False)
