"""Contents and answers both ways, and verdicts as events.

Contents go through the JSON of Google's API, which keeps unknown fields. Answers are read as chunks, and written as the
response that ADK stores.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic_core import to_jsonable_python

from penstock.engine.values.chunks import Chunk
from penstock.engine.values.frozen import EMPTY, freeze, is_mapping, thaw
from penstock.engine.values.messages import AudioPart, FilePart, ImagePart, Message, ReasoningPart, TextPart, ToolPart
from penstock.engine.values.tripwire import Tripwire
from penstock.formats import google as wire
from penstock.workflows.hosting import as_asked

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from penstock.engine.values.messages import Part
    from penstock.engine.values.model import Usage
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hosting import HostRequest


ERROR_CODE = "BLOCKED_BY_GUARD"
"""The ``error_code`` of the event that tells a verdict."""

KEY = "penstock"
"""The key of a verdict in the ``custom_metadata`` of its event."""

_FACTS = ("reason", "processor_id", "stage", "retry", "metadata")


def tripwire_of(event: LlmResponse) -> Tripwire | None:
    """Return the verdict that an event tells, or None."""
    said: Value = (event.custom_metadata or {}).get(KEY)
    return Tripwire(**said) if is_mapping(said) and event.error_code == ERROR_CODE else None


def told(verdict: Tripwire) -> Json:
    """Return the fields of the event that tells a verdict."""
    facts = {name: thaw(getattr(verdict, name)) for name in _FACTS}
    return {
        "error_code": ERROR_CODE,
        "error_message": verdict.reason,
        "finish_reason": types.FinishReason.SAFETY,
        "custom_metadata": {KEY: to_jsonable_python(facts, fallback=str)},
    }


_ID = "penstock-"
"""How the ids of calls begin that the model gave none; the model does not get them back."""


def read_contents(contents: Iterable[types.Content], *, ids: bool = False) -> list[Message]:
    """Return contents as messages; with ``ids``, calls that the model gave no id get one."""
    items = [content.model_dump(mode="json", by_alias=True, exclude_none=True) for content in contents]
    for part in [part for item in items for part in item.get("parts", ())] if ids else ():
        call = part.get("functionCall")
        if call is not None and not call.get("id"):  # else ADK makes one, which no stage would know
            call["id"] = f"{_ID}{uuid.uuid4().hex}"
    return list(wire.read(items))


def write_contents(messages: Iterable[Message], *, keep_ids: bool = False) -> list[types.Content]:
    """Return messages as contents; ids that `read_contents` made are left out, unless ``keep_ids``."""
    items = wire.write(messages)
    for part in [part for item in items for part in item.get("parts", ())]:
        inner: Json = part.get("functionCall") or part.get("functionResponse") or {}
        if not keep_ids and str(inner.get("id", "")).startswith(_ID):
            del inner["id"]
    return [types.Content.model_validate(item) for item in items]


def final_response(request: HostRequest, last: LlmResponse | None, said: Iterable[Part]) -> LlmResponse:
    """Return the response that ADK stores: the answer as the guards left it, or the verdict.

    Of the model's report beside it, only values without text are kept: no guard reads citations, for example.
    """
    given = last or LlmResponse()
    base: Json = {
        "partial": False,
        "turn_complete": given.turn_complete,
        "model_version": given.model_version,
    }
    base["usage_metadata"] = _usage(request.usage, given)
    verdict = request.tripwire
    if verdict is not None:
        return LlmResponse(**base, **told(verdict))
    answer = request.answer or Message("assistant")
    contents = write_contents([as_asked(answer)], keep_ids=True) if answer.parts else []
    content = contents[0] if contents else types.Content(role="model", parts=[])
    for part in content.parts or ():
        if part.thought_signature is not None and not _is_signed(part, said):
            part.thought_signature = None
    return LlmResponse(
        **base,
        content=content,
        finish_reason=given.finish_reason,
        error_code=given.error_code,
        avg_logprobs=given.avg_logprobs,
    )


def _is_signed(part: types.Part, said: Iterable[Part]) -> bool:
    """Return whether a part says the model's words, so that the model's signature is still true."""
    call = part.function_call
    if call is not None:
        return any(isinstance(one, ToolPart) and one.arguments == freeze(call.args or {}) for one in said)
    return any(isinstance(one, (TextPart, ReasoningPart)) and one.text == part.text for one in said)


def _usage(used: Usage, given: LlmResponse) -> types.GenerateContentResponseUsageMetadata | None:
    """Return the tokens of the call, rejected attempts included."""
    if given.usage_metadata is None:
        return None
    prompt, made = used.input_tokens, used.output_tokens
    total = (prompt or 0) + (made or 0)
    return given.usage_metadata.model_copy(
        update={"prompt_token_count": prompt, "candidates_token_count": made, "total_token_count": total}
    )


class AdkAnswerReader:
    """Reads one answer: the partial responses as they come, and the rest from the whole one."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._open: str | None = None
        self._count = 0
        self._shown = {"text": "", "reasoning": ""}

    def response(self, response: LlmResponse) -> Iterator[Chunk]:
        """Yield the chunks of a response."""
        content = response.content
        if content is None or not content.parts:
            return
        [message] = read_contents([types.Content(role="model", parts=content.parts)], ids=True)[:1] or [
            Message("assistant")
        ]
        if response.partial:
            for part in message.parts:
                if isinstance(part, (TextPart, ReasoningPart)):
                    kind = "text" if isinstance(part, TextPart) else "reasoning"
                    self._shown[kind] += part.text
                    yield from self._say(kind, part.text)
            return
        self.parts.extend(message.parts)
        for part in message.parts:
            if isinstance(part, (TextPart, ReasoningPart)):
                kind = "text" if isinstance(part, TextPart) else "reasoning"
                shown, new = self._shown[kind], part.text
                if shown.startswith(new):
                    self._shown[kind], new = shown[len(new) :], ""
                elif new.startswith(shown):
                    self._shown[kind], new = "", new[len(shown) :]
                yield from self._say(kind, new)
                yield from self._end(part)
                continue
            yield from self._end()
            yield _whole(part)

    def _say(self, kind: str, text: str) -> Iterator[Chunk]:
        if not text:
            return
        if self._open is None or not self._open.startswith(kind):
            yield from self._end()
            self._count += 1
            self._open = f"{kind}-{self._count}"
            yield Chunk(f"{kind}-start", id=self._open)
        yield Chunk(f"{kind}-delta", text, self._open)

    def _end(self, part: Part | None = None) -> Iterator[Chunk]:
        if self._open is not None:
            kind, id = self._open.partition("-")[0], self._open
            self._open = None
            notes = EMPTY if part is None else part.metadata
            yield Chunk(f"{kind}-end", id=id, payload={"provider_metadata": notes})

    def rest(self, last: LlmResponse | None) -> Iterator[Chunk]:
        """Yield the end of the answer."""
        yield from self._end()
        payload: Json = {"reason": _reason(last, self.parts)}
        used = None if last is None else last.usage_metadata
        if used is not None:
            payload["usage"] = {
                "input_tokens": used.prompt_token_count,
                "output_tokens": used.candidates_token_count,
                "cached_tokens": used.cached_content_token_count,
            }
        yield Chunk("finish", payload=payload)


def _whole(part: Part) -> Chunk:
    """Return the chunk of a part that comes in one piece."""
    if isinstance(part, ToolPart) and part.state == "call" and part.name != "code_execution":
        named = {"call_id": part.call_id, "name": part.name, "arguments": part.arguments}
        return Chunk("tool-call", id=part.call_id, payload={**named, "provider_metadata": part.metadata})
    if isinstance(part, (ImagePart, AudioPart, FilePart)) and part.data is not None:
        return Chunk("file", payload={"media_type": part.media_type, "data": part.data})
    return Chunk("raw", payload={"provider_part": freeze(wire.write_part(part))})


def _reason(last: LlmResponse | None, parts: Sequence[Part]) -> str:
    said = None if last is None else last.finish_reason
    if any(isinstance(part, ToolPart) for part in parts):
        return "tool-calls"
    if said is None or said == types.FinishReason.STOP:
        return "stop"
    return "length" if said == types.FinishReason.MAX_TOKENS else "content-filter" if "SAFETY" in said.name else "other"
