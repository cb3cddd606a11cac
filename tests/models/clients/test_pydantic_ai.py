"""Models of pydantic-ai's behind the port: its own test doubles, streamed and not."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import pytest
from pydantic import BaseModel
from pydantic_ai import exceptions, messages as theirs
from pydantic_ai.messages import (
    BinaryContent,
    Citation,
    DocumentCitationSource,
    FilePart,
    ModelRequest as TheirRequest,
    ModelResponse,
    NativeToolCallPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    SpeechPart,
    TextPart as TheirText,
    TextPartDelta,
    ThinkingPart,
    ToolCallPart,
    ToolCallPartDelta,
    WebCitationSource,
)
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import RequestUsage

from penstock import Message, OptionError
from penstock.engine import MessageError
from penstock.engine.values.answer_builder import collected
from penstock.engine.values.errors import MissingExtraError, ModelError
from penstock.engine.values.messages import (
    AudioPart,
    FilePart as OurFile,
    ImagePart,
    ReasoningPart,
    SourcePart,
    StepStartPart,
    TextPart,
    ToolPart,
    UnknownPart,
)
from penstock.engine.values.model import ModelAnswer, ModelRequest, ResponseFormat, ToolSpec, Usage
from penstock.engine.values.protocols import Model
from penstock.models.judges import Judge
from penstock.models.pydantic_ai import PydanticAIModel
from penstock.models.pydantic_ai.answers import EventReader
from penstock.models.pydantic_ai.requests import written
from penstock.testing import FakeProvider, Sent, Wire, failing


class Verdict(BaseModel):
    """Whether a text is bad."""

    bad: bool


HELLO = ModelRequest((Message.user("Hello"),))
# On trio the clients of the providers leave generators over, with or without us; pytest makes that an error.
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
both_ways = pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "whole"])


def saying(response: ModelResponse, seen: list[Any] | None = None) -> FunctionModel:
    """A model that gives a response."""

    def answer(messages: list[theirs.ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen.append((messages, info))
        return response

    return FunctionModel(answer, model_name="m")


def streaming_model(*items: Any) -> FunctionModel:
    """A model that streams items; an error is raised."""

    async def answer(messages: list[theirs.ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        for item in items:
            if isinstance(item, Exception):
                raise item
            yield item

    return FunctionModel(stream_function=answer, model_name="m")


async def whole(model: Any, request: ModelRequest = HELLO, *, streaming: bool = False) -> ModelAnswer:
    """The whole answer of a model of theirs."""
    return await collected(PydanticAIModel(model, streaming=streaming).stream(request))


def kinds(answer: ModelAnswer) -> list[str]:
    """The types of the chunks of an answer, each run of deltas once."""
    types = [chunk.type for chunk in answer.chunks]
    return [type for type, before in zip(types, [None, *types], strict=False) if type != before]


@both_ways
async def test_a_text_is_answered(streaming: bool) -> None:
    """With usage, reason and the model's name."""
    answer = await whole(TestModel(custom_output_text="Hello to you"), streaming=streaming)
    assert (answer.text, answer.finish_reason, answer.refused) == ("Hello to you", "stop", False)
    assert answer.metadata["model"] == "test"
    assert answer.usage is not None
    assert answer.usage.output_tokens
    assert kinds(answer) == ["response-metadata", "text-start", "text-delta", "text-end", "finish"]
    assert isinstance(PydanticAIModel(TestModel()), Model)


