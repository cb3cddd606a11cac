"""The guardrail for LiteLLM's proxy, over HTTP: what the suite of all frameworks does not ask."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when litellm is imported
pytest.importorskip("litellm", reason="litellm is not installed")
pytest.importorskip("fastapi", reason="litellm's proxy is not installed")

import httpx
import litellm
from litellm.integrations.custom_guardrail import CustomGuardrail

from penstock import InputContext, LLMRequestContext, OutputStepContext, PIIDetector, Processor, processor
from penstock.engine import Answer, Retry
from penstock.engine.values.errors import OptionError, UsageError
from penstock.testing.provider import FakeProvider, Gate, Sent, Wire, failing
from penstock.testing.turns import Turn
from penstock.workflows.adapters.litellm import as_guardrail
from tests.hosts.drivers.litellm_proxy import FAILURES, proxy

SECRET = "ada@example.com"
CLEAN = PIIDetector(redaction_method="placeholder")
BLOCKS = PIIDetector(strategy="block")
PIECES = "Write to ada@example.com, please."


@pytest.fixture
def anyio_backend() -> str:
    """LiteLLM runs on asyncio."""
    return "asyncio"


@pytest.fixture(autouse=True)
def _callbacks() -> Iterator[None]:
    before = list(litellm.callbacks)
    litellm.callbacks += [FAILURES]
    yield
    litellm.callbacks = before


class Served:
    """The proxy with a model ``gpt``, and guardrails in all requests."""

    def __init__(self, client: httpx.AsyncClient, provider: FakeProvider) -> None:
        self.client, self.provider = client, provider

    async def ask(self, text: str = "Whom?", **more: Any) -> httpx.Response:
        """Ask for a chat completion."""
        body = {"model": "gpt", "messages": [{"role": "user", "content": text}], **more}
        return await self.client.post("/chat/completions", json=body)

    @property
    def asked(self) -> str:
        """All that the provider was asked."""
        return "\n".join(str(request.json) for request in self.provider.requests)


@asynccontextmanager
async def served(answers: Any, *guards: Any, config: str = "", folder: Path | None = None) -> AsyncIterator[Served]:
    """Run the proxy before a provider with a script."""
    with FakeProvider(answers) as provider:
        params = f'{{model: openai/gpt, api_base: "{provider.url}", api_key: x}}'
        models = f"model_list: [{{model_name: gpt, litellm_params: {params}}}]\n"
        litellm.callbacks += guards
        settings = "general_settings: {cancel_on_disconnect: true}\nrouter_settings: {num_retries: 0}\n"
        async with (
            proxy(models + settings + config, folder) as address,
            httpx.AsyncClient(base_url=address, timeout=10) as client,
        ):
            yield Served(client, provider)
    assert not [guard for guard in guards if getattr(guard, "_open", None)]


def events(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the events of a stream."""
    lines = [line.removeprefix("data: ") for line in response.text.splitlines()]
    return [json.loads(line) for line in lines if line.startswith("{")]


def texts(response: httpx.Response) -> str:
    """Return the text of a stream."""
    choices = [choice for event in events(response) for choice in event.get("choices", ())]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


class Masks(CustomGuardrail):
    """A guardrail as LiteLLM's documentation has it."""

    async def apply_guardrail(self, inputs: Any, request_data: Any, input_type: str, logging_obj: Any = None) -> Any:
        """Mask the address."""
        return {**inputs, "texts": [text.replace(SECRET, "[EMAIL]") for text in inputs.get("texts", [])]}


async def test_litellms_own_guardrail_leaks_into_the_stream() -> None:
    """It masks the whole answer; of the stream it drops what it has rewritten, and the raw text leaves."""
    async with served([PIECES] * 2, Masks("masks", event_hook="post_call", default_on=True)) as it:
        whole, streamed = await it.ask(), await it.ask(stream=True)
    assert whole.json()["choices"][0]["message"]["content"] == "Write to [EMAIL], please."
    assert SECRET in texts(streamed)


async def test_ours_does_not() -> None:
    """The stream and the whole answer agree, and are clean."""
    async with served([PIECES] * 2, as_guardrail(CLEAN)()) as it:
        whole, streamed = await it.ask(), await it.ask(stream=True)
    assert whole.json()["choices"][0]["message"]["content"] == texts(streamed) == "Write to [EMAIL], please."
    assert "ada@" not in whole.text + streamed.text


