"""`TextBlock` and `CallBlock`: a text, or a call of a tool, that the events of an answer spell piece by piece."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from penstock.engine.values.errors import MessageError
from penstock.engine.values.frozen import freeze, thaw
from penstock.workflows.gateway.json_text import AmbiguousJsonError, read_json
from penstock.workflows.gateway.offsets import Moves

if TYPE_CHECKING:
    from penstock.formats.wire import Value
    from penstock.workflows.gateway.tables import Path

_TAIL = 500


class TextBlock:
    """A text of an answer.

    Attributes:
        name: its name in the answer.
        kind: ``text`` or ``reasoning``.
        answer: the answer that it belongs to, where a provider sends several.
        begun: whether the guards know it.
        ends: the number of the event that ended it; None while it is open.
        closed: the number of the event with whose end it last came back from the guards; -1 before that.
        latest: the greatest number of an event whose text came back.
        late: text that came back behind the event it belongs to.
        edited: whether the text that left differs from the text that came.
        interrupted: whether another text of its answer began before all of it was there.
        sample: an event of it as it left: read by a skeleton, or its type, its data, and where the text stands.
        delta: the type of the chunks with its pieces.
    """

    __slots__ = (
        "_came",
        "_left",
        "_moves",
        "answer",
        "begun",
        "closed",
        "delta",
        "edited",
        "ends",
        "interrupted",
        "kind",
        "late",
        "latest",
        "name",
        "sample",
    )

    def __init__(self, name: str, kind: str, answer: str = "") -> None:
        self.name = name
        self.kind = kind
        self.delta = f"{kind}-delta"
        self.answer = answer or name
        self.begun = False
        self.ends: int | None = None
        self.closed = -1
        self.latest = -1
        self.late = ""
        self.edited = False
        self.interrupted = False
        self.sample: object = None
        self._came: list[str] = []
        self._left: list[str | tuple[str, str]] = []  # a str left as it came
        self._moves: Moves | None = None

    def is_under(self, prefix: str) -> bool:
        """Return whether its name is a prefix, or goes on behind it with a dot."""
        return prefix in ("", self.name) or self.name.startswith(f"{prefix}.")

    def came(self, text: str) -> None:
        """Note a piece that came from the provider."""
        self._came.append(text)

    @property
    def original(self) -> str:
        """The text that came."""
        return "".join(self._came)

    @property
    def tail(self) -> str:
        """The end of the text that came so far, long enough for the beginning of a secret."""
        pieces: list[str] = []
        size = 0
        for piece in reversed(self._came):
            pieces.append(piece)
            size += len(piece)
            if size >= _TAIL:
                break
        return "".join(reversed(pieces))[-_TAIL:]

    @property
    def released(self) -> str:
        """The text that left."""
        return "".join([piece if isinstance(piece, str) else piece[1] for piece in self._left])

    def take_late(self) -> str:
        """Return the text that came back late, and forget it."""
        text, self.late = self.late, ""
        return text

    def pass_on(self, text: str) -> None:
        """Note that a piece leaves as it came."""
        self._left.append(text)

    def left(self, text: str, now: str) -> None:
        """Note that a piece leaves, as ``now`` in place of ``text``."""
        self.edited = self.edited or text != now
        self._left.append((text, now))
        self._moves = None

    def moved(self, place: int, *, is_end: bool) -> int:
        """Return where a place in the text that came is in the text that left.

        Args:
            place: the place, in characters.
            is_end: whether it ends a span; else it begins one.
        """
        if not self.edited:
            return place
        if self._moves is None:
            self._moves = Moves((piece, piece) if isinstance(piece, str) else piece for piece in self._left)
        return self._moves.moved(place, is_end=is_end)

    def add_released(self, text: str) -> None:
        """Note text that leaves in an event that was added."""
        self.left("", text)


class CallBlock:
    """A call of a tool.

    Attributes:
        name: its name in the answer, as that of a block.
        id: the provider's id of it.
        tool: the name of the tool.
        complete: whether all of it came.
        back: the arguments as the guards left them; None before that.
        settled: whether it may leave.
        pieces: by the number of an event, where its pieces of the arguments stand.
        repeats: the events that repeat them, and where.
    """

    __slots__ = (
        "_given",
        "_hides",
        "_id",
        "_made",
        "_pieces",
        "_taken",
        "_tool",
        "back",
        "complete",
        "name",
        "pieces",
        "repeats",
        "settled",
        "value",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self._id = ""
        self._tool = ""
        self._pieces: list[Value] = []
        self._given: Value = None
        self._hides = False
        self._taken = False
        self.complete = False
        self.back: Value = None
        self.settled = False
        self.pieces: dict[int, list[Path]] = {}
        self._made: tuple[Value, Value] | None = None
        self.repeats: list[tuple[object, Path]] = []

    def is_under(self, prefix: str) -> bool:
        """Return whether its name is a prefix, or goes on behind it with a dot."""
        return prefix in ("", self.name) or self.name.startswith(f"{prefix}.")

    @property
    def id(self) -> str:
        """The provider's id, or its name in the answer if it has none."""
        return self._id or self.name

    @property
    def tool(self) -> str:
        """The name of the tool; ``tool`` if it has none."""
        return self._tool or "tool"

    @property
    def written(self) -> Value:
        """The arguments as they came: a text, or a JSON value that is none."""
        whole = [piece for piece in self._pieces if not isinstance(piece, str)]
        return whole[-1] if whole else "".join(self._pieces)

    def add(self, kind: str, value: Value, number: int, path: Path) -> None:
        """Add a piece, which stands at a path of the event with that number."""
        if kind == "call_id":
            self._id = self._id or value
        elif kind == "call_name":
            self._tool += value if value != self._tool else ""
        else:
            if self._pieces == [{}]:  # some providers begin a call with empty arguments, and spell them afterwards
                self._pieces.clear()
                self.pieces.clear()
            self._pieces.append(value)
            self.pieces.setdefault(number, []).append(path)

    def repeats_piece(self, kind: str, value: Value) -> bool:
        """Return whether a piece that comes after the end repeats a known value. JSON may be written in another way."""
        known = self.known(kind)
        return bool(value == known) or (kind == "arguments" and _same_json(value, known))

    def known(self, kind: str) -> Value:
        """Return a known part of a call (its id, its tool or its arguments); empty if it is unknown."""
        return {"call_id": self._id, "call_name": self._tool}.get(kind, self.written)

    def read(self) -> Value:
        """Return the arguments as a value: JSON is parsed, other texts stay as they are.

        Raises:
            MessageError: nobody can read them.
        """
        text = self.written
        if not isinstance(text, str):
            if len(self._pieces) > 1:
                raise MessageError("arguments", "come twice, as a value and piece by piece")
            self._given = freeze(text)
            return self._given
        try:
            found: Value = read_json(text) if text.strip() else {}
        except AmbiguousJsonError:
            found, self._hides = json.loads(text), True
        except (ValueError, RecursionError):
            found = text
        if not isinstance(found, dict):
            found = text
        self._given = freeze(found)
        return self._given

    def new_text(self) -> Value:
        """Return the arguments as they are written now; None if they stay as they came."""
        if self._made is None or self._made[0] is not self.back:  # a call may have thousands of pieces
            self._made = self.back, self._new_text()
        return self._made[1]

    def _new_text(self) -> Value:
        if self.back is None or (self.back == self._given and not self._hides):
            return None
        value = thaw(self.back)
        if not isinstance(self.written, str):
            return value
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    def take_text(self, text: Value) -> Value:
        """Return the new version of an event's piece: all of the new text in the first one, nothing in the others."""
        if self._taken:
            return "" if isinstance(text, str) else text
        self._taken = True
        return text


def _same_json(one: Value, other: Value) -> bool:
    """Return whether two texts are the same JSON; an empty one stands for no arguments."""
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    try:
        texts = [one.strip() or "{}", other.strip() or "{}"]
        return bool(read_json(texts[0]) == read_json(texts[1]))
    except (ValueError, RecursionError):
        return False


def frozen_arguments(call: CallBlock) -> Value:
    """Return the arguments of a call as the guards left them, or as they came.

    Raises:
        MessageError: nobody can read them.
    """
    if call.back is not None:
        return call.back
    try:
        return call.read()
    except RecursionError:
        raise MessageError("arguments", "are nested too deeply") from None
