"""The record of a run: no judge is asked twice about a text, no verdict flips, and no text is in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import jsonschema
import pytest
from hypothesis import given, settings, strategies as st

from penstock import InMemoryStorage, PIIDetector, SQLiteStorage, processor
from penstock.engine import InputContext, ToolCallContext
from penstock.workflows.review import Reviews, run_schema
from penstock.workflows.review.references import References
from tests.laws import examples
from tests.workflows.review.judging import Judges
from tests.workflows.review.made import CALLS, SECRET, Shop, agent
from tests.workflows.review.schema_check import PUBLISHED, VALIDATOR
from tests.workflows.review.waits import LATE, STAGES, Late, WatchedStore, World, asker

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parents[3]
READS = ("process_input", "process_tool_result")


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


def test_the_published_schema_is_the_one_of_the_code() -> None:
    """`penstock schema review >docs/review.schema.json` makes it so."""
    jsonschema.Draft202012Validator.check_schema(run_schema())
    assert json.loads(PUBLISHED.read_text("utf-8")) == run_schema()
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate({"version": 1, "secret": "x"})


RESUMED = ("process_llm_request", "process_tool_result", "process_output_result")
"""Stages that go on behind the judge, which has finished. Only an agent that has changed runs it again there."""


@processor
def added(ctx: InputContext) -> None:
    """Do nothing: an agent with it is another one."""
    del ctx


@pytest.mark.parametrize(
    ("stage", "changed"),
    [*[(stage, True) for stage in STAGES], *[(one, False) for one in STAGES if one not in RESUMED]],
)
async def test_no_judge_is_asked_twice_about_a_text_and_no_verdict_flips(stage: str, *, changed: bool) -> None:
    """A request that waits at any stage goes on in other processes, whose judges would say the opposite by now."""
    judges, store = Judges(), WatchedStore()

    def steps(*more: Any) -> list[Any]:
        return [asker(stage), judges.guard(), *more]

    world = World()
    reviews = Reviews(store, on_change="judge again")
    more = [added] if changed else []
    results = []
    made = world.agent(store, *steps()).stream("Who is it?", thread_id="t")
    async with made:
        results.append(await made.result)
    while results[-1].status == "suspended":
        said = {one.id: "yes" for one in results[-1].questions}
        results.append(await world.agent(reviews, *steps(*more)).resume(results[-1].run_id, results=said))
    assert len(results) > 1
    assert results[-1].status == "success"
    assert judges.asked
    assert len(judges.asked) == len(set(judges.asked)), "asked twice"


@pytest.mark.rest
@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(st.sampled_from(STAGES), min_size=1, max_size=2, unique=True),
    st.sampled_from(["never", "look for", "is it", "Is the"]),
    st.booleans(),
)
async def test_resumed_runs_ask_no_judge_twice(stages: list[str], bad: str, late: bool) -> None:
    """A law over random runs: where they wait, and which text is bad; and nothing hidden is stored."""
    judges, store = Judges(bad), WatchedStore()
    world = World()
    fixed = [*([Late()] if late else [])]
    result = await world.agent(
        store, *[asker(one, id=f"ask-{one}") for one in stages], *fixed, judges.guard()
    ).generate(f"Is the {SECRET} here?")
    for _ in range(20):
        if result.status != "suspended":
            break
        again = world.agent(store, *[asker(one, id=f"ask-{one}") for one in stages], *fixed, judges.guard())
        result = await again.resume(result.run_id, results={one.id: "yes" for one in result.questions})
    assert result.status != "suspended"
    assert len(judges.asked) == len(set(judges.asked)), "asked twice"
    assert not any(SECRET in body or (late and LATE in body) for body in store.bodies)


async def test_a_verdict_that_blocked_is_kept_and_the_record_says_so() -> None:
    """After the run has ended, with costs and the ids of the answers; without texts."""
    judges, store, shop = Judges("refunded"), InMemoryStorage(), Shop()
    guard = judges.guard(stages=READS)
    asked = await agent(store, [CALLS], shop, processors=[PIIDetector(), guard]).generate("Refund order 7")
    await Reviews(store).approve(asked.run_id, by="eve")
    later = agent(store, ["Done."], shop, processors=[PIIDetector(), judges.guard(stages=READS)])
    done = await later.resume(asked.run_id)
    assert done.blocked
    record = await Reviews(store).record(asked.run_id)
    assert record["status"] == "ended"
    tripped = [one for one in record["verdicts"] if one["status"] == "tripped"]
    assert [(one["processor"], one["stage"]) for one in tripped] == [("judged", "process_tool_result")]
    assert tripped[0]["tripwire"]["metadata"] == {"category": "bad"}
    assert [one["verdict"]["bad"] for one in record["judged"]] == [False, True]
    assert next((one["by"], one["step"]) for one in record["answers"]) == ("model", 0)
    assert [(one["call_id"], one["verdict"], one["by"]) for one in record["decisions"]] == [
        ("call-1", "approve", "eve")
    ]
    assert {one["by"] for one in record["spent"]} == {"", "judged"}
    assert "refunded" not in json.dumps(record["judged"])
    jsonschema.validate(
        {name: record[name] for name in ("verdicts", "judged", "answers")},
        {**run_schema(), **run_schema()["$defs"]["record"], "additionalProperties": False},
    )


async def test_a_known_verdict_is_told_in_the_trace() -> None:
    """Of the calls, which are judged again before they run."""
    judges, store, shop = Judges(), InMemoryStorage(), Shop()

    def steps() -> list[Any]:
        return [PIIDetector(), judges.guard(stages=("process_tool_call",))]

    asked = await agent(store, [CALLS], shop, processors=steps()).generate("Refund order 7")
    later = agent(store, ["Done."], shop, processors=steps())
    done = await later.resume(asked.run_id, decisions={"call-1": True}, records=True)
    assert done.status == "success"
    assert len(judges.asked) == 1
    counts = [span.details["judge"]["scripted"] for span in done.trace.spans if "judge" in span.details]
    assert [(one["known"], one["calls"]) for one in counts] == [(1, 0)]


@pytest.mark.parametrize("on_change", ["judge again", "keep"])
async def test_a_changed_guard_does_not_use_old_verdicts(on_change: Any) -> None:
    """The other guard does."""
    old, new, shop = Judges(), Judges(), Shop()
    store = InMemoryStorage()
    stages = ("process_tool_call",)
    asked = await agent(store, [CALLS], shop, processors=[old.guard(stages=stages)]).generate("Refund order 7")
    changed = agent(
        Reviews(store, on_change=on_change),
        [CALLS],
        shop,
        processors=[PIIDetector(), new.guard("Is it very bad?", stages=stages)],
    )
    again = await changed.resume(asked.run_id, decisions={"call-1": True})
    assert again.status == "suspended"
    assert len(new.asked) == 1


async def test_what_a_judge_quotes_is_in_no_byte_of_the_store(tmp_path: Path) -> None:
    """It quotes the address as it is, in upper case, and within a sentence."""
    judges, shop = Judges(), Shop()
    store = SQLiteStorage(tmp_path / "runs.db")
    steps = [judges.guard(stages=("process_input", "process_tool_call")), PIIDetector()]
    asked = await agent(store, [CALLS], shop, processors=steps).generate(f"{SECRET} wants order 7 refunded")
    assert asked.status == "suspended"
    assert any(SECRET in text for text in judges.asked)
    record = await Reviews(store).record(asked.run_id)
    assert "$text" in json.dumps(record["judged"])
    await store.close()
    for file in tmp_path.iterdir():  # noqa: ASYNC240 - in a test
        assert SECRET.encode() not in file.read_bytes().lower()


TEXTS = st.text("abcdeABCDE 019-ßİ", max_size=30)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3), st.data())
def test_references_are_resolved_and_quote_nothing(texts: list[str], data: st.DataObject) -> None:
    """Whatever a verdict holds: parts of the texts, other words, numbers."""
    parts = st.lists(st.one_of(TEXTS, st.sampled_from(texts).map(lambda one: one[3:20])), max_size=4).map("".join)
    values = st.recursive(
        st.one_of(parts, st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False)),
        lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(parts, inner, max_size=3)),
        max_leaves=6,
    )
    said = data.draw(values)
    stored = json.loads(json.dumps(References(texts).refer(said)))
    assert References(texts).resolve(stored) == said
    for literal in _literals(stored):
        windows = {literal[at : at + 4] for at in range(len(literal) - 3)}
        assert not any(one in text for one in windows for text in texts)


def _literals(stored: Value) -> list[str]:
    if isinstance(stored, str):
        return [stored]
    if isinstance(stored, dict):
        return [one for pair in stored.items() for inner in pair for one in _literals(inner) if one not in _MARKS]
    return [one for inner in stored for one in _literals(inner)] if isinstance(stored, list) else []


_MARKS = ("$text", "$number", "$object")


async def _go_on(folder: Path, shop: Shop, *answers: Value, dies: bool) -> str:
    """Begin a request and go on with it, or go on with one; ``dies``: the process is killed behind the judge."""
    store, judges = SQLiteStorage(folder / "runs.db"), Judges(path=folder / "asked")
    begun = folder / "begun"

    @processor
    def killer(ctx: ToolCallContext) -> None:
        del ctx
        if dies and begun.exists():
            os.kill(os.getpid(), signal.SIGKILL)

    made = agent(Reviews(store, lease=0.01), answers, shop, processors=[judges.guard(), killer])
    if not begun.exists():
        asked = await made.generate("Refund order 7")
        await Reviews(store).approve(asked.run_id, arguments={"order": 8})
        begun.write_text(asked.run_id)
    result = await made.resume(begun.read_text())
    await store.close()
    return result.status


@pytest.mark.rest
def test_a_judge_that_was_paid_for_before_a_kill_is_not_asked_again(tmp_path: Path) -> None:
    """The process is killed behind the guard that asked about edited arguments; the next one knows the verdict."""
    code = (
        "import anyio, sys; from functools import partial; from pathlib import Path\n"
        "from tests.workflows.review.test_record import CALLS, Shop, _go_on\n"
        "anyio.run(partial(_go_on, Path(sys.argv[1]), Shop(), CALLS, dies=True))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    killed = subprocess.run(command, cwd=HERE, capture_output=True, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    judges, shop = Judges(path=tmp_path / "asked"), Shop()
    paid = judges.asked
    assert any("8" in text for text in paid), "the edited arguments were judged"

    assert anyio.run(partial(_go_on, tmp_path, shop, "Done.", dies=False)) == "success"
    assert [order for order, _ in shop.refunded] == [8]
    assert len(judges.asked) == len(set(judges.asked)), "asked twice"
    assert len(judges.asked) > len(paid), "the rest was judged"
