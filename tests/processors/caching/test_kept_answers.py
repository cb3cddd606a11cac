"""Which answers are kept, which never are, and how a kept one is given again."""

from typing import Any

import anyio
import pytest

from penstock import (
    Agent,
    Answer,
    Chunk,
    InputStepContext,
    LLMRequestContext,
    Message,
    MessageList,
    ModelError,
    OutputResultContext,
    OutputStepContext,
    OutputStreamContext,
    PIIDetector,
    Processor,
    RegexFilterProcessor,
    ResponseCache,
    Restore,
    processor,
)
from penstock.engine import ModelRequest
from penstock.stores import MemoryCache
from penstock.testing import ScriptedModel, VirtualClock
from tests.processors.caching.calls import HELLO, SAID, Shared, hit, streamed

FINISH = Chunk("finish", payload={"reason": "stop"})


def said(text: str) -> ScriptedModel:
    """Return a model that always says that."""
    return ScriptedModel([text], repeat_last=True)


async def test_what_was_answered_is_not_asked_again() -> None:
    """The second request has the same text, and the model was asked once."""
    model = said("Hi there")
    agent = Agent(model, processors=[ResponseCache()])
    texts = [(await agent.generate("hello")).text for _ in range(2)]
    assert (texts, len(model.requests)) == (["Hi there", "Hi there"], 1)


async def test_a_kept_answer_says_so_and_costs_nothing() -> None:
    """Its metadata and its step tell; what it took is told beside."""
    agent = Agent(said("Hi there"), processors=[ResponseCache()])
    first, again = [await agent.generate("hello") for _ in range(2)]
    assert (first.steps[0].from_cache, again.steps[0].from_cache) == (False, True)
    assert (first.usage.output_tokens, again.usage.requests) == (2, 0)
    assert again.steps[0].metadata["cached"] is True
    assert again.steps[0].metadata["cached_usage"]["output_tokens"] == 2


async def test_the_chunks_of_a_kept_answer_say_so() -> None:
    """The metadata are marked, or put in front; the usage is nothing; all else is as it was, pieces too."""
    cache = ResponseCache()
    pieces = (Chunk("text-delta", "Hel", "t"), Chunk("text-delta", "", "t"), Chunk("text-delta", "lo", "t"))
    end = Chunk("finish", payload={"reason": "stop", "usage": {"input_tokens": 7}, "provider_terms": {"a": 1}})
    assert not await hit(cache, said=(*pieces, end))
    mark, *texts, finish = await hit(cache)
    assert (mark.type, mark.payload) == ("response-metadata", {"cached": True})
    assert [(chunk.type, chunk.text, chunk.id) for chunk in texts] == [
        ("text-delta", t, "t") for t in ("Hel", "", "lo")
    ]
    assert finish.payload["usage"] == {"input_tokens": 0, "output_tokens": 0, "requests": 0}
    assert finish.payload["provider_terms"] == {"a": 1, "cached_usage": {"input_tokens": 7}}


async def test_an_answer_has_its_time() -> None:
    """By the clock; None is as long as the cache likes."""
    for ttl, kept in ((10, False), (None, True)):
        clock = VirtualClock()
        cache = ResponseCache(MemoryCache(clock=clock), ttl=ttl)
        assert not await hit(cache)
        clock.advance(10)
        assert bool(await hit(cache)) == kept


async def test_bust_reads_nothing_and_writes() -> None:
    """The newest answer is what others are given."""
    shared = Shared()
    other = (Chunk("text-delta", "new", "t"), FINISH)
    assert not await hit(ResponseCache(shared))
    assert not await hit(ResponseCache(shared, bust=True), said=other)
    assert (await hit(ResponseCache(shared)))[1].text == "new"


# What is never kept

ENDS: dict[str, tuple[Chunk, ...]] = {
    "nothing": (),
    "an error": (Chunk("text-delta", "a", "t"), Chunk("error", payload={"error": "x"}), FINISH),
    "a filter": (Chunk("text-delta", "a", "t"), Chunk("finish", payload={"reason": "content-filter"})),
    "something else": (Chunk("text-delta", "a", "t"), Chunk("finish", payload={"reason": "other"})),
    "no end": (Chunk("text-delta", "a", "t"),),
    "a refusal": (Chunk("text-start", id="t", payload={"refusal": True}), Chunk("text-delta", "No.", "t"), FINISH),
    "a call": (Chunk("tool-call", id="c", payload={"call_id": "c", "name": "f", "arguments": {}}), FINISH),
    "no JSON": (Chunk("text-delta", "a", "t"), Chunk("raw", payload={"provider_sealed": object()}), FINISH),
    "too much": (Chunk("text-delta", "a" * 500, "t"), FINISH),
}


