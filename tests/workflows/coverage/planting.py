"""A request with a marker in each channel, and which of them a guard was given before they were used."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from penstock import Agent, Chunk, Memory, Message, Tool
from penstock.engine.processor.stages import STAGES
from penstock.engine.text_guards.scope import PART_KINDS
from penstock.engine.values.messages import (
    AudioPart,
    DataPart,
    FilePart,
    ImagePart,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.testing import InMemoryStorage, ScriptedModel
from penstock.workflows.coverage import CHANNELS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    import pytest

    from penstock.engine.text_guards.text_guard import TextGuard
    from penstock.engine.values.messages import Part
    from penstock.engine.values.model import ModelRequest


def marker(channel: str, kind: str) -> str:
    """Return the text that is planted in a kind of parts of a channel."""
    return f"zq {channel} {kind} qz".replace("_", " ").replace("-", " ")


def body(text: str) -> str:
    """Return a text in base64, as a file has it."""
    return b64encode(f"The file says {text} and no more.".encode()).decode()


def parts(channel: str) -> dict[str, Part]:
    """Return a part of each kind with its marker in it."""
    said = {kind: marker(channel, kind) for kind in PART_KINDS}
    return {
        "text": TextPart(said["text"]),
        "reasoning": ReasoningPart(said["reasoning"]),
        "image": ImagePart(data=body(said["image"]), media_type="text/plain"),
        "audio": AudioPart(data=body(said["audio"]), media_type="text/plain"),
        "file": FilePart(data=body(said["file"]), media_type="text/plain", name="a.txt"),
        "tool": ToolPart("c0", "look_up", {"q": "x"}, "result", result=said["tool"]),
        "source": SourcePart(id="s", url="https://example.org/a", title=said["source"]),
        "data": DataPart("x", {"note": said["data"]}),
        "step-start": StepStartPart(metadata={"note": said["step-start"]}),
        "unknown": UnknownPart({"type": "odd", "note": said["unknown"]}),
    }


@dataclass
class Given:
    """What a guard was given so far, and by channel and kind whether that was before its use.

    Attributes:
        texts: the texts that it was given, each with the stage in which it was.
        stage: the stage that runs.
        used: by channel, the kinds that were used, and whether the guard had been given them.
    """

    texts: list[tuple[str, str]] = field(default_factory=list)
    stage: str = "process_output_stream"
    used: dict[str, dict[str, bool]] = field(default_factory=dict)

    def use(self, channel: str, seen: str) -> None:
        """Note that something with markers of a channel is used now."""
        for one in CHANNELS:
            if one.name != channel:
                continue
            for kind in one.kinds:
                mark = marker(_told(channel), kind)
                if mark in seen and kind not in self.used.setdefault(channel, {}):
                    self.used[channel][kind] = any(mark in text and stage in one.stages for stage, text in self.texts)

    def kinds(self, channel: str) -> set[str]:
        """Return the kinds of a channel that the guard was given in time."""
        return {kind for kind, given in self.used.get(channel, {}).items() if given}


_SAME = {"answer_live": "answer", "reasoning_live": "reasoning", "tool_stream": "tool_result"}


def _told(channel: str) -> str:
    return _SAME.get(channel, channel)


def record(monkeypatch: pytest.MonkeyPatch, guard: TextGuard, given: Given) -> None:
    """Note each text that a guard is given, whole or in windows, and in which stage."""
    kind = type(guard)
    quiet, scan = kind.quiet, kind.scan
    for name, stage in STAGES.items():
        if (stage.guarded and not stage.streams) or name == "process_input_step":
            monkeypatch.setattr(kind, name, _noting(getattr(kind, name), name, given))

    def noted_quiet(self: TextGuard, text: str, start: int, notes: Any, *, final: bool) -> int | None:
        given.texts.append((given.stage, text))
        return quiet(self, text, start, notes, final=final)

    def noted_scan(self: TextGuard, window: Any, ctx: Any) -> Any:
        given.texts.append((given.stage, window.text))
        return scan(self, window, ctx)

    monkeypatch.setattr(kind, "quiet", noted_quiet)
    monkeypatch.setattr(kind, "scan", noted_scan)


def _noting(hook: Any, stage: str, given: Given) -> Any:
    """Return a hook of a guard that waits for nothing, which notes its stage while it runs."""

    def noted(self: TextGuard, ctx: Any) -> Any:
        before, given.stage = given.stage, stage
        try:
            return hook(self, ctx)
        finally:
            given.stage = before

    noted.__module__ = hook.__module__  # it is still the library's
    return noted


class PlantedModel:
    """A model whose first answer has a marker in each channel; it notes what it is shown."""

    name = "planted"

    def __init__(self, given: Given, last: str = "Done.") -> None:
        self.given, self.last, self.calls = given, last, 0

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield an answer with everything in it, then a short one."""
        shown = repr(request.messages) + _bodies(request.messages) + repr(request.tools)
        for channel in CHANNELS:
            if channel.way == "input":
                self.given.use(channel.name, shown)
        self.calls += 1
        if self.calls > 1:
            yield Chunk("text-delta", self.last, "t2")
            yield Chunk("finish", payload={"reason": "stop"})
            return
        for chunk in _answer():
            yield chunk


