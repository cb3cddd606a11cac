"""The vectors of `AgentsMDInjector`: files are behind functions, and what is told is read back from the reminder."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import anyio

from penstock import AgentsMDInjector, MessageList, Workflow
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import thaw
from penstock.engine.values.messages import Message
from tests.conformance.builtin.frame import Family, Fields, Given, Row
from tests.conformance.builtin.shapes import options_named, read, told

OPTIONS = ("reminder_text", "max_tokens")
NAMES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
SNAKE = ("file_path", "target_path")
ELEMENT = re.compile(r"<system-reminder (?P<attributes>[^>]*)>\n(?P<contents>[^<]*)\n</system-reminder>")
ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')
SHORTENED = re.compile(r"\n\n\[\D*(\d+)\D+(\d+)[^\d\]]*\]$")


def run(given: Given) -> Fields:
    """Run the stage over the files of the row, and tell what was added."""
    files = given.input.get("files") or {}
    try:
        injector = AgentsMDInjector(
            roots=["/"],
            path_exists=lambda path: path in files or is_directory(path, files),
            is_directory=lambda path: is_directory(path, files),
            read_file=files.get,
            **{name: given.options[name] for name in OPTIONS},
        )
    except OptionError as error:
        return {"error": options_named(str(error), OPTIONS)}
    if given.method == "construct":
        return {}
    messages = read(given.input["messages"])
    workflow = Workflow("w").then(injector)
    outcome = anyio.run(lambda: workflow.check(MessageList(messages), stage="process_input_step"))
    ids = {message.id for message in messages}
    kept = [message.id for message in outcome.message_list if message.id in ids]
    fresh = [message for message in outcome.message_list if message.id not in ids]
    lost = {} if kept == [message.id for message in messages] else {"error": "messages were lost"}
    return {"signals": [signal(message) for message in fresh], **lost, **told(outcome)}


def is_directory(path: str, files: Fields) -> bool:
    """Tell whether files stand below a path."""
    return any(name.startswith(path.rstrip("/") + "/") for name in files)


def signal(message: Message) -> Fields:
    """Return what a reminder tells, its element read as a reader of elements would."""
    [found] = ELEMENT.finditer(message.text)
    attributes = {name: html.unescape(value) for name, value in ATTRIBUTE.findall(found["attributes"])}
    kept = thaw(message.metadata.get("systemReminder"))
    return {"contents": html.unescape(found["contents"]), "attributes": attributes, "metadata": kept}


def projection(fields: Fields) -> Fields:
    """What is said, of what file; of a note that it was shortened the figures."""
    if "signals" in fields:
        fields["signals"] = [
            {
                "contents": SHORTENED.sub(r"\n\n[\1 of \2]", one["contents"]),
                "attributes": one["attributes"],
                "metadata": one["metadata"],
            }
            for one in fields["signals"]
        ]
    return fields


# What is better on purpose


def names_in_snake_case_are_read(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where a finished call names its path only as tools in Python do, the nearest file is told all the same."""
    if expected.get("signals") != []:
        return None
    for arguments in finished(given["messages"]):
        for path in (arguments[name] for name in SNAKE if name in arguments):
            above = path.split("/")[:-1]
            while above:
                for file in ("/".join([*above, name]) for name in NAMES):
                    if given["files"].get(file, "").strip():
                        named = {"path": file, "type": "dynamic-agents-md"}
                        return {"signals": [{"contents": given["files"][file], "attributes": named, "metadata": named}]}
                above.pop()
    return None


def finished(messages: list[Fields]) -> Iterator[Fields]:
    """Yield the arguments of the calls that have results, the latest first."""
    for message in reversed(messages):
        for part in reversed(message["content"]["parts"]):
            call = part.get("toolInvocation", {})
            if call.get("state") == "result":
                yield call["args"]


def what_nobody_sees_is_left_out(_options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """Zero-width characters and letters written as tags are not shown: people who read the file did not see them."""
    unseen = re.compile("[\u200b\u2060\ufeff\U000e0020-\U000e007f]")
    signals = [{**one, "contents": unseen.sub("", one["contents"])} for one in expected.get("signals", [])]
    return {"signals": signals} if signals != expected.get("signals", []) else None


# Rows as others may have been recorded


def rows() -> list[Row]:
    """Return rows that were worked out after the reference's spec."""
    files = {"/repo/AGENTS.md": "root <rules> & more", "/repo/pkg/CONTEXT.md": "pkg", "/repo/pkg/f": ""}
    hidden = {"/r/AGENTS.md": "be\u200b kind\U000e0041\U000e0042", "/r/f": ""}
    reminder = {"id": "s", "role": "user", "content": {"format": 2, "parts": [{"type": "text", "text": MARKUP}]}}
    return [
        row("json text", files, json.dumps({"path": "/repo/pkg/f"}), told_of("/repo/pkg/CONTEXT.md", "pkg")),
        row("a directory", files, {"path": "/repo/pkg"}, told_of("/repo/pkg/CONTEXT.md", "pkg")),
        row("angles", files, {"file": "/repo/x"}, told_of("/repo/AGENTS.md", files["/repo/AGENTS.md"])),
        row("the file itself", files, {"file": "/repo/AGENTS.md"}, told_of("/repo/AGENTS.md", "root <rules> & more")),
        row("snake case", files, {"file_path": "/repo/pkg/f"}, []),
        row("snake case of a folder", files, {"target_path": "/repo/x/y"}, []),
        row("hidden", hidden, {"path": "/r/f"}, told_of("/r/AGENTS.md", hidden["/r/AGENTS.md"])),
        row("empty", {"/r/AGENTS.md": " \n", "/r/f": ""}, {"path": "/r/f"}, []),
        row("no text", files, {"path": 3, "file": ["/repo/x"]}, []),
        row("not JSON", files, "/repo/x", []),
        row("reminded in words", files, {"path": "/repo/x"}, [], reminder),
    ]


MARKUP = '<system-reminder type="dynamic-agents-md" path="/repo/AGENTS.md">root</system-reminder>'


def row(name: str, files: Fields, arguments: Any, signals: list[Fields], *more: Fields) -> Row:
    """Return a row with one finished call."""
    call = {"state": "result", "toolName": "t", "toolCallId": "c", "args": arguments, "result": "x"}
    parts = [{"type": "tool-invocation", "toolInvocation": call}]
    messages = [{"id": "a", "role": "assistant", "content": {"format": 2, "parts": parts}}, *more]
    given = {"method": "process_input_step", "files": files, "messages": messages}
    return Row("agents_md_injector", name, Given(FAMILY.complete({}), given), {"signals": signals})


def told_of(path: str, contents: str) -> list[Fields]:
    """Return the one signal of a file."""
    named = {"path": path, "type": "dynamic-agents-md"}
    return [{"contents": contents, "attributes": named, "metadata": named}]


FAMILY = Family(
    files=("agents_md_injector",),
    run=run,
    projections={"process_input_step": projection, "construct": projection},
    rules=(names_in_snake_case_are_read, what_nobody_sees_is_left_out),
    defaults={"reminder_text": None, "max_tokens": 1000},
    invented=rows,
)
