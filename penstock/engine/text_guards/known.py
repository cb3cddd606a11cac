"""Texts that are known to be clean: a guard that has judged a text and found nothing does not read it again.

Each guard whose findings depend on the text and its place alone (`TextGuard.judges_alone`) has a table of hashes
(`clean_texts`), which all requests of the process share. A hash is of a whole message, of a whole value (the arguments
or the result of a tool), or of one text in a value, each with all that the guard could go by: kinds, keys, paths, and
the direction. So a text in another place is another text, and texts that are read as one are known as one.

A table holds no text, and nothing that a guard has found anything in, failed on, or could not read.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import TYPE_CHECKING

from penstock.engine.processor.stages import STAGES
from penstock.engine.text_guards import clean_texts
from penstock.engine.text_guards.clean_texts import table_of
from penstock.engine.text_guards.components import Search
from penstock.engine.text_guards.reading import VALUES, holds_unread, is_minted
from penstock.engine.text_guards.reporting import field_of, note_counts
from penstock.engine.text_guards.views import view_of_value
from penstock.engine.text_guards.window import NOWHERE
from penstock.engine.values.edits import Edits
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.messages import TextPart
from penstock.engine.values.texts import KeyText, TextPlace
from penstock.engine.workers import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.clean_texts import CleanTexts, Guard, Left
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message

_PAYLOAD = ("payload",)
_INPUT, _OUTPUT, _EITHER = b"i", b"o", b"r"
_TO_MODEL = ("result", "error")

TOOL_VALUES = ("arguments", *_TO_MODEL)
"""The fields of a call of a tool that hold values."""


class PlaceEdits(dict[TextPlace, Edits]):
    """The edits of texts by place, and which texts are not clean.

    Attributes:
        held: the places of texts that hold something, or on which the guard failed.
        left: scores and the like of texts that were read as one, by the place of the first of them.
    """

    __slots__ = ("held", "left")

    def __init__(self, edits: Iterable[tuple[TextPlace, Edits]] = ()) -> None:
        super().__init__(edits)
        self.held: set[TextPlace] = set()
        self.left: dict[TextPlace, Left] = {}


# One call


_DIGESTS = object()  # the name of a view


def _no_digests(_: object) -> dict[int, tuple[Message, bytes | None]]:
    """Return the hashes of messages, by their identity, for all guards of a stage: none so far."""
    return {}


class KnownTexts:
    """The texts that a guard knows, in one call of the guard. At its end, it learns which of the others are clean."""

    __slots__ = (
        "_clean",
        "_counts",
        "_ctx",
        "_digests",
        "_direction",
        "_evidence",
        "_fresh",
        "_left",
        "_search",
        "_table",
        "_within",
    )

    def __init__(self, table: CleanTexts | None, search: Search, ctx: AnyContext, evidence: bytes) -> None:
        self._table = table
        self._search = search
        self._ctx = ctx
        self._evidence = evidence
        self._digests = view_of_value(_DIGESTS, _no_digests)
        self._direction = _INPUT if STAGES[ctx.stage].phase == "input" else _OUTPUT
        self._fresh: dict[object, bytes] = {}  # by its place, the key of what is not known
        self._clean: set[object] = set()
        self._within: dict[object, list[object]] = {}  # by message, scores and the like of known values in it
        self._left: list[object] = []
        self._counts: dict[str, int] = {}

    def unknown(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages of which not all texts are known."""
        table, digests, rest = self._table, self._digests, self._direction + self._evidence
        if table is None:
            return messages
        fresh: list[Message] = []
        for message in messages:
            found = digests.get(id(message))
            if found is None or found[0] is not message:
                found = digests[id(message)] = message, _message_digest(message)
            key = b"" if found[1] is None else found[1] + rest
            left = table.get(key)
            if left is None:
                fresh.append(message)
                if key:
                    self._fresh[message.id] = key
            elif left:
                self._left.extend(left)
        if len(fresh) < len(messages):
            self._counts["messages"] = len(messages) - len(fresh)
        return fresh

    def knows_value(self, value: Value, place: TextPlace) -> bool:
        """Return whether all texts of a tool's arguments or result are known; ``place`` is that of the value."""
        table, field = self._table, field_of(in_stage(place))
        digest = None if table is None or field not in TOOL_VALUES else view_of_value(value, _value_digest)
        if table is None or digest is None:
            return False
        key = digest + self._way_of(place) + field.encode() + self._evidence
        left = table.get(key)
        if left is None:
            self._fresh[_of_value(place)] = key
            return False
        self._count("values", left)
        self._within.setdefault(place.message_id, []).extend(left)
        return True

    def without_known(self, payload: Mapping[str, Value], texts: list[Text]) -> list[Text]:
        """Return the texts of a chunk about a tool without those of the values that are known.

        Values with content that no guard can read are never known, so that each stage reports them.
        """
        place = TextPlace("", 0, _PAYLOAD)
        values = [(field, payload[field]) for field in TOOL_VALUES if payload.get(field) is not None]
        known = [
            field
            for field, value in values
            if not holds_unread(value) and self.knows_value(value, place._replace(path=(*_PAYLOAD, field)))
        ]
        return [text for text in texts if text.place.path[1] not in known] if known else texts

    def has_read(self, run: Sequence[Text]) -> bool:
        """Return whether a text that is read alone was clean before in this call, in a place of the same kind."""
        return len(run) == 1 and self._same(run[0]) in self._clean

    def note_clean(self, run: Sequence[Text]) -> None:
        """Note that a text is clean, and has left nothing to tell."""
        if len(run) == 1:
            self._clean.add(self._same(run[0]))

    def _same(self, text: Text) -> object:
        """Return all of a text that the guard goes by."""
        if self._search.reads_paths:
            return text
        path = text.place.path
        return text[1:], path[1] if path[0] == "payload" else path[0]

    def left_by(self, run: Sequence[Text]) -> tuple[bytes, Left | None]:
        """Return the key of a text of a value that is read alone, and its scores and the like if it is known.

        The key of other texts is empty: they are known as part of a message or a value.
        """
        text = run[0]
        if self._table is None or len(run) > 1 or text.kind not in VALUES:
            return b"", None
        same = text if self._search.reads_paths else text._replace(place=NOWHERE)
        key = _text_digest(same) + self._way_of(text.place) + self._evidence
        left = self._table.get(key)
        if left is not None:
            self._count("texts", left)
        return key, left

    def learn(self, key: bytes, left: Left) -> None:
        """Add a clean text, unless its key is empty."""
        if self._table is not None and key:
            checkpoint()  # a call whose time is up learns nothing
            self._table.add(key, left)

    def forget(self, message_id: str) -> None:
        """Learn nothing about a message: there is something in it that cannot be read."""
        self._fresh.pop(message_id, None)
        self.forget_values(message_id)

    def forget_values(self, message_id: str) -> None:
        """Learn nothing about the values in a message: a text in one of them is read in another place only."""
        fresh = self._fresh.items()
        self._fresh = {at: key for at, key in fresh if not (isinstance(at, tuple) and at[0] == message_id)}

    def learn_all(self, judged: object, texts: Iterable[Text]) -> None:
        """Learn which of the messages and values are clean that were asked about, and that were judged since."""
        if self._table is None or not self._fresh or not isinstance(judged, PlaceEdits) or has_failed(self._ctx):
            return
        held: set[object] = set()
        if judged.held:
            held.update(place.message_id for place in judged.held)
            held.update(map(_of_value, judged.held))
        if type(self._search).joins_beyond is not Search.joins_beyond:
            held |= {_of_value(text.place) for text in texts if self._search.joins_beyond(text)}
        checkpoint()
        left = {message_id: tuple(own) for message_id, own in self._within.items()}
        for place, own in judged.left.items():
            for at in (place.message_id, _of_value(place)):
                left[at] = (*left.get(at, ()), *own)
        for where, key in self._fresh.items():
            if where not in held:
                self._table.add(key, left.get(where, ()))

    def tell(self) -> None:
        """Report how much was known since the last time, and its scores and the like."""
        counts, left = self._counts, self._left
        if not counts and not left:
            return
        self._counts, self._left = {}, []
        if counts:
            note_counts(self._ctx, "known", counts)
        if left:
            self._search.recall(self._ctx, left)

    def _count(self, what: str, left: Left) -> None:
        self._counts[what] = self._counts.get(what, 0) + 1
        if left:
            self._left.extend(left)

    def _way_of(self, place: TextPlace) -> bytes:
        return _EITHER if goes_to_model(place) else self._direction


