"""The adapter for LiteLLM, around its calls: what the suite of all frameworks does not ask."""

from __future__ import annotations

import os
import pickle
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported
pytest.importorskip("litellm", reason="litellm is not installed")

import litellm
from litellm.types.utils import ModelResponseStream

from penstock import (
    Context,
    InputStepContext,
    LLMRequestContext,
    OutputStepContext,
    PIIDetector,
    Processor,
    ToolCallContext,
    ToolResultContext,
    processor,
)
from penstock.engine import Answer, Overrides
from penstock.engine.values.errors import MessageError, UsageError
from penstock.testing.provider import FakeProvider
from penstock.workflows.adapters.litellm import GuardBlockedError, as_completion
from tests.docs.test_snippets import ROOT, run_page

SECRET = "ada@example.com"
CLEAN = PIIDetector(redaction_method="placeholder")
ASK = [{"role": "user", "content": "Whom?"}]
TOOL = {
    "type": "function",
    "function": {"name": "look", "parameters": {"type": "object", "properties": {"who": {"type": "string"}}}},
}


@pytest.fixture
def anyio_backend() -> str:
    """LiteLLM runs on asyncio."""
    return "asyncio"


@processor("process_output_step", role="observer")
def look(ctx: OutputStepContext) -> None:
    """Look at the answer."""