@both_ways
async def test_a_call_of_a_tool_is_answered(streaming: bool) -> None:
    """Its arguments as they come, and as a value."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    request = replace(HELLO, tools=(ToolSpec("weather", schema, "The weather"),))
    answer = await whole(TestModel(), request, streaming=streaming)
    (part,) = answer.message.parts
    assert isinstance(part, ToolPart)
    assert (part.name, part.arguments, answer.finish_reason) == ("weather", {"city": "a"}, "tool-calls")
    assert "".join(chunk.text for chunk in answer.chunks if chunk.type == "tool-input-delta") == '{"city": "a"}'
    assert kinds(answer)[1:-1] == ["tool-input-start", "tool-input-delta", "tool-input-end", "tool-call"]


async def test_a_stream_keeps_the_order_of_its_parts() -> None:
    """Thoughts, texts, calls beside each other; the same message as from the whole."""
    model = streaming_model(
        {0: DeltaThinkingPart(content="Let me ")},
        {0: DeltaThinkingPart(content="think", signature="sig")},
        "Hel",
        "lo",
        {1: DeltaToolCall("one", '{"a"', tool_call_id="c1")},
        {1: DeltaToolCall(json_args=": 1}")},
        {2: DeltaToolCall("two", "", tool_call_id="c2")},
        {3: DeltaToolCall("three", "{broken", tool_call_id="c3")},
    )
    answer = await whole(model, streaming=True)
    thought, *rest = answer.message.parts
    assert isinstance(thought, ReasoningPart)
    assert (thought.text, thought.metadata["pydantic-ai"]["signature"]) == ("Let me think", "sig")
    assert rest == [
        TextPart("Hello"),
        ToolPart("c1", "one", {"a": 1}),
        ToolPart("c2", "two", {}),
        ToolPart("c3", "three", "{broken"),
    ]
    broken = [chunk.payload for chunk in answer.chunks if chunk.type == "tool-call" and "invalid" in chunk.payload]
    assert [payload["call_id"] for payload in broken] == ["c3"]


@both_ways
async def test_a_request_says_what_it_says(streaming: bool) -> None:
    """Messages, tools, settings by their names, the form of the answer."""
    seen: list[tuple[list[theirs.ModelMessage], AgentInfo]] = []

    async def stream(messages: list[theirs.ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        seen.append((messages, info))
        yield "{}"

    def answer(messages: list[theirs.ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append((messages, info))
        return ModelResponse([TheirText("{}")])

    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    request = ModelRequest(
        (Message.system("Be kind."), Message.user("Hello")),
        tools=(ToolSpec("web", schema, "Search", strict=True),),
        tool_choice=("web",),
        settings={"temperature": 0, "stop": "END", "max_tokens": 5, "reasoning_effort": "low", "openai_user": "u"},
        response_format=ResponseFormat(schema, "verdict"),
        provider_options={"x": {"y": [1]}},
    )
    await whole(FunctionModel(answer, stream_function=stream), request, streaming=streaming)
    ((messages, info),) = seen
    (first,) = messages
    assert isinstance(first, TheirRequest)
    assert [(part.part_kind, part.content) for part in first.parts] == [  # type: ignore[union-attr]
        ("system-prompt", "Be kind."),
        ("user-prompt", "Hello"),
    ]
    (tool,) = info.function_tools
    assert (tool.name, tool.parameters_json_schema, tool.description, tool.strict) == ("web", schema, "Search", True)
    settings = dict(info.model_settings or {})
    assert settings.pop("tool_choice") == ["web"]
    settings.pop("thinking", None)  # the library takes it out again, for models that do not think
    expected = {"temperature": 0, "stop_sequences": ["END"], "max_tokens": 5, "openai_user": "u"}
    assert settings == {**expected, "extra_body": {"x": {"y": [1]}}}
    form = info.model_request_parameters.output_object
    assert form is not None
    assert (info.model_request_parameters.output_mode, form.json_schema, form.name) == ("native", schema, "verdict")
    json.dumps([tool.parameters_json_schema, settings, form.json_schema])  # nothing in it is frozen


async def test_a_model_that_takes_no_schema_is_told_of_it() -> None:
    """And so is one that is to answer with any object."""
    seen: list[Any] = []
    model = saying(ModelResponse([TheirText("{}")]), seen)
    model._profile = {"supports_json_schema_output": False}
    await whole(model, replace(HELLO, response_format=ResponseFormat({"type": "object", "title": "T"})))
    await whole(saying(ModelResponse([TheirText("{}")]), seen), replace(HELLO, response_format=ResponseFormat()))
    modes = [info.model_request_parameters.output_mode for _, info in seen]
    assert modes == ["prompted", "prompted"]


def test_a_conversation_is_written_as_it_went() -> None:
    """Steps, calls and their results, media; what no provider takes is left out."""
    data = b64encode(b"abc").decode()
    messages = [
        Message.user(
            [
                TextPart("Look"),
                ImagePart("https://example.org/a.png"),
                ImagePart("data:image/png;base64," + data),
                AudioPart(data=data, media_type="audio/mp3"),
                OurFile(url="https://example.org/a.pdf"),
                AudioPart(url="https://example.org/a.mp3"),
                SourcePart("s"),
            ]
        ),
        Message.assistant(
            [
                TextPart("one"),
                ToolPart("c1", "web", {"q": [1]}, "result", {"n": 1}),
                ToolPart("c2", "web", {}, "error", error="down"),
                TextPart("two"),
                StepStartPart(),
                ImagePart(data=data, media_type="image/png"),
                AudioPart(transcript="spoken"),
                ToolPart("c3", "web", "{broken"),
            ]
        ),
        Message.tool([ToolPart("c3", "web", state="result", result="text")]),
        Message.user("Thanks"),
        Message.assistant([]),
    ]
    user, first, returned, second, third, last = written(messages)
    content: Any = user.parts[0].content  # type: ignore[union-attr]
    assert [getattr(item, "kind", item) for item in content] == [
        "Look",
        "image-url",
        "binary",
        "binary",
        "document-url",
        "audio-url",
    ]
    assert [part.part_kind for part in first.parts] == ["text", "tool-call", "tool-call"]
    results = [(part.tool_call_id, part.content, part.outcome) for part in returned.parts]  # type: ignore[union-attr]
    assert results == [("c1", {"n": 1}, "success"), ("c2", "down", "failed")]
    assert [part.part_kind for part in second.parts] == ["text"]
    assert [part.part_kind for part in third.parts] == ["file", "text", "tool-call"]
    assert [part.part_kind for part in last.parts] == ["tool-return", "user-prompt"]
    json.dumps([part.args for part in first.parts if isinstance(part, ToolCallPart)])
    with pytest.raises(MessageError, match="not base64"):
        written([Message.user([ImagePart(data="?")])])


DETAILS = {"reasoning_tokens": 3, "deep": {"a": [1]}}
GIVEN: list[theirs.ModelResponsePart] = [
    ThinkingPart("hm", id="r1", signature="sig", provider_name="p", provider_details=DETAILS),
    ThinkingPart("", signature="encrypted", provider_name="p"),
    TheirText("Hello", id="t1", provider_name="p"),
    ToolCallPart("web", '{"q": 1}', "c1", id="x1", provider_name="p", provider_details={"k": "v"}),
    NativeToolCallPart("search", {"q": 1}, "n1", provider_name="p"),
    FilePart(BinaryContent(b"abc", media_type="image/png"), id="f1", provider_name="p"),
]


@both_ways
async def test_what_a_provider_needs_back_comes_back(streaming: bool) -> None:
    """Ids, signatures and details, through a message and back; encrypted thoughts and its own calls as they are."""
    response = ModelResponse(list(GIVEN), provider_name="p", provider_response_id="a1", finish_reason="stop")
    model: Any = saying(response)
    if streaming:
        model = Replaying(response)
    answer = await whole(model, streaming=streaming)
    (back,) = written([answer.message])
    read = [replace(part, args={"q": 1}) if isinstance(part, ToolCallPart) else part for part in GIVEN]
    assert list(back.parts) == read
    assert isinstance(back, ModelResponse)
    assert (back.provider_name, back.provider_response_id) == ("p", "a1")
    assert answer.metadata["id"] == "a1"


async def test_what_was_edited_goes_back_without_its_signature() -> None:
    """A provider would use its own copy of what a guard took out."""
    answer = await whole(saying(ModelResponse(list(GIVEN), provider_name="p")))
    parts = []
    for part in answer.message.parts:
        if isinstance(part, (TextPart, ReasoningPart)):
            parts.append(replace(part, text="[redacted]"))
        elif isinstance(part, ToolPart):
            parts.append(replace(part, arguments={"q": 2}))
    (back,) = written([answer.message.with_parts(parts)])
    assert list(back.parts) == [
        ThinkingPart("[redacted]"),
        TheirText("[redacted]"),
        ToolCallPart("web", {"q": 2}, "c1"),
    ]


def test_notes_from_outside_are_not_trusted() -> None:
    """Of another type, of another kind, or no notes at all."""
    text = TextPart("a", {"pydantic-ai": {"of": "1:7c87", "id": {"x": 1}, "provider_details": "no", "evil": 1}})
    message = Message.assistant(
        [
            text,
            TextPart("b", {"pydantic-ai": 7}),
            UnknownPart({"part_kind": "text", "content": "unseen"}),
            UnknownPart({"part_kind": "thinking"}),
            UnknownPart("raw"),
        ],
        metadata={"pydantic-ai": {"provider_name": ["p"], "parts": []}},
    )
    assert [(back.parts, back.kind) for back in written([message])] == [([TheirText("a"), TheirText("b")], "response")]


class Replaying(FunctionModel):
    """A model that streams a response it has: what `FunctionModel` cannot say in pieces."""

    def __init__(self, response: ModelResponse) -> None:
        super().__init__(lambda messages, info: response, model_name="m")
        self.response = response

    def request_stream(self, *args: Any, **options: Any) -> Any:
        """Stream the response."""
        from contextlib import asynccontextmanager

        from pydantic_ai.models import CompletedStreamedResponse, ModelRequestParameters

        @asynccontextmanager
        async def opened() -> AsyncIterator[Any]:
            yield CompletedStreamedResponse(response=self.response, model_request_parameters=ModelRequestParameters())

        return opened()


@both_ways
async def test_sources_and_usage_are_told(streaming: bool) -> None:
    """Each source once; what else is counted under the library's names."""
    sources = [WebCitationSource("https://example.org", title="T"), DocumentCitationSource(document_id="d")]
    text = TheirText("Hello", citations=[Citation(sources), Citation(sources[:1])])
    usage = RequestUsage(
        input_tokens=9, cache_read_tokens=4, cache_write_tokens=1, output_tokens=5, output_reasoning_tokens=2
    )
    response = ModelResponse([text], usage=usage, finish_reason="length")
    answer = await whole(Replaying(response), streaming=streaming)
    assert answer.message.parts == (TextPart("Hello"), SourcePart(None, "https://example.org", "T"), SourcePart("d"))
    assert (answer.usage, answer.finish_reason) == (Usage(9, 5, 4, 2, details={"cache_write_tokens": 1}), "length")


