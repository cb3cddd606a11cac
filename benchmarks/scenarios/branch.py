"""A branch of three with async arms, against a dict look-up and an await."""

from __future__ import annotations

from harness import Contest, Timed
from shared import TEXT, Looks, hand, text_of

from penstock import InputContext, Workflow
from penstock.engine import View

BRANCHES = 10
LANGUAGES = ("de", "fr", "en")


def is_german(view: View) -> bool:
    """Tell whether the caller writes German."""
    holds: bool = view.request_context["language"] == "de"
    return holds


def is_french(view: View) -> bool:
    """Tell whether the caller writes French."""
    holds: bool = view.request_context["language"] == "fr"
    return holds


async def contests() -> list[Contest]:
    """Return the contests: the first arm taken, the last (both conditions asked), and many of them in one call."""
    floor_is = "a dict look-up and an await, a context made for it"
    ten = f"{BRANCHES} branches of three in a chain, the last taken, each"
    return [
        await _taken("branch of three, the first taken", floor_is, "de"),
        await _taken("branch of three, the last taken", floor_is, "en"),
        await _taken(ten, floor_is, "en", BRANCHES),
    ]


async def _taken(name: str, floor_is: str, language: str, count: int = 1) -> Contest:
    workflow = Workflow("branch")
    for _ in range(count):
        workflow = workflow.branch((is_german, Looks()), (is_french, Looks()), otherwise=Looks())
    held = hand(workflow, {"language": language})
    hooks = {each: Looks().process_input for each in LANGUAGES}
    steps = dict(zip(LANGUAGES, held.steps[: len(LANGUAGES)], strict=True))
    run = workflow.start(request_context={"language": language})
    outcome = await run.process_input(TEXT)

    async def ours(times: int) -> str:
        nonlocal outcome
        for _ in range(times):
            outcome = await run.process_input()
        return outcome.text

    async def floor(times: int) -> str:
        call, payload = held.call, held.payload
        for _ in range(times * count):
            chosen = call.run.request_context["language"]
            await hooks[chosen](InputContext(call, steps[chosen], payload))
        return text_of(payload)

    return Contest(name, floor_is, ours, floor, 3.0, per=count)


SCENARIO = Timed("branch", contests)
