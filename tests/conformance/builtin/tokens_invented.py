"""Rows for the token limiter as others may have been recorded; what the reference does is after its spec.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS: Fields = {
    "strategy": "truncate",
    "count_mode": "cumulative",
    "trim_mode": "best-fit",
    "at_max_remove_tokens": None,
    "counter": "heuristic",
    "encoding": "o200k_base",
}
BPE = {"counter": "tiktoken"}
MEMORY = {"trim_mode": "memory-only"}


def message(role: str, id: str, *parts: Any) -> Fields:
    """Return a stored message; texts are parts."""
    made = [{"type": "text", "text": part} if isinstance(part, str) else part for part in parts]
    time = "2026-01-01T00:00:00.000Z"
    return {"id": id, "role": role, "createdAt": time, "content": {"format": 2, "parts": made}}


def user(id: str, *parts: Any) -> Fields:
    """Return a user's message."""
    return message("user", id, *parts)


def assistant(id: str, *parts: Any) -> Fields:
    """Return an answer."""
    return message("assistant", id, *parts)


def tool(id: str, state: str, **more: Any) -> Fields:
    """Return a tool's part."""
    call = {"state": state, "toolName": "t", "toolCallId": id, "args": {"q": id}, **more}
    return {"type": "tool-invocation", "toolInvocation": call}


def row(name: str, options: Fields, given: Fields, expected: Fields) -> Row:
    """Return a row."""
    return Row("token_limiter_input", name, Given({**DEFAULTS, **options}, given), expected)


def kept(name: str, options: Fields, messages: list[Fields], ids: list[str], **more: Any) -> Row:
    """Return a row on a conversation: the ids that the reference keeps."""
    given = {"method": "process_input_step", "messages": messages, "system_messages": [], **more}
    return row(name, options, given, {"kept_ids": ids})


def streamed(name: str, options: Fields, texts: list[Any], returns: list[Any], told: list[Any] | None = None) -> Row:
    """Return a row on a stream: of each chunk what the reference does with it."""
    chunks = [
        {"type": "text-delta", "payload": {"id": "t", "text": one}} if isinstance(one, str) else one for one in texts
    ]
    given = {"method": "process_output_stream", "chunks": chunks}
    return row(name, options, given, {"returns": returns, "custom_chunks": told or [], "final_count": 0})


def answered(name: str, options: Fields, messages: list[Fields], expected: list[Fields] | Fields) -> Row:
    """Return a row on whole answers."""
    found = {"messages": expected} if isinstance(expected, list) else expected
    return row(name, options, {"method": "process_output_result", "messages": messages}, found)


LONG = "alpha bravo charlie delta echo " * 8
NOTICE = {"type": "data-token-limit-reached", "transient": True}


def rows() -> Iterator[Row]:
    """Yield the rows."""
    yield from of_prompts()
    yield from of_memory()
    yield from of_answers()
    for limit in (None, -1, "10", 2.5, True):
        yield row(f"limit_{limit}", {"limit": limit}, {"method": "construct"}, {})
    yield row("remove_too_many", {"limit": 10, "at_max_remove_tokens": 11, **MEMORY}, {"method": "construct"}, ERROR)


ERROR = {"error": "atMaxRemoveTokens must be finite, non-negative and no more than limit"}


