"""Answers that were held and not sent, since a late stage gave no verdict or a bad one: nothing of them stays."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import Chunk, Key, Message, Processor, Run, Workflow
from penstock.engine.values.errors import StepFailedError
from tests.waiting import cancelled_when_all_wait

pytestmark = pytest.mark.anyio

SEEN: Key[str] = Key("seen")
ASKED: Key[str] = Key("asked")
STAGES = ["process_llm_response", "process_output_step", "process_output_result"]


class Late(Processor):
    """Puts what it sees as facts, and ends in no verdict at one stage, if the answer says so."""

    provides = (SEEN, ASKED)

    def __init__(self, at: str = "", *, fails: bool = False) -> None:
        self.at = at
        self.fails = fails

    def process_input(self, ctx: Any) -> None:
        """Put what was asked."""
        ctx.put(ASKED, ctx.text)

    def process_output_stream(self, chunk: Any, ctx: Any) -> Any:
        """Put what was said."""
        if chunk.text:
            ctx.put(SEEN, (ctx.get(SEEN) or "") + chunk.text)
        return chunk

    async def process_llm_response(self, ctx: Any) -> None:
        """Judge the answer as it came."""
        await self._judge(ctx)

    async def process_output_step(self, ctx: Any) -> None:
        """Judge the step."""
        await self._judge(ctx)

    async def process_output_result(self, ctx: Any) -> None:
        """Judge the whole."""
        await self._judge(ctx)

    async def _judge(self, ctx: Any) -> None:
        if ctx.stage != self.at or "bad" not in ctx.message_list.response[-1].text:
            return
        if self.fails:
            raise ZeroDivisionError
        await anyio.sleep_forever()


async def read(run: Run, source: Any) -> list[str]:
    """Read an answer as long as it comes; return its texts."""
    texts: list[str] = []
    async with cancelled_when_all_wait():
        try:
            async with run.process_output_stream(source, release="result") as chunks:
                async for chunk in chunks:
                    texts += [chunk.text] if chunk.text else []
        except StepFailedError:
            pass
    return texts


@pytest.mark.parametrize("at", STAGES)
@pytest.mark.parametrize("fails", [True, False])
async def test_an_answer_without_a_verdict_is_in_no_conversation(at: str, *, fails: bool) -> None:
    """Nor are the facts about it."""
    async with Workflow("w").then(Late(at, fails=fails)).start() as run:
        await run.process_input("hi")
        assert await read(run, ["bad"]) == []
        assert [message.text for message in run.message_list] == ["hi"]
        assert dict(run.facts) == {ASKED: "hi"}
        assert await read(run, ["fine"]) == ["fine"]
        assert [message.text for message in run.message_list] == ["hi", "fine"]


@pytest.mark.parametrize("at", STAGES[:2])
async def test_an_earlier_answer_that_waits_for_the_last_stage_goes_on_waiting(at: str) -> None:
    """Its step had a verdict."""
    call = Chunk("tool-call", id="c1", payload={"call_id": "c1", "name": "find", "args": {}})
    async with Workflow("w").then(Late(at, fails=True)).start() as run:
        await run.process_input("hi")
        assert await read(run, [Chunk("text-delta", id="t", text="first"), call]) == []
        assert await read(run, ["bad"]) == []
        assert [message.text for message in run.message_list] == ["hi", "first"]
        assert await read(run, ["fine"]) == ["first", "fine"]
        assert dict(run.facts) == {ASKED: "hi", SEEN: "firstfine"}


async def test_a_verdict_about_all_answers_takes_the_facts_of_each_along() -> None:
    """The first one waits for the last stage, since it calls a tool."""

    class Rejects(Late):
        async def process_output_result(self, ctx: Any) -> None:
            ctx.abort("no")

    call = Chunk("tool-call", id="c1", payload={"call_id": "c1", "name": "find", "args": {}})
    async with Workflow("w").then(Rejects()).start() as run:
        await run.process_input("hi")
        assert await read(run, [Chunk("text-delta", id="t", text="first"), call]) == []
        assert await read(run, ["second"]) == []
        assert run.tripwire is not None
        assert [message.text for message in run.message_list] == ["hi"]
        assert dict(run.facts) == {ASKED: "hi"}


async def test_an_answer_that_was_sent_stays_where_the_last_stage_holds_none() -> None:
    """No chunk of that stage can be unsent."""
    async with Workflow("w").then(Late()).start() as run:
        await run.process_input("hi")
        async with run.process_output_stream(["sent"], release="step") as chunks:
            assert [chunk.text async for chunk in chunks if chunk.text] == ["sent"]
        assert (await run.process_output_result()).chunks == ()
        run.drop_unsent(0)
        assert [message.text for message in run.message_list] == ["hi", "sent"]


async def test_facts_of_an_earlier_request_stay_in_a_run_that_goes_on() -> None:
    """A verdict about the answers to the second one takes nothing of the first along."""

    class Rejects(Late):
        async def process_output_result(self, ctx: Any) -> None:
            if "bad" in ctx.message_list.response[-1].text:
                ctx.abort("no")

    async with Workflow("w").then(Rejects()).start() as run:
        for asked, said in (("hi", "one"), ("more", "bad")):
            await run.process_input(asked)
            await run.process_input_step()
            async with run.process_output_stream([said], release="step") as chunks:
                async for _ in chunks:
                    pass
            await run.process_output_result()
        assert run.tripwire is not None
        assert [message.text for message in run.message_list] == ["hi", "one", "more"]
        assert dict(run.facts) == {ASKED: "hi\nmore", SEEN: "one"}


async def test_a_refused_prompt_takes_no_earlier_answer_along() -> None:
    """Also in a run without `process_input_step`."""

    class Refuses(Processor):
        def process_llm_request(self, ctx: Any) -> None:
            if "bad" in ctx.messages[-1].text:
                ctx.abort("no")

    async with Workflow("w").then(Refuses()).start() as run:
        for asked in ("hi", "bad"):
            await run.process_input(asked)
            await run.process_llm_request()
            if run.tripwire is None:
                await run.process_output_step(Message.assistant("one"))
        assert run.tripwire is not None
        assert [message.text for message in run.message_list] == ["hi", "one", "bad"]
