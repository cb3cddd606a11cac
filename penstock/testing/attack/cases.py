"""`Case`: one request that tries to get a text past the guards; and `find_leak`, which sends it."""

from __future__ import annotations

import json
import logging
from base64 import b64decode, b64encode
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

import anyio
from typing_extensions import TypedDict

from penstock.engine.tasks import run_in_own_loop
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import PenstockError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.messages import DataPart, FilePart, Message, ReasoningPart, TextPart, ToolPart
from penstock.formats import dump_messages, parse_messages
from penstock.testing.attack.rows import PROMPT
from penstock.testing.attack.targets import Target, target_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from penstock.engine.processor.processor import AnyProcessor
    from penstock.engine.values.messages import Part, Role
    from penstock.engine.values.model import ModelRequest
    from penstock.engine.workflow import Workflow
    from penstock.formats import Format
    from penstock.testing.attack.targets import Fault
    from penstock.workflows.agent.agent import Agent
    from penstock.workflows.agent.options import AgentOptions

SECONDS = 5.0
"""How long one request may take; one that takes longer has not let anything out."""

_PIECE = 0.6
"""The part of a secret that nobody may read either, if the whole of it was to be hidden."""
_LEAST_PIECE = 6  # characters


@dataclass(frozen=True, slots=True)
class Case:
    """One request with a text that a guard must find.

    Attributes:
        channel: the channel in which the text stands; see `penstock.workflows.coverage.CHANNELS`.
        pieces: the text, in pieces.
        secrets: the texts that nobody may read behind the guards.
        seam: between its pieces: ``deltas`` of a stream, ``blocks`` of an answer, ``parts`` of a message, or ``steps``.
        fault: the path of a step that fails, and whether it ``raises`` or ``hangs``; None: none does.
        order: the seed of another order of parallel steps; 0: as declared.
        stalls: whether the model makes a pause after each piece.
        wire: the name of a wire format, and the number of the string in a message that holds the text; None: none.
        disguise: the name of the disguise of the text; empty: none.
        kind: the kind of content.
    """

    channel: str
    pieces: tuple[str, ...]
    secrets: tuple[str, ...]
    seam: str = "deltas"
    fault: Fault | None = None
    order: int = 0
    stalls: bool = False
    wire: tuple[str, int] | None = None
    disguise: str = ""
    kind: str = ""

    @property
    def text(self) -> str:
        """The whole text."""
        return "".join(self.pieces)

    def __str__(self) -> str:
        """Return the case in a few words: its channel, and all that is unusual."""
        said = [self.channel]
        if len(self.pieces) > 1:
            said.append(f"{len(self.pieces)} {self.seam}")
        if self.fault is not None:
            said.append(f"{self.fault[0]} {self.fault[1]}")
        if self.order:
            said.append(f"parallel steps in order {self.order}")
        if self.wire is not None:
            said.append(f"string {self.wire[1]} of {self.wire[0]}")
        said += [self.disguise] * bool(self.disguise) + ["stalls"] * self.stalls
        return ", ".join(said)


class Leak(NamedTuple):
    """A text that got past the guards.

    Attributes:
        case: the request.
        reader: who read it: ``model``, ``client`` or ``tool``.
        read: the piece that was read.
    """

    case: Case
    reader: str
    read: str


Messages: TypeAlias = "str | Sequence[Message]"


class ReadTexts:
    """The texts that were read behind the guards.

    Attributes:
        model: the prompts.
        client: chunks of the stream, and the result.
        tool: the arguments with which tools were called.
    """

    def __init__(self) -> None:
        self.model: list[str] = []
        self.client: list[str] = []
        self.tool: list[str] = []


def find_leak(attacked: Workflow | Agent | AnyProcessor | Target, case: Case) -> Leak | None:
    """Return the leak of a case in a workflow or an agent; None if nothing gets past its guards.

    Raises:
        UsageError: a processor list depends on the request; or an event loop runs in this thread already.
    """

    async def send() -> Leak | None:
        return await leak_of(attacked if isinstance(attacked, Target) else target_of(attacked), case)

    return run_in_own_loop(send, "`await leak_of(...)`")


async def leak_of(target: Target, case: Case) -> Leak | None:
    """Return the leak of a case in a target; None if nothing gets past its guards."""
    readers = await send(target, case)
    to_model = _channel_leads_to_model(case.channel)
    names = ("model",) if to_model else ("client", "tool")
    for name in names:
        read: list[str] = getattr(readers, name)
        for text in read:
            found = next((secret for secret in case.secrets if secret in text), None)
            if found is not None:
                return Leak(case, name, found)
    if case.channel in ("answer_live", "reasoning_live") and case.seam == "deltas" and len(case.pieces) > 1:
        piece = _partly(readers.client, case)
        if piece and not _partly((await send(target, _uncut(case))).client, case):
            return Leak(case, "client", piece)
    return None


def _uncut(case: Case) -> Case:
    return Case(case.channel, (case.text,), case.secrets, kind=case.kind)


