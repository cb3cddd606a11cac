"""Metadata of parts that have ``providerMetadata`` (UI, stored) or ``providerOptions`` (model): it is the part's own.

What other formats noted goes out under their names among the providers', and comes back from there.
This module knows no kind of part.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from penstock.engine.formats.wire import Json, Value, foreign, is_empty, is_object, kept, notes_of, restored, unknown
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import UnknownPart

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from penstock.engine.formats.wire import Value
    from penstock.engine.values.messages import Message, Part


_JOINERS = {"lines": "\n", "plain": "", "words": " ", "paragraphs": "\n\n"}


def rule_of(pieces: Sequence[str], copy: str) -> str | None:
    """Return the rule by which a copy follows from its pieces, None if it does not."""
    if not pieces:
        return None
    for rule, joiner in _JOINERS.items():
        if joiner.join(pieces) == copy:
            return rule
    if copy == pieces[-1]:
        return "last"
    return "first" if copy == pieces[0] else None


def copied(pieces: Sequence[str], rule: Value) -> str:
    """Return the copy that a rule makes from the pieces; lines, if it is no rule of ours."""
    if pieces and rule in ("last", "first"):
        return pieces[-1] if rule == "last" else pieces[0]
    return _JOINERS.get(rule if isinstance(rule, str) else "", "\n").join(pieces)


def cut(text: str, lengths: Sequence[Value], count: int) -> list[str]:
    """Return the text in that many pieces: of the given lengths, if they fit, else all of it in the first."""
    fits = all(isinstance(length, int) and length >= 0 for length in lengths)
    if count and fits and len(lengths) == count and sum(lengths) == len(text):
        return [text[start:end] for start, end in pairwise(accumulate(lengths, initial=0))]
    return [text, *[""] * (count - 1)][:count]


STORED = "stored"
UI = "ai-sdk-ui"
MODEL = "ai-sdk-model"
PROVIDER = "providerMetadata"
CALL_PROVIDER = "callProviderMetadata"
OPTIONS = "providerOptions"
_CHAT_FORMATS = frozenset({"openai-chat", "openai-responses"})


def read_metadata(item: Json, fmt: str, known: Collection[str], notes: Json | None = None, key: str = PROVIDER) -> Json:
    """Return a part's metadata: what stands under ``providerMetadata``, and notes on what Penstock has no field for."""
    given = item.get(key)
    extra = unknown(item, {*known, key}, known)
    if is_object(given) and given and fmt not in given:
        return kept(fmt, {**(notes or {}), "extra": extra}, given)
    return kept(fmt, {**(notes or {}), "extra": extra, "metadata": None if is_empty(given) else given})


def write_metadata(body: Json, value: Message | Part, fmt: str, known: Collection[str], key: str = PROVIDER) -> Json:
    """Return a wire object with the part's metadata and unknown keys laid under it."""
    notes = notes_of(value, fmt)
    metadata: Value = foreign(value, fmt) or notes.get("metadata")
    if metadata is not None:
        body = {**body, key: metadata}
    return restored(body, notes, {*known, key})


def read_unknown(item: Json) -> UnknownPart:
    """Return the part as it is, without what other formats noted about it."""
    given = item.get(PROVIDER)
    if is_object(given) and not _CHAT_FORMATS.isdisjoint(given):
        return UnknownPart({key: value for key, value in item.items() if key != PROVIDER}, given)
    return UnknownPart(item)


def write_unknown(part: UnknownPart, fmt: str) -> Json:
    """Return the part as it was, with what other formats noted about it."""
    raw: Value = thaw(part.raw)
    noted = foreign(part, fmt)
    made: Json = {**raw, PROVIDER: noted} if noted and is_object(raw) and PROVIDER not in raw else raw
    return made
