"""`Endpoint`: a protocol, as the gateway needs to know it. Each file of this package holds one."""

from __future__ import annotations

from copy import copy, deepcopy
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, ClassVar

from penstock.workflows.gateway.http import HttpReply, UpstreamError
from penstock.workflows.gateway.json_text import read_json, write_json
from penstock.workflows.gateway.tables import with_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.engine.values.model import ToolSpec
    from penstock.engine.values.tripwire import Tripwire
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.http import Headers
    from penstock.workflows.gateway.sections import RequestSection
    from penstock.workflows.gateway.tables import Obj, Path, Place, Spec


JSON_HEADERS: Headers = (("content-type", "application/json"),)
STREAM_HEADERS: Headers = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A verdict for a client, without its reason.

    Attributes:
        text: the words for the client.
        style: ``refusal``: an answer of the model that refuses; ``error``: an error.
        status: the HTTP status of an error.
        code: the code of an error.
        details: whether the client is told of the guard and its findings: in a header, and as a ``moderation``
            object where the protocol has one.
        tripwire: the verdict, for the operator.
    """

    text: str
    style: str = "refusal"
    status: int = 400
    code: str = "content_filter"
    details: bool = False
    tripwire: Tripwire | None = None


@dataclass(slots=True)
class SentEvents:
    """The part of a streamed answer that has left, for those who have to end it.

    Attributes:
        first: the first event that left, as it left; empty before that.
        events: how many events have left.
        open: the blocks of which a piece has left, and no end.
        marks: the items that the protocol has begun and not ended; see `Endpoint.left`.
        model: the model of the request.
        spelled: returns the part of a text that has left, by the name of the text.
    """

    first: Json = field(default_factory=dict[str, "Value"])
    events: int = 0
    open: dict[str, None] = field(default_factory=dict[str, None])
    marks: dict[str, str] = field(default_factory=dict[str, str])
    model: str = ""
    spelled: Callable[[str], str] = field(default=lambda _: "", repr=False)
    _last: Json | bytes = b"{}"

    def pass_on(self, data: Json | bytes) -> None:
        """Note that an event leaves, as it leaves: its data, parsed or not; empty if it has none."""
        self.events += 1
        if data:
            self.first = self.first or (read_json(data) if isinstance(data, bytes) else data)
            self._last = data

    def copied(self) -> SentEvents:
        """Return a copy, which later events do not change."""
        made = copy(self)
        for each in fields(self):
            if each.name != "spelled":
                one: Value = getattr(self, each.name)
                setattr(made, each.name, deepcopy(one))
        return made

    def set_back(self, before: SentEvents) -> None:
        """Forget the events since a copy was made: they have not left."""
        for each in fields(self):
            setattr(self, each.name, getattr(before, each.name))

    @property
    def last(self) -> Json:
        """The last event that left; empty if none has."""
        last: Json = read_json(self._last) if isinstance(self._last, bytes) else self._last
        return last


class Endpoint:
    """A protocol. Its objects hold no data of a request.

    A subclass sets the attributes, and overrides the methods in which its protocol differs.

    Attributes:
        name: the name of the protocol, as users write it.
        paths: the paths that it is served at.
        request: the table of its requests.
        answer: the table of a whole answer.
        events: by the type of a streamed event, its table; under the empty type, that of all events without one.
        has_answer: whether a model answers in words; if not, a verdict is an error, and no stage judges an answer.
        method: the HTTP method.
        names_come_whole: whether the name of a tool comes in one event.
        broken_seal: the text in the place of a signature whose own text was changed.
        forced: by field, the value that a request is sent with where the client gave none.
        limits: the fields with the most tokens of an answer; the first that is given counts.
        closed: by path, why nothing under it is passed to the provider, and what to do.
    """

    name: ClassVar[str]
    paths: ClassVar[tuple[str, ...]]
    request: ClassVar[Obj]
    answer: ClassVar[Obj]
    events: ClassVar[Mapping[str, Spec]] = {}
    has_answer: ClassVar[bool] = True
    method: ClassVar[str] = "POST"
    names_come_whole: ClassVar[bool] = False
    broken_seal: ClassVar[str] = ""
    forced: ClassVar[Mapping[str, Value]] = {}
    closed: ClassVar[Mapping[str, str]] = {}
    limits: ClassVar[tuple[str, ...]] = ("max_tokens",)

    # Requests

    def cleaned(self, body: Json) -> Json:
        """Return a request without parts that every provider refuses; the same object if there are none."""
        return body

    def fitted(self, body: Json) -> Json:
        """Return a request whose conversation guards have changed, as a provider takes it."""
        return body

    def sections(self, body: Json) -> Sequence[RequestSection]:
        """Return the parts of a request that hold its conversation, in the order in which the model reads them."""
        raise NotImplementedError

    def tools(self, body: Json) -> Mapping[int, ToolSpec]:
        """Return the functions that the client offers, by their index in ``tools``."""
        del body
        return {}

    def settings(self, body: Json) -> Json:
        """Return the most tokens that all answers to a request may have, as settings of a model; empty without one."""
        if not self.has_answer:
            return {"max_tokens": 0}
        found = next((body[name] for name in self.limits if type(body.get(name)) is int), None)
        answers = max([1, *(body[name] for name in ("n", "best_of") if type(body.get(name)) is int)])
        return {} if found is None else {"max_tokens": found * answers}

    def streams(self, body: Json) -> bool:
        """Return whether the client asks for a stream."""
        return body.get("stream") is True

    # Answers

    def event_type(self, event: str, data: Json) -> str | None:
        """Return the type of a streamed event, a key of ``events``; None if the table does not know it."""
        del event
        kind: Value = data.get("type", "")
        return kind if isinstance(kind, str) and kind in self.events else None

    def block(self, place: Place, data: Json) -> str:
        """Return the name of the text, or of the call, that a leaf belongs to. It begins with that of its answer."""
        raise NotImplementedError

    def joined(self, block: str) -> str:
        """Return the name of the answer in which a reader joins a text with others, in the order of their beginnings.

        Args:
            block: the name of the text.
        """
        return block.partition(".")[0]

    def part(self, block: str) -> str | None:
        """Return the part with a text, if a reader joins the texts of an answer in the order of its numbered parts.

        Args:
            block: the name of the text.
        """
        del block
        return None

    def ended(self, data: Json) -> tuple[str, ...]:
        """Return the beginnings of the names of the blocks that end with an event."""
        del data
        return ()

    def opened(self, data: Json) -> str | None:
        """Return the part that begins with an event: the beginning of the names of its blocks. None if none begins."""
        del data
        return None

    def ends(self, data: Json) -> bool:
        """Return whether an event says that the whole answer is there: it leaves when all of it is judged."""
        del data
        return False

    def overtakes(self, data: Json) -> bool:
        """Return whether an event may leave before those that wait, since it says nothing: a ping."""
        del data
        return False

    def usage(self, data: Json) -> tuple[int, int] | None:
        """Return the tokens of the prompt and of the answer that an event or an answer reports."""
        del data
        return None

    def finish_reason(self, data: Json) -> str | None:
        """Return why the answer ended, in Penstock's words, if an event or an answer says so."""
        del data
        return None

    def tokens(self, value: Value) -> str | None:
        """Return the text that the tokens of a text spell; None if they hold others, or are malformed."""
        del value
        return None

    def left(self, sent: SentEvents, data: Json) -> None:
        """Note in ``sent.marks`` the items that a leaving event begins or ends; not called for mere pieces of text."""

    def added(self, kind: str, data: Json, path: Path, text: str) -> tuple[str, Json]:
        """Return an event for text that was added to a block.

        Args:
            kind: the type of an event with text of that block.
            data: its data.
            path: where the text stands there.
            text: the added text.
        """
        return kind, with_values(data, {path: text})

    def number(self, data: Json) -> int | None:
        """Return the number of an event among all of an answer; None if the protocol counts none."""
        del data
        return None

    def renumbered(self, number: int) -> Mapping[Path, Value]:
        """Return the changes of an event that leaves with another number, since events were added before it."""
        del number
        return {}

    def begin(self, model: str) -> SentEvents:
        """Return the notes about a leaving answer of a model; nothing has left yet."""
        return SentEvents(model=model)

    # Verdicts and errors

    def error(self, status: int, code: str, message: str) -> Json:
        """Return the body of an error."""
        kind = "invalid_request_error" if status < 500 else "api_error"  # noqa: PLR2004 - of HTTP
        kind = code if code == "insufficient_quota" else kind  # as OpenAI says it
        return {"error": {"message": message, "type": kind, "param": None, "code": code}}

    def refused(self, status: int, code: str, message: str, headers: Headers = ()) -> HttpReply:
        """Return an error as a reply."""
        return HttpReply(status, (*JSON_HEADERS, *headers), write_json(self.error(status, code, message)))

    def refusal(self, refusal: Refusal, model: str) -> Json:
        """Return a whole answer that refuses."""
        raise NotImplementedError

    def refusal_events(self, refusal: Refusal, sent: SentEvents) -> Sequence[bytes]:
        """Return the events that end a stream with a verdict, as bytes."""
        raise NotImplementedError

    def error_events(self, code: str, message: str, sent: SentEvents) -> Sequence[bytes]:
        """Return the events that end a stream with an error, as bytes."""
        raise NotImplementedError


def index_in(holder: Json, key: str, usual: int | None = None) -> int | None:
    """Return the number of a part, as an event or a choice says it; what is usual where nothing is said.

    Raises:
        UpstreamError: it is no whole number: clients differ about ``0.0``, ``"0"``, ``true`` and ``-1``.
    """
    index: Value = holder.get(key)
    if index is None:
        return usual
    if type(index) is not int or index < 0:
        raise UpstreamError("malformed", f"the provider sent a part of its answer whose {key} is no whole number")
    return index