@pytest.mark.parametrize("end", ENDS)
async def test_what_went_wrong_is_not_kept(end: str) -> None:
    """Nor what is larger than allowed."""
    cache = ResponseCache(shared := Shared(), max_size=500)
    assert not await hit(cache, said=ENDS[end])
    assert not shared.answers


@pytest.mark.parametrize("reason", ["stop", "length", "tool-calls"])
async def test_what_ended_well_is_kept(reason: str) -> None:
    """Even if it was cut off."""
    cache = ResponseCache()
    assert not await hit(cache, said=(SAID[0], Chunk("finish", payload={"reason": reason})))
    assert await hit(cache)


@processor("process_output_step", id="blocks")
def blocks_step(ctx: OutputStepContext) -> None:
    """Stop the run."""
    ctx.abort("no")


@processor("process_output_result", id="blocks")
def blocks_result(ctx: OutputResultContext) -> None:
    """Stop the run."""
    ctx.abort("no")


class StreamEditor(Processor):
    """Changes the answer as it leaves."""

    edits = "anything"

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Write in capitals."""
        return chunk.with_text(chunk.text.upper())


@processor("process_output_step", id="editor")
def edits_step(ctx: OutputStepContext) -> MessageList:
    """Write in capitals."""
    return ctx.message_list.map_text(str.upper, ctx.message_list.response)


@processor("process_output_result", id="editor")
def edits_result(ctx: OutputResultContext) -> MessageList:
    """Write in capitals."""
    return ctx.message_list.map_text(str.upper, ctx.message_list.response)


@processor("process_output_result", id="remover")
def removes(ctx: OutputResultContext) -> MessageList:
    """Take the answer away."""
    return ctx.message_list.remove(ctx.message_list.response[-1].id)


GUARDS: dict[str, Any] = {
    "blocked by the step": blocks_step,
    "blocked at the end": blocks_result,
    "edited in the stream": StreamEditor(),
    "redacted": RegexFilterProcessor(presets=["pii"], strategy="redact"),
    "edited by the step": edits_step,
    "edited at the end": edits_result,
    "removed": removes,
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("stream", [False, True])
async def test_nothing_that_a_guard_blocked_or_changed_is_kept(guard: str, stream: bool) -> None:
    """In either order, streamed or not: the cache holds nothing."""
    shared = Shared()
    for order in ([ResponseCache(shared), GUARDS[guard]], [GUARDS[guard], ResponseCache(shared)]):
        agent = Agent(said("write to ann@example.org"), processors=order)
        for _ in range(2):
            if stream:
                assert [chunk async for chunk in streamed(agent, "hello")]
            else:
                await agent.generate("hello")
    assert shared.answers == []


async def test_an_answer_that_was_cut_off_is_not_kept() -> None:
    """Not even where the cut falls between two pieces, and what is left stands as the model gave it."""
    shared = Shared()

    class Cut(Processor):
        ends = True
        edits = "anything"

        def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
            if chunk.text:
                ctx.end_source()
            return chunk

    model = ScriptedModel([{"deltas": ["Hi ", "there"]}])
    assert (await Agent(model, processors=[ResponseCache(shared), Cut()]).generate("hello")).text == "Hi "
    assert shared.answers == []


async def test_what_an_earlier_step_answered_is_not_kept() -> None:
    """It is no model's answer."""

    @processor("process_llm_request", id="canned", edits="anything")
    def canned(_ctx: LLMRequestContext) -> Answer:
        return Answer("Hi")

    for order in (1, -1):
        shared = Shared()
        agent = Agent(ScriptedModel([]), processors=[canned, ResponseCache(shared)][::order])
        assert (await agent.generate("hello")).text == "Hi"
        assert shared.answers == []


async def test_what_guards_let_pass_is_kept() -> None:
    """They looked, and changed nothing."""
    model = said("Hi there")
    agent = Agent(model, processors=[RegexFilterProcessor(presets=["pii"], strategy="redact"), ResponseCache()])
    for _ in range(2):
        assert (await agent.generate("hello")).text == "Hi there"
    assert len(model.requests) == 1


async def test_an_old_message_of_the_same_words_does_not_vouch_for_an_answer() -> None:
    """It was said before, and now it was redacted."""
    mail = "write to ann@example.org"
    shared = Shared()
    history = [Message.user("hello"), Message.assistant(mail), Message.user("again")]
    guard = RegexFilterProcessor(presets=["pii"], strategy="redact", phase="output")
    result = await Agent(said(mail), processors=[ResponseCache(shared), guard]).generate(history)
    assert "ann@" not in result.text
    assert shared.answers == []


