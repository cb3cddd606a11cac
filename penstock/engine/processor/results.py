"""What hooks may return besides messages, as values; this module knows no stage.

Returning None always means *unchanged*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.texts import Path


@dataclass(frozen=True, slots=True)
class Retry:
    """What `process_api_error` returns to have the failed model call made again.

    Attributes:
        after: how many seconds to wait first; at least 0.
        messages: changed messages, as a hook may return them alone.
    """

    after: float = 0.0
    messages: MessageList | Sequence[Message] | None = None

    def __post_init__(self) -> None:
        """Refuse a wait that cannot be."""
        if not self.after >= 0:
            text = f"Retry(after=…) takes seconds, 0 or more, not {self.after!r}"
            raise ValueError(text)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What `process_input_step` returns to change the model call at hand, and only it; None leaves a field as it is.

    Attributes:
        model: the model, or its name.
        tools: the tools by name, in place of the ones before.
        tool_choice: how the model may choose tools.
        active_tools: the names of the tools on offer, in place of the ones before.
        model_settings: laid over the settings before, key by key.
        provider_options: laid over the options before, key by key.
        response_format: what structure the answer must have.
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
    """What stands in for a model call (`process_llm_request`), a tool (`process_tool_call`) or its result.

    Attributes:
        value: the answer: a message or chunks for a model call, a JSON value for a tool.
    """

    value: Value

    def __post_init__(self) -> None:
        """Freeze the value."""
        object.__setattr__(self, "value", freeze(self.value))


@dataclass(frozen=True, slots=True)
class TextEdits:
    """Edits to the strings of a tool's arguments or result; what a guard returns in the tools' stages.

    Attributes:
        changes: by path, which begins with ``"arguments"`` or ``"result"``; see `penstock.engine.values.texts.leaves`.
    """

    changes: Mapping[Path, Iterable[Edit]]

    def __post_init__(self) -> None:
        """Keep the edits, which may have come as an iterator: they are read more than once."""
        object.__setattr__(self, "changes", {path: tuple(edits) for path, edits in self.changes.items()})