async def test_a_refusal_is_one() -> None:
    """In its own words."""
    response = ModelResponse([], finish_reason="content_filter", provider_details={"refusal": "I will not"})
    answer = await whole(saying(response))
    assert (answer.refused, answer.text, answer.finish_reason) == (True, "I will not", "content-filter")


ERRORS: list[tuple[Exception, dict[str, Any]]] = [
    (
        exceptions.ModelHTTPError(
            429, "m", {"error": {"message": "slow", "code": "rate"}}, headers={"Retry-After": "7"}
        ),
        {"status": 429, "code": "rate", "retry_after": 7.0, "retryable": True},
    ),
    (exceptions.ModelHTTPError(503, "m", "down"), {"status": 503, "retryable": True, "body": "down"}),
    (exceptions.ModelHTTPError(401, "m"), {"status": 401, "retryable": False}),
    (exceptions.ModelConnectionError("m", "reset"), {"status": None, "retryable": True}),
    (exceptions.ModelRequestTimeout("m", 3.0), {"retryable": True}),
    (exceptions.ContentFilterError("filtered"), {"code": "content_filter", "retryable": False}),
    (exceptions.UnexpectedModelBehavior("odd"), {"retryable": True}),
    (exceptions.UserError("wrong"), {"retryable": False}),
    (ZeroDivisionError("secret"), {"retryable": False, "problem": "pydantic-ai says: ZeroDivisionError"}),
]


