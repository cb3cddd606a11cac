"""The vectors of `MemoryInputFilter`: what of a conversation that is sent whole is taken for new."""

from __future__ import annotations

from typing import Any

from penstock import MessageList, Workflow
from penstock.processors.memory import MemoryInputFilter
from tests.conformance.builtin.frame import Family, Fields, Given, Row
from tests.conformance.builtin.message_history import CONTEXT, invoked, said
from tests.conformance.builtin.shapes import read, told, write
from tests.conformance.builtin.threads import context_of, ran, store_of, threads_of_others_are_refused

OPTIONS = ("retain_full_input",)


def run(given: Given) -> Fields:
    """Run the stage against a store that holds what the row says."""
    return ran(played, given, OPTIONS)


async def played(given: Given) -> Fields:
    """Filter the input, and tell what is left of it."""
    storage = await store_of(given.input)
    new = MemoryInputFilter(storage, retain_full_input=given.options["retain_full_input"])
    messages = MessageList().add(read(given.input.get("messages") or []), source="input")
    workflow = Workflow("w").then(new)
    outcome = await workflow.check(messages, request_context=context_of(given.input))
    return {"input": [left(row) for row in write(outcome.message_list.input)], **told(outcome)}


def left(row: Fields) -> Fields:
    """Return a message as the vectors tell it."""
    return {"id": row["id"], "role": row["role"], "parts": row["content"]["parts"]}


def projection(fields: Fields) -> Fields:
    """Messages as they are; parts without notes that say nothing."""
    for row in fields.get("input", []):
        for part in row["parts"]:
            if part.get("providerMetadata") == {}:
                del part["providerMetadata"]
    return fields


# What is better on purpose


def results_in_messages_of_tools_are_new(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Results in messages of their own, as OpenAI has them, are new where calls wait for them, and else are not."""
    sent, last = given["messages"], -1
    for place, message in enumerate(sent):
        last = place if message["role"] == "assistant" else last
    if last < 0 or not given["stored"] or not any(message["role"] == "tool" for message in sent[last + 1 :]):
        return None
    states: dict[str, set[str]] = {}
    for message in given["stored"]:
        for part in message["content"]["parts"]:
            call = part.get("toolInvocation", {"toolCallId": "", "state": ""})
            states.setdefault(call["toolCallId"], set()).add(call["state"])
    waits = {id for id, seen in states.items() if "call" in seen and "result" not in seen}
    new: list[Fields] = []
    for message in sent[last + 1 :]:
        parts = message["content"]["parts"]
        if message["role"] == "tool":
            parts = [part for part in parts if part["toolInvocation"]["toolCallId"] in waits]
        if parts:
            new.append({"id": message["id"], "role": message["role"], "parts": parts})
    answers = any(message["role"] == "tool" for message in new)
    return {**expected, "input": new} if answers or sent[-1]["role"] == "user" else None


# Rows as others may have been recorded


def row(name: str, stored: list[Fields], sent: list[Fields], new: list[Fields], **options: Any) -> Row:
    """Return a row; ``new``: what is left."""
    given = {"method": "process_input", "stored": stored, "messages": sent, "context": CONTEXT}
    return Row(
        "memory_input_filter",
        name,
        Given(FAMILY.complete(options), given),
        {"input": [left(one) for one in new]},
    )


def rows() -> list[Row]:
    """Return rows that were worked out after the reference's spec."""
    asked, calls = said("h1", "user", "one"), said("h2", "assistant", invoked("call"))
    answered = said("h2", "assistant", "thinking", invoked("result"))
    update, now = said("h2", "assistant", invoked("result")), said("n1", "user", "new")
    data = {"type": "data-x", "data": {"a": 1}}
    said_two, result = said("h2", "assistant", "two"), said("t1", "tool", invoked("result"))
    prefill = said("p1", "assistant", "The answer is")
    noted = {"type": "text", "text": "two", "providerMetadata": {"openai": {"itemId": "m"}}}
    call = {**invoked("result"), "providerMetadata": {"openai": {"itemId": "f"}}}
    return [
        row("retained", [asked, said_two], [asked, said_two, now], [asked, said_two, now], retain_full_input=True),
        row("a result and a question", [asked, calls], [asked, answered, now], [update, now]),
        row(
            "data behind the result",
            [asked, calls],
            [asked, said("h2", "assistant", invoked("result"), data)],
            [update],
        ),
        row("an answer sent back", [asked, said_two], [asked, said_two], []),
        row("an answer nobody knows", [asked, said_two], [asked, prefill], [asked, prefill][1:]),
        row("another's thread", [{**said_two, "resourceId": "res-2"}], [asked, said_two], []),
        row(
            "a new thread keeps what calls brought",
            [],
            [said("h2", "assistant", noted, call)],
            [said("h2", "assistant", "two", call)],
        ),
        row("a tool's message", [asked, calls], [asked, calls, result], [asked, calls, result]),
        row("a tool's message that is stored", [asked, calls, result], [asked, calls, result, now], [result, now]),
    ]


FAMILY = Family(
    files=("memory_input_filter",),
    run=run,
    projections={"process_input": projection},
    rules=(
        threads_of_others_are_refused,
        results_in_messages_of_tools_are_new,
    ),
    defaults={"retain_full_input": False},
    invented=rows,
)
