"""The stated rules of scenarios that are kept back: failures, graphs and state in streams (B14, D04, E12, E23)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from penstock import Chunk, Edit, RegexFilterProcessor, TextGuard, Workflow
from tests.conformance.runtime.driver import Hooks, chain
from tests.conformance.runtime.lifecycle import LOOKS_ON
from tests.conformance.runtime.streaming import streaming, upper
from tests.conformance.runtime.test_kept_back_streams import DELTAS, MODES, TOOL, play


@pytest.mark.parametrize("policy", ["block", "allow", "raise"])
async def test_a_crash_behind_a_redaction_undoes_nothing(policy: str) -> None:
    """D04: whatever its policy, what the step before redacted stays redacted, and the step behind is asked."""
    seen: list[str] = []

    def crash(chunk: Chunk, _ctx: Any) -> Chunk:
        if "secret" in chunk.text:
            raise ValueError(chunk.text)
        return chunk

    redact = streaming("A", lambda chunk: chunk.with_text(chunk.text.replace("42", "##")))
    b = Hooks("B", claims={"on_error": policy}, process_output_stream=crash)
    c = streaming("C", lambda chunk: seen.append(chunk.text) or upper(chunk))
    talk = await play(chain(redact, b, c), [{"deltas": ["fine ", "secret=42 ", "ok 42"]}])
    passed = policy == "allow"
    assert talk.deltas == (["FINE ", "SECRET=## ", "OK ##"] if passed else ["FINE "])
    assert not [text for text in seen if "42" in text]
    assert (talk.tripwire is not None) is (policy == "block")
    assert (talk.error is not None) is (policy == "raise")
    assert "42" not in repr((talk.tripwire, str(talk.error), talk.chunks))


# Graphs and state


class Hides(TextGuard):
    """Hides a word."""

    def __init__(self, word: str) -> None:
        self.id = word
        self.word = word
        self.reach = len(word)

    def find(self, text: str, ctx: Any, *, final: bool) -> Iterable[Edit]:
        """Find the word."""
        del ctx, final
        start = text.find(self.word)
        while start >= 0:
            yield Edit(start, start + len(self.word), f"[{len(self.word)}]", "redact")
            start = text.find(self.word, start + len(self.word))


@pytest.mark.parametrize("shape", ["parallel", "nested", "sequence"])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_guards_beside_each_other_lose_nothing(shape: str, size: int) -> None:
    """E12, E03: the same redactions in every graph, mode and cut, in client, text and history."""
    text = "from iban to name, or name to iban: naiban"
    guards = (Hides("name"), Hides("iban"), RegexFilterProcessor(presets=["pii"], strategy="redact"))
    side = Workflow("side").parallel(*guards)
    workflow = {"parallel": side, "nested": chain(side), "sequence": chain(*guards)}[shape]
    deltas = [text[at : at + size] for at in range(0, len(text), size)]
    expected = text.replace("name", "[4]").replace("iban", "[4]")
    for mode in MODES:
        talk = await play(workflow, [{"deltas": deltas}], mode)
        assert "".join(talk.deltas) == talk.text == talk.history[-1].text == expected


async def test_state_of_a_stream_hook_lives_across_steps_and_attempts() -> None:
    """E23, A09: one object from the first chunk of the first step to the last of the last; another in the next run."""
    kept: list[int] = []

    def stream(chunk: Chunk, ctx: Any) -> Chunk:
        ctx.state["chunks"] = ctx.state.get("chunks", 0) + 1
        kept.append(ctx.state["chunks"])
        return chunk

    def judge(ctx: Any) -> None:
        assert ctx.state["chunks"] == len(kept)
        if ctx.text == "bad":
            ctx.abort("again", retry=True)

    workflow = chain(Hooks("A", process_output_stream=stream, process_output_step=judge))
    for _ in range(2):
        kept.clear()
        await play(workflow, [{"text": "bad"}, *TOOL], max_processor_retries=1)
        assert kept == list(range(1, len(kept) + 1))


async def test_an_observer_of_the_stream_changes_and_delays_nothing() -> None:
    """A01: what it returns is ignored, and an answer need not wait for it."""
    watch = Hooks("A", claims=LOOKS_ON, process_output_stream=lambda _chunk, _ctx: None)
    watch_late = Hooks("B", claims=LOOKS_ON, process_output_result=lambda _ctx: None)
    talk = await play(chain(watch, watch_late), [{"deltas": DELTAS}])
    assert talk.deltas == DELTAS
