"""Google ADK: what is special beside the suite."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from google.adk.agents import LiveRequestQueue, LlmAgent, ParallelAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.genai import types
from pydantic import PrivateAttr

from penstock import PIIDetector
from penstock.processors.guards import Restore
from penstock.workflows.adapters.google_adk import as_plugin, tripwire_of
from penstock.workflows.adapters.google_adk.answers import read_contents, write_contents
from penstock.workflows.adapters.google_adk.model import waiting, wrap
from tests.hosts.cases import HIDES
from tests.hosts.contract import Job, Says, Seen
from tests.hosts.drivers.google_adk import Scripted, run


@pytest.fixture
def anyio_backend() -> str:
    """ADK runs on asyncio."""
    return "asyncio"


def test_parts_that_nobody_knows_are_kept() -> None:
    """Signatures, code and data go both ways."""
    parts = [
        types.Part(text="hm", thought=True, thought_signature=b"\x01\xff"),
        types.Part(executable_code=types.ExecutableCode(code="1+1", language=types.Language.PYTHON)),
        types.Part(inline_data=types.Blob(data=b"\xfb\xff\x00", mime_type="image/png")),
        types.Part(function_call=types.FunctionCall(name="f", args={"a": 1}), thought_signature=b"s"),
    ]
    content = types.Content(role="model", parts=parts)
    assert write_contents(read_contents([content])) == [content]


def test_a_call_without_an_id_gets_one_that_the_model_never_sees() -> None:
    """ADK would make one that no stage knows."""
    call = types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="f", args={}))])
    [message] = read_contents([call], ids=True)
    [kept] = write_contents([message], keep_ids=True)
    assert kept.parts is not None
    assert kept.parts[0].function_call is not None
    assert (kept.parts[0].function_call.id or "").startswith("penstock-")
    assert write_contents([message])[0].parts == call.parts


def test_a_wrapped_model_keeps_its_type_and_is_wrapped_once() -> None:
    """An agent below has its model from the one above, and still has."""
    below = LlmAgent(name="below")
    above = LlmAgent(name="above", model=Scripted(), sub_agents=[below])
    wrap(below)
    wrapped = above.model
    wrap(above)
    assert above.model is wrapped
    assert below.canonical_model is wrapped
    assert isinstance(wrapped, Scripted)


async def test_requests_at_once_stay_apart() -> None:
    """Each gets its own answer, redacted."""
    jobs = [Job([Says(pieces=[f"{n}: ada{n}@ex", "ample.com"])], "Hi", [HIDES], streamed=True) for n in range(5)]
    seen: list[Seen] = await asyncio.gather(*map(run, jobs))
    assert [one.output for one in seen] == [f"{n}: [EMAIL]" for n in range(5)]
    assert ["".join(one.shown) for one in seen] == [one.output for one in seen]


class Answers(BaseLlm):
    """A model that answers each request by a function of what it was asked."""

    model: str = "answers"
    _answer: Any = PrivateAttr()

    async def generate_content_async(
        self,
        llm_request: LlmRequest,
        stream: bool = False,  # noqa: FBT002
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the answer, in two pieces before the whole one if it is streamed."""
        part: types.Part = self._answer(llm_request)
        if stream and part.text:
            for text in (part.text[:9], part.text[9:]):
                yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]), partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), finish_reason=types.FinishReason.STOP)


def answering(answer: Callable[[LlmRequest], types.Part]) -> Answers:
    """Return such a model."""
    model = Answers()
    model._answer = answer
    return model


def said(request: LlmRequest) -> str:
    """Return the last text that a model was asked."""
    return "".join(part.text or "" for part in request.contents[-1].parts or ())


async def events_of(runner: Any, text: str, **config: Any) -> tuple[list[Any], Any]:
    """Return the events of a run in a new session, and the session afterwards."""
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    run_config = RunConfig(streaming_mode=StreamingMode.SSE, **config)
    running = runner.run_async(user_id="u", session_id=session.id, new_message=message, run_config=run_config)
    events = [event async for event in running]
    return events, await runner.session_service.get_session(app_name="app", user_id="u", session_id=session.id)


