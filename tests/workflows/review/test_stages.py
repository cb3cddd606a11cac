"""A request waits for a person at every stage: nothing is paid for twice, and nothing hidden is stored."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from penstock import Processor, Workflow
from penstock.engine import member
from penstock.engine.values.errors import ReviewError
from penstock.workflows.review import Reviews
from tests.workflows.review.waits import LATE, SECRET, STAGES, Late, Passage, WatchedStore, World, asker, go_through

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.frozen import Value
    from penstock.workflows.review.reviews import OnChange

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    """Run on asyncio alone: what differs between event loops is tested with the agent."""
    return "asyncio"


async def rows(store: WatchedStore) -> list[Value]:
    """Return the messages in the memory, without ids and times."""
    return [(row.message.role, row.message.parts) for row in (await store.messages("t")).items]


def check_stored(store: WatchedStore) -> None:
    """Check that nothing hidden was stored for a moment."""
    assert store.bodies
    for body in store.bodies:
        assert SECRET not in body
        assert LATE not in body


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("stage", STAGES)
async def test_a_request_waits_at_a_stage_and_goes_on_elsewhere(stage: str, *, late: bool) -> None:
    """It ends like one that never waited: no model, tool or judge is called twice, and the memory is the same."""
    steps = [Late()] if late else []
    plain, kept = World(), WatchedStore()
    straight = await go_through(plain, kept, *steps)
    world, store = World(), WatchedStore()
    went = await go_through(world, store, asker(stage), *steps)
    assert [one.status for one in went.results] == ["suspended"] * (len(went.results) - 1) + ["success"]
    assert len(went.results) > 1
    assert went.results[-1].text == straight.results[-1].text
    assert went.left[-1] == straight.left[-1]
    assert all(result.text == left for result, left in zip(went.results, went.left, strict=True))
    paid, usual = [[(where, text.replace(LATE, "[HIDDEN]")) for where, text in one.paid] for one in (world, plain)]
    before_end = Counter(set(paid) - set(usual))  # read by the judge of the last stage before it is stored
    assert Counter(paid) == Counter(usual) + before_end
    assert {where for where, _ in before_end} <= {"process_output_result"}
    assert await rows(store) == await rows(kept)
    if late:
        check_stored(store)
    assert not any(SECRET in body for body in store.bodies)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_person_who_refuses_blocks_the_request(stage: str) -> None:
    """Nothing of the answer is left, neither in the result nor in the stores."""
    world, store = World(), WatchedStore()
    went = await go_through(world, store, asker(stage), Late(), first="no")
    result = went.results[-1]
    assert result.tripwire is not None
    assert (result.tripwire.reason, result.tripwire.stage) == ("a person said no", stage)
    assert (result.text, went.left[-1], result.response.messages) == ("", "", ())
    assert [one.type for one in went.chunks].count("tripwire") == 1
    check_stored(store)
    (kept,) = (await store.runs(status=None)).items
    assert (kept.status, "run" in kept.body) == ("ended", False)
    assert not [row for row in await rows(store) if row[0] == "assistant"]


def free() -> Processor[Any]:
    """Return a guard that reads and changes nothing."""

    def reads(_self: Value, ctx: AnyContext) -> None:
        del ctx

    claims = {"id": "first", "role": "guard", "edits": "nothing", "on_error": "block"}
    made: Processor[Any] = type("Free", (Processor,), {**claims, **dict.fromkeys(STAGES, reads)})()
    return made


SHAPES: dict[str, Callable[[Processor[Any]], Workflow]] = {
    "sequence": lambda one: Workflow("sequence").then(free()).then(one),
    "parallel": lambda one: Workflow("parallel").parallel(free(), one),
    "branch": lambda one: Workflow("branch").branch((lambda _: True, one), otherwise=free()),
    "dag": lambda one: Workflow("dag").dag(member(free()), member(one, after=["first"])),
    "nested": lambda one: Workflow("outer").then(Workflow("inner").then(one)),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("stage", STAGES)
async def test_a_request_waits_in_any_shape(stage: str, shape: str) -> None:
    """In sequence, parallel, branch, dag and nested, an agent goes on as it does with the step alone."""
    alone, world = World(), World()
    usual = await go_through(alone, WatchedStore(), asker(stage), Late())
    store = WatchedStore()
    went = await go_through(world, store, SHAPES[shape](asker(stage)), Late())
    assert (len(went.results), went.left, world.paid) == (len(usual.results), usual.left, alone.paid)
    check_stored(store)


async def asked(world: World, store: WatchedStore, stage: str) -> Passage:
    """Return a request that waits at a stage, and whose question is answered."""
    went = Passage()
    await went.read(world.agent(store, asker(stage), Late()).stream(f"Who is {SECRET}?"))
    (question,) = went.results[0].questions
    await Reviews(store).answer(went.results[0].run_id, question.id, "yes")
    return went


@pytest.mark.parametrize("stage", STAGES)
async def test_a_changed_agent_lets_nothing_through(stage: str) -> None:
    """It is refused, or the new guard reads what waits before anybody gets it."""

    def stern(_self: Value, ctx: AnyContext) -> None:
        ctx.abort("not any more")

    claims: Any = {"id": "stern", "role": "guard", "edits": "nothing", "on_error": "block", stage: stern}
    new: Processor[Any] = type("Stern", (Processor,), claims)()
    world, store = World(), WatchedStore()
    went = await asked(world, store, stage)
    run_id = went.results[0].run_id
    with pytest.raises(ReviewError, match="other processors"):
        await world.agent(Reviews(store), asker(stage), Late(), new).resume(run_id)
    reviews = Reviews(store, on_change="judge again")
    await went.read(world.agent(reviews, asker(stage), Late(), new).resume_stream(run_id))
    tripwire = went.results[-1].tripwire
    assert tripwire is not None
    assert (tripwire.reason, went.left[-1], went.results[-1].text) == ("not any more", "", "")
    check_stored(store)


@pytest.mark.parametrize("on_change", ["keep", "judge again"])
@pytest.mark.parametrize("stage", STAGES)
async def test_an_answer_dies_when_the_agent_has_changed(stage: str, on_change: OnChange) -> None:
    """A person is asked again, and the request ends as usual."""
    usual, world, store = World(), World(), WatchedStore()
    straight = await go_through(usual, WatchedStore(), asker(stage), Late())
    went = await asked(world, store, stage)
    reviews = Reviews(store, on_change=on_change)
    while went.results[-1].status == "suspended" and len(went.results) < MANY:
        steps = [asker(stage), Late(), free()]
        said = {one.id: "yes" for one in went.results[-1].questions} if len(went.results) > 1 else {}
        again = world.agent(reviews, *steps)
        await went.read(again.resume_stream(went.results[-1].run_id, results=said))
    assert len(went.results) == len(straight.results) + 1, "asked once more"
    assert (went.results[-1].status, went.left[-1]) == ("success", straight.left[-1])
    assert [kind for kind, _ in world.paid].count("model") == len(usual.answers) + 2
    assert [kind for kind, _ in world.paid].count("tool") == 1


@pytest.mark.parametrize("stage", STAGES)
async def test_of_two_that_go_on_at_once_one_does(stage: str) -> None:
    """The other is told so; nothing is paid for twice."""
    usual, world, store = World(), World(), WatchedStore()
    straight = await go_through(usual, WatchedStore(), asker(stage), Late())
    went = Passage()
    await went.read(world.agent(store, asker(stage), Late()).stream(f"Who is {SECRET}?"))
    run_id, ended = went.results[0].run_id, list[str]()

    async def go_on() -> None:
        try:
            ended.append((await world.agent(store, asker(stage), Late()).resume(run_id)).status)
        except ReviewError:
            ended.append("refused")

    while (await Reviews(store).run(run_id)).status != "ended":
        for one in (await Reviews(store).run(run_id)).undecided:
            await Reviews(store).answer(run_id, one.call_id, "yes")
        async with anyio.create_task_group() as group:
            group.start_soon(go_on)
            group.start_soon(go_on)
    assert (ended.count("success"), ended.count("refused")) == (1, len(straight.results) - 1)
    assert Counter(world.paid) == Counter(usual.paid)


MANY = 20