async def test_the_proxys_configuration_names_the_class(tmp_path: Path) -> None:
    """With LiteLLM's own names; a request asks for it, or it is on by default."""
    (tmp_path / "my_guards.py").write_text(
        "from penstock import PIIDetector\n"
        "from penstock.workflows.adapters.litellm import as_guardrail\n"
        "Guard = as_guardrail(PIIDetector(redaction_method='placeholder'))\n"
    )
    config = (
        "guardrails:\n"
        "  - guardrail_name: ours\n"
        "    litellm_params: {guardrail: my_guards.Guard, mode: [pre_call, post_call]}\n"
    )
    async with served([PIECES] * 2, config=config, folder=tmp_path) as it:
        without, asked = await it.ask(), await it.ask(f"I am {SECRET}", guardrails=["ours"], stream=True)
    assert SECRET in without.text
    assert texts(asked) == "Write to [EMAIL], please."
    assert "I am [EMAIL]" in it.asked


async def test_a_verdict_tells_the_client_nothing_that_helps() -> None:
    """The status is 400; whoever runs the proxy gets the verdict in callbacks."""
    async with served([PIECES] * 2, as_guardrail(BLOCKS)()) as it:
        request, answer = await it.ask(f"I am {SECRET}"), await it.ask()
        verdict = FAILURES.errors["gpt"].tripwire  # type: ignore[attr-defined]
    assert len(it.provider.requests) == 1
    assert (verdict.processor_id, verdict.stage) == ("pii-detector", "process_output_stream")
    for response in (request, answer):
        assert response.status_code == 400
        error = response.json()["error"]
        assert (error["message"], error["type"]) == ("The request was blocked by a guard.", "blocked_by_guard")
        assert not [word for word in ("ada", "pii", "email", "process_") if word in response.text.lower()]


async def test_a_verdict_in_mid_stream_ends_it_with_an_event() -> None:
    """What was clean has left before; the connection is not broken off."""
    deltas = ["This is clean. "] * 5 + ["Write to ada@ex", "ample.com", ", please."]
    async with served([Turn(deltas=deltas)], as_guardrail(BLOCKS)()) as it:
        response = await it.ask(stream=True)
    assert texts(response).startswith("This is clean. ")
    assert events(response)[-1]["error"]["message"] == "The request was blocked by a guard."
    assert "ada" not in response.text


async def test_requests_of_one_guardrail_are_apart() -> None:
    """Each has its own verdict and its own answer."""

    async def one(it: Served, number: int) -> httpx.Response:
        return await it.ask(SECRET if number % 3 == 0 else f"number {number}", stream=number % 2 == 0)

    async with served(["Yes."] * 12, as_guardrail(BLOCKS)()) as it:
        responses = await asyncio.gather(*(one(it, number) for number in range(12)))
    assert [response.status_code for response in responses] == [400, 200, 200] * 4
    assert len(it.provider.requests) == 8


class Ends(Processor):
    """Notes how requests end."""

    role = "observer"

    def __init__(self) -> None:
        self.completed: list[bool] = []
        self.ended = asyncio.Event()

    def process_input(self, ctx: InputContext) -> None:
        """Ask to be told."""

        def end(ended: Any) -> None:
            self.completed.append(ended.completed)
            self.ended.set()

        ctx.on_end(end)


