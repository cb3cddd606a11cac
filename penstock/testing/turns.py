"""`Turn`: one answer of a scripted model, or its failure.

A turn can be written as a mapping, as in the conformance scenarios: ``{"text": "Hi"}``, ``{"error": {"status": 429}}``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from penstock.engine.values.errors import UsageError

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values

Asked = TypeVar("Asked")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One answer of a model, or its failure.

    Attributes:
        text: the text of the answer, in one piece; None: no text.
        deltas: the text in pieces; takes the place of ``text``.
        object: a JSON value as the text of the answer, if there is neither ``text`` nor ``deltas``.
        reasoning: reasoning before the text; a sequence is sent in pieces.
        refusal: the words of a refusal.
        tool_calls: mappings with ``name``, ``args`` (a JSON value; a str is sent unchanged, whether it is JSON or not)
            and optionally ``id`` (default: ``call-1`` and so on).
        stream_tool_input: whether the arguments are streamed in pieces.
        usage: the tokens, by the field names of `penstock.engine.values.model.Usage`; None: one token for each word.
        finish_reason: one of `FINISH_REASONS`; None: ``tool-calls`` if there are tool calls, else ``stop``.
        error: the call fails before any answer: a mapping with ``status``, ``message``, and optionally ``code``,
            ``retry_after`` (seconds) and ``retryable``; a str is a message without a status.
        plain_error: the model raises a `RuntimeError` without an answer; a str is its message.
        stream_error: the call fails after the content of this turn; same form as ``error``.
    """

    text: str | None = None
    deltas: Sequence[str] | None = None
    object: Value = None
    reasoning: str | Sequence[str] = ()
    refusal: str | None = None
    tool_calls: Sequence[Values] = ()
    stream_tool_input: bool = False
    usage: Mapping[str, int] | None = None
    finish_reason: str | None = None
    error: str | Values | None = None
    plain_error: Value = None
    stream_error: Value = None

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text in pieces, none of them empty."""
        if self.deltas is not None:
            return tuple(piece for piece in self.deltas if piece)
        text = json.dumps(self.object) if self.text is None and self.object is not None else self.text
        return (text,) if text else ()

    @property
    def reasoning_pieces(self) -> tuple[str, ...]:
        """The reasoning in pieces."""
        return (self.reasoning,) if isinstance(self.reasoning, str) else tuple(self.reasoning)

    @property
    def reason(self) -> str:
        """Why the answer ended."""
        return self.finish_reason or ("tool-calls" if self.tool_calls else "stop")

    @property
    def words(self) -> int:
        """How many words it has, including reasoning, refusal and arguments."""
        texts = ["".join(self.pieces), "".join(self.reasoning_pieces), self.refusal or ""]
        return sum(len(text.split()) for text in [*texts, *(arguments(call) for call in self.tool_calls)])


@dataclass(frozen=True, slots=True)
class Failure:
    """A failure that a turn describes.

    Attributes:
        message: what happened.
        status: the HTTP status, if there was an answer.
        code: the provider's code.
        retry_after: the seconds to wait.
        retryable: whether another attempt may succeed; None: as the status says.
    """

    message: str = "it failed, as the script says"
    status: int | None = None
    code: str | None = None
    retry_after: float | None = None
    retryable: bool | None = None

    @property
    def worth_retrying(self) -> bool:
        """Whether the same request may succeed later: after 408, 409, 429, and 500 or more."""
        if self.retryable is not None:
            return self.retryable
        return self.status is not None and (self.status in {408, 409, 429} or self.status >= 500)  # noqa: PLR2004


def failure(given: Value) -> Failure:
    """Return the failure that a turn describes: by a message, a mapping, or True."""
    if isinstance(given, Mapping):
        known = {field.name for field in fields(Failure)}
        return Failure(**{key: value for key, value in cast("Values", given).items() if key in known})
    return Failure(given) if isinstance(given, str) else Failure()


def arguments(call: Values) -> str:
    """Return the text of a call's arguments."""
    given = call.get("args", {})
    return given if isinstance(given, str) else json.dumps(given)


def call_id(call: Values, index: int) -> str:
    """Return a call's id."""
    return str(call.get("id") or f"call-{index + 1}")


def turn(given: str | Values | Turn) -> Turn:
    """Return the turn that a str (its text) or a mapping describes.

    Raises:
        UsageError: the mapping has an unknown key.
    """
    if isinstance(given, Turn):
        return given
    if isinstance(given, str):
        return Turn(text=given)
    names = [field.name for field in fields(Turn)]
    unknown = {name for name in cast("Mapping[object, Value]", given) if name not in names}
    odd = sorted(name if isinstance(name, str) else repr(name) for name in unknown)
    if odd:
        raise UsageError(f"a turn has no {', '.join(odd)}; its keys are {', '.join(names)}")
    return Turn(**given)


class Script(Generic[Asked, Item]):
    """The items of a script, one for each request, in order. Several threads can take items.

    Args:
        given: the items, each of which may be a function of the request; or one such function, for all.
        repeat_last: whether the last item is repeated for all further requests.

    Raises:
        UsageError: the script is a str.
    """

    def __init__(
        self, given: Sequence[Item | Callable[[Asked], Item]] | Callable[[Asked], Item], *, repeat_last: bool
    ) -> None:
        if isinstance(given, str):
            raise UsageError("a script is a list of answers, or a function; for one answer: [answer]")
        self._items = [given] if callable(given) else list(given)
        self._repeat_last = repeat_last or callable(given)
        self._taken = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many items it has."""
        return len(self._items)

    def take(self, asked: Asked) -> Item:
        """Return the item for a request.

        Raises:
            IndexError: the script has ended.
        """
        with self._lock:
            index, self._taken = self._taken, self._taken + 1
        if self._repeat_last and self._items:
            index = min(index, len(self._items) - 1)
        item: object = self._items[index]
        return cast("Item", item(asked) if callable(item) else item)
