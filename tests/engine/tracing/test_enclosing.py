"""Scopes of observers: what they put around calls, in what order, and that nothing they do changes a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import pytest

from penstock import Chunk, InputContext, OutputStreamContext, PIIDetector, UnicodeNormalizer, Workflow, processor
from penstock.engine import Record
from penstock.engine.tracing.enclosing import MODEL_CALLS, CallSite, model_call


class Enclosing:
    """An observer that encloses calls in a way of its own."""

    def __init__(self, scope: Any) -> None:
        self._scope = scope

    def on_record(self, record: Record) -> None:
        """Look at the record."""

    def enclose(self, site: CallSite) -> Any:
        return self._scope(site)


class Noting(AbstractContextManager[None]):
    """Notes its calls, and fails where it is told to."""

    def __init__(self, noted: list[str], site: CallSite, fails: str = "") -> None:
        self._noted = noted
        self._site = site
        self._fails = fails

    def __enter__(self) -> None:
        self._noted.append(f"enter {self._site.what}")
        if self._fails == "enter":
            raise ValueError

    def __exit__(self, *given: object) -> bool:
        self._noted.append(f"leave {self._site.what}")
        if self._fails == "leave":
            raise ValueError
        if self._fails == "again" and isinstance(given[1], BaseException):
            raise given[1]
        return True


@pytest.mark.parametrize("fails", ["", "enter", "leave", "again", "enclose", "none"])
async def test_scopes_of_any_observer_change_nothing(fails: str, caplog: pytest.LogCaptureFixture) -> None:
    """Even if they fail, or want to swallow an error; other observers are served all the same."""
    noted: list[str] = []

    def scope(site: CallSite) -> Any:
        if fails == "enclose":
            raise ValueError
        return None if fails == "none" else lambda: Noting(noted, site, fails)

    also: list[str] = []

    @processor("process_input", edits="nothing", on_error="block", role="guard")
    def breaks(ctx: InputContext) -> None:
        raise KeyError

    observers = [Enclosing(scope), Enclosing(lambda site: lambda: Noting(also, site))]
    with caplog.at_level(logging.CRITICAL):
        outcome = await Workflow("w").then(breaks).check("hi", observers=observers)
    assert outcome.tripwire is not None
    assert outcome.tripwire.metadata["error"] == "KeyError"
    assert also == ["enter stage", "enter hook", "leave hook", "leave stage"]
    assert noted == {"": also, "leave": also, "again": also, "enter": ["enter stage", "enter hook"]}.get(fails, [])


async def test_an_observer_that_cannot_serve_a_run_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """The run goes on without it."""

    class Choosy:
        def on_record(self, record: Record) -> None:
            raise AssertionError

        def for_run(self, run: object) -> Choosy:
            raise ValueError

    with caplog.at_level(logging.ERROR):
        outcome = await Workflow("w").then(UnicodeNormalizer()).check("hi", observers=[Choosy()])
    assert outcome.text == "hi"
    assert "the run goes on without it" in caplog.text


def test_a_model_call_that_nobody_watches_is_made_as_ever() -> None:
    """Judges are used outside of runs, too."""
    with model_call("m") as told:
        told["usage"] = None
    assert MODEL_CALLS.get() is None


@pytest.mark.parametrize("records", [True, False])
async def test_sites_say_what_is_called_and_where_it_stands(*, records: bool) -> None:
    """Also for an observer that wants nothing but scopes."""
    sites: list[CallSite] = []
    workflow = Workflow("w").then(Workflow("inner").then(UnicodeNormalizer())).then(PIIDetector(), mode="shadow")
    await workflow.check("hi", records=records, observers=[Enclosing(sites.append)])
    stage, own, shadow = sites
    assert (stage.what, stage.name) == ("stage", "process_input")
    assert own.path == "inner/unicode-normalizer"
    assert (own.what, own.name, own.stage, own.shadow) == ("hook", "unicode-normalizer", "process_input", False)
    assert (shadow.path, shadow.shadow) == ("pii-detector", True)


async def test_a_hook_in_a_stream_has_one_site_and_a_scope_for_each_call() -> None:
    """Which is left before the reader gets the chunk."""
    inside: ContextVar[bool] = ContextVar("inside", default=False)
    sites: list[CallSite] = []
    seen: list[bool] = []

    @contextmanager
    def entered() -> Iterator[None]:
        token = inside.set(True)
        yield
        inside.reset(token)

    def scope(site: CallSite) -> Any:
        sites.append(site)
        return entered

    @processor("process_output_stream", id="looks")
    def looks(chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        seen.append(inside.get())
        return chunk

    async with (
        Workflow("w").then(looks).start(observers=[Enclosing(scope)]) as run,
        run.process_output_stream(["a", "b"]) as chunks,
    ):
        async for _ in chunks:
            assert not inside.get()
    assert seen
    assert all(seen)
    assert [site.path for site in sites] == ["looks"]