class Fixed(litellm.CustomLLM):
    """A provider with fixed answers: messages, or lists of deltas for streams."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Any] = []
        self.asked: list[dict[str, Any]] = []
        self.closed = False

    def _next(self, given: dict[str, Any]) -> Any:
        self.asked.append(given)
        return self.answers.pop(0)

    def _whole(self, given: dict[str, Any]) -> Any:
        answer = self._next(given)
        if isinstance(answer, list):
            return litellm.ModelResponse(model="fixed", choices=answer)
        choice = answer.pop("choice", {})
        top = answer.pop("top", {})
        usage = top.pop("usage", {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7})
        return litellm.ModelResponse(
            model="fixed",
            choices=[{"index": 0, "finish_reason": "stop", **choice, "message": {"role": "assistant", **answer}}],
            usage=usage,
            **top,
        )

    def completion(self, *args: Any, **given: Any) -> Any:
        """Return the next answer."""
        return self._whole(given)

    async def acompletion(self, *args: Any, **given: Any) -> Any:
        """Return the next answer."""
        return self._whole(given)

    def streaming(self, *args: Any, **given: Any) -> Iterator[Any]:
        """Yield the pieces of the next answer."""
        try:
            for delta in self._next(given):
                yield piece(**delta)
            yield piece(_reason="stop")
        finally:
            self.closed = True

    async def astreaming(self, *args: Any, **given: Any) -> AsyncIterator[Any]:
        """Yield the pieces of the next answer."""
        try:
            for delta in self._next(given):
                await anyio.lowlevel.checkpoint()
                yield piece(**delta)
            yield piece(_reason="stop")
        finally:
            self.closed = True


def piece(_reason: str | None = None, _choice: Any = None, _top: Any = None, **delta: Any) -> Any:
    """Return a piece of an answer."""
    choice = {"index": 0, "delta": delta, "finish_reason": _reason, **(_choice or {})}
    return ModelResponseStream(model="fixed", choices=[choice], **(_top or {}))


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> Fixed:
    """Return the provider behind the model ``fixed/x``."""
    provider = Fixed()
    known = [*litellm.custom_provider_map, {"provider": "fixed", "custom_handler": provider}]
    monkeypatch.setattr(litellm, "custom_provider_map", known)
    monkeypatch.setattr(litellm, "suppress_debug_info", True)
    litellm.utils.custom_llm_setup()
    return provider


async def said(stream: Any) -> tuple[list[str], Any]:
    """Return the pieces of text of a stream, and the message that LiteLLM builds of it."""
    pieces = [one async for one in stream]
    texts = [one.choices[0].delta.content for one in pieces if one.choices[0].delta.content]
    return texts, litellm.stream_chunk_builder(pieces)


RICH: dict[str, Any] = {
    "content": "It is [1].",
    "reasoning_content": "Let me think.",
    "thinking_blocks": [{"type": "thinking", "thinking": "Let me think.", "signature": "c2lnbmVk"}],
    "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example", "title": "A"}}],
    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"who":  "Ada"}'}}],
    "provider_specific_fields": {
        "citations": [["cited"]],
        "thought_signatures": ["c2ln"],
        "reasoning_content": "Let me think.",
    },
}


async def test_an_answer_that_nobody_changes_is_litellms_own(fixed: Fixed) -> None:
    """All fields of the answer, of its choice and of its message, and the hidden parameters."""
    logprobs = {"content": [{"token": "It", "logprob": -0.1, "bytes": None, "top_logprobs": []}]}
    answer = {**RICH, "choice": {"logprobs": logprobs}, "top": {"citations": ["https://a.example"]}}
    fixed.answers = [dict(answer), dict(answer)]
    bare = await litellm.acompletion("fixed/x", ASK)
    ours = await as_completion(CLEAN).acompletion("fixed/x", ASK)
    kept = {"id", "created"}
    assert {**ours.model_dump(), **dict.fromkeys(kept)} == {**bare.model_dump(), **dict.fromkeys(kept)}
    assert ours._hidden_params.keys() == bare._hidden_params.keys()
    assert type(ours) is type(bare)


async def test_a_stream_that_nobody_changes_builds_the_same_answer(fixed: Fixed) -> None:
    """Thinking and its signature, citations, calls in pieces, the usage."""
    deltas: list[dict[str, Any]] = [
        {"reasoning_content": "Let me ", "thinking_blocks": [{"type": "thinking", "thinking": "Let me "}]},
        {"reasoning_content": "think.", "thinking_blocks": [{"type": "thinking", "thinking": "think."}]},
        {"thinking_blocks": [{"type": "thinking", "thinking": "", "signature": "c2lnbmVk"}]},
        {"content": "It "},
        {"content": "is."},
        {"provider_specific_fields": {"citation": {"cited_text": "cited"}}},
        {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ":1}"}}]},
    ]
    built = []
    for target in (litellm, as_completion(CLEAN)):
        fixed.answers = [[dict(delta) for delta in deltas]]
        _, whole = await said(await target.acompletion("fixed/x", ASK, stream=True))
        built.append(whole.choices[0].message.model_dump())
    assert built[1] == {**built[0], "role": "assistant"}
    assert built[1]["thinking_blocks"][0]["signature"] == "c2lnbmVk"


BESIDE: dict[str, dict[str, Any]] = {
    "annotations": {"annotations": [{"type": "url_citation", "url_citation": {"url": "https://a", "title": SECRET}}]},
    "a field of the provider": {"provider_specific_fields": {"note": SECRET}},
    "a field that repeats": {
        "reasoning_content": f"It is {SECRET}",
        "provider_specific_fields": {"reasoning_content": f"It is {SECRET}"},
    },
    "a field that only seems to repeat": {"provider_specific_fields": {"reasoning_content": f"It is {SECRET}"}},
    "a field deep within": {"provider_specific_fields": {"citations": [[{"cited_text": SECRET}]]}},
    "an unknown field": {"notes_of_mine": {"text": SECRET}},
    "the refusal": {"refusal": f"I will not write to {SECRET}"},
    "reasoning": {"reasoning_content": f"It is {SECRET}"},
    "thinking": {"thinking_blocks": [{"type": "thinking", "thinking": SECRET, "signature": "c2ln"}]},
    "reasoning and thinking": {
        "reasoning_content": SECRET,
        "thinking_blocks": [{"type": "thinking", "thinking": SECRET, "signature": "c2ln"}],
    },
    "the arguments of a call": {
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": f'{{"to":"{SECRET}"}}'}}]
    },
    "arguments that are no JSON": {
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": f'{{"to":{SECRET}'}}]
    },
    "the older call": {"function_call": {"name": "f", "arguments": f'{{"to":"{SECRET}"}}'}},
    "other text between thinking": {
        "reasoning_content": "Hm.",
        "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "note": SECRET}],
    },
    "a text in the place of thinking": {"thinking_blocks": [{"type": "thinking", "text": SECRET}]},
    "a text in the place of a code": {"thinking_blocks": [{"type": "redacted_thinking", "data": SECRET}]},
    "a text in the place of a signature": {"provider_specific_fields": {"thought_signatures": [f"It is {SECRET}"]}},
    "what was said": {"audio": {"id": "a", "data": "AA==", "expires_at": 1, "transcript": SECRET}},
    "the choice": {"choice": {"provider_specific_fields": {"note": SECRET}}},
    "the response": {"top": {"citations": [SECRET]}},
}


@pytest.mark.parametrize("place", BESIDE)
async def test_what_stands_beside_the_text_is_read(fixed: Fixed, place: str) -> None:
    """The secret is in no field of the answer, and the guard saw it."""
    fixed.answers = [{"content": "Yes.", **BESIDE[place]}]
    guard = PIIDetector(redaction_method="placeholder", unscanned="allow")
    answer = await as_completion(guard).acompletion("fixed/x", ASK)
    assert answer.choices[0].message.content == "Yes."
    assert "ada@" not in answer.model_dump_json()
    fixed.answers = [{"content": "Yes.", **BESIDE[place]}]
    with pytest.raises(GuardBlockedError):
        await as_completion(PIIDetector(strategy="block", unscanned="allow")).acompletion("fixed/x", ASK)


@pytest.mark.parametrize("place", [name for name in BESIDE if name not in ("the choice", "the response")])
async def test_what_stands_beside_a_streamed_text_is_read(fixed: Fixed, place: str) -> None:
    """No piece of the stream holds it, and nothing leaves that was not read."""
    fixed.answers = [[{"content": "Yes."}, BESIDE[place]]]
    guard = PIIDetector(redaction_method="placeholder", unscanned="allow")
    pieces = [one async for one in await as_completion(guard).acompletion("fixed/x", ASK, stream=True)]
    assert "ada@" not in "".join(one.model_dump_json() for one in pieces)
    assert "".join(one.choices[0].delta.content or "" for one in pieces) == "Yes."


async def test_texts_in_pieces_are_read_whole(fixed: Fixed) -> None:
    """A secret that is split over pieces of a field beside the text."""
    notes = [{"provider_specific_fields": {"note": text}} for text in ("Write to ada@ex", "ample", ".com now")]
    thoughts = [{"thinking_blocks": [{"type": "thinking", "thinking": text}]} for text in ("ada@ex", "ample.com")]
    fixed.answers = [[{"content": "Yes."}, *notes, *thoughts]]
    pieces = [one async for one in await as_completion(CLEAN).acompletion("fixed/x", ASK, stream=True)]
    sent = "".join(one.model_dump_json() for one in pieces)
    assert "Write to [EMAIL] now" in sent
    assert "ada@" not in sent


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("place", ["content", "reasoning_content", "tool_calls", "function_call"])
async def test_tokens_of_a_changed_answer_are_dropped(fixed: Fixed, place: str, streamed: bool) -> None:
    """They would spell it: its text, its reasoning, and its calls."""
    token = {"token": "@exam", "logprob": -0.1, "bytes": None, "top_logprobs": []}
    tokens = {"logprobs": {"content": [token]}, "provider_specific_fields": {"token_ids": [424242]}}
    function = {"name": "f", "arguments": f'{{"to":"{SECRET}"}}'}
    message = {
        "content": {"content": f"Ask {SECRET}."},
        "reasoning_content": {"content": "Yes.", "reasoning_content": f"It is {SECRET}."},
        "tool_calls": {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]},
        "function_call": {"function_call": function},
    }[place]
    fixed.answers = [[{**message, "_choice": tokens}] if streamed else {**message, "choice": tokens}]
    made = await as_completion(CLEAN).acompletion("fixed/x", ASK, stream=streamed)
    dumped = "".join([one.model_dump_json() async for one in made]) if streamed else made.model_dump_json()
    assert "[EMAIL]" in dumped
    assert not [word for word in ("ada@", "@exam", "424242") if word in dumped]


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_key_that_stands_twice_in_arguments_leaves_once(fixed: Fixed, streamed: bool) -> None:
    """A reader keeps the last of the two, so guards never saw the first."""
    function = {"name": "f", "arguments": f'{{"to":"{SECRET}","to":"me"}}'}
    message = {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": function}]}
    fixed.answers = [[message] if streamed else message]
    made = await as_completion(CLEAN).acompletion("fixed/x", ASK, stream=streamed)
    dumped = "".join([one.model_dump_json() async for one in made]) if streamed else made.model_dump_json()
    assert "me" in dumped
    assert "ada@" not in dumped


async def test_texts_between_the_counts_of_a_usage_are_dropped(fixed: Fixed) -> None:
    """Those that no provider is known to write."""
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2, "service_tier": "standard", "note": SECRET}
    fixed.answers = [{"content": "Yes.", "top": {"usage": litellm.Usage(**usage)}}]
    answer = await as_completion(CLEAN).acompletion("fixed/x", ASK)
    assert (answer.usage.total_tokens, answer.usage.service_tier) == (2, "standard")
    assert "ada@" not in answer.model_dump_json()


async def test_several_answers_are_refused(fixed: Fixed) -> None:
    """Guards judge one; also if a provider sends more than were asked for."""
    with pytest.raises(UsageError, match="use n=1"):
        await as_completion(CLEAN).acompletion("fixed/x", ASK, n=2)
    fixed.answers = [[{"index": at, "message": {"role": "assistant", "content": SECRET}} for at in range(2)]]
    with pytest.raises(UsageError, match="several answers"):
        await as_completion(CLEAN).acompletion("fixed/x", ASK)


async def test_tools_that_litellm_would_run_are_refused(fixed: Fixed) -> None:
    """It would give their results to the model within the call."""
    with pytest.raises(UsageError, match="MCP server"):
        await as_completion(CLEAN).acompletion("fixed/x", ASK, tools=[{"type": "mcp", "server_url": "litellm_proxy"}])
    assert fixed.asked == []


async def test_malformed_messages_are_named(fixed: Fixed) -> None:
    """The place and the problem."""
    with pytest.raises(MessageError, match=r"messages\[1\]"):
        await as_completion(CLEAN).acompletion("fixed/x", [*ASK, {"role": "nobody", "content": "x"}])
    with pytest.raises(MessageError, match="list of messages"):
        await as_completion(CLEAN).acompletion("fixed/x", "Hi")  # type: ignore[arg-type]


async def test_the_request_reaches_litellm_as_it_was_given(fixed: Fixed) -> None:
    """Messages with all of their fields, tools, and settings."""
    messages: list[Any] = [
        {"role": "system", "content": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [{"type": "text", "text": "See:"}, {"type": "text", "text": "this"}], "name": "al"},
        {
            "role": "assistant",
            "cache_control": {"type": "ephemeral"},
            **{n: RICH[n] for n in RICH if n != "annotations"},
        },
        {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "42"},
        {"role": "user", "content": "And?"},
    ]
    more = {"temperature": 0.5, "tools": [TOOL], "tool_choice": "auto", "top_k": 3}
    fixed.answers = [{"content": "Yes."}, {"content": "Yes."}]
    await litellm.acompletion("fixed/x", [dict(message) for message in messages], **more)
    await as_completion(CLEAN).acompletion("fixed/x", messages, **more)
    bare, ours = fixed.asked
    assert ours["messages"] == bare["messages"] == messages
    assert ours["optional_params"] == bare["optional_params"]


@pytest.mark.parametrize(
    "extra",
    [
        {"thinking_blocks": [{"type": "thinking", "thinking": SECRET}]},
        {"provider_specific_fields": {"note": SECRET}},
        {"reasoning_content": SECRET, "thinking_blocks": [{"type": "thinking", "thinking": SECRET, "signature": "x"}]},
    ],
)
async def test_fields_of_earlier_answers_are_read(fixed: Fixed, extra: dict[str, Any]) -> None:
    """LiteLLM sends them to the model, too."""
    fixed.answers = [{"content": "Yes."}]
    earlier = {"role": "assistant", "content": "Hm.", **extra}
    await as_completion(CLEAN).acompletion("fixed/x", [*ASK, earlier, *ASK])
    assert "ada@" not in str(fixed.asked)


async def test_signed_thinking_goes_back_unless_it_was_changed(fixed: Fixed) -> None:
    """A provider refuses signed thinking of which somebody has changed a word."""
    block = {"type": "thinking", "thinking": "Look it up.", "signature": "c2lnbmVk"}
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    fixed.answers = [
        {"content": None, "reasoning_content": "Look it up.", "thinking_blocks": [block], "tool_calls": [call]},
        {"content": "Yes."},
    ]
    messages: list[Any] = list(ASK)
    async with as_completion(CLEAN).request() as request:
        answer = (await request.acompletion("fixed/x", messages, tools=[TOOL])).choices[0].message
        messages += [answer, await request.arun_tool(answer.tool_calls[0], lambda: "42")]
        await request.acompletion("fixed/x", messages, tools=[TOOL])
    assert fixed.asked[1]["messages"][1]["thinking_blocks"] == [block]
    assert [message["role"] for message in fixed.asked[1]["messages"]] == ["user", "assistant", "tool"]


async def test_changes_of_the_step_reach_litellm(fixed: Fixed) -> None:
    """Settings, the choice of a tool, and the tools."""

    @processor("process_input_step")
    def change(ctx: InputStepContext) -> Overrides:
        return Overrides(model_settings={"temperature": 0.1}, tool_choice=("look",))

    @processor("process_input_step")
    def no_tools(ctx: InputStepContext) -> Overrides:
        return Overrides(tools=())

    fixed.answers = [{"content": "Yes."}, {"content": "Yes."}]
    await as_completion(change).acompletion("fixed/x", ASK, temperature=1.0, tools=[TOOL])
    await as_completion(no_tools).acompletion("fixed/x", ASK, temperature=1.0, tools=[TOOL], tool_choice="auto")
    changed, without = [one["optional_params"] for one in fixed.asked]
    assert changed["temperature"] == 0.1
    assert changed["tool_choice"] == {"type": "function", "function": {"name": "look"}}
    assert changed["tools"] == [TOOL]
    assert "tools" not in without


async def test_results_of_tools_are_judged_as_such_in_single_calls(fixed: Fixed) -> None:
    """Each call is a request of its own there; the stage runs for the results after the last answer."""
    read: list[tuple[str, object, object]] = []

    @processor("process_tool_result", role="guard")
    def note(ctx: ToolResultContext) -> None:
        read.append((ctx.tool_name, dict(ctx.arguments), ctx.result))  # type: ignore[call-overload]

    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"who": "Ada"}'}}
    messages = [
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": f"It is {SECRET}"},
    ]
    fixed.answers = [{"content": "Yes."}]
    await as_completion(note, CLEAN).acompletion("fixed/x", messages)
    assert read == [("look", {"who": "Ada"}, f"It is {SECRET}")]
    assert fixed.asked[0]["messages"][2]["content"] == "It is [EMAIL]"
    assert messages[2]["content"] == f"It is {SECRET}"


async def test_an_answer_in_a_tools_place_needs_a_request(fixed: Fixed) -> None:
    """In a single call, nobody could keep the tool from running."""

    @processor("process_tool_call")
    def deny(ctx: ToolCallContext) -> Answer:
        return Answer("not allowed")

    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    fixed.answers = [{"content": None, "tool_calls": [call]}]
    with pytest.raises(UsageError, match=r"request\(\)"):
        await as_completion(deny).acompletion("fixed/x", ASK, tools=[TOOL])


async def test_a_tool_may_be_async_and_return_an_object(fixed: Fixed) -> None:
    """The model reads JSON."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"who": "Ada"}'}}
    fixed.answers = [{"content": None, "tool_calls": [call]}]

    async def look_up(who: str) -> dict[str, str]:
        return {who: SECRET}

    async with as_completion(CLEAN).request() as request:
        message = (await request.acompletion("fixed/x", ASK, tools=[TOOL])).choices[0].message
        result = await request.arun_tool(message.tool_calls[0], look_up)
    assert result == {"role": "tool", "tool_call_id": "c1", "name": "look", "content": '{"Ada": "[EMAIL]"}'}