def _partly(texts: Sequence[str], case: Case) -> str:
    """Return a large piece of a secret that stands in a text; empty for none, or where all of a text is judged."""
    for secret in case.secrets:
        size = max(_LEAST_PIECE, round(len(secret) * _PIECE))
        if secret == case.text or size >= len(secret):
            continue
        for start in range(len(secret) - size + 1):
            piece = secret[start : start + size]
            if any(piece in text for text in texts):
                return piece
    return ""


def _channel_leads_to_model(name: str) -> bool:
    from penstock.workflows.coverage.channels import NAMES

    return NAMES[name].way == "input"


# Sending


class _Said(TypedDict):
    said: str


class _ScriptedChunks:
    """A model that says the chunks of each step, and notes the prompts."""

    name = "attack"

    def __init__(self, steps: Sequence[Sequence[Chunk]], readers: ReadTexts, *, stalls: bool) -> None:
        self._steps, self._readers, self._stalls = iter(steps), readers, stalls

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the chunks of the next step."""
        self._readers.model += [text for message in request.messages for text in texts_of(message)]
        for chunk in next(self._steps, [Chunk("text-delta", "Done.", "end")]):
            yield chunk
            if self._stalls and chunk.type.endswith("-delta"):
                await anyio.sleep(0.01)
        yield Chunk("finish", payload={"reason": "stop"})


async def send(target: Target, case: Case) -> ReadTexts:
    """Send a case, and return the texts that were read behind the guards."""
    readers = ReadTexts()
    planted = _planted(case)
    if planted is None:
        return readers
    model = _ScriptedChunks(planted.steps, readers, stalls=case.stalls)
    options: AgentOptions = {"tools": _tools(case, readers)}
    if case.channel == "structured":
        options["output_type"] = _Said
    if case.kind == "leaks":
        options["instructions"] = PROMPT
    logger = logging.getLogger("penstock")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)  # failing steps are wanted here
    try:
        with anyio.move_on_after(SECONDS):
            agent = target.agent(model, fault=case.fault, order=case.order, **options)
            await _read_stream(agent, planted.messages, readers)
    except (PenstockError, RuntimeError):  # it was refused, or a step failed: nothing more leaves
        pass
    finally:
        logger.setLevel(level)
    return readers


async def _read_stream(agent: Agent, messages: Messages, readers: ReadTexts) -> None:
    joined: dict[str, str] = {}
    try:
        async with agent.stream(messages) as stream:
            async for chunk in stream:
                if chunk.type.endswith("-delta"):
                    joined[chunk.type] = joined.get(chunk.type, "") + chunk.text
                else:
                    readers.client += texts_of(chunk.payload)
            result = await stream.result
            readers.client += [result.text, *(step.text + step.reasoning for step in result.steps)]
            readers.client += [text for message in result.message_list.response for text in texts_of(message)]
            readers.client += texts_of(result.object)
    finally:
        readers.client += joined.values()


def _tools(case: Case, readers: ReadTexts) -> list[Callable[[str], object]]:
    def look_up(q: str = "") -> object:
        """Find something."""
        readers.tool.append(q)
        if case.channel == "tool_error":
            raise ValueError(case.text)
        if case.seam == "parts" and case.channel == "tool_result":
            return [{"type": "text", "text": piece} for piece in case.pieces]
        return {"found": case.text} if case.channel in ("tool_result", "tool_stream") else "nothing"

    return [look_up]


class _Planted(NamedTuple):
    messages: Messages
    steps: list[list[Chunk]]


def _planted(case: Case) -> _Planted | None:
    """Return the messages and the model's answers of a case; None if its wire format refuses the text."""
    if case.wire is not None:
        try:
            return _Planted(wire_messages(case.wire, case.text), [])
        except (PenstockError, ValueError, TypeError):
            return None
    client = _CLIENT.get(case.channel)
    if client is not None:
        return _Planted(client(case), [])
    if case.channel in ("tool_result", "tool_error", "tool_stream"):
        return _Planted("Hello.", [[_call("q", "x")]])
    return _Planted("Hello.", _answers(case))


def _from_client(parts: Sequence[Part], role: Role = "user", name: str | None = None) -> Message:
    return Message(role, tuple(parts), from_client=True, name=name)


_HELLO = _from_client([TextPart("Hello.")])
_CLIENT: dict[str, Callable[[Case], Messages]] = {
    "user_text": lambda case: [_from_client([TextPart(piece) for piece in case.pieces])],
    "user_files": lambda case: [
        _from_client([TextPart("See:"), FilePart(data=_encoded(case.text), media_type="text/plain")])
    ],
    "user_tools": lambda case: [
        _from_client([ToolPart("c0", "look_up", {"q": "x"}, "result", result=case.text)], "assistant"),
        _HELLO,
    ],
    "user_other": lambda case: [_from_client([TextPart("See:"), DataPart("note", {"note": case.text})])],
    "user_metadata": lambda case: [_from_client([TextPart("Hello.")], name=case.text)],
    "client_system": lambda case: [_from_client([TextPart(case.text)], "system"), _HELLO],
}


def _encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def _call(name: str, value: str) -> Chunk:
    return Chunk("tool-call", id="c1", payload={"call_id": "c1", "name": "look_up", "arguments": {name: value}})


