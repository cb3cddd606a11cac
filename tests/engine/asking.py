"""Steps that ask, guard, transform and watch at any stage, and log each run to its end; for suspended runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from penstock import Processor, Workflow
from penstock.engine import TextEdits, TextPart
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.edits import Edit
from penstock.engine.values.texts import editable_texts

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine import Outcome, Run

SECRET = "hunter2"
WHOLE = [name for name, stage in STAGES.items() if not stage.streams]
"""The stages at which a step may ask."""
EDITING = [name for name in WHOLE if not STAGES[name].read_only]


class Log(list[str]):
    """The ids of the steps that ran to their end, in order."""

    def twice(self) -> set[str]:
        """Return the ids that are in it more than once."""
        return {one for one in self if self.count(one) > 1}


class Scripted(Processor[Any]):
    """A step at some stages, sync; a subclass says in ``act`` what it does."""

    on_error = "block"
    edits = "anything"
    needs_loop = False

    def __init__(self, id: str, log: Log, stages: tuple[str, ...] = ("process_input",), **claims: Any) -> None:
        self.id = id
        self._log = log
        for name, value in claims.items():
            setattr(self, name, value)
        for name in stages:
            setattr(self, name, self._hook())

    def _hook(self) -> Callable[[Any], Any]:
        return self.run_in

    def run_in(self, ctx: Any) -> Any:
        """Act, and note the end."""
        made = self.act(ctx)
        self._log.append(self.id)
        return made

    def act(self, ctx: Any) -> Any:
        """Do the step's work."""
        raise NotImplementedError


def waiting(step: Scripted, stages: tuple[str, ...] = ("process_input",)) -> Scripted:
    """Return a step whose hooks are async, and let others run first."""

    async def hook(ctx: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return step.run_in(ctx)

    for name in stages:
        setattr(step, name, hook)
    step.needs_loop = True
    return step


class Asks(Scripted):
    """Asks ``questions`` times, showing the text; then it writes the answers behind the text, unless they are empty."""

    asks = True
    questions = 1

    def act(self, ctx: Any) -> Any:
        """Ask."""
        said = [ctx.suspend(f"{self.id} {n}", show={"text": ctx.text}) for n in range(self.questions)]
        added = "".join(said)
        return edited(ctx, lambda text: text + added) if added else None


class Hides(Scripted):
    """Hides the secret; trips on the word ``forbidden``."""

    def act(self, ctx: Any) -> Any:
        """Look."""
        if "forbidden" in ctx.text:
            ctx.abort("forbidden")
        return edited(ctx, lambda text: text.replace(SECRET, "[X]")) if SECRET in ctx.text else None


class Adds(Scripted):
    """A transform that writes its id behind the text."""

    role = "transform"

    def act(self, ctx: Any) -> Any:
        """Write."""
        return edited(ctx, lambda text: f"{text}+{self.id}")


class Watches(Scripted):
    """An observer."""

    role = "observer"
    edits = "nothing"

    def act(self, ctx: Any) -> None:
        """Do nothing."""


def edited(ctx: Any, change: Callable[[str], str]) -> Any:
    """Return the result of a hook that changes the last text of its stage; None where it may only read."""
    stage = STAGES[ctx.stage_name]
    if stage.read_only:
        return None
    if not stage.value:
        last = ctx.messages[-1]
        return ctx.message_list.replace(replace(last, parts=(TextPart(change(last.text)),)))
    field = stage.value
    texts = dict(editable_texts(ctx.detail(field), (field,)))
    path, text = list(texts.items())[-1]
    return TextEdits({path: [Edit(0, len(text), change(text), "replace")]})


async def called(run: Run, stage: str, text: str = f"say {SECRET}") -> Outcome:
    """Call one stage of a run with a text, and those that a request passes before it."""
    if stage != "process_input":
        await run.process_input("hello")
    if stage == "process_input":
        return await run.process_input(text)
    if stage in ("process_input_step", "process_llm_request"):
        run.message_list = run.message_list.add(text)
        return await run.stage(stage)
    await run.process_input_step()
    if stage == "process_api_error":
        run.message_list = run.message_list.add(text)
        return await run.process_api_error(RuntimeError())
    if stage in ("process_llm_response", "process_output_step"):
        return await run.stage(stage, text)
    if stage == "process_output_result":
        await run.process_output_step(text)
        return await run.process_output_result()
    await run.process_output_step("calling")
    value: Any = {"to": text} if stage == "process_tool_call" else text
    return await run.stage(stage, value, tool_name="pay", call_id="c1")


def chain(*items: Any) -> Workflow:
    """Return a workflow of steps one after another."""
    made = Workflow("w")
    for item in items:
        made = made.then(item)
    return made


def runs(workflow: Workflow, **options: Any) -> Run:
    """Return a run that may be suspended."""
    return workflow.start(may_suspend=True, **options)