@both_ways
@pytest.mark.parametrize(("error", "told"), ERRORS)
async def test_an_error_is_told_as_one_of_ours(error: Exception, told: dict[str, Any], streaming: bool) -> None:
    """With its status, code, time to wait, and whether it is worth another try; the original is its cause."""

    def fail(messages: Any, info: AgentInfo) -> ModelResponse:
        raise error

    model = streaming_model("Hel", error) if streaming else FunctionModel(fail)
    with pytest.raises(ModelError) as raised:
        await whole(model, streaming=streaming)
    assert {name: getattr(raised.value, name) for name in told} == told
    assert raised.value.__cause__ is error


async def test_the_last_of_several_models_tells_what_went_wrong() -> None:
    """A fallback model raises the errors of all."""
    failing = [streaming_model(exceptions.ModelHTTPError(status, "m")) for status in (401, 503)]
    with pytest.raises(ModelError) as raised:
        await whole(FallbackModel(*failing), streaming=True)
    assert (raised.value.status, raised.value.retryable) == (503, True)


async def test_no_key_is_in_an_error() -> None:
    """Nor in what shows the model; an original that holds it is no cause."""

    class Keyed(FunctionModel):
        api_key = "sk-secret"

        @property
        def client(self) -> "Keyed":
            return self

    error = exceptions.ModelHTTPError(
        401, "m", {"error": {"message": "wrong key sk-secret"}}, headers={"via": "sk-secret"}
    )

    def fail(messages: Any, info: AgentInfo) -> ModelResponse:
        raise error

    for model in (Keyed(fail), FallbackModel(Keyed(fail))):
        with pytest.raises(ModelError, match=r"wrong key \[key\]") as raised:
            await whole(model)
        shown = [str(raised.value), repr(raised.value), raised.value.body, str(raised.value.headers)]
        assert "sk-secret" not in "".join([*shown, repr(PydanticAIModel(model))])
        assert (raised.value.__cause__, raised.value.__context__) == (None, None)


