"""Events whose text no stage has read: of callbacks, code executors, remote agents, and agents of your own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic_core import to_json, to_jsonable_python

from penstock.engine.values.frozen import freeze, thaw
from penstock.engine.values.messages import Message
from penstock.workflows.adapters.google_adk.answers import KEY, AdkAnswerReader, write_contents
from penstock.workflows.hosting import ModelCall, as_asked

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Sequence

    from google.adk.events.event import Event

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.model import ModelRequest
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostRequest


@dataclass(slots=True)
class SeenParts:
    """The texts that the guards have released in an invocation, so that it is not judged again in its event."""

    _texts: dict[str, None] = field(default_factory=dict[str, None])
    _others: set[bytes] = field(default_factory=set[bytes])

    def add(self, content: types.Content | None) -> None:
        """Note a released text."""
        for part in (content.parts or ()) if content is not None else ():
            if part.text:
                self._texts[part.text] = None
            else:
                self._others.add(_said(part))

    def add_result(self, name: str, response: Value) -> None:
        """Note the result of a tool."""
        part = types.Part(function_response=types.FunctionResponse(name=name, response=response))
        self._others.add(_said(part))

    def hold(self, part: types.Part) -> bool:
        """Return whether a part was released, or is a piece of a text that was: planners cut answers up."""
        text = part.executable_code.code if part.executable_code is not None else part.text
        if text is None:
            return _said(part) in self._others
        return text in self._texts or not text.strip() or any(text.strip() in known for known in self._texts)


def _said(part: types.Part) -> bytes:
    """Return the content of a part, without ids and signatures."""
    left_out: Json = {"thought_signature": True, "function_call": {"id"}, "function_response": {"id"}}
    return to_json(part.model_dump(mode="json", exclude_none=True, exclude=left_out))


@dataclass(slots=True)
class UnreadEvent:
    """An event with parts that no guard has read.

    Attributes:
        event: the event.
        parts: these parts.
    """

    event: Event
    parts: Sequence[types.Part]

    @classmethod
    def of(cls, event: Event, seen: SeenParts) -> UnreadEvent | None:
        """Return the event if anything in it is unread, else None."""
        parts = [part for part in _parts(event) if not seen.hold(part)]
        tells_verdict = KEY in (event.custom_metadata or {})
        failed = bool(event.error_message) and not tells_verdict
        return cls(event, parts) if parts or failed else None

    def without_unread(self) -> Event:
        """Return the event without unread text: a piece of a text cannot be judged before the whole is there."""
        kept = [part for part in _parts(self.event) if not any(part is one for one in self.parts)]
        content = types.Content(role=self.event.content.role if self.event.content else "model", parts=kept)
        update: dict[str, object] = {"content": content, "error_message": None}
        return replaced(self.event, text_of(self.event), None, update)

    async def read(self, request: HostRequest) -> Event:
        """Return the event as the guards left it: texts are judged as answers, and all else as results of tools.

        Args:
            request: a request for this event.

        Raises:
            BlockedError: a guard stopped it.
        """
        event = self.event
        texts = [part for part in self.parts if part.text is not None]
        left: dict[int, list[types.Part]] = {id(part): [] for part in self.parts}
        if texts:
            left[id(texts[0])] = await _as_answer(request, texts)
        for part in self.parts:
            if part.text is None:
                left[id(part)] = [await _as_result(request, part)]
        made = [one for part in _parts(event) for one in left.get(id(part), [part])]
        update: dict[str, object] = {"grounding_metadata": None, "citation_metadata": None}
        if event.content is not None:
            update["content"] = types.Content(role=event.content.role, parts=made)
        if event.error_message:
            update["error_message"] = str(await request.tool_result("error", event.error_message, "error"))
        if event.custom_metadata:
            told = to_jsonable_python(event.custom_metadata, fallback=str)
            update["custom_metadata"] = thaw(await request.tool_result("metadata", told, "metadata"))
        return replaced(event, _text(_parts(event)), _text(made), update)


def replaced(event: Event, before: str, after: str | None, update: dict[str, object]) -> Event:
    """Return an event with fields changed, also where it repeats its text: in the state, and as output of a node.

    Args:
        event: the event.
        before: its text.
        after: the guarded text; None: it was removed.
        update: the fields.
    """
    actions = event.actions.model_copy()
    actions.state_delta = {
        name: after if item == before and before else item
        for name, item in event.actions.state_delta.items()
        if after is not None or item != before
    }
    output = getattr(event, "output", None)
    if output is not None and output == before:
        update["output"] = after
    return event.model_copy(update={**update, "actions": actions})


def text_of(event: Event) -> str:
    """Return the text of an event, as ADK stores it under an agent's ``output_key``."""
    return _text(_parts(event))


def _parts(event: Event) -> Sequence[types.Part]:
    return (event.content.parts or ()) if event.content is not None else ()


def _text(parts: Iterable[types.Part]) -> str:
    return "".join(part.text for part in parts if part.text and not part.thought)


async def _as_answer(request: HostRequest, parts: list[types.Part]) -> list[types.Part]:
    answer = await request.whole_answer(ModelCall(_Given(parts), [Message.user("")]))
    contents = write_contents([as_asked(answer)]) if answer.parts else []
    return [part for content in contents for part in content.parts or ()]


async def _as_result(request: HostRequest, part: types.Part) -> types.Part:
    given = part.model_dump(mode="json", exclude_none=True)
    [kind] = [name for name in given if name != "thought_signature"][:1] or ["part"]
    inner = part.function_response or part.function_call
    left = await request.tool_result(getattr(inner, "name", None) or kind, given, "event")
    return part if left == freeze(given) else types.Part.model_validate(thaw(left))


class _Given:
    """Stands for a model whose answer is there already."""

    name = "given"

    def __init__(self, parts: list[types.Part]) -> None:
        self._parts = parts

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk]:
        """Yield the answer as chunks."""
        reader = AdkAnswerReader()
        response = LlmResponse(content=types.Content(role="model", parts=self._parts))
        for chunk in (*reader.response(response), *reader.rest(response)):
            yield chunk