def test_calls_without_await_work_alike(fixed: Fixed) -> None:
    """Whole, streamed, and a request with a tool."""
    guarded = as_completion(CLEAN)
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"who": "Ada"}'}}
    fixed.answers = [
        {"content": f"Ask {SECRET}."},
        [{"content": "Ask ada@ex"}, {"content": "ample.com."}],
        {"content": None, "tool_calls": [call]},
        [{"content": "Done."}],
    ]
    assert guarded.completion("fixed/x", ASK).choices[0].message.content == "Ask [EMAIL]."
    pieces = guarded.completion("fixed/x", ASK, stream=True)
    assert "".join(one.choices[0].delta.content or "" for one in pieces) == "Ask [EMAIL]."
    messages: list[Any] = list(ASK)
    with guarded.request() as request:
        message = request.completion("fixed/x", messages, tools=[TOOL]).choices[0].message
        messages += [message, request.run_tool(message.tool_calls[0], lambda who: f"{who} is {SECRET}")]
        texts = [one.choices[0].delta.content or "" for one in request.completion("fixed/x", messages, stream=True)]
        kept = request.current(messages)
    assert "".join(texts) == "Done."
    assert messages[2]["content"] == fixed.asked[3]["messages"][2]["content"] == "Ada is [EMAIL]"
    assert all(one is other for one, other in zip(kept, messages, strict=True))


