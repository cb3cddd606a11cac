"""Google ADK: what is special beside the suite."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.genai import types

from penstock.workflows.adapters.google_adk import _read, _wrap, _written
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
    assert _written(_read([content])) == [content]


def test_a_call_without_an_id_gets_one_that_the_model_never_sees() -> None:
    """ADK would make one that no stage knows."""
    call = types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="f", args={}))])
    [message] = _read([call], ids=True)
    [kept] = _written([message], keep_ids=True)
    assert kept.parts is not None
    assert kept.parts[0].function_call is not None
    assert (kept.parts[0].function_call.id or "").startswith("penstock-")
    assert _written([message])[0].parts == call.parts


def test_a_wrapped_model_keeps_its_type_and_is_wrapped_once() -> None:
    """An agent below has its model from the one above, and still has."""
    below = LlmAgent(name="below")
    above = LlmAgent(name="above", model=Scripted(), sub_agents=[below])
    _wrap(below)
    wrapped = above.model
    _wrap(above)
    assert above.model is wrapped
    assert below.canonical_model is wrapped
    assert isinstance(wrapped, Scripted)


async def test_requests_at_once_stay_apart() -> None:
    """Each gets its own answer, redacted."""
    jobs = [Job([Says(pieces=[f"{n}: ada{n}@ex", "ample.com"])], "Hi", [HIDES], streamed=True) for n in range(5)]
    seen: list[Seen] = await asyncio.gather(*map(run, jobs))
    assert [one.output for one in seen] == [f"{n}: [EMAIL]" for n in range(5)]
    assert ["".join(one.shown) for one in seen] == [one.output for one in seen]
