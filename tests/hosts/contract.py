"""What a case of the suite needs of a framework: a driver, which runs one agent on a script and says what was seen.

A driver is a module in `tests.hosts.drivers` with the names in `Driver`. It builds the framework's own agent with the
framework's own fake model, adds the adapter as its documentation says, and reports what the framework's user, its
model, its tools and its history got. It decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Call:
    """A tool call of the scripted model."""

    name: str
    arguments: Mapping[str, Any]
    id: str = "c1"


@dataclass(frozen=True)
class Says:
    """One answer of the scripted model.

    Attributes:
        text: the text; streamed in ``pieces`` where the framework streams.
        pieces: the text in pieces; takes the place of ``text``.
        calls: the tools that it calls.
        fails: the error that the call ends in, before any text.
        reasoning: what it thinks before its text, in pieces.
        breaks: the error that the call ends in after its text; where nothing is streamed, in place of it.
    """

    text: str = ""
    pieces: Sequence[str] = ()
    calls: Sequence[Call] = ()
    fails: Exception | None = None
    reasoning: Sequence[str] = ()
    breaks: Exception | None = None

    @property
    def whole(self) -> str:
        """The whole text."""
        return "".join(self.pieces) or self.text

    @property
    def streamed(self) -> Sequence[str]:
        """The text in pieces."""
        return self.pieces or ([self.text] if self.text else [])


@dataclass
class Job:
    """What a case asks of a framework.

    Attributes:
        script: the answers of the model, in order; with ``gate``, the model waits for it before its last piece.
        text: what the user says.
        guards: processors and workflows; none: the framework as it is, without Penstock.
        options: the options of the adapter.
        streamed: whether the answer is streamed.
        tools: functions with typed arguments and a docstring, by name.
        earlier: the `Memory` of an earlier turn, which the framework goes on with; see `Seen.memory`.
        output_type: the type of the object that the agent answers with; None: text.
        gate: an async function that the model awaits before the last piece of an answer.
    """

    script: Sequence[Says]
    text: str = "Hi"
    guards: Sequence[Any] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    streamed: bool = False
    tools: Sequence[Callable[..., Any]] = ()
    earlier: Any = None
    output_type: Any = None
    gate: Callable[[], Any] | None = None


@dataclass
class Seen:
    """What was seen of a request.

    Attributes:
        shown: the pieces of text that the user saw come; empty where nothing was streamed.
        output: the final answer (text, or object), or None if there is none.
        history: every string in the history that the framework keeps, in order.
        asked: for each request to the model, every string in it.
        events: every string in what the framework streamed beside text: pieces of reasoning and of arguments, results.
        error: what the framework raised, or None.
        tripwire: the verdict, wherever the framework gives it to its user.
        memory: what an earlier turn is gone on with: the framework's session, thread, or list of messages.
    """

    shown: list[str] = field(default_factory=list)
    output: Any = None
    history: list[str] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    error: BaseException | None = None
    tripwire: Any = None
    memory: Any = None

    @property
    def everything(self) -> str:
        """All that the user and the history got."""
        return "\n".join([*self.shown, repr(self.output), *self.history, "".join(self.events)])


class Driver(Protocol):
    """The names that a module of `tests.hosts.drivers` has.

    Attributes:
        NAME: the name of the framework, as in the table of the documentation.
        PACKAGE: its distribution, for its version.
        EXTRA: the extra of penstock that installs it, whose bound is the lowest version; default: the module's name,
            with dashes.
        ADAPTER: the module of the adapter; default: the driver's name.
        REQUIRES: further requirements of the driver, such as ``litellm[proxy]``; default: none.
        LACKS: the cases that the framework cannot offer, with the reason, by the name of the case.
    """

    NAME: str
    PACKAGE: str
    LACKS: Mapping[str, str]

    async def run(self, job: Job) -> Seen:
        """Run one request."""
        ...


def strings(value: object) -> list[str]:
    """Return every string in a JSON value, keys left out."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for item in value.values() for text in strings(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in strings(item)]
    return []