async def test_a_rejected_attempt_is_not_kept_and_the_next_one_is() -> None:
    """Each stands under its own prompt: the second has been told why."""

    @processor("process_output_step", id="judge")
    def judge(ctx: OutputStepContext) -> None:
        if "bad" in ctx.text:
            ctx.abort("That was bad.", retry=True)

    shared = Shared()
    model = ScriptedModel(["bad", "good"])
    result = await Agent(model, processors=[ResponseCache(shared), judge], max_processor_retries=1).generate("hello")
    assert result.text == "good"
    assert [text for key in shared.answers if "bad" in (text := shared.kept[key])] == []
    assert len(shared.answers) == 1


async def test_a_run_that_fails_keeps_nothing_of_what_was_said_before() -> None:
    """Neither what broke off nor the steps before it."""
    shared = Shared()

    @processor("process_output_result", id="broken")
    def broken(_ctx: OutputResultContext) -> None:
        raise ValueError

    agent = Agent(said("Hi"), processors=[ResponseCache(shared), broken])
    with pytest.raises(Exception, match="broken"):
        await agent.generate("hello")
    agent = Agent(ScriptedModel([{"text": "Hi", "stream_error": "broke"}]), processors=[ResponseCache(shared)])
    with pytest.raises(ModelError):
        await agent.generate("hello")
    assert shared.answers == []


@pytest.mark.parametrize(
    "last",
    [
        "text-start",
        "text-delta",
        "text-end",
        "step-finish",
    ],
)
async def test_an_answer_that_the_client_did_not_wait_for_is_not_kept(last: str) -> None:
    """The last stage has not judged it; it would have stopped the run."""
    shared = Shared()
    agent = Agent(said("Hi"), processors=[ResponseCache(shared), blocks_result], release="live")
    async with agent.stream("hello") as stream:
        async for chunk in stream.full_stream:
            if chunk.type == last:
                break
    assert shared.answers == []


async def test_an_answer_to_a_prompt_that_was_changed_behind_the_cache_is_not_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The key does not know of the change; the log says where to place the cache."""

    @processor("process_llm_request", id="adds-memory", edits="anything")
    def adds(ctx: LLMRequestContext) -> MessageList:
        return ctx.message_list.add("I am " + ctx.request_context["who"])

    shared = Shared()
    await Agent(said("Hi"), processors=[ResponseCache(shared), adds]).generate("hello", request_context={"who": "ann"})
    assert shared.answers == []
    assert "place the cache last" in caplog.text
    model = said("Hi")
    agent = Agent(model, processors=[adds, ResponseCache(shared)])
    for who in ("ann", "bob", "ann"):
        await agent.generate("hello", request_context={"who": who})
    assert len(model.requests) == 2


async def test_a_prompt_that_is_changed_before_it_is_the_key() -> None:
    """So are settings that a step overrides."""

    class Settings(Processor):
        def process_input_step(self, ctx: InputStepContext) -> Any:
            from penstock.engine import Overrides

            return Overrides(model_settings={"seed": ctx.request_context["seed"]})

    model = said("Hi")
    agent = Agent(model, processors=[Settings(), ResponseCache()])
    for seed in (1, 2, 1):
        await agent.generate("hello", request_context={"seed": seed})
    assert len(model.requests) == 2


# Placeholders


def echo(request: ModelRequest) -> str:
    """Say again what was asked last."""
    return f"I wrote to {request.messages[-1].text}"


def private(shared: Shared, model: ScriptedModel, **options: Any) -> Agent:
    """Return an agent whose model sees placeholders."""
    hides = PIIDetector(detection_types=["email"], redaction_method="token", phase="input")
    return Agent(model, processors=[hides, ResponseCache(shared, scope=None, **options), Restore()])


async def test_what_was_restored_for_one_user_is_never_given_to_another() -> None:
    """Both prompts are equal, and so would be the key; an edited answer is not kept."""
    shared = Shared()
    model = ScriptedModel(echo, repeat_last=True)
    agent = private(shared, model)
    for mail in ("ann@example.org", "bob@example.org"):
        assert (await agent.generate(mail)).text == f"I wrote to {mail}"
    assert {request.messages[-1].text for request in model.requests} == {"[EMAIL_1]"}
    assert (len(model.requests), shared.answers) == (2, [])


async def test_where_output_steps_only_restore_what_the_model_said_may_be_kept() -> None:
    """keep="raw": each user's own data are put into the same answer, and none of them are in the cache."""
    shared = Shared()
    model = ScriptedModel(echo, repeat_last=True)
    agent = private(shared, model, keep="raw")
    for mail in ("ann@example.org", "bob@example.org"):
        assert (await agent.generate(mail)).text == f"I wrote to {mail}"
    assert (len(model.requests), len(shared.answers)) == (1, 1)
    assert "example.org" not in str(shared.kept)


