"""Rows for the filter of tool traffic as others may have been recorded; what the reference does is after its spec.

They show that the rules hold beyond the rows they were written for. No processor is known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS = {"exclude": None, "filter_after_tool_steps": None, "preserve_model_output": False}


def said(text: str) -> Fields:
    """Return a text part."""
    return {"type": "text", "text": text}


def user(text: str) -> Fields:
    """Return a user's message."""
    return {"role": "user", "content": [said(text)]}


def assistant(*parts: Fields) -> Fields:
    """Return an assistant's message."""
    return {"role": "assistant", "content": list(parts)}


def tool(*parts: Fields) -> Fields:
    """Return a tool message."""
    return {"role": "tool", "content": list(parts)}


def call(id: str, name: str = "search", **more: Any) -> Fields:
    """Return a call."""
    return {"type": "tool-call", "toolCallId": id, "toolName": name, "input": {"q": id}, **more}


def result(id: str, name: str = "search", output: Any = None, *, marked: Any = False) -> Fields:
    """Return a result, with the mark of an output made for the model if need be: of this one, or of another."""
    output = {"type": "text", "value": f"r-{id}"} if output is None else output
    options = {"providerOptions": {"mastra": {"modelOutput": output if marked is True else marked}}} if marked else {}
    return {"type": "tool-result", "toolCallId": id, "toolName": name, "output": output, **options}


def prompts(name: str, options: Fields, *steps: tuple[list[Fields], list[Fields] | None]) -> Row:
    """Return a row on prompts: each with what the reference makes of it, None for nothing."""
    expected = [{"changed": False} if new is None else {"changed": True, "prompt": new} for _, new in steps]
    given = {"method": "process_llm_request", "prompts": [prompt for prompt, _ in steps]}
    return Row("tool_call_filter", name, Given({**DEFAULTS, **options}, given), {"steps": expected})


def stored(name: str, options: Fields, states: Sequence[str], expected: Sequence[str]) -> Row:
    """Return a row on stored messages: a call in each of those states, and the calls that the reference leaves."""
    tools = [
        {
            "type": "tool-invocation",
            "toolInvocation": {"state": state, "toolName": "search", "toolCallId": f"c{place}", "args": {"q": 1}},
        }
        for place, state in enumerate(states)
    ]
    rows: list[Fields] = [
        {"id": "u1", "role": "user", "content": {"format": 2, "parts": [said("hi")]}},
        {"id": "a1", "role": "assistant", "content": {"format": 2, "parts": [said("t"), *tools]}},
    ]
    left = [said("t"), *(part for part in tools if part["toolInvocation"]["toolCallId"] in expected)]
    shown = [{"id": "u1", "role": "user", "parts": [said("hi")]}, {"id": "a1", "role": "assistant", "parts": left}]
    given = Given({**DEFAULTS, **options}, {"method": "process_input", "messages": rows})
    return Row("tool_call_filter", name, given, {"messages": shown})


def older(name: str, options: Fields, messages: list[Fields], kept: list[int]) -> Row:
    """Return a row on the older filter: the places of the messages that the reference keeps."""
    given = Given({**DEFAULTS, **options}, {"method": "memory_process", "messages": messages})
    return Row("tool_call_filter", name, given, {"messages": [messages[place] for place in kept]})


ONE = [user("a"), assistant(call("c1")), tool(result("c1"))]
SAID = [user("a"), assistant(said("wait"), call("c1"), call("m1", "email")), tool(result("c1"), result("m1", "email"))]
MEDIUM = {"type": "media", "data": "AAAA", "mediaType": "image/png"}
OLD_CALL = {"type": "tool-call", "toolCallId": "c1", "toolName": "search", "args": {}}
OLD_RESULT = {"type": "tool-result", "toolCallId": "c1", "toolName": "search", "result": "r"}
OLDER = [
    {"role": "user", "content": "hi"},
    {"role": "assistant", "content": [said("look"), OLD_CALL]},
    {"role": "tool", "content": [OLD_RESULT]},
    {"role": "assistant", "content": "done"},
]


