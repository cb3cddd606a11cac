"""The vectors of `TokenLimiterProcessor`: prompts trimmed, streams and answers cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from penstock import Chunk, Message, MessageList, Workflow, parse_messages
from penstock.engine.values.errors import OptionError
from penstock.processors.budgets import TokenLimiterProcessor
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import chunk, joined, options_named, read, recorded, spelt_as, told, write
from tests.conformance.builtin.tokens_invented import rows
from tests.conformance.builtin.tokens_rules import LIMITS

OPTIONS = ("strategy", "count_mode", "trim_mode", "at_max_remove_tokens")
SOURCES = (("remembered", "memory"), ("context", "context"), ("messages", "input"), ("response", "response"))
NUMBERS = ("system_tokens", "limit", "remaining_budget", "message_count")


def limiter(options: Fields, method: str) -> TokenLimiterProcessor:
    """Return a limiter that counts as the engine of the row does, and serves the stage of the row."""
    heuristic = options["counter"] == "heuristic"
    return TokenLimiterProcessor(
        options["limit"],
        token_counter="heuristic" if heuristic else None,
        encoding=options["encoding"],
        counting="reference" if heuristic else "reference-1.0",
        scope="history" if method in ("process_input", "process_input_step") else "prompt",
        **{name: options[name] for name in OPTIONS},
    )


def run(given: Given) -> Fields:
    """Run one stage."""
    try:
        made = limiter(given.options, given.method)
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {}
    workflow = Workflow("w").then(made)
    if given.method == "process_output_stream":
        return stream(workflow, given.input["chunks"])
    if given.method == "process_llm_request":
        return request(workflow, given.input["prompt"])
    if given.method == "process_output_result":
        before = MessageList()
        for message in read(given.input["messages"]):
            before = before.add(message, source="input" if message.role == "user" else "response")
        if given.method not in made.stages:
            return {"messages": write(before)}
        outcome = workflow.check_sync(before, stage=given.method)
        return {"messages": write(outcome.message_list), **told(outcome)}
    return conversation(workflow, given)


def conversation(workflow: Workflow, given: Given) -> Fields:
    """Run an input stage on a conversation."""
    before = MessageList()
    for name, source in SOURCES:
        rows: Any = given.input.get(name, ())
        before = before.add(read(rows if isinstance(rows, list) else ()), source=source)
    before = before.add([Message.system(text) for text in given.input.get("system_messages", ())])
    outcome = workflow.check_sync(before, stage=given.method)
    return {"kept_ids": [message.id for message in outcome.message_list.conversation], **told(outcome)}


def request(workflow: Workflow, prompt: list[Any]) -> Fields:
    """Run the request stage on a prompt."""
    before = MessageList()
    for index, message in enumerate(parse_messages(prompt, format="ai-sdk-model")):
        before = before.add(replace(message, id=str(index)), source="input")
    assert len(before) == len(prompt)
    outcome = workflow.check_sync(before, stage="process_llm_request")
    kept = sorted(int(message.id) for message in outcome.message_list)
    return {"kept_indexes": kept, "changed": len(kept) < len(prompt), **told(outcome)}


def stream(workflow: Workflow, rows: list[Any]) -> Fields:
    """Run the stream stage; tell of each chunk whether it went out, or what of it."""
    taken: list[Any] = []

    def source() -> Iterator[Chunk]:
        for row in rows:
            taken.append(row)
            yield chunk(row)

    with workflow.start_sync().process_output_stream(source()) as chunks:
        out = list(chunks)
    rows_out = [recorded(piece) for piece in out]
    returns = went_out([recorded(chunk(row)) for row in taken], rows_out)
    verdicts = [{"tripwire": one["payload"]["reason"]} for one in rows_out if one["type"] == "tripwire"]
    notices = [one for one in rows_out if one["type"].startswith("data-")]
    return {"returns": [*returns[: len(returns) - len(verdicts)], *verdicts], "custom_chunks": notices}


def went_out(chunks: list[Any], out: list[Any]) -> list[Any]:
    """Return of each chunk whether it went out: ``emit``, ``drop``, or what of its text."""
    texts, returns = joined(row for row in out if "payload" in row), list[Any]()
    for row in chunks:
        if row["type"] == "text-delta":
            text = row["payload"]["text"]
            size = next(size for size in range(len(text), -1, -1) if texts.startswith(text[:size]))
            texts = texts[size:]
            returns.append("emit" if size == len(text) else {"emit": text[:size]} if size else "drop")
        else:
            returns.append("emit" if row in out else "drop")
    return returns


# What is compared


def projection(fields: Fields) -> Fields:
    """What stays, by id or place; of verdicts the numbers; of errors the options named; of answers their texts."""
    if "error" in fields:
        named = options_named(fields["error"], ("at_max_remove_tokens", "limit"))
        fields["error"] = named[:1]  # the limit is what the other is measured by
    if "tripwire" in fields:
        fields["tripwire"] = structure(fields["tripwire"])
    return fields


def structure(tripwire: Fields) -> Fields:
    """Return the numbers of a verdict: those in its reason, and those of its metadata."""
    metadata = {snake(name): value for name, value in (tripwire.get("metadata") or {}).items()}
    numbers = {name: round(metadata[name], 6) for name in NUMBERS if name in metadata}
    reason = [int(number) for number in re.findall(r"\d+", tripwire.get("reason", ""))]
    return {"retry": bool(tripwire.get("retry")), "metadata": numbers, "reason": reason}


def answers(fields: Fields) -> Fields:
    """Texts and other parts as they are; of verdicts the numbers."""
    fields = projection(fields)
    if "tripwire" in fields:
        fields["tripwire"].pop("metadata")
    return fields


def streams(fields: Fields) -> Fields:
    """Of each chunk whether it went out, or what of it; of verdicts the numbers in their reason; what was told."""
    fields = answers(fields)
    if "returns" in fields:
        fields["returns"] = [numbers(one) for one in fields["returns"]]
        fields["custom_chunks"] = [noticed(one) for one in fields.get("custom_chunks", ())]
    return fields


def numbers(returned: Any) -> Any:
    """Return a verdict as its numbers, anything else as it is."""
    if isinstance(returned, dict) and "tripwire" in returned:
        return {"tripwire": [int(number) for number in re.findall(r"\d+", str(returned["tripwire"]))]}
    return returned


def noticed(chunk: Fields) -> Fields:
    """Return the numbers of a notice."""
    data = {snake(name): value for name, value in chunk["data"].items()}
    return {"type": chunk["type"], "transient": chunk["transient"], **{k: data[k] for k in ("limit", "tokens")}}


def snake(name: str) -> str:
    """Return a name in snake_case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


FAMILY = Family(
    files=("token_limiter_input", "token_limiter_output"),
    run=run,
    projections={
        "process_input": projection,
        "process_input_step": projection,
        "process_llm_request": projection,
        "process_output_stream": streams,
        "process_output_result": answers,
        "construct": projection,
    },
    rules=LIMITS,
    spelling=spelt_as("process_output_stream", went_out),
    invented=lambda: list(rows()),
    neutral={("process_output_stream", "final_count"): "a counter in the processor's state"},
    defaults={
        "strategy": "truncate",
        "count_mode": "cumulative",
        "trim_mode": "best-fit",
        "at_max_remove_tokens": None,
        "counter": "heuristic",
        "encoding": "o200k_base",
    },
)
