"""The vectors of `ToolCallFilter`: on provider prompts, on stored messages, and of its older namesake."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from penstock import Message, MessageList, ToolCallFilter, Workflow, dump_messages, parse_messages
from penstock.engine.values.errors import OptionError
from penstock.processors.memory import LegacyMemory, MemoryToolCallFilter
from tests.conformance.builtin import tool_call_filter_invented
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import constructed, options_named, read, told, write

OPTIONS = ("exclude", "filter_after_tool_steps", "preserve_model_output")
STORED = "1.0.4"
"""The engine whose filter worked on the conversation rather than on the prompt."""


def run(given: Given) -> Fields:
    """Run the stage on the messages, or on each prompt of one request."""
    options = {name: value for name, value in given.options.items() if name in OPTIONS}
    try:
        if given.method == "memory_process":
            return on_memory(MemoryToolCallFilter(exclude=options["exclude"]), given.input["messages"])
        if given.method == "process_input":
            return on_history(ToolCallFilter(**options, scope="history"), given.input["messages"])
        if given.method == "construct":
            return constructed(lambda: ToolCallFilter(**options))
        prompts = given.input["prompts"] if "prompts" in given.input else [given.input["prompt"]]
        return on_prompts(ToolCallFilter(**options), prompts)
    except OptionError as error:
        return {"error": str(error)}


def model_read(items: list[Any]) -> list[Message]:
    """Return the messages of a prompt, with ids that tell their places."""
    return list(parse_messages(items, "ai-sdk-model"))


def on_memory(processor: MemoryToolCallFilter, items: list[Any]) -> Fields:
    """Run the older filter on what a conversation remembers."""
    remembered = MessageList().add(model_read(items), source="memory")
    outcome = Workflow("w").then(LegacyMemory(processor)).check_sync(remembered)
    return {"messages": dump_messages(outcome.message_list.remembered, "ai-sdk-model"), **told(outcome)}


def on_history(processor: ToolCallFilter, rows: list[Any]) -> Fields:
    """Run the input stage on stored messages."""
    outcome = Workflow("w").then(processor).check_sync(MessageList().add(read(rows), source="input"))
    kept = write(outcome.message_list)
    return {"messages": [shown(row) for row in kept], **told(outcome)}


def on_prompts(processor: ToolCallFilter, prompts: list[Any]) -> Fields:
    """Run the request stage on one prompt after the other, in one run."""
    run = Workflow("w").then(processor).start_sync()
    steps: list[Fields] = []
    for prompt in prompts:
        messages = MessageList().add(model_read(prompt), source="input")
        outcome = run.process_llm_request(messages)
        shown = dump_messages(outcome.message_list, "ai-sdk-model")
        steps.append({"changed": True, "prompt": shown} if outcome.message_list != messages else {"changed": False})
        if outcome.blocked:
            return {"steps": steps, **told(outcome)}
    return {"steps": steps}


def projection(fields: Fields) -> Fields:
    """Prompts and messages as they are; of errors the options named."""
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    return fields


# What is better on purpose


def a_negative_number_is_refused(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """An option that cannot be meant is told, not clamped."""
    number = options["filter_after_tool_steps"]
    return {"error": "filter_after_tool_steps"} if number is not None and number < 0 else None


def what_the_model_has_not_seen_is_kept(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A prompt that ends with results: their step stays (without a number of steps: their whole turn)."""
    number = options["filter_after_tool_steps"]
    if "steps" not in expected or number not in (None, 0):
        return None
    steps, first = list[Fields](), given["prompts"][0]
    for prompt, step in zip(given["prompts"], expected["steps"], strict=True):
        tail = open_end(prompt, "assistant") if number == 0 else open_end(first, "user") and after_last(prompt, "user")
        shown = list(step.get("prompt", prompt))
        while tail and shown and is_left_of(shown[-1], tail):
            shown.pop()
        shown += tail
        steps.append({"changed": True, "prompt": shown} if shown != prompt else {"changed": False})
    return {"steps": steps} if steps != expected["steps"] else None