def rows() -> Sequence[Row]:
    """Return the rows."""
    text = assistant(said("search result:\nr-c1"))
    orphan = tool(result("c1", "web", marked=True), result("m1", "email"))
    later = [*ONE, assistant(call("c2")), tool(result("c2"))]
    return [
        prompts("no tools", {}, ([user("a"), assistant(said("b"))], None)),
        prompts(
            "one tool",
            {"exclude": ["search"]},
            (
                [*SAID, user("b")],
                [
                    user("a"),
                    assistant(said("wait"), call("m1", "email")),
                    SAID[2] | {"content": [result("m1", "email")]},
                    user("b"),
                ],
            ),
        ),
        prompts(
            "a result of another name",
            {"exclude": ["search"]},
            ([*ONE[:2], tool(result("c1", "web")), user("b")], [user("a"), user("b")]),
        ),
        prompts("content that is a str", {}, ([{"role": "assistant", "content": "x"}, user("b")], None)),
        prompts("an open end", {}, (ONE, [user("a")])),
        prompts("an open end, and on", {}, (ONE, [user("a")]), (later, [user("a"), *later[3:]])),
        prompts(
            "an open end of one tool",
            {"exclude": ["email"]},
            (SAID, [user("a"), assistant(said("wait"), call("c1")), tool(result("c1"))]),
        ),
        prompts("an open end, nothing meant", {"exclude": []}, (ONE, None)),
        prompts(
            "open, what is said stays anyway",
            {"filter_after_tool_steps": 0},
            (SAID, [user("a"), assistant(said("wait"))]),
        ),
        prompts("open behind an old step", {"filter_after_tool_steps": 0}, (later, [user("a")])),
        prompts("closed", {"filter_after_tool_steps": 0}, ([*ONE, user("b")], [user("a"), user("b")])),
        prompts("many steps kept", {"filter_after_tool_steps": 5}, ([*later, user("b")], None)),
        prompts("one step kept", {"filter_after_tool_steps": 1}, (later, [user("a"), *later[3:]])),
        prompts(
            "the call's place",
            {"preserve_model_output": True},
            (
                [user("a"), assistant(said("x"), call("c1")), tool(result("c1", marked=True)), user("b")],
                [user("a"), assistant(said("x"), said("search result:\nr-c1")), user("b")],
            ),
        ),
        prompts(
            "preserved at an open end",
            {"preserve_model_output": True},
            ([user("a"), assistant(call("c1")), tool(result("c1", marked=True))], [user("a"), text]),
        ),
        prompts(
            "preserved at the end of a step",
            {"preserve_model_output": True, "filter_after_tool_steps": 0},
            ([user("a"), assistant(call("c1")), tool(result("c1", marked=True))], [user("a"), text]),
        ),
        prompts("unmarked", {"preserve_model_output": True}, ([*ONE, user("b")], [user("a"), user("b")])),
        prompts(
            "lines",
            {"preserve_model_output": True},
            (
                [
                    assistant(call("c1")),
                    tool(result("c1", output={"type": "json", "value": ["a", 1, True]}, marked=True)),
                    user("b"),
                ],
                [assistant(said("search result:\na\n1\ntrue")), user("b")],
            ),
        ),
        prompts(
            "a medium in JSON",
            {"preserve_model_output": True},
            (
                [
                    assistant(call("c1")),
                    tool(result("c1", output={"type": "json", "value": MEDIUM}, marked=True)),
                    user("b"),
                ],
                [assistant(said('search result:\n{"type":"media","data":"AAAA","mediaType":"image/png"}')), user("b")],
            ),
        ),
        prompts(
            "run by the provider",
            {"preserve_model_output": True},
            (
                [assistant(call("c1"), result("c1", marked=True), said("x")), user("b")],
                [assistant(said("search result:\nr-c1"), said("x")), user("b")],
            ),
        ),
        prompts(
            "run by the provider, without its call",
            {"preserve_model_output": True},
            (
                [assistant(result("c1", marked=True), said("x")), user("b")],
                [assistant(said("search result:\nr-c1"), said("x")), user("b")],
            ),
        ),
        prompts(
            "no call, other results",
            {"preserve_model_output": True, "exclude": ["web"]},
            (
                [user("a"), assistant(call("m1", "email")), orphan, user("b")],
                [user("a"), assistant(call("m1", "email")), tool(result("m1", "email")), user("b")],
            ),
        ),
        prompts(
            "another output in the mark",
            {"preserve_model_output": True},
            (
                [assistant(call("c1")), tool(result("c1", marked=["short", {"text": "x"}])), user("b")],
                [assistant(said("search result:\nshort\nx")), user("b")],
            ),
        ),
        prompts(
            "bare outputs",
            {"preserve_model_output": True},
            (
                [assistant(call("c1")), tool(result("c1", output="plain", marked=True)), user("b")],
                [assistant(said("search result:\nplain")), user("b")],
            ),
            (
                [assistant(call("c1")), tool(result("c1", output={"value": {"text": "t"}}, marked=True)), user("b")],
                [assistant(said("search result:\nt")), user("b")],
            ),
        ),
        prompts("no call, no mark", {"preserve_model_output": True}, ([tool(result("c1")), user("b")], [user("b")])),
        prompts("negative", {"filter_after_tool_steps": -1}, ([*ONE, user("b")], [user("a"), user("b")])),
        stored("a partial call", {}, ["partial-call"], []),
        stored("a partial call between", {"exclude": ["search"]}, ["call", "partial-call", "call"], ["c1"]),
        stored("a stored result at the end", {}, ["result"], []),
        stored("a stored result at the end, named", {"exclude": ["search"]}, ["partial-call", "result"], ["c0"]),
        older("one tool", {"exclude": ["search"]}, OLDER, [0, 3]),
        older("another tool", {"exclude": ["email"]}, OLDER, [0, 1, 2, 3]),
        older("no tool", {"exclude": []}, OLDER, [0, 1, 2, 3]),
        older("result first", {"exclude": ["search"]}, [OLDER[2], OLDER[1]], [0]),
    ]