async def test_a_call_without_await_works_within_an_event_loop(fixed: Fixed) -> None:
    """As in a notebook."""
    fixed.answers = [{"content": f"Ask {SECRET}."}]
    assert as_completion(CLEAN).completion("fixed/x", ASK).choices[0].message.content == "Ask [EMAIL]."


class Ends(Processor):
    """Notes how requests end."""

    role = "observer"

    def __init__(self) -> None:
        self.completed: list[bool] = []

    def process_input(self, ctx: Context) -> None:
        """Ask to be told."""
        ctx.on_end(lambda end: self.completed.append(end.completed))


async def test_a_stream_that_is_closed_ends_the_call(fixed: Fixed) -> None:
    """The provider's stream is closed, and the request counts as not completed."""
    ends = Ends()
    fixed.answers = [[{"content": f"word {number}. "} for number in range(50)]]
    stream = await as_completion(ends, CLEAN).acompletion("fixed/x", ASK, stream=True)
    async for _ in stream:
        break
    await stream.aclose()
    assert ends.completed == [False]
    assert fixed.closed


async def test_a_scope_that_cancels_a_stream_ends_the_request(fixed: Fixed) -> None:
    """Web servers cancel each wait of a client that has gone."""
    ends = Ends()
    fixed.answers = [[{"content": f"word {number}. "} for number in range(50)]]
    with anyio.CancelScope() as scope:
        async for _ in await as_completion(ends, CLEAN).acompletion("fixed/x", ASK, stream=True):
            scope.cancel()
    assert ends.completed == [False]


