"""`Payload`, `Changes` between two payloads, and results that a hook may return besides messages.

A payload is what flows through a stage: messages, facts, and the fields that the stage lets steps change. A step is
given a payload and returns one; it never changes the one it was given, so parallel steps can share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from penstock.engine.values.frozen import EMPTY, equal, freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import Entry, MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import Path, TextPlace
    from penstock.engine.values.tripwire import Tripwire


NO_FACTS: Facts = {}
"""The facts of a payload that has none; never written to."""


@dataclass(slots=True)  # immutable by convention, like `Changes`: frozen, each would take twice as long to make
class Put:
    """A change: a value was set.

    Attributes:
        value: the new value.
        step: the path of the step or branch that set it; empty as long as no branch has been named.
        hides: whether text was hidden in what stood there, so that no merge policy may undo it.
    """

    value: Value
    step: str = ""
    hides: bool = False

    def by(self, step: str) -> Put:
        """Return the change, made by a step."""
        return Put(self.value, step, self.hides)


@dataclass(slots=True)
class Added:
    """A change: a message was added.

    Attributes:
        entry: the message, with its source and tag.
        after: the id of the message before it; None where it is the first.
        step: as in `Put`.
        hides: never: nothing stood there.
    """

    hides: ClassVar[bool] = False
    entry: Entry
    after: str | None
    step: str = ""

    def by(self, step: str) -> Added:
        """Return the change, made by a step."""
        return Added(self.entry, self.after, step)


@dataclass(slots=True)
class Gone:
    """A change: a message, a part, or a key was removed.

    Attributes:
        step: as in `Put`.
        hides: as in `Put`.
    """

    step: str = ""
    hides: bool = False

    def by(self, step: str) -> Gone:
        """Return the change, made by a step."""
        return Gone(step, self.hides)


PayloadPath: TypeAlias = tuple[Any, ...]
"""A path from the payload down: ``("messages", id, "parts", 0)``, ``("facts", key)``, ``("fields", "model_settings",
"temperature")``, ``("order",)`` (of the messages), ``("sources", id)`` (source and tag of a message)."""


class Changes:
    """What changed between two payloads; immutable by convention, since one object may be shared.

    Attributes:
        texts: edits of texts, by the place of their text. Texts of fields have an empty message id.
        others: every other change, by its path.
        complete: whether this is all that changed. If not, ``others`` has to be found by comparing the payloads; its
            entries only say where text was hidden, and where parts may have moved.
    """

    __slots__ = ("complete", "others", "texts")

    def __init__(
        self,
        texts: Mapping[TextPlace, Edits],
        others: Mapping[PayloadPath, Put | Added | Gone],
        *,
        complete: bool = True,
    ) -> None:
        self.texts = texts
        self.others = others
        self.complete = complete

    def __bool__(self) -> bool:
        """Tell whether anything changed."""
        return bool(self.texts or self.others) or not self.complete

    def __repr__(self) -> str:
        """Show places; never a text."""
        return f"Changes({list(self.texts)!r}, {list(self.others)!r}, complete={self.complete})"


NO_CHANGES = Changes({}, {})
"""Nothing changed."""


class Payload:
    """The data that one step passes to the next. It is never changed once made.

    Attributes:
        message_list: the conversation.
        facts: what steps found out, by key.
        fields: other data that steps of the stage may change, by name (overrides, arguments, a result …).
        data: data chunks that hooks wrote, in order.
        tripwire: the verdict, if one stopped the run.
        failure: the error behind the verdict, if a step's failure is what blocks.
        finished: whether nothing further may run in this stage (a verdict, or an answer that ends the stage).
        changes: what changed since the last fork into parallel branches; None outside of one, where nothing is merged.
        length: roughly how many characters there are to read; None until it is asked for (`offloading.is_long`).
    """

    __slots__ = ("changes", "data", "facts", "failure", "fields", "finished", "length", "message_list", "tripwire")

    def __init__(
        self,
        message_list: MessageList,
        facts: Facts = NO_FACTS,
        fields: Values = EMPTY,
        data: tuple[Chunk, ...] = (),
        tripwire: Tripwire | None = None,
        finished: bool = False,  # noqa: FBT001, FBT002 - a field, no switch
        changes: Changes | None = None,
    ) -> None:
        self.message_list = message_list
        self.facts = facts
        self.fields = fields
        self.data = data
        self.tripwire = tripwire
        self.finished = finished
        self.changes = changes
        self.failure: Exception | None = None
        self.length: int | None = None

    def stopped(self, tripwire: Tripwire | None, failure: Exception | None = None) -> Payload:
        """Return the payload with a verdict; its edits and data no longer count."""
        made = Payload(self.message_list, self.facts, self.fields, (), tripwire, True, self.changes)  # noqa: FBT003
        made.failure = failure
        return made

    def tracked(self) -> Payload:
        """Return the payload as the base of parallel branches: their changes are kept in `changes`."""
        return Payload(self.message_list, self.facts, self.fields, (), None, self.finished, NO_CHANGES)

    def differs(self, other: Payload) -> bool:
        """Return whether messages or fields differ; facts and data chunks do not count."""
        if self is other:
            return False
        return self.message_list != other.message_list or not equal(self.fields, other.fields)

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same content; the logs of edits do not count."""
        return isinstance(other, Payload) and _content(self) == _content(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show shapes; never a text."""
        return f"Payload({self.message_list!r}, facts={list(self.facts)!r}, tripwire={self.tripwire!r})"


def _content(payload: Payload) -> tuple[object, ...]:
    return (payload.message_list, payload.facts, payload.fields, payload.data, payload.tripwire, payload.finished)


@dataclass(frozen=True, slots=True)
class Retry:
    """What `process_api_error` returns to make the failed model call again.

    Attributes:
        after: seconds to wait before it; at least 0.
        messages: changed messages, in any form that a hook may return.
    """

    after: float = 0.0
    messages: MessageList | Sequence[Message] | None = None

    def __post_init__(self) -> None:
        """Refuse a negative wait.

        Raises:
            ValueError: ``after`` is below 0.
        """
        if not self.after >= 0:
            text = f"Retry(after=…) takes seconds, 0 or more, not {self.after!r}"
            raise ValueError(text)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What `process_input_step` returns to change the next model call only. None leaves a field unchanged.

    Attributes:
        model: the model, or its name.
        tools: the tools by name; they replace the earlier ones.
        tool_choice: how the model may choose tools.
        active_tools: the names of the tools that are offered; they replace the earlier ones.
        model_settings: settings to merge into the earlier ones, key by key.
        provider_options: options to merge into the earlier ones, key by key.
        response_format: the structure that the answer must have.
        messages: changed messages, in any form that a hook may return.
    """

    model: Value = None
    tools: Values | None = None
    tool_choice: Value = None
    active_tools: Sequence[str] | None = None
    model_settings: Values | None = None
    provider_options: Values | None = None
    response_format: Value = None
    messages: MessageList | Sequence[Message] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A ready answer, returned by a hook in place of a model call, a tool call or a tool result.

    It is for `process_llm_request`, `process_tool_call` and `process_tool_result`.

    Attributes:
        value: the answer: a message or chunks for a model call, a JSON value for a tool.
        asks: whether a person is to be asked about the tool call first. The answer then counts only where nobody can be
            asked. An answer of another step that does not ask replaces it, whichever step is first.
    """

    value: Value
    asks: bool = False

    def __post_init__(self) -> None:
        """Freeze the value."""
        object.__setattr__(self, "value", freeze(self.value))


@dataclass(frozen=True, slots=True)
class TextEdits:
    """Edits of the strings in a tool's arguments or result. A guard returns them in the tools' stages.

    Attributes:
        changes: the edits by path; each path begins with ``"arguments"`` or ``"result"``; see
            `penstock.engine.values.texts.leaves`.
    """

    changes: Mapping[Path, Iterable[Edit]]

    def __post_init__(self) -> None:
        """Keep the edits as tuples: they are read more than once, and may have come as iterators."""
        object.__setattr__(self, "changes", {path: tuple(edits) for path, edits in self.changes.items()})
