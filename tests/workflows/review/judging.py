"""A guard that asks a judge at each stage, and a judge that counts, and that would change its mind."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from penstock import Judge, Processor
from penstock.testing import ScriptedModel
from tests.workflows.review.waits import STAGES

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.model import ModelRequest

_CONTENT = re.compile(r"<content-1 \S+>\n(.*)\n</content-1", re.DOTALL)


class Said(BaseModel):
    """The verdict."""

    bad: bool
    quotes: list[str] = []
    why: str = ""


class Judges:
    """The texts that the judges of all processes have read. Asked again about a text, one says the opposite.

    Args:
        bad: a word in texts that are bad.
        path: a file for the texts, if processes are to share it.
    """

    def __init__(self, bad: str = "never", path: Path | None = None) -> None:
        self._asked: list[str] = []
        self._bad = bad
        self._path = path

    @property
    def asked(self) -> list[str]:
        """The texts, in order, of all processes."""
        if self._path is None:
            return self._asked
        return [json.loads(line) for line in self._path.read_text().splitlines()] if self._path.exists() else []

    def answer(self, request: ModelRequest) -> str:
        """Answer as the judge."""
        found = _CONTENT.search(request.messages[-1].text)
        assert found is not None
        text, before = found[1], [*self.asked]
        self._asked.append(text)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(text) + "\n")
        words = text.split()
        said = {"quotes": words[:3], "why": f"It says {text.upper()}, not 4.5"}
        return json.dumps({"bad": (self._bad in text) != (text in before), **said})

    def guard(self, instructions: str = "Is it bad?", *, stages: tuple[str, ...] = STAGES) -> Processor[Any]:
        """Return the guard as one process makes it, with a judge of its own."""
        judge = Judge(ScriptedModel(self.answer), Said, instructions)

        async def hook(self: Processor[Any], ctx: AnyContext) -> None:
            del self
            if (await judge.ask(ctx.text, ctx=ctx)).verdict.bad:
                ctx.abort("it is bad", metadata={"category": "bad"})

        claims = {"id": "judged", "role": "guard", "edits": "nothing", "on_error": "block"}
        made: Processor[Any] = type("Judged", (Processor,), {**claims, **dict.fromkeys(stages, hook)})()
        return made