async def test_a_client_that_goes_away_ends_the_request() -> None:
    """In mid-stream."""
    ends, gate = Ends(), Gate()
    answer = Sent("one two three four five six", Wire(gate=gate, piece=20))
    async with served([answer], as_guardrail(ends, CLEAN)()) as it:
        gate.let(30)
        body = {"model": "gpt", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
        async with it.client.stream("POST", "/chat/completions", json=body) as response:
            async for _ in response.aiter_lines():
                break
        await asyncio.wait_for(ends.ended.wait(), 10)
        gate.open()
    assert ends.completed == [False]


async def test_a_request_that_succeeds_counts_as_completed() -> None:
    """Whole and streamed."""
    ends = Ends()
    async with served(["Yes."] * 2, as_guardrail(ends)()) as it:
        await it.ask()
        await it.ask(stream=True)
    assert ends.completed == [True, True]


@pytest.mark.parametrize("stage", ["process_input", "process_output_step"])
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_guard_that_breaks_lets_nothing_through(stage: str, streamed: bool) -> None:
    """Neither the answer nor its own error."""

    def broken(ctx: Any) -> None:
        raise ValueError("my inner life")

    broken.__annotations__["ctx"] = {"process_input": InputContext, "process_output_step": OutputStepContext}[stage]
    guard = processor(stage, role="guard")(broken)  # type: ignore[call-overload]
    async with served(["never"], as_guardrail(guard)()) as it:
        response = await it.ask(stream=streamed)
    assert response.status_code in (400, 500) or "error" in events(response)[-1]
    assert "never" not in response.text
    assert "inner" not in response.text


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "atext_completion": ("/v1/completions", {"prompt": "Hi"}),
    "aresponses": ("/v1/responses", {"input": "Hi"}),
    "anthropic_messages": ("/v1/messages", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 5}),
    "agenerate_content": ("/v1beta/models/gpt:generateContent", {"contents": [{"parts": [{"text": "Hi"}]}]}),
    "rerank": ("/v1/rerank", {"query": "q", "documents": ["d"]}),
    "image_generation": ("/v1/images/generations", {"prompt": "a cat"}),
    "aspeech": ("/v1/audio/speech", {"input": "Hi", "voice": "alloy"}),
}


@pytest.mark.parametrize("name", OTHERS)
async def test_what_nobody_can_read_is_refused(name: str) -> None:
    """The client gets to know why, and the provider gets nothing."""
    path, body = OTHERS[name]
    async with served(["never"], as_guardrail(CLEAN)()) as it:
        response = await it.client.post(path, json={"model": "gpt", **body})
    assert response.status_code == 400
    assert f"cannot read {name} requests" in response.text
    assert it.provider.requests == []