def a_stored_turn_that_goes_on_is_kept(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Likewise, where stored messages end with a result."""
    messages = given.get("messages", [])
    if given["method"] != "process_input" or "messages" not in expected or not messages:
        return None
    said = [part for part in messages[-1]["content"]["parts"] if part["type"] != "step-start"]
    states = [part.get("toolInvocation", {}).get("state") for part in said]
    if states[-1:] not in (["result"], ["output-error"]):
        return None
    users = [index for index, message in enumerate(messages) if message["role"] == "user"]
    turn = [shown(message) for message in messages[users[-1] + 1 if users else 0 :]]
    ids = {message["id"] for message in turn}
    new = [*(message for message in expected["messages"] if message["id"] not in ids), *turn]
    return {"messages": new} if new != expected["messages"] else None


def a_preserved_text_is_the_results(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where the mark holds another output than the result, the result counts: it is what guards have read."""
    told = json.dumps(expected)
    for part in (part for prompt in given.get("prompts", []) for message in prompt for part in calls(message)):
        mark = marked(part)
        if mark is not None and mark != part["output"]:
            theirs, ours = (f"{part['toolName']} result:\n{extracted(value)}" for value in (mark, part["output"]))
            told = told.replace(json.dumps(theirs), json.dumps(ours))
    new: Fields = json.loads(told)
    return new if new != expected else None


def media_are_named_not_quoted(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A preserved result names its media by their types."""
    told = json.dumps(expected, ensure_ascii=False)
    for entry in media(given.get("prompts")):
        quoted = json.dumps(json.dumps(entry, ensure_ascii=False, separators=(",", ":")), ensure_ascii=False)[1:-1]
        told = told.replace(quoted, f"[{entry['mediaType']}]")
    new: Fields = json.loads(told)
    return new if new != expected else None


def a_preserved_result_needs_no_call(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A marked result whose call is not in the prompt leaves its text behind too."""
    if not options["preserve_model_output"] or "steps" not in expected:
        return None
    new: list[Fields] = []
    for prompt, step in zip(given["prompts"], expected["steps"], strict=True):
        shown = list(step.get("prompt", prompt))
        called = {part["toolCallId"] for m in prompt for part in calls(m) if part["type"] == "tool-call"}
        there = {part["toolCallId"] for m in shown for part in calls(m)}
        for index, message in enumerate(prompt):
            lost = [part for part in calls(message) if part["toolCallId"] not in called | there]
            texts = [{"type": "text", "text": text} for part in lost if (text := preserved(part))]
            if message["role"] == "tool" and texts:
                turns = sum(m["role"] in ("system", "user") for m in prompt[:index])
                heads = [place for place, m in enumerate(shown) if m["role"] in ("system", "user")]
                place = heads[turns] if turns < len(heads) else len(shown)
                shown.insert(place, {"role": "assistant", "content": texts})
        new.append({"changed": True, "prompt": shown} if shown != prompt else {"changed": False})
    return {"steps": new} if new != expected["steps"] else None


def a_call_in_progress_goes_like_others(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Calls whose arguments still stream in are filtered by their tools' names too."""
    if given["method"] != "process_input" or options["exclude"] is None:
        return None
    kept = [{**m, "parts": [p for p in m["parts"] if not _excluded(p, options)]} for m in expected["messages"]]
    kept = [message for message in kept if message["parts"]]
    return {"messages": kept} if kept != expected["messages"] else None


def only_calls_and_results_go(options: Fields, given: Fields, _expected: Fields) -> Fields | None:
    """Of the older filter's messages too: what is said beside a call stays, and a result goes without its call."""
    if given["method"] != "memory_process":
        return None
    names, kept = options["exclude"], list[Fields]()
    every = [part for message in given["messages"] for part in calls(message)]
    ids = {part["toolCallId"] for part in every if names is None or part["toolName"] in names}
    for message in given["messages"]:
        rest = message["content"]
        if isinstance(rest, list):
            rest = [part for part in rest if part.get("toolCallId") not in ids]
        if rest or not message["content"]:
            kept.append({**message, "content": rest})
    return {"messages": kept}


# What the rules share


def calls(message: Fields) -> list[Fields]:
    """Return the calls and results of a message."""
    content = message["content"]
    return [part for part in content if "toolCallId" in part] if isinstance(content, list) else []


def texts(message: Fields) -> set[str]:
    """Return what a message says in text parts."""
    return (
        {part["text"] for part in message["content"] if "text" in part}
        if isinstance(message["content"], list)
        else set()
    )


def after_last(prompt: list[Fields], role: str) -> list[Fields]:
    """Return the messages from the last of the assistant's on, or behind the last of the user's."""
    found = [index for index, message in enumerate(prompt) if message["role"] == role]
    start = (found[-1] if found else -1) + (role == "user")
    return prompt[max(start, 0) :]


def open_end(prompt: list[Fields], role: str) -> list[Fields]:
    """Return these messages if the model has not seen the last of them yet; none otherwise."""
    return after_last(prompt, role) if prompt and prompt[-1]["role"] == "tool" else []


def is_left_of(message: Fields, tail: list[Fields]) -> bool:
    """Whether a message is what the reference left of one at the end: other calls, what was said, a preserved text."""
    every = [part for one in tail for part in calls(one)]
    said = set[str]().union(*map(texts, tail))
    results = tuple(f"{part['toolName']} result:\n" for part in every)
    ids = {part["toolCallId"] for part in every} & {part["toolCallId"] for part in calls(message)}
    told = any(text in said or text.startswith(results) for text in texts(message))
    return message["role"] in ("assistant", "tool") and (bool(ids) or told)


def media(value: Any) -> Iterator[Fields]:
    """Yield the objects that hold media in base64, wherever they are."""
    if isinstance(value, dict):
        if isinstance(value.get("data"), str) and isinstance(value.get("mediaType"), str):
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from media(item)


def shown(row: Fields) -> Fields:
    """Return what the vectors show of a stored message."""
    return {"id": row["id"], "role": row["role"], "parts": row["content"]["parts"]}


def marked(part: Fields) -> Any:
    """Return what a result's mark holds; None if it bears none."""
    return part.get("providerOptions", {}).get("mastra", {}).get("modelOutput")


def extracted(value: Any) -> str:
    """Return the text that the reference makes of an output."""
    if isinstance(value, list):
        return "\n".join(map(extracted, value))
    if isinstance(value, dict):
        if value.get("type") == "text":
            return extracted(value.get("value", value.get("text")))
        for key in ("value", "text"):
            if key in value:
                return extracted(value[key])
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def preserved(part: Fields) -> str | None:
    """Return the text that stays of a marked result."""
    text = extracted(part["output"])
    return f"{part['toolName']} result:\n{text}" if text and marked(part) is not None else None


def _excluded(part: Fields, options: Fields) -> bool:
    return part.get("toolInvocation", {}).get("toolName") in options["exclude"]


FAMILY = Family(
    files=("tool_call_filter",),
    run=run,
    projections=dict.fromkeys(("process_llm_request", "process_input", "memory_process", "construct"), projection),
    rules=(
        a_negative_number_is_refused,
        what_the_model_has_not_seen_is_kept,
        a_preserved_text_is_the_results,
        a_preserved_result_needs_no_call,
        media_are_named_not_quoted,
        a_call_in_progress_goes_like_others,
        a_stored_turn_that_goes_on_is_kept,
        only_calls_and_results_go,
    ),
    defaults=tool_call_filter_invented.DEFAULTS,
    invented=tool_call_filter_invented.rows,
)