def _bodies(messages: Iterable[Message]) -> str:
    """Return what stands in the bodies of files, decoded."""
    from base64 import b64decode

    held = [
        part for message in messages for part in message.parts if isinstance(part, (AudioPart, ImagePart, FilePart))
    ]
    return " ".join(b64decode(part.data or "").decode() for part in held)


def _answer() -> list[Chunk]:
    say = {name: marker(name, kind) for name, kind in _ANSWERED.items()}
    call = {"call_id": "c1", "name": "look_up", "arguments": {"q": say["tool_call"]}}
    other = {"call_id": "c2", "name": "fail", "arguments": {}}
    provided = {"call_id": "c3", "name": "search", "arguments": {"q": "x"}}
    return [
        Chunk("reasoning-start", id="r"),
        *(Chunk("reasoning-delta", piece, "r") for piece in _cut(say["reasoning"])),
        Chunk("reasoning-end", id="r"),
        Chunk("text-start", id="t"),
        *(Chunk("text-delta", piece, "t") for piece in _cut(say["answer"])),
        Chunk("text-end", id="t", payload={"metadata": {"x": {"note": say["answer_metadata"]}}}),
        Chunk("source", payload={"id": "s1", "url": "https://example.org/", "title": say["sources"]}),
        Chunk("file", payload={"media_type": "text/plain", "data": body(marker("answer_files", "file"))}),
        Chunk("data-x", payload={"data": {"note": marker("answer_other", "data")}}),
        Chunk("tool-call", id="c3", payload={**provided, "provider_executed": True}),
        Chunk("tool-result", id="c3", payload={**provided, "result": say["provider_tools"], "provider_executed": True}),
        Chunk("tool-call", id="c1", payload=call),
        Chunk("tool-call", id="c2", payload=other),
        Chunk("finish", payload={"reason": "tool-calls"}),
    ]


_ANSWERED = {
    "reasoning": "reasoning",
    "answer": "text",
    "answer_metadata": "text",
    "sources": "source",
    "provider_tools": "tool",
    "tool_call": "tool",
}


def _cut(text: str) -> list[str]:
    half = len(text) // 2
    return [text[:half], text[half:]]


def _tools(given: Given) -> list[Any]:
    def look_up(q: str) -> str:
        """Find something."""
        given.use("tool_call", q)
        return marker("tool_result", "tool")

    def fail() -> str:
        """Fail."""
        raise ValueError(marker("tool_error", "tool"))

    return [Tool(look_up, description=marker("tool_definitions", "definition")), fail]


class Answered(BaseModel):
    """A structured answer."""

    said: str


def request() -> list[Message]:
    """Return the client's messages, with a marker in each channel."""
    made = parts("user_text") | {
        kind: part
        for channel in CHANNELS
        if channel.source == "input"
        for kind, part in parts(channel.name).items()
        if kind in channel.kinds
    }
    early = [part for kind, part in made.items() if kind in ("tool", "reasoning", "step-start")]
    late = [part for kind, part in made.items() if kind not in ("tool", "reasoning", "step-start")]
    return [
        Message("system", marker("client_system", "text"), from_client=True),  # type: ignore[arg-type]
        Message("assistant", tuple(early), from_client=True),
        Message("user", tuple(late), name=marker("user_metadata", "message"), from_client=True),
    ]


async def run(guards: list[Any], given: Given, **options: Any) -> Agent:
    """Run the request with the guards; what they are given is in ``given``."""
    storage = InMemoryStorage()
    ids: Any = {"thread_id": "t", "resource_id": "r"}
    before = Agent(ScriptedModel(["Yes."]), memory=Memory(storage))
    await before.generate([Message("user", tuple(_whole("memory")))], **ids)
    last = Answered(said=marker("structured", "text")).model_dump_json()
    agent = Agent(
        PlantedModel(given, last),
        processors=guards,
        tools=_tools(given),
        memory=Memory(storage),
        instructions=marker("instructions", "text"),
        output_type=Answered,
        **options,
    )
    history = [Message("user", tuple(_whole("history")), name=marker("history", "message"))]
    async with agent.stream(request(), context=history, **ids) as stream:
        left = {"text-delta": "", "reasoning-delta": ""}
        async for chunk in stream:
            if chunk.type in left:
                left[chunk.type] += chunk.text
                given.use("answer_live", left["text-delta"])
                given.use("reasoning_live", left["reasoning-delta"])
            if chunk.type == "tool-result":
                given.use("tool_stream", repr(chunk))
        result = await stream.result
    assert result.status == "success", result
    told = repr(result.message_list.all) + _bodies(result.message_list.all)
    for channel in CHANNELS:
        if channel.way == "output" and not channel.live and channel.name not in ("tool_call", "tool_stream"):
            given.use(channel.name, told + repr(result.object))
    return agent


def _whole(channel: str) -> Iterable[Part]:
    return (part for kind, part in parts(channel).items() if kind not in ("tool", "step-start"))