@pytest.mark.parametrize("guard", ["blocked by the step", "blocked at the end", "removed"])
async def test_raw_answers_too_must_have_been_accepted(guard: str) -> None:
    """What a verdict or an output step took away is not kept."""
    shared = Shared()
    await Agent(said("Hi"), processors=[ResponseCache(shared, keep="raw"), GUARDS[guard]]).generate("hello")
    assert shared.answers == []


# Given again


@pytest.mark.parametrize("stream", [False, True])
async def test_a_kept_answer_passes_the_guards_of_whoever_gets_it(stream: bool) -> None:
    """A redaction that was put in later holds for what was kept before."""
    shared = Shared()
    await Agent(said("write to ann@example.org"), processors=[ResponseCache(shared)]).generate("hello")
    model = said("never said")
    guard = RegexFilterProcessor(presets=["pii"], strategy="redact")
    agent = Agent(model, processors=[ResponseCache(shared), guard])
    if stream:
        text = "".join([chunk.text async for chunk in streamed(agent, "hello")])
    else:
        text = (await agent.generate("hello")).text
    assert text.startswith("write to")
    assert "ann@" not in text
    assert model.requests == []


async def test_a_kept_answer_that_is_rejected_is_forgotten() -> None:
    """The next request asks the model; else everybody would be blocked until it is over."""
    shared = Shared()
    await Agent(said("bad"), processors=[ResponseCache(shared)]).generate("hello")

    @processor("process_output_step", id="judge")
    def judge(ctx: OutputStepContext) -> None:
        if "bad" in ctx.text:
            ctx.abort("That was bad.")

    model = ScriptedModel(["good"])
    agent = Agent(model, processors=[ResponseCache(shared), judge])
    assert (await agent.generate("hello")).tripwire is not None
    assert (await agent.generate("hello")).text == "good"


async def test_a_kept_answer_that_an_attempt_rejects_is_forgotten_too() -> None:
    """The run goes on with a fresh answer, and the next run does not begin with the rejected one."""
    shared = Shared()
    await Agent(said("bad"), processors=[ResponseCache(shared)]).generate("hello")

    @processor("process_output_step", id="judge")
    def judge(ctx: OutputStepContext) -> None:
        if "bad" in ctx.text:
            ctx.abort("That was bad.", retry=True)

    model = ScriptedModel(["good", "better"])
    agent = Agent(model, processors=[ResponseCache(shared), judge], max_processor_retries=1)
    assert (await agent.generate("hello")).text == "good"
    result = await agent.generate("hello")
    assert (result.text, len(result.steps)) == ("better", 1)


# Tools


def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def paying() -> ScriptedModel:
    """Return a model that pays once in each request, and then says so."""

    def say(request: ModelRequest) -> Any:
        if request.messages[-1].role == "user":
            return {"tool_calls": [{"name": "pay", "args": {"amount": 5}, "id": f"call-{id(request)}"}]}
        return "Done."

    return ScriptedModel(say)


async def test_an_answer_that_calls_tools_is_not_kept() -> None:
    """What is said of their results is: the ids that a provider gives to calls are not in the key."""
    model = paying()
    agent = Agent(model, tools=[pay], processors=[ResponseCache()])
    for _ in range(2):
        assert (await agent.generate("pay")).text == "Done."
    assert [request.messages[-1].role for request in model.requests] == ["user", "assistant", "user"]


async def test_answers_that_call_tools_may_be_kept() -> None:
    """Their tools run again, under fresh ids."""
    model = paying()
    agent = Agent(model, tools=[pay], processors=[ResponseCache(tool_calls="store")])
    results = [await agent.generate("pay") for _ in range(3)]
    assert [result.text for result in results] == ["Done."] * 3
    assert len(model.requests) == 2
    ids = [step.tool_calls[0].call_id for result in results for step in result.steps if step.tool_calls]
    assert len(set(ids)) == 3