async def test_rejected_attempts_are_counted(fixed: Fixed) -> None:
    """The usage is that of all."""

    @processor("process_output_step", role="guard")
    def no_bad(ctx: OutputStepContext) -> None:
        if "bad" in ctx.text:
            ctx.abort("it says so", retry=True)

    fixed.answers = [{"content": "bad"}, {"content": "good"}]
    answer = await as_completion(no_bad).acompletion("fixed/x", ASK)
    assert answer.choices[0].message.content == "good"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (6, 8)


async def test_a_processor_answers_in_the_models_place(fixed: Fixed) -> None:
    """LiteLLM is not called, and its user gets LiteLLM's response."""

    @processor("process_llm_request")
    def cached(ctx: LLMRequestContext) -> Answer:
        return Answer("from the cache")

    answer = await as_completion(cached).acompletion("fixed/x", ASK)
    texts, built = await said(await as_completion(cached).acompletion("fixed/x", ASK, stream=True))
    assert answer.choices[0].message.content == built.choices[0].message.content == "".join(texts) == "from the cache"
    assert fixed.asked == []


async def test_a_verdict_is_litellms_own_error(fixed: Fixed) -> None:
    """It carries ours, and can be pickled."""
    with pytest.raises(litellm.exceptions.GuardrailRaisedException) as raised:
        await as_completion(PIIDetector(strategy="block")).acompletion("fixed/x", [{"role": "user", "content": SECRET}])
    error = raised.value
    assert isinstance(error, GuardBlockedError)
    assert (error.guardrail_name, error.tripwire.stage) == ("pii-detector", "process_input")
    assert pickle.loads(pickle.dumps(error)).tripwire == error.tripwire  # noqa: S301 - our own
    assert fixed.asked == []