def has_failed(ctx: AnyContext) -> bool:
    """Return whether the guard has failed on a text, or stopped the run, in the call so far."""
    effects = ctx.effects
    return effects is not None and (effects.failure is not None or effects.tripwire is not None)


def writes(ctx: AnyContext) -> int:
    """Return how often the guard has written something in the call so far: to the record, to facts, to the client."""
    return 0 if ctx.effects is None else ctx.effects.count


def known_texts(guard: Guard, ctx: AnyContext) -> KnownTexts | None:
    """Return the texts that a guard knows; None if it does not judge texts alone."""
    if not (guard.judges_alone and guard.judges_by_text):
        return None
    table, evidence = table_of(guard), guard.search.evidence(ctx)
    if evidence is None or not table.is_used:
        return None
    return KnownTexts(table if table.most else None, guard.search, ctx, evidence)


def goes_to_model(place: TextPlace) -> bool:
    """Return whether a text stands in the result of a tool, which goes to the model, in whatever stage it is read."""
    return field_of(in_stage(place)) in _TO_MODEL


def in_stage(place: TextPlace) -> TextPlace:
    """Return a place without the name of the payload that chunks have."""
    return place._replace(path=place.path[1:]) if place.path[:1] == _PAYLOAD else place


def _of_value(place: TextPlace) -> tuple[str, int, str]:
    return place.message_id, place.part, field_of(in_stage(place))


