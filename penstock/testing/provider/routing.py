"""Says what a request gets: which endpoint it is for, what the script has for it, and how that goes on the wire.

It knows no socket.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from penstock.engine.values.frozen import Values
from penstock.testing.provider import endpoints
from penstock.testing.provider.chat import completion, events
from penstock.testing.provider.encode import encoded
from penstock.testing.provider.received import Received
from penstock.testing.provider.wire import Reply, Sent, Wire, error, failing
from penstock.testing.turns import Script, Turn, failure, turn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.testing.provider.encode import Encoded

Item: TypeAlias = str | Values | Turn | Reply | Sent | None
"""What a script has for a request: what the model says (a str, a turn), what the server answers, or, as None, that it
answers as it would without a script."""

ScriptItems: TypeAlias = Sequence[Item | Callable[[Received], Item]] | Callable[[Received], Item]

_ENDPOINTS = ("/chat/completions", "/embeddings", "/moderations", "/models")
"""Known by how their paths end: providers put them in different places."""

_PLAIN = Wire()


@dataclass(frozen=True, slots=True)
class Routing:
    """What the provider has to say.

    Attributes:
        script: what chat completions get.
        others: what requests to the other endpoints get, by the end of their path.
        embed: the vector of a text.
        moderate: the scores of a text.
        models: which models there are.
        key: the key that requests must have; None: any, or none.
        numbers: those of the answers.
    """

    script: Script[Received, Item]
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    others: Mapping[str, Script[Received, Item]] = field(default_factory=dict[str, "Script[Received, Item]"])
    embed: Callable[[str], Sequence[float]] | None = None
    moderate: Callable[[str], Mapping[str, float]] | None = None
    models: Sequence[str] = ()
    key: str | None = None

    def answer(self, request: Received) -> tuple[Encoded, Wire]:
        """Return what a request gets, and the wire it goes on."""
        endpoint = next((end for end in _ENDPOINTS if request.path.rstrip("/").endswith(end)), None)
        problem = self._problem(request, endpoint)
        if problem is not None or endpoint is None:
            return encoded(problem or Reply(status=404), _PLAIN), _PLAIN
        item = self._item(request, endpoint)
        wire = item.wire if isinstance(item, Sent) else _PLAIN
        said = item.item if isinstance(item, Sent) else item
        if said is None:
            made: Reply | Iterable[Values] = self._usual(request, endpoint)
        elif isinstance(said, Reply):
            made = said
        else:
            told = turn(said)
            wire = replace(wire, cut_at=0) if told.plain_error is not None else wire
            made = endpoints.problem_with_chat(request) or self._said(told, request, wire)
        return encoded(made, wire), wire

    def _problem(self, request: Received, endpoint: str | None) -> Reply | None:
        """Return what a request gets that no endpoint can take."""
        if endpoint is None:
            return Reply(error(f"Unknown request URL: {request.method} {request.path}", code="unknown_url"), 404)
        if request.method != ("GET" if endpoint == "/models" else "POST"):
            return Reply(error(f"Not allowed to {request.method} here", code="method_not_supported"), 405)
        if self.key is not None and not request.has_key(self.key):
            return Reply(error("Incorrect API key provided", code="invalid_api_key"), 401)
        if endpoint == "/models":
            return None
        return endpoints.problem_with_body(
            request, needs_model=endpoint != "/moderations" and "/deployments/" not in request.path
        )

    def _item(self, request: Received, endpoint: str) -> Item:
        chat = endpoint == "/chat/completions"
        script = self.script if chat else self.others.get(endpoint)
        try:
            return None if script is None else script.take(request)
        except IndexError:
            return _exhausted(len(self.script)) if chat else None

    def _usual(self, request: Received, endpoint: str) -> Reply:
        if endpoint == "/embeddings":
            return endpoints.embeddings(request, self.embed)
        if endpoint == "/moderations":
            return endpoints.moderations(request, self.moderate)
        return endpoints.models(self.models) if endpoint == "/models" else _exhausted(len(self.script))

    def _said(self, told: Turn, request: Received, wire: Wire) -> Reply | Iterable[Values]:
        """Return a turn as an answer to a request for a chat completion."""
        streamed = request.streamed if wire.stream is None else wire.stream
        broken = told.error if told.error is not None or streamed else told.stream_error
        if broken is not None:
            return _failed(broken)
        id = f"chatcmpl-{next(self.numbers):06}"
        if streamed:
            return list(events(told, request, wire, id))  # now: what is wrong with a turn is the script's fault
        return Reply(completion(told, request, wire, id))


def _failed(told: object) -> Reply:
    what = failure(told)
    reply = failing(what.status or 500, what.message, code=what.code)
    headers = {} if what.retry_after is None else {"retry-after": format(what.retry_after, "g")}
    return replace(reply, headers=headers)


def _exhausted(length: int) -> Reply:
    text = f"the script has {length} answers, and this is one request more; repeat_last=True repeats the last"
    return Reply(error(text, code="script_exhausted"), 400)