def _answers(case: Case) -> list[list[Chunk]]:
    """Return the model's answers, step by step."""
    kind = "reasoning" if case.channel.startswith("reasoning") else "text"
    if case.channel in _PAYLOADS:
        return [[*_block("text", "t", ["Well."]), *_PAYLOADS[case.channel](case.text)]]
    if case.channel == "structured":
        return [_block("text", "t", [json.dumps({"said": case.text}, ensure_ascii=False)])]
    if case.seam == "steps":
        steps = [[*_block(kind, f"b{index}", [piece]), _call("q", "x")] for index, piece in enumerate(case.pieces)]
        return [*steps[:-1], steps[-1][:-1]]
    if case.seam == "blocks":
        other = "text" if kind == "reasoning" else "reasoning"
        return [
            [
                chunk
                for index, piece in enumerate(case.pieces)
                for chunk in (
                    *(_block(other, f"o{index}", ["Hm."]) if index else ()),
                    *_block(kind, f"b{index}", [piece]),
                )
            ]
        ]
    return [_block(kind, "b", case.pieces)]


def _block(kind: str, id: str, pieces: Sequence[str]) -> list[Chunk]:
    deltas = [Chunk(f"{kind}-delta", piece, id) for piece in pieces if piece]
    return [Chunk(f"{kind}-start", id=id), *deltas, Chunk(f"{kind}-end", id=id)]


def _provided(text: str) -> list[Chunk]:
    call = {"call_id": "p1", "name": "search", "arguments": {"q": "x"}, "provider_executed": True}
    return [Chunk("tool-call", id="p1", payload=call), Chunk("tool-result", id="p1", payload={**call, "result": text})]


_PAYLOADS: dict[str, Callable[[str], list[Chunk]]] = {
    "tool_call": lambda text: [_call("q", text)],
    "provider_tools": _provided,
    "sources": lambda text: [Chunk("source", payload={"id": "s", "url": "https://example.org/", "title": text})],
    "answer_files": lambda text: [Chunk("file", payload={"media_type": "text/plain", "data": _encoded(text)})],
    "answer_other": lambda text: [Chunk("data-note", payload={"data": {"note": text}})],
    "answer_metadata": lambda text: [
        Chunk("text-delta", "So.", "m"),
        Chunk("text-end", id="m", payload={"metadata": {"x": {"note": text}}}),
    ],
}


# Reading


def texts_of(value: object) -> list[str]:
    """Return all strings in a value; of a message also its text as one, and of files their bodies."""
    found = list(_strings(value))
    if isinstance(value, Message):
        kinds: dict[str, str] = {}
        for part in value.parts:
            if isinstance(part, (TextPart, ReasoningPart)):
                kinds[part.type] = kinds.get(part.type, "") + part.text
        found += kinds.values()
    return found


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
        yield from _decoded(value)
    elif is_mapping(value):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif is_items(value):
        yield from _joined_blocks(value)
        for item in value:
            yield from _strings(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _strings(getattr(value, field.name))


def _joined_blocks(items: Sequence[object]) -> Iterator[str]:
    """Yield the texts of a list of text blocks, joined."""
    blocks = [item["text"] for item in items if is_mapping(item) and isinstance(item.get("text"), str)]
    if len(blocks) > 1:
        yield "".join(blocks)


def _decoded(text: str) -> Iterator[str]:
    """Yield the text of a body in base64, as a client decodes it."""
    try:
        yield b64decode(text, validate=True).decode()
    except ValueError:
        return


# Wire formats


def wire_messages(wire: tuple[str, int], text: str) -> Sequence[Message]:
    """Return the messages of a format in which one string is replaced by a text.

    Raises:
        PenstockError: the format refuses it.
    """
    name, number = wire
    count = iter(range(10_000))

    def replaced(value: object) -> object:
        if isinstance(value, str):
            return text if next(count) == number else value
        if isinstance(value, dict):
            return {key: replaced(item) for key, item in cast("dict[str, object]", value).items()}
        return [replaced(item) for item in cast("list[object]", value)] if isinstance(value, list) else value

    last = dump_messages([Message.user("Hello.")], cast("Format", name))
    return parse_messages([*map(replaced, sample(name)), *last], cast("Format", name))


def sample(name: str) -> Sequence[object]:
    """Return messages in a wire format, with parts of all kinds that it can hold."""
    parts = (TextPart("Look:"), FilePart(data=_encoded("notes"), media_type="text/plain", name="a.txt"))
    answer = (TextPart("Well."), ToolPart("c1", "look_up", {"q": "x"}, "result", result={"found": "y"}))
    return dump_messages([Message.user(parts, id="m1"), Message("assistant", answer, id="m2")], cast("Format", name))


def count_strings(value: object) -> int:
    """Return how many strings stand in a JSON value, without keys."""
    if isinstance(value, dict):
        return sum(map(count_strings, cast("dict[str, object]", value).values()))
    return (
        sum(map(count_strings, cast("list[object]", value))) if isinstance(value, list) else int(isinstance(value, str))
    )