def of_prompts() -> Iterator[Row]:
    """Yield rows on conversations."""
    talk = [user("u1", "hi"), assistant("a1", LONG), user("u2", LONG)]
    method = {"method": "process_input"}
    yield kept("nothing_fits", {**BPE, "limit": 28}, talk, [], **method)
    yield kept("nothing_of_nobody_fits", {**BPE, "limit": 28}, [assistant("a1", LONG)], [], **method)
    yield kept("input_is_not_trimmed", {"limit": 60}, [*talk[:2], user("u2", "yes")], ["u1", "a1", "u2"], **method)
    yield kept("newest_too_big", {"limit": 60}, talk, ["u1"])
    yield kept(
        "run_too_big", {"limit": 60}, [user("u1", "a"), assistant("a1", tool("c", "result", result=LONG))], ["u1"]
    )
    parted = [user("u1", "a"), assistant("a1", tool("c", "call")), user("u2", LONG), user("u3", "b")]
    parted.insert(2, assistant("a2", tool("c", "result", result=LONG), "so it is"))
    yield kept("call_without_result", {"limit": 60}, parted, ["u1", "a1", "u3"])
    answered_so = [
        user("u1", "a"),
        assistant("a1", tool("c", "call")),
        assistant("a2", tool("c", "result", result=LONG)),
    ]
    answered_so += [assistant("a3", "so it is"), user("u3", "b")]
    yield kept("call_without_result_in_a_turn", {"limit": 60}, answered_so, ["u1", "a1", "a3", "u3"])
    orphan = [user("u1", LONG), assistant("a1", "yes"), user("u2", "go on")]
    yield kept("orphan", {"limit": 60}, orphan, ["a1", "u2"])
    yield kept("orphan_contiguous", {"limit": 60, "trim_mode": "contiguous"}, orphan, ["a1", "u2"])
    gap = [user("u1", "hi"), assistant("a1", "yes"), user("u2", LONG), assistant("a2", "ok"), user("u3", "go on")]
    yield kept("best_fit_leaves_a_gap", {"limit": 60}, gap, ["u1", "a1", "a2", "u3"])
    for method in ("process_input", "process_input_step"):
        contiguous = {"limit": 60, "trim_mode": "contiguous"}
        yield kept("contiguous_leaves_none", contiguous, gap, ["a2", "u3"], method=method)
        yield kept("contiguous_stops_at_a_run", contiguous, [*gap[:3], *gap[4:]], ["u3"], method=method)
    prompt = [
        {"role": one["role"], "content": [{"type": "text", "text": one["content"]["parts"][0]["text"]}]} for one in gap
    ]
    for mode, indexes in (("best-fit", [0, 1, 3, 4]), ("contiguous", [3, 4])):
        yield row(
            f"a_prompt_{mode}",
            {"limit": 60, "trim_mode": mode},
            {"method": "process_llm_request", "prompt": prompt},
            {"changed": True, "kept_indexes": indexes},
        )
    encoded = [user("u1", "hi"), assistant("a1", "QUJDREVGR0hJSktMTU5PUA" * 8), user("u2", "go on")]
    yield kept("heuristic_sees_one_word", {"limit": 75}, encoded, ["u1", "a1", "u2"])
    yield kept("bpe_sees_many", {**BPE, "limit": 75}, encoded, ["u1", "u2"], method="process_input")
    yield kept("all_fits", {"limit": 900}, orphan, ["u1", "a1", "u2"])
    yield kept("one_by_one", {"limit": 36}, [user("u1", "a"), user("u2", "b"), user("u3", "c")], ["u2", "u3"])


def of_memory() -> Iterator[Row]:
    """Yield rows on memory's share."""
    pairs = [user("r1", LONG), assistant("r2", LONG), user("r3", "c"), assistant("r4", "d")]
    more: Fields = {"remembered": pairs, "method": "process_input"}
    yield kept(
        "memory_orphan",
        {"limit": 140, "at_max_remove_tokens": 40, **MEMORY},
        [user("i", LONG)],
        ["r2", "r3", "r4", "i"][1:],
        **more,
    )
    first = [user("r1", LONG * 2), assistant("r2", "short"), user("r3", "c"), assistant("r4", "d")]
    more = {"remembered": first, "method": "process_input"}
    yield kept("memory_first", {"limit": 120, **MEMORY}, [user("i", LONG)], ["r2", "r3", "r4", "i"], **more)
    yield streamed("memory_only_streams", {"limit": 1, **MEMORY}, ["one two", " three"], ["emit", "emit"])


def of_answers() -> Iterator[Row]:
    """Yield rows on answers."""
    told = [{**NOTICE, "data": {"processorId": "token-limiter", "limit": 2, "tokens": 4}}]
    yield streamed("one_piece", {"limit": 2}, ["one two three four"], ["drop"], told)
    call = {"type": "tool-call", "payload": {"toolCallId": "c", "toolName": "t", "args": {"q": "long"}}}
    finish = {"type": "finish", "payload": {"finishReason": "stop"}}
    yield streamed("others_pass", {**BPE, "limit": 2}, ["one two", call, finish], ["emit", "drop", "drop"])
    yield streamed("blank_at_the_end", {**BPE, "limit": 2}, ["one ", "two ", "three"], ["emit", "emit", "drop"])
    yield streamed(
        "abort",
        {"limit": 1, "strategy": "abort"},
        ["a ", "b"],
        ["emit", {"tripwire": "Token limit of 1 exceeded (current: 2)"}],
    )
    yield streamed("empty", {"limit": 0}, [], [])
    parts = [assistant("a1", "one two", "three four"), assistant("a2", "five")]
    cut = [assistant("a1", "one two", "three"), assistant("a2", "")]
    yield answered("parts", {"limit": 3}, parts, cut)
    yield answered(
        "parts_abort",
        {"limit": 3, "strategy": "abort"},
        parts,
        {"tripwire": {"reason": "Token limit of 3 exceeded (current: 4)"}},
    )
    yield answered("memory_only_result", {"limit": 1, **MEMORY}, parts, parts)