async def test_an_answer_that_is_left_is_closed() -> None:
    """The model stops where nobody reads on; cancelled too."""
    closed: list[str] = []

    def slow(name: str) -> FunctionModel:
        async def answer(messages: Any, info: AgentInfo) -> AsyncIterator[str]:
            try:
                yield "a"
                await anyio.sleep_forever()
            finally:
                closed.append(name)

        return FunctionModel(stream_function=answer)

    stream: Any = PydanticAIModel(slow("left")).stream(HELLO)
    with anyio.fail_after(60):
        async for chunk in stream:
            if chunk.type == "text-delta":
                break
        await stream.aclose()
        async with anyio.create_task_group() as group:
            group.start_soon(collected, PydanticAIModel(slow("cancelled")).stream(HELLO))
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()
    assert closed == ["left", "cancelled"]


@both_ways
async def test_a_judge_asks_a_model_of_pydantic_ai(streaming: bool) -> None:
    """The schema goes where the library has a place for it."""
    seen: list[Any] = []
    model: Any = (
        streaming_model('{"bad"', ": true}") if streaming else saying(ModelResponse([TheirText('{"bad": 1}')]), seen)
    )
    judged = await Judge(PydanticAIModel(model, streaming=streaming), Verdict, "Is it bad?").ask("text")
    assert (judged.verdict.bad, judged.model) == (True, "function:m")


