"""`PrepareStepProcessor` as a step: what a callback may return, and what becomes of one that errs."""

from collections.abc import Mapping
from typing import Any

import pytest

from penstock import InputStepContext, Key, Message, MessageList, OptionError, PrepareStepProcessor, Workflow
from penstock.engine import Overrides, StepFailedError
from penstock.testing import run_stage

TONE: Key[str] = Key("tone")


def prepared(prepare_step: Any, **settings: Any) -> Mapping[str, Any]:
    """Return what a callback makes of a step's settings."""
    return run_stage(PrepareStepProcessor(prepare_step), "process_input_step", "hi", **settings).overrides


def test_a_callback_may_return_overrides() -> None:
    """Settings are laid over those before, as of any step."""
    made = prepared(lambda ctx: Overrides(model_settings={"temperature": 0}), model="m", model_settings={"seed": 1})
    assert dict(made) == {"model": "m", "model_settings": {"seed": 1, "temperature": 0}}


def test_a_callback_may_return_a_mapping_of_their_fields() -> None:
    """Whoever writes one line need not import anything."""
    made = prepared(lambda ctx: {"model": "other", "active_tools": ["search"]}, model="m")
    assert dict(made) == {"model": "other", "active_tools": ("search",)}


@pytest.mark.parametrize("nothing", [None, {}])
def test_a_callback_that_says_nothing_changes_nothing(nothing: object) -> None:
    """An empty mapping is nothing, too."""
    assert dict(prepared(lambda ctx: nothing, model="m")) == {"model": "m"}


@pytest.mark.parametrize("wrap", [list, lambda made: {"messages": made}, lambda made: Overrides(messages=made)])
def test_a_callback_may_return_messages(wrap: Any) -> None:
    """Alone, or beside settings."""

    def cut(ctx: InputStepContext) -> object:
        return wrap(ctx.messages[-1:])

    messages = [Message.user("a"), Message.user("b")]
    outcome = run_stage(PrepareStepProcessor(cut), "process_input_step", messages)
    assert [message.text for message in outcome.messages] == ["b"]


def test_a_callback_may_return_a_list() -> None:
    """Derived from the one that the context shows."""

    def told(ctx: InputStepContext) -> MessageList:
        return ctx.message_list.replace_system("Be brief.")

    outcome = run_stage(PrepareStepProcessor(told), "process_input_step", [Message.system("Hi"), Message.user("a")])
    assert [message.text for message in outcome.message_list.system] == ["Be brief."]


async def test_a_callback_may_take_its_time() -> None:
    """Async functions are awaited, and told what the step is told."""

    async def chosen(ctx: InputStepContext) -> dict[str, object]:
        return {"model": f"m{ctx.step_number}", "tool_choice": "none" if ctx.steps else "auto"}

    async with Workflow("w").then(PrepareStepProcessor(chosen)).start() as run:
        outcome = await run.process_input_step("hi", steps=[object()])
    assert dict(outcome.overrides) == {"model": "m0", "tool_choice": "none"}


def test_a_callback_may_stop_the_run() -> None:
    """It has the context of any other hook."""
    outcome = run_stage(PrepareStepProcessor(lambda ctx: ctx.abort("too late")), "process_input_step", "hi")
    assert outcome.tripwire is not None
    assert (outcome.tripwire.reason, outcome.tripwire.processor_id) == ("too late", "prepare-step")


def test_a_callback_may_read_and_put_facts() -> None:
    """If they are declared, as of any processor."""

    def put(ctx: InputStepContext) -> None:
        ctx.put(TONE, "kind")

    def read(ctx: InputStepContext) -> dict[str, object]:
        return {"model": ctx.get(TONE)}

    first, second = PrepareStepProcessor(put, provides=[TONE], id="put"), PrepareStepProcessor(read, requires=[TONE])
    outcome = run_stage(Workflow("w").then(first).then(second), "process_input_step", "hi")
    assert outcome.overrides["model"] == "kind"


@pytest.mark.parametrize("returned", [{"modle": "x"}, {"system": "x"}, "text", 1])
def test_what_a_step_does_not_take_is_refused(returned: object) -> None:
    """By name, with what it takes."""
    with pytest.raises(StepFailedError, match="takes"):
        prepared(lambda ctx: returned)


def test_what_a_callback_raises_is_raised() -> None:
    """It is its user's code; a step's policy may say otherwise."""

    def broken(ctx: InputStepContext) -> None:
        raise ValueError

    with pytest.raises(StepFailedError):
        prepared(broken)
    allowed = Workflow("w").then(PrepareStepProcessor(broken), on_error="allow")
    assert dict(run_stage(allowed, "process_input_step", "hi", model="m").overrides) == {"model": "m"}


def test_an_awaitable_of_a_plain_function_is_refused() -> None:
    """Whether it waits is known when it is placed."""

    async def chosen(_model: str) -> None:
        """Say nothing."""

    with pytest.raises(StepFailedError, match="async def"):
        prepared(lambda ctx: chosen(ctx.model))


def test_a_callback_is_a_function() -> None:
    """Anything else is found out when it is built."""
    with pytest.raises(OptionError, match="prepare_step"):
        PrepareStepProcessor({"model": "x"})  # type: ignore[arg-type]
