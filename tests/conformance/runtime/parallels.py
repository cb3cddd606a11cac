"""Scenarios E, parallels: edits that all hold, verdicts that cancel; and processors that other scenarios share."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel

from penstock import Message, TextPart, Workflow
from tests.conformance.runtime import rules
from tests.conformance.runtime.driver import Hooks, Talk, conversation
from tests.conformance.runtime.frame import SAME, Better, Neutral, scenario
from tests.conformance.runtime.lifecycle import kind_of
from tests.conformance.runtime.shapes import lines

SPANS = {"edits": "spans"}
NO_MAP = Neutral("there is no map step: branches are merged")


def suffix(id: str, log: list[Any] | None = None, text: str | None = None) -> Hooks:
    """Return a processor that appends to every message, and logs what it sees."""

    def append(ctx: Any) -> Any:
        if log is not None:
            log.append([id, lines(ctx.messages)])
        return ctx.message_list.map_text(lambda old: old + (text or f" [{id}]"), ctx.messages)

    return Hooks(id, claims=SPANS, process_input=append)


def passing(id: str, called: list[str] | None = None) -> Hooks:
    """Return a processor that changes nothing, and notes that it was called."""

    def look(_ctx: Any) -> None:
        if called is not None:
            called.append(id)

    return Hooks(id, claims={"edits": "nothing"}, process_input=look)


async def play(world: Any, workflow: Workflow, *texts: str) -> dict[str, Any]:
    """Play a request with that workflow and return its result; an error by its kind."""
    talk = await Talk(world.start(workflow)).play(conversation(*(texts or ("Hi",))))
    return talk.result()


JOINS = Better(rules.a_join_needs_no_map)


@scenario("E02", {"*/tripwire": SAME, "*/prompt": JOINS, "*/threw": JOINS})
async def parallel_without_map(world: Any, given: Any) -> Any:
    """A parallel may stand anywhere."""
    called: list[str] = []
    a, b, c, x = (passing(id, called) for id in "ABCX")
    pair = Workflow("w").parallel(a, b)
    workflows = {
        "last_entry": pair,
        "then_processor": pair.then(c),
        "in_array_with_other": Workflow("array").then(x).then(pair),
        "in_array_followed_by": Workflow("array").then(pair).then(x),
    }
    found = {case: await play(world, workflow, given["input"]) for case, workflow in workflows.items()}
    return found if sorted(called) == [*"AAAABBBBCXX"] else {"not all were called": called}


class Order:
    """Lets async hooks end in a given order."""

    def __init__(self, ids: str) -> None:
        self.ids = ids
        self.ended = {id: anyio.Event() for id in ids}

    async def turn(self, id: str) -> None:
        """Wait until it is this one's turn to end."""
        before = self.ids[: self.ids.index(id)]
        if before:
            await self.ended[before[-1]].wait()
            await anyio.lowlevel.checkpoint()  # late means late: what was cancelled meanwhile is told so here

    def hook(self, id: str, change: Any) -> Any:
        """Return the change as an async hook that ends in its turn."""

        async def wait(ctx: Any) -> Any:
            await self.turn(id)
            self.ended[id].set()
            return change(ctx)

        return wait


def _parallel(order: str, **changes: Any) -> Workflow:
    turns = Order(order)
    hooks = [Hooks(id, claims=SPANS, process_input=turns.hook(id, change)) for id, change in changes.items()]
    return Workflow("w").parallel(*hooks)


def appending(text: str, only: str | None = None) -> Any:
    """Return a hook that gives back an array in which messages (those with that text) end with ``text``."""

    def change(ctx: Any) -> Any:
        return [m.with_parts([TextPart(m.text + text)]) if only in (None, m.text) else m for m in ctx.messages]

    return change


HOLDS = Better(rules.parallel_edits_all_hold)


@scenario("E03", {"*/map_saw": NO_MAP, "*/prompt": HOLDS, "*/*": SAME})
async def parallel_edits_of_one_message(world: Any, given: Any) -> Any:
    """Both edits hold, whoever ends last."""
    orders = {"select A, equal": "AB", "select B, equal": "AB", "select A, A slower": "BA", "select A, B slower": "AB"}
    edits = {"A": appending(" [A]"), "B": appending(" [B]")}
    return {case: await play(world, _parallel(order, **edits), given["input"]) for case, order in orders.items()}


