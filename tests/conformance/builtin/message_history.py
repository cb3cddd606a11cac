"""The vectors of `MessageHistory`: what a thread's store brings into a conversation, and what is kept of one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from penstock import InMemoryStorage, MessageHistory, MessageList, Workflow
from penstock.engine.values.protocols import Storage
from penstock.engine.values.stored import Thread
from penstock.models.tokens.counters import HEURISTIC
from tests.conformance.builtin.frame import Family, Fields, Given, Row
from tests.conformance.builtin.shapes import constructed, naming, read, told, write
from tests.conformance.builtin.threads import context_of, ran, store_of, threads_of_others_are_refused

OPTIONS = ("last_messages", "token_limit", "token_counter")


def run(given: Given) -> Fields:
    """Run the stage against a store that holds what the row says."""
    if given.method == "construct":
        return constructed(lambda: history_of(given.options, InMemoryStorage(), read_only=False))
    return ran(played, given, OPTIONS)


async def played(given: Given) -> Fields:
    """Load, or keep, and tell what came of it."""
    context = context_of(given.input)
    storage = await store_of(given.input)
    loading = given.method == "process_input"
    if not loading and given.input.get("thread_exists"):
        await storage.create_thread(Thread("thread-1", "res-1", "T"))
    history = history_of(given.options, storage, read_only=context.pop("read_only", False))
    messages = MessageList().add(read(given.input.get("remembered") or []), source="memory")
    messages = messages.add(read(given.input.get("messages") or []), source="input")
    messages = messages.add(read(given.input.get("response") or []), source="response")
    async with Workflow("w").then(history).start(request_context=context) as run:
        if loading:
            outcome = await run.process_input(messages)
            listed = outcome.message_list
            ids = [message.id for message in listed.conversation]
            return {"ids": ids, "remembered_ids": [message.id for message in listed.remembered], **told(outcome)}
        outcome = await run.process_output_result(messages, finish_reason=given.input.get("finish_reason"))
    rows = (await storage.messages("thread-1", oldest_first=True)).items
    return {"stored_rows": write(row.message for row in rows), "thread": await thread_in(storage), **told(outcome)}


def history_of(options: Fields, storage: Storage, *, read_only: bool) -> MessageHistory:
    """Return the processor that the options mean."""
    last = options["last_messages"]
    budget = options["token_limit"] or {}
    return MessageHistory(
        storage,
        last_messages=None if last is False else last,
        max_tokens=budget.get("max_tokens", budget.get("maxTokens")),
        at_max_remove_tokens=budget.get("at_max_remove_tokens", budget.get("atMaxRemoveTokens")),
        token_counter=HEURISTIC,
        counting="reference",
        read_only=read_only,
    )


async def thread_in(storage: Storage) -> Fields | None:
    """Return the thread that is stored."""
    found = await storage.thread("thread-1")
    if found is None:
        return None
    return {"id": found.id, "resourceId": found.resource_id, "title": found.title, "metadata": {**found.metadata}}


def projection(fields: Fields) -> Fields:
    """Ids as they are; of rows id, role and content; of the thread whose it is, and its title."""
    for row in fields.get("stored_rows") or []:
        for name in ("createdAt", "threadId", "resourceId", "type"):
            row.pop(name, None)
        row["content"] = {"parts": row["content"]["parts"]}
    if fields.get("thread"):
        fields["thread"] = {name: fields["thread"].get(name) for name in ("id", "resourceId", "title")}
    return fields


# What is better on purpose


def no_message_says_nothing(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """What was nothing but an element of the working memory is not kept as an empty text: providers refuse those."""
    rows = expected.get("stored_rows")
    if not rows:
        return None
    kept: list[Fields] = []
    for row in rows:
        parts = [part for part in row["content"]["parts"] if part.get("text") != ""]
        if parts:
            kept.append({**row, "content": {**row["content"], "parts": parts}})
    return {**expected, "stored_rows": kept}


def results_have_their_calls(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where the window begins between a call and its result, the result stays out: providers refuse it alone."""
    if "remembered_ids" not in expected or not isinstance(options["last_messages"], int):
        return None
    rows = {row["id"]: row for row in given["stored"]}
    called, lost = set[str](), set[str]()
    for id in expected["remembered_ids"]:
        parts = rows[id]["content"]["parts"] if isinstance(rows[id]["content"], dict) else []
        keys = {part["toolInvocation"]["toolCallId"] for part in parts if part["type"] == "tool-invocation"}
        if rows[id]["role"] != "tool":
            called |= keys
        elif keys - called and len(keys) == len(parts):
            lost.add(id)
    left = {name: [id for id in expected[name] if id not in lost] for name in ("ids", "remembered_ids")}
    return {**expected, **left} if lost else None