def runner_of(agent: Any, *guards: Any, **options: Any) -> InMemoryRunner:
    """Return a runner with the plugin."""
    return InMemoryRunner(app=App(name="app", root_agent=agent, plugins=[as_plugin(*guards, **options)]))


async def test_one_plugin_serves_many_runs_at_once() -> None:
    """Nothing of one run is in another one, and nothing is left behind."""
    model = answering(lambda request: types.Part(text=f"{said(request)}: ada@example.com"))
    runner = runner_of(LlmAgent(name="agent", model=model, output_key="kept"), HIDES)
    runs = await asyncio.gather(*(events_of(runner, f"{n} bob@example.com") for n in range(8)))
    for n, (events, session) in enumerate(runs):
        shown = "".join(part.text for event in events if event.partial for part in event.content.parts)
        assert shown == f"{n} [EMAIL]: [EMAIL]"
        assert session.state["kept"] == shown
        assert "example.com" not in repr(session)
    [plugin] = runner.plugin_manager.plugins
    assert plugin._requests == {}  # type: ignore[attr-defined]
    assert waiting == {}


async def test_an_agent_that_hands_over_is_guarded_with_the_one_it_hands_to() -> None:
    """Each has its own model."""
    transfer = types.FunctionCall(name="transfer_to_agent", args={"agent_name": "below"}, id="t1")
    below = LlmAgent(name="below", model=answering(lambda _: types.Part(text="Write to ada@example.com")))
    above = LlmAgent(name="above", model=answering(lambda _: types.Part(function_call=transfer)), sub_agents=[below])
    events, session = await events_of(runner_of(above, HIDES), "Hi, bob@example.com")
    assert events[-1].content.parts[0].text == "Write to [EMAIL]"
    assert "example.com" not in repr(session)


@pytest.mark.filterwarnings("ignore:ParallelAgent is deprecated:DeprecationWarning")
async def test_agents_side_by_side_have_a_request_each() -> None:
    """A verdict on one answer does not touch the other."""
    one = LlmAgent(name="one", model=answering(lambda _: types.Part(text="Write to ada@example.com")))
    two = LlmAgent(name="two", model=answering(lambda _: types.Part(text="I am fine")))
    both = ParallelAgent(name="both", sub_agents=[one, two])
    events, session = await events_of(runner_of(both, PIIDetector(strategy="block")), "Hi")
    assert [tripwire_of(event) is not None for event in events if event.author == "one" and not event.partial] == [True]
    assert [event.content.parts[0].text for event in events if event.author == "two" and not event.partial] == [
        "I am fine"
    ]
    assert "ada@" not in repr(session)


async def test_what_calls_no_hooks_is_refused() -> None:
    """A live run would be unread."""

    class Connects(Answers):
        def connect(self, llm_request: LlmRequest) -> Any:
            """Stand for a live connection."""

    runner = runner_of(LlmAgent(name="agent", model=Connects(model="gemini-2.0-flash")), HIDES)
    with pytest.raises(RuntimeError, match="support_cfc"):  # ADK's own error around ours
        await events_of(runner, "Hi", support_cfc=True)
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    queue = LiveRequestQueue()
    queue.close()
    with pytest.raises(RuntimeError, match="run_live"):
        async for _ in runner.run_live(user_id="u", session_id=session.id, live_request_queue=queue):
            pass


async def test_a_picture_in_the_users_message_is_read_or_refused() -> None:
    """A guard that cannot read it blocks it, and the session does not hold it."""
    runner = runner_of(LlmAgent(name="agent", model=answering(lambda _: types.Part(text="never"))), HIDES)
    session = await runner.session_service.create_session(app_name="app", user_id="u")
    picture = types.Part(inline_data=types.Blob(data=b"\xfb\xff", mime_type="image/png"))
    running = runner.run_async(
        user_id="u", session_id=session.id, new_message=types.Content(role="user", parts=[picture])
    )
    events = [event async for event in running]
    assert tripwire_of(events[-1]) is not None
    stored = await runner.session_service.get_session(app_name="app", user_id="u", session_id=session.id)
    assert stored is not None
    assert not [
        part for event in stored.events if event.content for part in event.content.parts or () if part.inline_data
    ]