@pytest.mark.parametrize("way", ["litellm", "a router"])
async def test_a_real_provider_over_http(way: str) -> None:
    """LiteLLM's own client for OpenAI's protocol, whole and streamed, with and without await."""
    with FakeProvider([f"Write to {SECRET}, please."] * 4) as provider:
        told = {"model": "openai/gpt", "api_base": provider.url, "api_key": "x"}
        router = litellm.Router([{"model_name": "gpt", "litellm_params": told}]) if way == "a router" else None
        more: dict[str, Any] = {"model": "gpt"} if router else told
        guarded = as_completion(CLEAN, router=router)
        asked = [{"role": "user", "content": f"I am {SECRET}"}]
        whole = await guarded.acompletion(messages=asked, **more)
        texts, built = await said(await guarded.acompletion(messages=asked, stream=True, **more))
        without = await anyio.to_thread.run_sync(lambda: guarded.completion(messages=asked, **more))
        pieces = await anyio.to_thread.run_sync(lambda: list(guarded.completion(messages=asked, stream=True, **more)))
        sent = [request.json["messages"] for request in provider.requests]
    clean = "Write to [EMAIL], please."
    assert whole.choices[0].message.content == without.choices[0].message.content == clean
    assert "".join(texts) == built.choices[0].message.content == clean
    assert "".join(one.choices[0].delta.content or "" for one in pieces) == clean
    assert sent == [[{"role": "user", "content": "I am [EMAIL]"}]] * 4


async def test_an_observer_alone_changes_nothing_over_http() -> None:
    """The same answer as LiteLLM alone."""
    with FakeProvider(["Hello there."] * 2) as provider:
        told = {"model": "openai/gpt", "api_base": provider.url, "api_key": "x"}
        bare = await litellm.acompletion(messages=ASK, **told)
        ours = await as_completion(look).acompletion(messages=ASK, **told)
    differs = {"id", "created"}
    left, right = ({k: v for k, v in one.model_dump().items() if k not in differs} for one in (bare, ours))
    assert right == left


@pytest.mark.parametrize("name", ["litellm.md", "coming-from-litellm.md"])
def test_its_pages_are_true(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tests of all pages leave them out where LiteLLM is not installed."""
    pytest.importorskip("fastapi", reason="litellm's proxy is not installed")
    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "hosts" / name
    run_page(page.read_text("utf-8"), page)