@pytest.mark.parametrize(("default_on", "status"), [(True, 400), (False, 200)])
async def test_an_endpoint_that_calls_no_guard_gets_no_answer(
    default_on: bool, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM runs no guardrail at this one, but calls the model there as elsewhere."""
    body = {
        "model": "gpt",
        "messages": [{"role": "user", "content": f"I am {SECRET}"}],
        "retrieval_config": {"vector_store_id": "v", "custom_llm_provider": "openai"},
    }
    found = {"object": "vector_store.search_results.page", "search_query": "q", "data": []}
    monkeypatch.setattr(litellm.vector_stores, "asearch", _found(found))
    async with served([PIECES], as_guardrail(CLEAN)(default_on=default_on)) as it:
        response = await it.client.post("/v1/rag/query", json=body)
    assert (response.status_code, len(it.provider.requests)) == (status, 0 if default_on else 1)


def _found(answer: Any) -> Any:
    async def search(*args: Any, **given: Any) -> Any:
        return answer

    return search


async def test_calls_may_pass_unread_if_somebody_says_so() -> None:
    """By LiteLLM's name for them."""
    guard = as_guardrail(CLEAN, unguarded=["rerank", "aresponses"])()
    async with served(["Yes."], guard) as it:
        response = await it.client.post("/v1/rerank", json={"model": "gpt", "query": "q", "documents": ["d"]})
    assert "cannot read" not in response.text
    for name in ("acompletion", "nonsense"):
        with pytest.raises(OptionError, match="unguarded"):
            as_guardrail(CLEAN, unguarded=[name])


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/moderations"])
async def test_texts_that_get_no_text_back_are_read(path: str) -> None:
    """One text, or several; tokens are refused."""
    async with served([], as_guardrail(CLEAN)()) as it:
        one = await it.client.post(path, json={"model": "gpt", "input": f"I am {SECRET}"})
        several = await it.client.post(path, json={"model": "gpt", "input": ["Hi", SECRET]})
        tokens = await it.client.post(path, json={"model": "gpt", "input": [[1, 2]]})
    assert [one.status_code, several.status_code, tokens.status_code] == [200, 200, 400]
    assert [request.json["input"] for request in it.provider.requests] == ["I am [EMAIL]", ["Hi", "[EMAIL]"]]


async def test_system_messages_are_the_clients() -> None:
    """As all that it sends."""
    messages = [{"role": "system", "content": f"I am {SECRET}"}, {"role": "user", "content": "Hi"}]
    async with served(["Yes."], as_guardrail(CLEAN)()) as it:
        await it.ask(messages=messages)
    assert it.provider.requests[0].json["messages"][0] == {"role": "system", "content": "I am [EMAIL]"}


async def test_fields_that_only_a_client_knows_are_read() -> None:
    """LiteLLM might send them on."""
    fields: list[dict[str, Any]] = [
        {"thinking_blocks": [{"thinking": SECRET}]},
        {"thinking_blocks": [{"type": "text", "text": SECRET}]},
        {"cache_control": {"type": SECRET}},
        {"signature": f"I am {SECRET}"},
    ]
    asked = [[{"role": "assistant", "content": "Hm.", **more}, {"role": "user", "content": "Hi"}] for more in fields]
    async with served(["Yes."], as_guardrail(BLOCKS)()) as it:
        responses = [await it.ask(messages=messages) for messages in asked]
    assert [response.status_code for response in responses] == [400] * 4
    assert it.provider.requests == []


PARAMETERS: list[dict[str, Any]] = [
    {"extra_body": {"messages": [{"role": "user", "content": f"I am {SECRET}"}]}},
    {"system": f"I am {SECRET}"},
    {"documents": [{"text": f"I am {SECRET}"}]},
    {"prediction": {"type": "content", "content": f"I am {SECRET}"}},
    {"extra_body": {"signature": f"I am {SECRET}"}},
    {"stop": [f"I am {SECRET}"]},
    {"web_search_options": {"user_location": {"approximate": {"city": f"I am {SECRET}"}}}},
    {"safety_identifier": f"I am {SECRET}"},
    {"stream_options": {"note": f"I am {SECRET}"}},
    {f"I am {SECRET}": 1},
    {"assistant_continue_message": {"role": "assistant", "content": f"I am {SECRET}"}},
]


@pytest.mark.parametrize("more", PARAMETERS, ids=str)
async def test_parameters_that_reach_the_model_are_read(more: dict[str, Any]) -> None:
    """LiteLLM sends on what it does not know; ``extra_body`` takes the place of the messages."""
    async with served(
        ["Yes."] * 2,
        as_guardrail(CLEAN)(guardrail_name="a", default_on=False),
        as_guardrail(BLOCKS)(guardrail_name="b", default_on=False),
    ) as it:
        cleaned = await it.ask(guardrails=["a"], **more)
        refused = await it.ask(guardrails=["b"], **more)
    assert (cleaned.status_code, refused.status_code) == (200, 400)
    assert len(it.provider.requests) == 1
    assert "ada@" not in it.asked
    if not {"assistant_continue_message", "stream_options", f"I am {SECRET}"} & more.keys():  # which LiteLLM drops
        assert "I am [EMAIL]" in it.asked


async def test_what_stands_beside_a_result_is_dropped() -> None:
    """A tool's message holds its result and nothing else."""
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Whom?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "42", "note": SECRET},
    ]
    async with served(["Yes."], as_guardrail(CLEAN)()) as it:
        await it.ask(messages=messages)
    assert it.provider.requests[0].json["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": "42"}


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"tools": [{"type": "mcp", "server_url": "litellm_proxy"}]},
        {"tools": "all"},
        {"tools": ["look"]},
        {"messages": [{"role": "assistant", "tool_calls": ["look"]}, {"role": "tool", "content": "42"}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": ["c"]}]}, {"role": "tool", "content": "42"}]},
        {"messages": [{"role": "nobody", "content": "Hi"}]},
        {"messages": "Hi"},
    ],
)
async def test_requests_that_cannot_be_judged_are_the_clients_fault(more: dict[str, Any]) -> None:
    """The status is 400, and the text says why."""
    async with served(["never"], as_guardrail(CLEAN)()) as it:
        response = await it.ask(**more)
    assert response.status_code == 400, response.text
    assert it.provider.requests == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_processor_answers_in_the_models_place(streamed: bool) -> None:
    """The provider is not called."""

    @processor("process_llm_request")
    def cached(ctx: LLMRequestContext) -> Answer:
        return Answer("from the cache")

    async with served(["never"], as_guardrail(cached)()) as it:
        response = await it.ask(stream=streamed)
    text = texts(response) if streamed else response.json()["choices"][0]["message"]["content"]
    assert text == "from the cache"
    assert it.provider.requests == []