@pytest.mark.rest
async def test_a_signature_goes_with_the_text_that_it_signs() -> None:
    """The provider would refuse it beside another text."""
    for text, kept in (("Write to ada@example.com", None), ("Fine", b"sign")):
        part = types.Part(text=text, thought_signature=b"sign")
        agent = LlmAgent(name="agent", model=answering(lambda _, part=part: part))
        events, _ = await events_of(runner_of(agent, HIDES), "Hi")
        assert [one.thought_signature for one in events[-1].content.parts] == [kept]


def test_a_run_without_await() -> None:
    """Runner.run has a thread and a loop of its own."""
    runner = runner_of(
        LlmAgent(name="agent", model=answering(lambda _: types.Part(text="It is ada@example.com"))), HIDES
    )
    session = asyncio.run(runner.session_service.create_session(app_name="app", user_id="u"))
    message = types.Content(role="user", parts=[types.Part(text="Hi")])
    events = list(runner.run(user_id="u", session_id=session.id, new_message=message))
    assert events[-1].content is not None
    assert (events[-1].content.parts or [])[0].text == "It is [EMAIL]"


async def test_a_run_that_is_cancelled_in_a_tool_leaves_nothing_behind() -> None:
    """ADK calls no hook then."""
    waiting = asyncio.Event()

    async def wait() -> str:
        """Wait for ever."""
        waiting.set()
        await asyncio.Event().wait()
        return ""

    call = types.Part(function_call=types.FunctionCall(name="wait", args={}, id="c1"))
    runner = runner_of(LlmAgent(name="agent", model=answering(lambda _: call), tools=[wait]), HIDES)
    task = asyncio.ensure_future(events_of(runner, "Hi"))
    await asyncio.wait_for(waiting.wait(), 10)
    task.cancel()
    await asyncio.wait([task], timeout=10)
    del task
    gc.collect()
    [plugin] = runner.plugin_manager.plugins
    assert plugin._requests == {}  # type: ignore[attr-defined]


async def test_an_answer_of_another_plugin_leaves_nothing_behind() -> None:
    """The model is not called then."""

    class Caches(BasePlugin):
        async def before_model_callback(self, **_: Any) -> LlmResponse:
            return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="from a cache")]))

    agent = LlmAgent(name="agent", model=answering(lambda _: types.Part(text="never")))
    plugins: list[BasePlugin] = [as_plugin(HIDES), Caches(name="caches")]
    runner = InMemoryRunner(app=App(name="app", root_agent=agent, plugins=plugins))
    events, _ = await events_of(runner, "Hi")
    assert events[-1].content.parts[0].text == "from a cache"
    gc.collect()
    assert waiting == {}


async def test_what_the_model_reports_beside_its_answer_is_not_passed_on() -> None:
    """No guard has read it."""

    class Searches(Answers):
        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:  # noqa: FBT002
            whole = types.Content(role="model", parts=[types.Part(text="Fine")])
            found = types.GroundingMetadata(web_search_queries=["ada@example.com"])
            yield LlmResponse(content=whole, grounding_metadata=found, custom_metadata={"a": "ada@example.com"})

    events, session = await events_of(runner_of(LlmAgent(name="agent", model=Searches()), HIDES), "Hi")
    assert events[-1].content.parts[0].text == "Fine"
    assert "ada@" not in repr(events) + repr(session)


async def test_a_token_in_a_session_keeps_its_meaning() -> None:
    """Values of a later run get other numbers, though its message is checked before ADK brings the session."""
    model = answering(lambda _: types.Part(text="Hello [EMAIL_1]."))
    guards = PIIDetector(redaction_method="token", phase="input"), Restore()
    runner = runner_of(LlmAgent(name="agent", model=model), *guards)
    _, session = await events_of(runner, "I am ann@example.com")
    message = types.Content(role="user", parts=[types.Part(text="I am bob@example.com")])
    async for _ in runner.run_async(user_id="u", session_id=session.id, new_message=message):
        pass
    kept: Any = await runner.session_service.get_session(app_name="app", user_id="u", session_id=session.id)
    told = [event.content.parts[0].text for event in kept.events]
    assert told == ["I am [EMAIL_1]", "Hello ann@example.com.", "I am [EMAIL_2]", "Hello [EMAIL_1]."]