async def test_pieces_of_a_call_have_the_call_s_fresh_id() -> None:
    """What is written of a call belongs to it."""
    who = {"call_id": "c1", "name": "f"}
    said = (
        Chunk("tool-input-start", id="c1", payload=who),
        Chunk("tool-input-delta", "{}", "c1"),
        Chunk("tool-input-end", id="c1"),
        Chunk("tool-call", id="c1", payload={**who, "arguments": {}}),
        FINISH,
    )
    cache = ResponseCache(tool_calls="store")
    assert not await hit(cache, said=said)
    one, other = [[chunk for chunk in await hit(cache) if chunk.type.startswith("tool")] for _ in range(2)]
    assert len({chunk.id for chunk in one}) == 1
    assert {chunk.payload["call_id"] for chunk in one if chunk.payload} == {one[0].id}
    assert "c1" not in (one[0].id, other[0].id)
    assert one[0].id != other[0].id


# Tags


async def test_answers_are_invalidated_by_their_tags() -> None:
    """Those that have one of them, in every process that shares the cache; others stay."""
    shared = Shared()
    one, other = ResponseCache(shared, tags=["a", "b"]), ResponseCache(shared, tags=["c"], agent_id="other")
    for cache in (one, other):
        assert not await hit(cache)
        assert await hit(cache)
    await ResponseCache(shared).invalidate("b")
    assert not await hit(one)
    assert await hit(one)
    assert await hit(other)


async def test_tags_may_be_told_by_a_function() -> None:
    """Of whose answer it is, say."""
    cache = ResponseCache(tags=lambda about: [f"user:{about.scope}"])
    for who in ("ann", "bob"):
        assert not await hit(cache, resource_id=who)
    await cache.invalidate("user:ann")
    assert not await hit(cache, resource_id="ann")
    assert await hit(cache, resource_id="bob")


async def test_an_answer_whose_tags_cannot_be_told_is_not_kept() -> None:
    """Nobody could invalidate it."""
    cache = ResponseCache(shared := Shared(), tags=lambda _: "a")
    assert not await hit(cache)
    assert shared.kept == {}


async def test_a_tag_that_the_cache_has_forgotten_counts_as_invalidated() -> None:
    """A cache may forget whatever it likes; what was invalidated must not come back."""
    shared = Shared()
    cache = ResponseCache(shared, tags=["a"])
    assert not await hit(cache)
    shared.kept = {key: shared.kept[key] for key in shared.answers}
    assert not await hit(cache)


async def test_tags_of_an_answer_hold_for_those_who_do_not_name_them() -> None:
    """The tags were the answer's, not the question's."""
    cache = ResponseCache()
    assert not await hit(cache, response_cache={"tags": ["a"]})
    assert await hit(cache)
    await cache.invalidate("a")
    assert not await hit(cache)


# Caches that break


@pytest.mark.parametrize("broken", [{"get": "raise"}, {"get": "hang"}, {"set": "raise"}, {"set": "hang"}])
@pytest.mark.parametrize("tags", [(), ("a",)])
async def test_a_cache_that_breaks_or_hangs_costs_no_answer(
    broken: dict[str, str], tags: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    """The model is asked; what was not read is not written, and the log names no place."""
    shared = Shared(**broken)
    model = said("Hi")
    agent = Agent(model, processors=[ResponseCache(shared, timeout=0.01, tags=tags)])
    with anyio.fail_after(60):
        texts = [(await agent.generate("hello")).text for _ in range(2)]
    assert (texts, len(model.requests), shared.answers) == (["Hi", "Hi"], 2, [])
    assert "the response cache could not be" in caplog.text
    assert "secret" not in caplog.text


async def test_an_invalidation_that_fails_is_told() -> None:
    """Whoever wants answers gone must know that they are not."""
    with pytest.raises(OSError, match="secret"):
        await ResponseCache(Shared(set="raise")).invalidate("a")
    with pytest.raises(TimeoutError):
        await ResponseCache(Shared(set="hang"), timeout=0.01).invalidate("a")


GARBAGE = [
    "no JSON",
    "7",
    "{}",
    '{"version":9,"tags":{},"chunks":[]}',
    '{"version":1,"tags":{},"chunks":[]}',
    '{"version":1,"tags":7,"chunks":[{"type":"finish"}]}',
    '{"version":1,"tags":{},"chunks":[{"type":"unheard-of"}]}',
    '{"version":1,"tags":{},"chunks":[{"type":"finish","payload":[]}]}',
    '{"version":1,"tags":{},"chunks":[7]}',
]


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_what_is_no_answer_is_no_hit(garbage: str) -> None:
    """Of another version, or not ours: the model is asked, and its answer kept in its place."""
    shared = Shared()
    cache = ResponseCache(shared)
    await hit(cache)
    shared.kept = dict.fromkeys(shared.kept, garbage)
    assert not await hit(cache, HELLO)
    assert await hit(cache, HELLO)
