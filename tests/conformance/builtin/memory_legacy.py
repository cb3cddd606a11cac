"""The vectors of the older memory processors, run on what a conversation remembers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock import Message, MessageList, Processor, Workflow, dump_messages, parse_messages
from penstock.engine import UnknownPart
from penstock.engine.values.errors import OptionError
from penstock.processors.memory import (
    DropMessages,
    DropParts,
    LegacyMemory,
    LegacyMemoryProcessor,
    MemoryTokenLimiter,
    MemoryToolCallFilter,
)
from tests.conformance.builtin.frame import Family, Fields, Given, Row
from tests.conformance.builtin.shapes import constructed, options_named, told

OPTIONS = ("limit", "encoding", "exclude")


def run(given: Given) -> Fields:
    """Run the processors that the options mean."""
    try:
        if given.method == "construct":
            return constructed(lambda: meant(given))
        if given.method == "count_tokens":
            counting = limiter(given.options | {"limit": 0})
            if isinstance(said := given.input.get("message", given.input.get("text")), str):
                return {"tokens": counting.token_counter.count(said)}
            return {"tokens": counting.count(*parse_messages([said], "ai-sdk-model"))}
        return on_memory(given, *meant(given))
    except OptionError as error:
        return {"error": str(error)}


def limiter(options: Fields) -> MemoryTokenLimiter:
    """Return the limiter of the options."""
    return MemoryTokenLimiter(options["limit"], encoding=options["encoding"])


def meant(given: Given) -> list[Processor]:
    """Return the processors that a row is about: those of a chain, the limiter, or the example in the documents."""
    options = given.options
    made = {
        "token_limiter": lambda: limiter(options),
        "tool_call_filter": lambda: MemoryToolCallFilter(exclude=options["exclude"]),
    }
    if options["chain"]:
        return [LegacyMemory(*[made[name]() for name in options["chain"]])]
    if options["limit"] is not None:
        return [LegacyMemory(limiter(options))]
    if given.example:
        return [EXAMPLES[given.example]]
    return [LegacyMemory(LegacyMemoryProcessor())]


def sounds(message: Message) -> bool:
    """Tell whether a message holds sound, or names a file with some."""
    parts = [part.raw.get("type") for part in message.parts if isinstance(part, UnknownPart)]
    return "audio" in parts or ".mp3" in message.text or "data:audio" in message.text


EXAMPLES: dict[str, Processor] = {
    "example_audio_filter": DropMessages(sounds),
    "example_reasoning_filter": DropParts(types=["reasoning", "redacted-reasoning"]),
}
"""What users were told to write."""


def on_memory(given: Given, *processors: Processor) -> Fields:
    """Run the input stage on a conversation that remembers the messages."""
    context, memory = given.input.get("context") or {}, read(given.input["messages"])
    messages = MessageList().add(memory, source="memory").add(read(context.get("newMessages", [])), source="input")
    for name, tag in (("systemMessage", None), ("memorySystemMessage", "memory")):
        if context.get(name):
            messages = messages.add(Message.system(context[name]), tag=tag)
    workflow = Workflow("w")
    for processor in processors:
        workflow = workflow.then(processor)
    outcome = workflow.check_sync(messages)
    kept = outcome.message_list.remembered
    places = {message.id: index for index, message in enumerate(messages.remembered)}
    return {
        "messages": dump_messages(kept, "ai-sdk-model"),
        "kept_indexes": [places[message.id] for message in kept],
        **told(outcome),
    }


def read(items: list[Any]) -> list[Message]:
    """Return the messages of the older format."""
    return list(parse_messages(items, "ai-sdk-model"))


def projection(fields: Fields) -> Fields:
    """Messages and places as they are; counts to a thousandth; of errors the options named."""
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "tokens" in fields:
        fields["tokens"] = round(fields["tokens"], 3)
    return fields


def a_message_counts_what_it_costs(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """JSON counts in full, and every message has its overhead; nothing counts less than nothing."""
    if not isinstance(given.get("message"), dict):
        return None
    content = given["message"]["content"]
    parts = content if isinstance(content, list) else [{"type": "text"}]
    tools = [part for part in parts if part["type"] in ("tool-call", "tool-result")]
    said = [part.get("args", part.get("result")) for part in tools]
    rebate = 12 * sum(not isinstance(value, str) for value in said)
    overhead = 3.8 if parts and len(tools) == len(parts) else 0
    new = {"tokens": expected["tokens"] + rebate + overhead}
    return new if rebate or overhead else None


def a_result_goes_with_its_call(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where the budget cuts between a call and its result, both go."""
    if "kept_indexes" not in expected:
        return None
    kept = [given["messages"][index] for index in expected["kept_indexes"] if index < len(given["messages"])]
    called = {part["toolCallId"] for message in kept for part in calls(message) if part["type"] == "tool-call"}
    answered = [{part["toolCallId"] for part in calls(message)} for message in kept]
    pairs = zip(expected["kept_indexes"], answered, strict=False)
    new = {"kept_indexes": [index for index, ids in pairs if ids <= called]}
    return new if new != expected else None