@scenario(
    "E04",
    {
        "in place + void/*": Better(rules.what_is_no_message_is_refused),
        "return arrays/*": HOLDS,
        "in place + return messages/default": HOLDS,
        "*/*": SAME,
    },
)
async def parallel_edits_of_two_messages(world: Any, given: Any) -> Any:
    """A branch that left a message alone does not undo the other's edit of it."""

    def in_place(ctx: Any) -> None:
        ctx.messages[0].parts[0].text = "first [A]"

    def through_list(text: str, only: str) -> Any:
        def change(ctx: Any) -> Any:
            found = next(m for m in ctx.messages if m.text == only)
            return ctx.message_list.replace(found.with_parts([TextPart(only + text)]))

        return change

    arrays = {"A": appending(" [A]", "first"), "B": appending(" [B]", "second")}
    cases: dict[str, Any] = {
        "return arrays": arrays,
        "in place + void": {**arrays, "A": in_place},
        "in place + return messages": arrays,
        "in place on messageList messages + return messageList": {
            "A": through_list(" [A]", "first"),
            "B": through_list(" [B]", "second"),
        },
    }
    found = {}
    for case, edits in cases.items():
        talk = await Talk(world.start(_parallel("AB", **edits))).play(conversation(*given["input"]))
        sent = talk.prompt if talk.error is None else {"prompt": talk.prompt, "threw": kind_of(talk.error)}
        found[case] = {"default": sent, "with_validateInputs_false": sent}
    return found


@scenario("E05", {"A first": HOLDS, "B first": SAME})
async def parallel_deletion_and_addition(world: Any, given: Any) -> Any:
    """A deletion stays, an addition stays, in both orders."""
    found = {}
    for case, ids in (("A first", "AB"), ("B first", "BA")):
        turns = Order(ids)
        delete = Hooks("A", claims=SPANS, process_input=turns.hook("A", lambda ctx: ctx.messages[:1]))
        grow = turns.hook("B", lambda ctx: [*ctx.messages, Message.user("added")])
        add = Hooks("B", process_input=grow)
        workflow = Workflow("w").parallel(delete, add, merge="first")
        found[case] = (await play(world, workflow, *given["input"]))["prompt"]
    return found


# Verdicts in parallel

WINS = Better(rules.the_first_tripwire_wins)


@scenario(
    "E06",
    {
        "A aborts at once, B slow/log_at_return": WINS,
        "A aborts at once, B slow/waited_for_slow_sibling": WINS,
        "A aborts late, B aborts early/tripwire": WINS,
        "A throws, B aborts/tripwire": WINS,
        "A throws, B aborts/threw": WINS,
        "A aborts retry+metadata/log_at_return": WINS,
        "*/messages": WINS,
        "*/*": SAME,
    },
)
async def abort_in_a_parallel(world: Any, given: Any) -> Any:
    """The first verdict in time cancels the others, beats their errors, and their edits are dropped."""
    del given
    abort = {"retry": True, "metadata": {"k": 1}}
    return {
        "A aborts at once, B slow": await _race(world, "AB", aborting("A says no"), "slow"),
        "A aborts late, B aborts early": await _race(world, "BA", aborting("A late"), aborting("B early")),
        "A throws, B aborts": await _race(world, "AB", breaking("A bug"), aborting("B abort")),
        "A aborts, B throws": await _race(world, "AB", aborting("A abort"), breaking("B bug")),
        "A aborts retry+metadata": await _race(world, "AB", aborting("A", **abort), "slow"),
    }


def aborting(reason: str, **options: Any) -> Any:
    """Return a hook that aborts."""
    return lambda ctx: ctx.abort(reason, **options)


def breaking(text: str) -> Any:
    """Return a hook that raises an ordinary error."""

    def broken(_ctx: Any) -> None:
        raise ValueError(text)

    return broken


async def _race(world: Any, order: str, a: Any, b: Any) -> Any:
    """Run A and B beside each other; both have begun before either ends, and they end in that order."""
    log: list[str] = []
    turns = Order(order)
    begun = {id: anyio.Event() for id in "AB"}

    def hook(id: str, act: Any) -> Any:
        async def run(ctx: Any) -> Any:
            log.append(f"{id} start")
            begun[id].set()
            await begun["AB".replace(id, "")].wait()
            if act == "slow":
                await anyio.sleep_forever()
            await turns.turn(id)
            turns.ended[id].set()
            return act(ctx)

        return run

    hooks = [Hooks(id, claims=SPANS, process_input=hook(id, act)) for id, act in (("A", a), ("B", b))]
    talk = Talk(world.start(Workflow("w").parallel(*hooks)))
    with anyio.fail_after(60):
        await talk.play(conversation("Hi"))
    ended = talk.result()
    return {"log_at_return": sorted(log), "waited_for_slow_sibling": "B end" in log, **ended}


@scenario("E27", {"*": HOLDS})
async def behind_a_parallel(world: Any, given: Any) -> Any:
    """The step behind a parallel sees both edits; what it returns comes on top of them."""
    del given
    found = {}
    for case, last in (("C returns array", suffix("C")), ("C returns nothing", passing("C"))):
        workflow = _parallel("BA", A=appending(" [A]"), B=appending(" [B]")).then(last)
        found[case] = (await play(world, workflow))["prompt"]
    return found
