"""`PromptVariables`: the variables of a stored prompt, which guards read as one message of the user."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from penstock.engine.values.errors import UsageError
from penstock.formats import openai_responses as wire
from penstock.formats.wire import is_array, is_object
from penstock.workflows.adapters.openai_agents.items import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.messages import Message
    from penstock.formats.wire import Json

_MARK = "openai-agents-prompt"


@dataclass(frozen=True)
class PromptVariables:
    """The variables of the stored prompt of one model call.

    Attributes:
        prompt: the prompt, as the SDK gives it to the model; None if there is none.
        names: the names of the variables that hold something.
    """

    prompt: Json | None = None
    names: tuple[str, ...] = ()

    @classmethod
    def of(cls, prompt: Json | None) -> PromptVariables:
        """Return the variables of a prompt."""
        variables = (prompt or {}).get("variables")
        held = [name for name, value in variables.items() if value] if is_object(variables) else []
        return cls(prompt, tuple(sorted(held)))

    def among(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with one more for the variables, a part for each, if there are any.

        It stands in the last turn of the user, so that it is read where earlier turns count as checked.
        """
        at = len(messages)
        while at and messages[at - 1].role == "user":
            at -= 1
        return [*messages[:at], *self._message(), *messages[at:]]

    def _message(self) -> list[Message]:
        if not self.names or self.prompt is None:
            return []
        given: Json = self.prompt["variables"]
        content = [
            {"type": "input_text", "text": given[name]} if isinstance(given[name], str) else plain(given[name])
            for name in self.names
        ]
        [message] = wire.read([{"role": "user", "content": content}])
        return [replace(message, id="", metadata={**message.metadata, _MARK: True})]

    def others(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages that are no variables."""
        return [message for message in messages if not message.metadata.get(_MARK)]

    def asked(self, messages: Sequence[Message]) -> Json:
        """Return the argument of the model call with the variables as the guards left them.

        Raises:
            UsageError: a processor has added or removed parts of the message, so that nothing says which is which.
        """
        if not self.names or self.prompt is None:
            return {}
        held = [message for message in messages if message.metadata.get(_MARK)]
        now = [part for message in held for part in _content(message)]
        if len(now) != len(self.names):
            raise UsageError(
                f"a processor has made {len(now)} parts of the {len(self.names)} variables of a stored prompt "
                f"({', '.join(self.names)}); it may change each part, but not add or remove any"
            )
        given: Json = self.prompt["variables"]
        left = {
            name: part.get("text", "") if isinstance(given[name], str) else part
            for name, part in zip(self.names, now, strict=True)
        }
        return {"prompt": {**self.prompt, "variables": {**given, **left}}}


def _content(message: Message) -> list[Json]:
    """Return the parts of a message as those of an input item."""
    bare = {name: value for name, value in message.metadata.items() if name != _MARK}
    found: list[Json] = []
    for item in wire.write([replace(message, metadata=bare)]):
        content = item.get("content")
        if isinstance(content, str):
            found.append({"type": "input_text", "text": content})
        elif is_array(content):
            found += [part for part in content if is_object(part)]
    return found
