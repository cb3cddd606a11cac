"""`Payload`, the immutable value that flows through a stage; and what hooks may return: `Retry`, `Overrides`, `Answer`.

A step gets a payload and returns one. What a hook did goes into a new one, so that parallel steps can share theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import EMPTY, freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.edits import Edit, Edits
    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import Path
    from penstock.engine.values.tripwire import Tripwire


NO_FACTS: Facts = {}
"""The facts of a payload that has none; never written to."""


class Payload:
    """What one step passes to the next. It is never changed once made.

    Attributes:
        message_list: the conversation.
        facts: what steps found out, by key.
        fields: what the stage lets steps change besides messages, by name (overrides, arguments, a result …).
        data: data chunks that hooks wrote, in order.
        tripwire: the verdict, if one stopped the run.
        failure: the error behind the verdict, if a step's failure is what blocks.
        settled: whether nothing further may run in this stage (a verdict, or an answer that ends the stage).
        hints: the text edits made since the last fork, by place; None where nobody will merge.
        edits_only: whether ``hints`` is all that changed in the messages since the last fork.
    """

    __slots__ = ("data", "edits_only", "facts", "failure", "fields", "hints", "message_list", "settled", "tripwire")

    def __init__(  # noqa: PLR0917 - positional on purpose: one is made for each edit, and keywords cost
        self,
        message_list: MessageList,
        facts: Facts = NO_FACTS,
        fields: Values = EMPTY,
        data: tuple[Chunk, ...] = (),
        tripwire: Tripwire | None = None,
        settled: bool = False,  # noqa: FBT001, FBT002 - a field, no switch
        hints: Mapping[Value, Edits] | None = None,
        edits_only: bool = False,  # noqa: FBT001, FBT002 - a field, no switch
    ) -> None:
        self.message_list = message_list
        self.facts = facts
        self.fields = fields
        self.data = data
        self.tripwire = tripwire
        self.settled = settled
        self.hints = hints
        self.failure: Exception | None = None
        self.edits_only = edits_only

    def stopped(self, tripwire: Tripwire | None, failure: Exception | None = None) -> Payload:
        """Return the payload with a verdict; its edits and data no longer count."""
        made = Payload(self.message_list, self.facts, self.fields, (), tripwire, True, self.hints)  # noqa: FBT003
        made.failure = failure
        return made

    def tracked(self) -> Payload:
        """Return the payload as a fork's base: changes from here on are noted."""
        return Payload(self.message_list, self.facts, self.fields, (), None, self.settled, EMPTY, True)  # noqa: FBT003

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same content; the logs of edits do not count."""
        return isinstance(other, Payload) and _content(self) == _content(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show shapes; never a text."""
        return f"Payload({self.message_list!r}, facts={list(self.facts)!r}, tripwire={self.tripwire!r})"


def _content(payload: Payload) -> tuple[object, ...]:
    return (payload.message_list, payload.facts, payload.fields, payload.data, payload.tripwire, payload.settled)


@dataclass(frozen=True, slots=True)
class Retry:
    """What `process_api_error` returns to make the failed model call again.

    Attributes:
        after: seconds to wait before it; at least 0.
        messages: changed messages, as a hook may return them alone.
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
    """What `process_input_step` returns to change the next model call, and only it; None leaves a field as it is.

    Attributes:
        model: the model, or its name.
        tools: the tools by name; they replace the ones before.
        tool_choice: how the model may choose tools.
        active_tools: the names of the tools on offer; they replace the ones before.
        model_settings: merged into the settings before, key by key.
        provider_options: merged into the options before, key by key.
        response_format: the structure that the answer must have.
        messages: changed messages, as a hook may return them alone.
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
    """What replaces a model call (`process_llm_request`), a tool (`process_tool_call`) or its result.

    Attributes:
        value: the answer: a message or chunks for a model call, a JSON value for a tool.
    """

    value: Value

    def __post_init__(self) -> None:
        """Freeze the value."""
        object.__setattr__(self, "value", freeze(self.value))


@dataclass(frozen=True, slots=True)
class TextEdits:
    """Edits of the strings in a tool's arguments or result; what a guard returns in the tools' stages.

    Attributes:
        changes: by path, which begins with ``"arguments"`` or ``"result"``; see `penstock.engine.values.texts.leaves`.
    """

    changes: Mapping[Path, Iterable[Edit]]

    def __post_init__(self) -> None:
        """Keep the edits as tuples: they are read more than once, and may have come as iterators."""
        object.__setattr__(self, "changes", {path: tuple(edits) for path, edits in self.changes.items()})