# Rows as others may have been recorded


def said(id: str, role: str, *parts: Any) -> Fields:
    """Return a stored message."""
    made = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    return {
        "id": id,
        "role": role,
        "content": {"format": 2, "parts": made},
        "threadId": "thread-1",
        "resourceId": "res-1",
    }


def invoked(state: str, name: str = "search", id: str = "c1") -> Fields:
    """Return a part with a call to a tool."""
    result = {"result": "r"} if state == "result" else {}
    call = {"state": state, "toolName": name, "toolCallId": id, "args": {}, **result}
    return {"type": "tool-invocation", "toolInvocation": call}


CONTEXT = {"thread": {"id": "thread-1"}, "resource": "res-1"}


def kept(name: str, response: list[Fields], rows: list[Fields], **more: Any) -> Row:
    """Return a row of which only answers are kept."""
    given = {"method": "process_output_result", "stored": [], "context": CONTEXT, "thread_exists": True}
    shown = [{name: row[name] for name in ("id", "role", "content")} for row in rows]
    return Row(
        "message_history",
        name,
        Given(FAMILY.complete({}), {**given, "response": response, **more}),
        {"stored_rows": shown},
    )


def loaded(name: str, options: Fields, stored: list[Fields], remembered: list[str], **more: Any) -> Row:
    """Return a row of what is loaded."""
    now = [said("i1", "user", "now")]
    given = {"method": "process_input", "stored": stored, "messages": now, "context": CONTEXT, **more}
    expected = {"ids": [*remembered, "i1"], "remembered_ids": remembered}
    return Row("message_history", name, Given(FAMILY.complete(options), given), expected)


def rows() -> list[Row]:
    """Return rows that were worked out after the reference's spec."""
    text = "a <working_memory>x\ny</working_memory> b"
    many = [said(f"h{place}", "user" if place % 2 else "assistant", "word " * 20) for place in range(1, 60)]
    pair = [said("h1", "user", "q"), said("h2", "assistant", invoked("call")), said("h3", "tool", invoked("result"))]
    signal = {**said("r1", "signal", "note"), "content": {"format": 2, "parts": [], "metadata": {}}}
    signal["content"] |= {"parts": [{"type": "text", "text": "n"}], "metadata": {"signal": {"transient": True}}}
    only = [said("r1", "assistant", "<working_memory>all</working_memory>")]
    return [
        kept("an element is removed", [said("r1", "assistant", text)], [said("r1", "assistant", "a  b")]),
        kept("two elements", [said("r1", "assistant", text + text)], [said("r1", "assistant", "a  ba  b")]),
        kept("nothing but an element", only, [said("r1", "assistant", "")]),
        kept(
            "a finished call stays",
            [said("r1", "assistant", invoked("result"))],
            [said("r1", "assistant", invoked("result"))],
        ),
        kept("a transient signal", [signal, said("r2", "assistant", "x")], [said("r2", "assistant", "x")]),
        kept("an error without output", [], [], messages=[said("i1", "user", "now")], finish_reason="error"),
        theirs(),
        kept("nothing new", [], [], remembered=[said("h1", "user", "old")]),
        loaded("none", {"last_messages": 0}, many[:3], []),
        loaded("the reference's default", {}, many, [row["id"] for row in many[-40:]]),
        loaded("another's rows", {}, [many[0], {**many[1], "resourceId": "res-2"}], ["h1"]),
        loaded("another's thread", {}, [{**many[1], "resourceId": "res-2"}], []),
        loaded("a result whose call is older", {"last_messages": 1}, pair, ["h3"]),
        loaded("a pair", {"last_messages": 2}, pair, ["h2", "h3"]),
    ]


def theirs() -> Row:
    """Return a row that keeps something in another's thread."""
    row = kept("another's thread is kept", [said("r1", "assistant", "x")], [said("r1", "assistant", "x")])
    given = replace(row.given, input={**row.given.input, "context": {**CONTEXT, "resource": "res-2"}})
    return replace(row, given=given, expected={**row.expected, "thread": {"id": "thread-1", "resourceId": "res-1"}})


FAMILY = Family(
    files=("message_history",),
    run=run,
    projections={
        "process_input": projection,
        "process_output_result": projection,
        "construct": naming(*OPTIONS),
    },
    rules=(threads_of_others_are_refused, no_message_says_nothing, results_have_their_calls),
    defaults={"last_messages": 40, "token_limit": None, "token_counter": None},
    invented=rows,
)