async def test_an_answer_in_the_models_place_is_not_in_litellms_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, it would answer the same request later, when the processor does not."""
    answers = ["from the processor", None]

    @processor("process_llm_request")
    def once(ctx: LLMRequestContext) -> Answer | None:
        text = answers.pop(0)
        return None if text is None else Answer(text)

    monkeypatch.setattr(litellm, "cache", litellm.Cache(type="local"))
    async with served(["from the model"], as_guardrail(once)()) as it:
        said = [(await it.ask()).json()["choices"][0]["message"]["content"] for _ in range(2)]
    assert said == ["from the processor", "from the model"]


@pytest.mark.parametrize("streamed", [False, True])
async def test_processors_hear_of_errors_of_the_model(streamed: bool) -> None:
    """The client gets LiteLLM's own error."""
    seen: list[str] = []

    @processor("process_api_error", role="observer")
    def note(ctx: Any) -> None:
        seen.append(type(ctx.error).__name__)

    async with served([failing(400, "too long")], as_guardrail(note)()) as it:
        response = await it.ask(stream=streamed)
    assert response.status_code == 400
    assert "too long" in response.text
    assert seen == ["BadRequestError"]


async def test_an_answer_without_a_checked_request_is_refused() -> None:
    """Whatever the client has put into its metadata."""
    guard = as_guardrail(CLEAN)()
    with pytest.raises(Exception, match="A guard failed"):
        await guard.async_post_call_success_hook({"metadata": {guard._key: "made up"}}, None, None)
    with pytest.raises(Exception, match="A guard failed"):
        async for _ in guard.async_post_call_streaming_iterator_hook(None, None, {}):  # type: ignore[arg-type]
            pass


@pytest.mark.parametrize("mode", ["pre_call", ["post_call"], ["pre_call", "during_call"], "logging_only"])
def test_other_modes_are_refused(mode: Any) -> None:
    """They would let requests or answers pass."""
    with pytest.raises(UsageError, match=r"\[pre_call, post_call\]"):
        as_guardrail(CLEAN)(guardrail_name="x", event_hook=mode)


@pytest.mark.parametrize("option", ["run_in_parallel", "scan_raw_request"])
def test_options_that_drop_what_was_changed_are_refused(option: str) -> None:
    """LiteLLM means them for guardrails that only block."""
    with pytest.raises(UsageError, match=option):
        as_guardrail(CLEAN)(**{option: True})


def test_retries_are_said_to_be_impossible() -> None:
    """When the guardrail is made."""
    with pytest.raises(UsageError, match="max_processor_retries"):
        as_guardrail(CLEAN, max_processor_retries=1)


async def test_a_class_made_of_ours_reads_streams_as_well() -> None:
    """LiteLLM looks for hooks in the class itself only."""

    class Mine(as_guardrail(CLEAN)):  # type: ignore[misc]
        """Has no hook of its own."""

    async with served([PIECES], Mine()) as it:
        assert texts(await it.ask(stream=True)) == "Write to [EMAIL], please."


async def test_code_that_calls_litellm_is_told_to_use_the_other_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """There, LiteLLM would call no hook for a stream."""
    guard = as_guardrail(CLEAN)(guardrail_name="ours", default_on=False)
    monkeypatch.setattr(litellm, "callbacks", [*litellm.callbacks, guard])
    with FakeProvider(["never"]) as provider:
        with pytest.raises(Exception, match="as_completion"):
            await litellm.acompletion(
                "openai/gpt",
                [{"role": "user", "content": "Hi"}],
                api_base=provider.url,
                api_key="x",
                guardrails=["ours"],
            )
        assert provider.requests == []


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_verdict_that_asks_for_a_retry_is_final(streamed: bool) -> None:
    """A guardrail has no place to call the model again."""

    @processor("process_output_step", role="guard")
    def no_bad(ctx: OutputStepContext) -> None:
        ctx.abort("it is bad", retry=True)

    async with served(["bad", "good"], as_guardrail(no_bad)()) as it:
        response = await it.ask(stream=streamed)
    assert response.status_code == 400
    assert "blocked by a guard" in response.text
    assert "bad" not in response.text
    assert len(it.provider.requests) == 1


async def test_a_repetition_that_a_processor_wants_is_left_to_litellm() -> None:
    """The client gets the error of the model."""

    @processor("process_api_error")
    def again(ctx: Any) -> Retry:
        return Retry()

    async with served([failing(400, "too long"), "never"], as_guardrail(again)()) as it:
        response = await it.ask()
    assert response.status_code == 400
    assert "too long" in response.text
    assert len(it.provider.requests) == 1