def calls(message: Fields) -> list[Fields]:
    """Return the calls and results of a message."""
    content = message["content"]
    return [part for part in content if "toolCallId" in part] if isinstance(content, list) else []


def invented() -> Sequence[Row]:
    """Return rows as others may have been recorded; what the reference does is after its spec."""
    long = " ".join(["alpha"] * 60)
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "args": {"q": long}}
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "f", "result": "four"}
    pair = [{"role": "assistant", "content": [call]}, {"role": "tool", "content": [result]}]
    messages = [{"role": "user", "content": long}, *pair, {"role": "user", "content": "ok"}]
    given = {"method": "memory_process", "messages": messages, "context": {}}
    thoughts = [{"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}]}, *pair]
    example = Given(FAMILY.complete({}), {**given, "messages": thoughts}, example="example_reasoning_filter")
    texts = [{"method": "count_tokens", "message": "alpha bravo"}, {"method": "count_tokens", "text": "alpha bravo"}]
    return [
        *(Row("memory_legacy", "a text", Given(FAMILY.complete({}), text), {"tokens": 2}) for text in texts),
        Row("memory_legacy", "a cut pair", Given(FAMILY.complete({"limit": 50}), given), {"kept_indexes": [2, 3]}),
        Row(
            "memory_legacy", "a whole pair", Given(FAMILY.complete({"limit": 150}), given), {"kept_indexes": [1, 2, 3]}
        ),
        Row("memory_legacy", "thoughts", example, {"messages": pair}),
        chain(["token_limiter"], [3]),
        chain(["tool_call_filter"], [0, 3]),
        chain(["tool_call_filter"], [0, 1, 2, 3], exclude=["g"]),
    ]


def chain(order: Sequence[str], kept: Sequence[int], *, exclude: Sequence[str] = ("f",)) -> Row:
    """Return a row on a chain of one: a call too long for the budget, and its result."""
    text = " ".join(["alpha"] * 60)
    call = {"type": "tool-call", "toolCallId": "c", "toolName": "f", "args": {"q": "q"}}
    result = {"type": "tool-result", "toolCallId": "c", "toolName": "f", "result": text}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [call]},
        {"role": "tool", "content": [result]},
        {"role": "user", "content": "ok"},
    ]
    options = {"chain": list(order), "limit": 60, "exclude": list(exclude)}
    given = Given(FAMILY.complete(options), {"method": "memory_chain", "messages": messages})
    return Row("memory_legacy", " ".join(order), given, {"messages": [messages[place] for place in kept]})


FAMILY = Family(
    files=("memory_legacy",),
    run=run,
    projections={
        "memory_process": projection,
        "memory_chain": projection,
        "count_tokens": projection,
        "construct": projection,
    },
    rules=(a_message_counts_what_it_costs, a_result_goes_with_its_call),
    neutral={("memory_process", "same_object"): "messages are values: whether it is the same object tells nothing"},
    defaults={"limit": None, "encoding": "o200k_base", "exclude": None, "chain": None, "counter": "tiktoken"},
    invented=invented,
)
