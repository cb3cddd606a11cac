"""Facts go with the answers that they are about: those of an answer that nobody got are gone, those of others stay."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from penstock import Agent, Key, Message, Processor, Run, Workflow
from penstock.processors.guards import VAULT, PIIDetector
from penstock.testing import ScriptedModel
from tests.waiting import cancelled_when_all_wait

pytestmark = pytest.mark.anyio

SEEN: Key[str] = Key("seen")
ASKED: Key[str] = Key("asked")


class Tells(Processor):
    """Puts the texts that it sees as facts, one for input and one for answers; may reject an answer, late."""

    provides = (SEEN, ASKED)

    def __init__(self, rejects_at: str = "", *, retry: bool = False) -> None:
        self.rejects_at = rejects_at
        self.retry = retry

    def process_input(self, ctx: Any) -> None:
        """Put what was asked."""
        ctx.put(ASKED, ctx.text)

    def process_output_stream(self, chunk: Any, ctx: Any) -> Any:
        """Put what was said."""
        if chunk.text:
            self._tell(ctx, chunk.text)
        return chunk

    def process_output_step(self, ctx: Any) -> None:
        """Put what was said, and reject the first attempt."""
        self._judge(ctx)

    def process_output_result(self, ctx: Any) -> None:
        """Put what was said, and reject it."""
        self._judge(ctx)

    def _judge(self, ctx: Any) -> None:
        said = "".join(message.text for message in ctx.message_list.response)
        self._tell(ctx, said)
        if self.rejects_at == ctx.stage and "bad" in said:
            ctx.abort("no", retry=self.retry)

    @staticmethod
    def _tell(ctx: Any, said: str) -> None:
        ctx.put(SEEN, (ctx.get(SEEN) or "") + said)


def agent(*turns: Any, guard: Tells | None = None, **options: Any) -> Agent:
    """Return an agent with that guard."""
    return Agent(ScriptedModel(turns), processors=[guard or Tells()], **options)


async def read(agent: Agent, release: Any) -> Any:
    """Return the result of a request that is read to its end."""
    async with agent.stream("hi", release=release) as stream:
        async for _ in stream.full_stream:
            pass
    return await stream.result


@pytest.mark.parametrize("release", ["live", "step", "result"])
async def test_facts_of_a_rejected_attempt_are_gone_from_the_next(release: Any) -> None:
    """In the stream and after it; the input's stay."""
    guard = Tells("process_output_step", retry=True)
    result = await read(agent("bad", "fine", guard=guard, max_processor_retries=1), release)
    assert result.text == "fine"
    assert dict(result.facts) == {ASKED: "hi", SEEN: "finefinefine"}


@pytest.mark.parametrize("at", ["process_output_step", "process_output_result"])
@pytest.mark.parametrize("release", ["live", "result"])
async def test_facts_of_a_blocked_answer_are_gone(at: str, release: Any) -> None:
    """Nothing of its text is in the result."""
    result = await read(agent("bad", guard=Tells(at)), release)
    assert (result.status, dict(result.facts)) == ("blocked", {ASKED: "hi"})


@pytest.mark.parametrize("release", ["step", "result"])
@pytest.mark.parametrize("own", [True, False])
async def test_facts_of_an_answer_that_was_not_sent_are_gone(release: Any, *, own: bool) -> None:
    """Its reader left before; in an agent, and in a run of one's own."""
    if own:
        run: Run = Workflow("w").then(Tells()).start()
        async with run:
            await run.process_input("hi")
            async with run.process_output_stream(["one ", "two"], release=release) as chunks:
                async for _ in chunks:
                    break
            assert dict(run.facts) == {ASKED: "hi"}
        return
    async with agent({"deltas": ["one ", "two"]}).stream("hi", release=release) as stream:
        async for chunk in stream.full_stream:
            if chunk.type == "text-delta":
                break
    result = await stream.result
    assert (result.status, result.text, dict(result.facts)) == ("cancelled", "one ", {ASKED: "hi"})


async def test_facts_of_a_held_answer_are_gone_where_its_stage_is_cancelled() -> None:
    """The stream had put them when the next stage began."""

    class Hangs(Tells):
        async def process_output_step(self, ctx: Any) -> None:  # type: ignore[override]
            await anyio.sleep_forever()

    async with agent("one", guard=Hangs()).stream("hi", release="step") as stream, cancelled_when_all_wait():
        async for _ in stream.full_stream:
            pass
    result = await stream.result
    assert (result.status, dict(result.facts)) == ("cancelled", {ASKED: "hi"})


async def test_facts_of_accepted_answers_stay_when_a_later_one_is_rejected() -> None:
    """Only the last one's go."""
    run: Run = Workflow("w").then(Tells("process_output_step")).start()
    async with run:
        await run.process_input("hi")
        for text in ("one", "bad"):
            await run.process_input_step()
            await run.process_output_step(Message.assistant(text))
        assert run.tripwire is not None
        assert dict(run.facts) == {ASKED: "hi", SEEN: "one"}


async def test_values_of_a_rejected_attempt_are_in_no_vault() -> None:
    """A model that guesses the token of such a value would get it."""
    hides = PIIDetector(strategy="redact", redaction_method="token")
    turns = ["bad: eve@example.com", "fine: ann@example.com"]
    guards: list[Any] = [hides, Tells("process_output_step", retry=True)]
    result = await Agent(ScriptedModel(turns), processors=guards, max_processor_retries=1).generate("hi")
    assert result.text == "fine: [EMAIL_1]"
    assert "ann@example.com" in repr(dict(result.facts[VAULT].values))
    assert "eve@example.com" not in repr(dict(result.facts[VAULT].values))


async def test_a_rejected_stream_takes_no_earlier_answer_along() -> None:
    """Also in a run that does not ask by stages: the stream begins an answer."""

    class Stops(Processor):
        def process_output_stream(self, chunk: Any, ctx: Any) -> Any:
            return ctx.abort("no") if "bad" in chunk.text else chunk

    async with Workflow("w").then(Stops()).start() as run:
        await run.process_input("hi")
        for text in ("one", "bad"):
            async with run.process_output_stream([text]) as chunks:
                async for _ in chunks:
                    pass
            if run.tripwire is None:
                await run.process_output_step(chunks.message)
        assert run.tripwire is not None
        assert [message.text for message in run.message_list] == ["hi", "one"]