# Hashes


def _digest(what: bytes, value: object) -> bytes:
    return _hash(what, _encode(value))


def _hash(what: bytes, written: str) -> bytes:
    return blake2b(written.encode("utf-8", "surrogatepass"), key=clean_texts.salt, person=what, digest_size=16).digest()


def hash_of(texts: object) -> bytes:
    """Return the hash of texts in lists, for `Search.evidence`."""
    return _digest(b"evidence", texts)


_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode


def _value_digest(value: Value) -> bytes | None:
    """Return the hash of a JSON value; None for other values."""
    return _digest_of_json(b"value", value)


def _digest_of_json(what: bytes, value: Value) -> bytes | None:
    try:
        return _digest(what, value) if _is_json(value) else None
    except (TypeError, ValueError, RecursionError):  # JSON cannot say it
        return None


def _is_json(value: object) -> bool:
    """Return whether a value is no more than its JSON: all keys are texts, and no text or number has its own class."""
    if is_mapping(value):
        if not all(type(key) is str for key in value):
            return False
        inner: Iterable[object] = value.values()
    elif is_items(value):
        inner = value
    else:
        return type(value) in _LEAVES
    return all(_is_json(item) for item in inner if type(item) not in _LEAVES)


_LEAVES = frozenset({str, int, float, bool, type(None)})


def _message_digest(message: Message) -> bytes | None:
    """Return the hash of all that can be read in a message; None if it holds other things than JSON can say."""
    ids = (message.id, message.thread_id, message.resource_id) if message.from_client else ()
    own = [message.role, message.name, *["" if id is None or is_minted(id) else id for id in ids]]
    parts = message.parts
    if len(parts) == 1 and type(parts[0]) is TextPart and not parts[0].metadata and not message.metadata:
        own.append(parts[0].text)
        if set(map(type, own)) <= _SAID:  # by far the most
            return _hash(b"message", repr(own))
    fields = [[getattr(part, name) for name in part.__match_args__] for part in parts]
    return _digest_of_json(b"message", (own, message.metadata, fields))


_SAID = frozenset({str, type(None)})


def _text_digest(text: Text) -> bytes:
    path = in_stage(text.place).path
    steps = [step if isinstance(step, str) else (step,) if isinstance(step, KeyText) else 0 for step in path]
    return _digest(b"text", (text.kind, text.key, text.fixed, text.number, steps, text.text))