def test_a_model_tells_what_sets_it_apart_from_others_of_its_name() -> None:
    """And no headers, which may hold a key."""
    provider = OpenAIProvider(base_url="http://127.0.0.1:1/v1", api_key="sk-secret")
    own = {"temperature": 0.5, "extra_headers": {"x-key": "secret"}}
    model = PydanticAIModel(OpenAIChatModel("m", provider=provider, settings=own))  # type: ignore[arg-type]
    assert model.identity == {"url": "http://127.0.0.1:1/v1/", "settings": {"temperature": 0.5}}
    assert PydanticAIModel(TestModel()).identity == {"url": None, "settings": {}}


def test_a_name_that_the_library_does_not_know_is_refused() -> None:
    """And so is one whose key is missing."""
    for name in ("nobody:nothing", "nothing"):
        with pytest.raises(OptionError, match="model"):
            PydanticAIModel(name)
    assert PydanticAIModel("test").name == "test:test"


@on_asyncio
@pytest.mark.parametrize("framing", ["chunked", "close", "length"])
async def test_a_stream_that_is_cut_is_no_answer(framing: Any) -> None:
    """Wherever it is cut, and however its end would have been told: an error, or the whole."""
    said = {"deltas": ["Hello ", "there"]}
    problems: list[str] = []
    for cut in range(150, 1000, 80):
        with FakeProvider([Sent(said, Wire(cut_at=cut, framing=framing, ending="close"))]) as server:
            provider = OpenAIProvider(base_url=server.url, api_key="sk-secret")
            async with OpenAIChatModel("gpt-x", provider=provider) as model:
                try:
                    answer = await whole(model, replace(HELLO, settings={"max_retries": 0}), streaming=True)
                except ModelError as error:
                    problems.append(error.problem)
                else:
                    assert (answer.text, answer.finish_reason) == ("Hello there", "stop")
    assert len(problems) >= 6


@on_asyncio
async def test_a_real_client_speaks_to_a_real_server() -> None:
    """A verdict, then a refusal of the key, which is in no string."""
    refused = failing(401, "this key is wrong: sk-secret")
    with FakeProvider([{"deltas": ['{"bad', '": true}']}, refused], key="sk-secret") as server:
        provider = OpenAIProvider(base_url=server.url, api_key="sk-secret")
        async with OpenAIChatModel("gpt-x", provider=provider) as model:
            asked = PydanticAIModel(model)
            assert (await Judge(asked, Verdict, "Is it bad?").ask("text")).verdict.bad
            assert server.requests[0].fields["response_format"]["type"] == "json_schema"
            with pytest.raises(ModelError, match=r"wrong: \[key\]") as raised:
                await collected(asked.stream(HELLO))
    assert (raised.value.status, raised.value.__cause__, raised.value.__context__) == (401, None, None)
    assert "sk-secret" not in f"{raised.value} {raised.value.body} {raised.value.headers}"


def test_a_text_that_goes_on_behind_its_end_is_a_text_of_its_own() -> None:
    """Some providers say more when all seems said; a call that does is whole by then."""
    answer = EventReader()
    text, call = TheirText("Hello"), ToolCallPart("web", "{}", "c1")
    events = [
        PartStartEvent(index=0, part=text),
        PartEndEvent(index=0, part=text),
        PartStartEvent(index=1, part=call),
        PartEndEvent(index=1, part=call),
        PartDeltaEvent(index=0, delta=TextPartDelta(" again")),
        PartDeltaEvent(index=1, delta=ToolCallPartDelta(args_delta="!")),
    ]
    said = [chunk for event in events for chunk in answer.event(event)]
    said += answer.rest(ModelResponse([TheirText("Hello again"), call]))
    texts = [(chunk.type, chunk.id, chunk.text) for chunk in said if chunk.type.startswith("text")]
    assert texts == [
        ("text-start", "text-0", ""),
        ("text-delta", "text-0", "Hello"),
        ("text-end", "text-0", ""),
        ("text-start", "text-0-1", ""),
        ("text-delta", "text-0-1", " again"),
        ("text-end", "text-0-1", ""),
    ]
    assert [chunk.type for chunk in said].count("tool-call") == 1


