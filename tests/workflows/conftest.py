"""Small workflows in files, as a user would write them, and a way to run the command; it knows no test."""

import io
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from penstock.workflows.cli import main

GUARDS = '''
import logging
import re
import anyio
from penstock.engine import UsageError
from penstock import Edit, Key, Processor, Workflow

class Mail(Processor):
    """Hides e-mail addresses."""
    edits = "spans"
    def process_input(self, ctx):
        found = {}
        for place, text in ctx.message_list.texts(ctx.messages):
            edits = [Edit(m.start(), m.end(), "[EMAIL]", "redact") for m in re.finditer(r"[\\w.]+@[\\w.]+", text)]
            if edits:
                found[place] = edits
        return ctx.message_list.edit_text(found) if found else None
    process_output_step = process_input

class Judge(Processor):
    """Blocks bombs, and breaks on crashes."""
    edits = "nothing"
    def process_input(self, ctx):
        if "bomb" in ctx.text:
            ctx.abort("no bombs", metadata={"count": 1})
        if "crash" in ctx.text:
            raise ValueError(ctx.text)
        if "tenant" in ctx.request_context:
            ctx.note(tenant=ctx.request_context["tenant"])

class SlowJudge(Processor):
    edits = "nothing"
    async def process_input(self, ctx):
        for _ in range(len(ctx.text) % 5):
            await anyio.lowlevel.checkpoint()
        Judge.process_input(self, ctx)

class Flagger(Processor):
    """Says what it saw, and lets it pass."""
    edits = "nothing"
    def process_input(self, ctx):
        ctx.flag(*re.findall("bomb|knife", ctx.text))

class Chatty(Processor):
    """Logs and quotes what it sees, as user code may."""
    edits = "nothing"
    def process_input(self, ctx):
        logging.getLogger("theirs").warning("saw %s", ctx.text)
        raise UsageError("cannot read " + ctx.text)

class ResultMail(Processor):
    edits = "anything"
    def process_tool_result(self, ctx):
        return {"found": "[EMAIL]"} if "@" in str(ctx.result) else None

guard = Workflow("guard").then(Mail()).then(Judge())
slow = Workflow("slow").then(Mail()).then(SlowJudge())
closed = Workflow("closed").then(Judge(), on_error="block")
shadowed = Workflow("shadowed").then(Judge(), mode="shadow")
flagging = Workflow("flagging").then(Flagger())
chatty = Workflow("chatty").then(Chatty(), on_error="block")
tools = Workflow("tools").then(ResultMail())
'''


class Ran(NamedTuple):
    """What one call of the command left."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The lines of stdout, as JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of its own to work in, with guards.py in it; what is imported from there is forgotten again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "guards.py").write_text(GUARDS, "utf-8")
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        file = getattr(sys.modules[name], "__file__", None)
        if file is not None and Path(file).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def run(world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command in that folder."""
    del world

    def call(*argv: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main(argv)
        return Ran(int(code), *capsys.readouterr())

    return call


def rows_of(*rows: Any) -> bytes:
    """Return rows as lines of JSON."""
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()


@pytest.fixture
def lines() -> Callable[..., bytes]:
    """Return a function that writes rows as lines of JSON."""
    return rows_of


Lines = Callable[[Sequence[Any]], bytes]
