"""Values that are nested deeply, at every public entrance: a clear error of Penstock's, and never a bare one."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio
import pytest

from penstock import Agent, Message, PIIDetector, ResponseCache, StructuredOutputProcessor, Workflow, processor
from penstock.engine import Chunk, InputContext, OptionError, parse_messages
from penstock.engine.values.errors import MessageError, PenstockError, UsageError
from penstock.engine.values.frozen import freeze, json_value, thaw
from penstock.engine.values.messages import DataPart, TextPart, ToolPart, UnknownPart
from penstock.engine.values.model import ModelRequest, ResponseFormat, ToolSpec
from penstock.engine.values.stored import Thread
from penstock.models.embedders import CachedEmbedder, HashingEmbedder
from penstock.models.judges import Judge
from penstock.processors.memory import WorkingMemory
from penstock.stores.encoding import read_message, read_values, write_values
from penstock.stores.sqlite.storage import InMemoryStorage
from penstock.testing import ScriptedModel
from penstock.tools import Tool


def lists(levels: int) -> Any:
    """Lists in lists."""
    made: Any = "v"
    for _ in range(levels):
        made = [made]
    return made


def mappings(levels: int) -> Any:
    """Mappings in mappings."""
    made: Any = "v"
    for _ in range(levels):
        made = {"k": made}
    return made


def objects(levels: int) -> Any:
    """The schema of objects in objects."""
    made: Any = {"type": "string"}
    for _ in range(levels // 2):
        made = {"type": "object", "properties": {"a": made}}
    return made


def unions(levels: int) -> Any:
    """A schema that is one of one, again and again."""
    made: Any = {"type": "string"}
    for _ in range(levels // 2):
        made = {"allOf": [made]}
    return made


def run(work: Callable[[], Any]) -> None:
    """Run async work."""

    async def main() -> None:
        await work()

    anyio.run(main)


def named(value: Any) -> dict[str, Any]:
    """The value as a mapping."""
    return value if isinstance(value, dict) else {"k": value}


def agent(*turns: Any, **options: Any) -> Agent:
    """An agent whose model answers so."""
    return Agent(ScriptedModel([*turns] or ["ok"]), **options)


async def _updated(value: Any) -> None:
    store = InMemoryStorage()
    await store.create_thread(Thread("t", "u"))
    await store.update_thread("t", metadata=named(value))
    await store.thread("t")


def _aborted(value: Any) -> None:
    @processor
    def stops(ctx: InputContext) -> None:
        ctx.abort("no", metadata=named(value))

    Workflow("w").then(stops).check_sync("hi")


def _tool(value: Any, **options: Any) -> None:
    parameters = {"type": "object", "properties": {"a": value}, "required": ["a"], "additionalProperties": False}
    Tool.from_schema(lambda given: "x", name="n", parameters=parameters, **options)


def _returns(value: Any) -> None:
    def find() -> object:
        """Find it."""
        return value

    run(lambda: agent({"tool_calls": [{"name": "find", "arguments": {}}]}, "ok", tools=[find]).generate("x"))


ENTRANCES: dict[str, Callable[[Any], Any]] = {
    "Thread": lambda value: Thread("t", "u", metadata=named(value)),
    "update_thread": lambda value: run(lambda: _updated(value)),
    "write_values": lambda value: write_values(named(value), "metadata"),
    "Message": lambda value: Message.user("x", metadata=named(value)),
    "TextPart": lambda value: TextPart("x", metadata=named(value)),
    "DataPart": lambda value: DataPart("n", value),
    "UnknownPart": lambda value: UnknownPart(named(value)),
    "ToolPart": lambda value: ToolPart("c", "t", value),
    "ToolPart's result": lambda value: ToolPart("c", "t", {}, "result", value),
    "Chunk": lambda value: Chunk("data-x", payload=named(value)),
    "ToolSpec": lambda value: ToolSpec("n", "d", named(value)),
    "ResponseFormat": lambda value: ResponseFormat(named(value), "n"),
    "ModelRequest": lambda value: ModelRequest((Message.user("x"),), settings=named(value)),
    "freeze": freeze,
    "thaw": thaw,
    "json_value": lambda value: json_value(value, "p"),
    "parse_messages": lambda value: parse_messages([{"role": "user", "content": value}]),
    "parse_messages' parts": lambda value: parse_messages(
        [{"role": "user", "content": [{"type": "text", "text": "x", "k": value}]}]
    ),
    "a request's context": lambda value: run(lambda: agent().generate("x", request_context=named(value))),
    "settings": lambda value: run(lambda: agent(processors=[ResponseCache()]).generate("x", settings=named(value))),
    "generate": lambda value: run(lambda: agent().generate([value])),
    "check": lambda value: Workflow("w").then(PIIDetector()).check_sync([{"role": "user", "content": value}]),
    "abort": _aborted,
    "a tool's schema": _tool,
    "a tool's strict schema": lambda value: _tool(value, strict=True),
    "a tool's result": _returns,
    "StructuredOutputProcessor": lambda value: StructuredOutputProcessor(named(value)),
    "WorkingMemory": lambda value: WorkingMemory(InMemoryStorage(), template=named(value)),
    "WorkingMemory's fields": lambda value: WorkingMemory(InMemoryStorage(), template={"a": value}),
    "Judge": lambda value: Judge(ScriptedModel(["x"]), dict, "i", settings=named(value)),
    "embed": lambda value: run(lambda: HashingEmbedder().embed([value])),
    "embed, cached": lambda value: run(lambda: CachedEmbedder(HashingEmbedder()).embed([value])),
    "query_vectors": lambda value: run(lambda: InMemoryStorage().query_vectors("i", [value], limit=1)),
}


@pytest.mark.parametrize(
    "levels", [pytest.param(90, marks=pytest.mark.rest), 250, pytest.param(1_500, marks=pytest.mark.rest), 20_000]
)
@pytest.mark.parametrize("shape", [lists, mappings, objects, unions])
@pytest.mark.parametrize("entrance", ENTRANCES)
def test_deep_values_are_taken_or_refused_with_a_clear_error(
    entrance: str, shape: Callable[[int], Any], levels: int
) -> None:
    """Never with a bare `RecursionError`, whose message says nothing."""
    value = shape(levels)
    with suppress(PenstockError):
        ENTRANCES[entrance](value)


@pytest.mark.parametrize("levels", [1, 60, 190, 199])
async def test_what_was_stored_can_be_read(levels: int) -> None:
    """What is nested too deeply to be read again is refused when it is stored."""
    store = InMemoryStorage()
    await store.create_thread(Thread("t", "u"))
    await store.update_thread("t", metadata={"k": lists(levels)})
    assert (await store.thread("t")).metadata == freeze({"k": lists(levels)})
    with pytest.raises(MessageError, match=r"metadata: .*200 levels"):
        await store.update_thread("t", metadata={"k": lists(201)})


@pytest.mark.parametrize("shape", [objects, unions])
def test_schemas_of_some_levels_are_taken_from_deep_within_a_program(shape: Callable[[int], Any]) -> None:
    """What reads them takes many calls for each level."""

    def below(calls: int) -> None:
        if calls:
            below(calls - 1)
        else:
            StructuredOutputProcessor({"type": "object", "properties": {"a": shape(90)}})
            WorkingMemory(InMemoryStorage(), template={"type": "object", "properties": {"a": shape(90)}})

    below(200)
    with pytest.raises(OptionError, match="at most 100 levels"):
        StructuredOutputProcessor({"type": "object", "properties": {"a": shape(120)}})


def test_what_others_have_written_is_refused_too() -> None:
    """A row of a store, a cursor, a template as JSON."""
    deep = "[" * 100_000
    for read in (read_message, read_values):
        with pytest.raises(MessageError):
            read(deep)
    cursor = urlsafe_b64encode(deep.encode()).decode()
    with pytest.raises(UsageError, match="not a cursor"):
        run(lambda: InMemoryStorage().messages("t", before=cursor))
    with pytest.raises(OptionError, match="this is not JSON"):
        WorkingMemory(InMemoryStorage(), template={"format": "json", "content": deep})
    with pytest.raises(OptionError):
        StructuredOutputProcessor(json.loads('{"type": "object", "properties": ' + "[" * 300 + "]" * 300 + "}"))