def test_calls_whose_pieces_are_mixed_are_whole() -> None:
    """pydantic-ai ends a part where the next one starts. The calls keep their order."""
    answer = EventReader()
    calls = [ToolCallPart("find", f'{{"who": "{who}"}}', f"c{index}") for index, who in enumerate(("ann", "bob"))]
    calls.append(ToolCallPart("done", "", "c2"))
    begun = [replace(calls[0], args=None), replace(calls[1], args='{"wh'), calls[2]]
    events = [
        PartStartEvent(index=0, part=begun[0]),
        PartEndEvent(index=0, part=begun[0]),
        PartStartEvent(index=1, part=begun[1]),
        PartDeltaEvent(index=0, delta=ToolCallPartDelta(args_delta='{"who": "ann"}')),
        PartDeltaEvent(index=1, delta=ToolCallPartDelta(args_delta='o": "bob"}')),
        PartEndEvent(index=1, part=calls[1]),
        PartStartEvent(index=2, part=calls[2]),
        PartEndEvent(index=2, part=calls[2]),
    ]
    said = [chunk for event in events for chunk in answer.event(event)]
    said += answer.rest(ModelResponse(calls))
    told = [chunk.payload["arguments"] for chunk in said if chunk.type == "tool-call"]
    assert told == [{"who": "ann"}, {"who": "bob"}, {}]
    written = ["".join(chunk.text for chunk in said if chunk.id == f"c{index}") for index in range(3)]
    assert written == ['{"who": "ann"}', '{"who": "bob"}', ""]
    assert [chunk.type for chunk in said].count("tool-input-end") == 3


@both_ways
async def test_what_is_spoken_is_told(streaming: bool) -> None:
    """With its sound, or as the text it is."""
    audio = BinaryContent(b"abc", media_type="audio/wav")
    parts = [
        SpeechPart(speaker="assistant", transcript="one", audio=audio),
        SpeechPart(speaker="assistant", transcript="two"),
    ]
    answer = await whole(Replaying(ModelResponse(parts)), streaming=streaming)
    spoken, text = answer.message.parts
    assert isinstance(spoken, AudioPart)
    assert (spoken.transcript, spoken.media_type, text) == ("one", "audio/wav", TextPart("two"))


def test_without_the_extra_it_says_which_one_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is made; importing it costs nothing (tests/core)."""
    monkeypatch.setattr("penstock.models.pydantic_ai.model._IS_INSTALLED", False)
    with pytest.raises(MissingExtraError, match=r"penstock\[pydantic-ai\]"):
        PydanticAIModel("test")


async def test_a_model_that_cannot_stream_is_asked_for_the_whole() -> None:
    """It says so in one way or another; from then on it is not asked for a stream."""
    asked: list[str] = []

    class Whole(TestModel):
        @asynccontextmanager
        async def request_stream(self, *_: Any, **__: Any) -> Any:
            asked.append("stream")
            raise NotImplementedError("Streamed requests not supported by this Whole")
            yield

    def answer(*_: Any) -> theirs.ModelResponse:
        return theirs.ModelResponse(parts=[theirs.TextPart("x")])

    for model in (PydanticAIModel(FunctionModel(answer)), PydanticAIModel(Whole(custom_output_text="x"))):
        for _ in range(2):
            assert (await collected(model.stream(ModelRequest((Message.user("hi"),))))).text == "x"
    assert asked == ["stream"]
