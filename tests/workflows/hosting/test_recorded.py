"""`RequestChanges`: a request that stands where another process has left it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from penstock import InputStepContext, Message, PIIDetector, Processor
from penstock.testing import ScriptedModel
from penstock.workflows.hosting import Host, HostRequest, HostSupport, ModelCall
from penstock.workflows.hosting.recorded import RequestChanges

if TYPE_CHECKING:
    from collections.abc import Mapping

SUPPORT = HostSupport("tests")


class Asked(Processor):
    """A guard that counts how often it was asked."""

    asked = 0

    def process_input(self, ctx: InputStepContext) -> None:
        """Count it, in the state of the request, too."""
        self.asked += 1
        ctx.state["asked"] = ctx.state.get("asked", 0) + 1
        if "forbidden" in ctx.text:
            ctx.abort("a word is forbidden")


async def begun(said: str) -> tuple[HostRequest, dict[str, Any], list[Message]]:
    """Return a request that has answered, its changes, and what pydantic-ai would send next."""
    request = Host(SUPPORT, [PIIDetector(redaction_method="placeholder"), Asked()]).open(run_id="run-1")
    given = [Message.system("Be brief."), Message.user(said)]
    if await request.begin(given):
        model = ScriptedModel(["Dear ann@example.com"])
        await request.whole_answer(ModelCall(model, given))
    return request, RequestChanges(request).take(), given


def stands(changes: Mapping[str, Any]) -> tuple[HostRequest, Asked]:
    """Return another request that stands where the changes say, and its guard."""
    asked = Asked()
    request = Host(SUPPORT, [PIIDetector(redaction_method="placeholder"), asked]).open(run_id="run-1")
    RequestChanges(request).apply(changes)
    return request, asked


async def test_a_request_goes_on_where_another_process_has_left_it() -> None:
    """Its guards are not asked again about what they have judged, and their states are there."""
    before, changes, given = await begun("I am ann@example.com")
    assert "ann@" not in repr(changes)
    after, asked = stands(copy.deepcopy(changes))
    after.note_ids(given, {0: changes["put"]["order"]["1"]})
    assert after.answer == before.answer
    assert after.finish_reason == before.finish_reason
    assert not after.has_unjudged
    assert after.run.message_list == before.run.message_list
    assert [message.text for message in after.run.message_list.system] == ["Be brief."]
    assert [message.text for message in after.run.message_list.all] == ["I am [EMAIL]", "Dear [EMAIL]"]
    assert await after.begin([*given, before.answer or Message("assistant")])
    assert asked.asked == 0
    assert list(after.run.states.values())[-1] == {"asked": 1}


async def test_a_verdict_is_there_too() -> None:
    """The guard is not asked again."""
    _, changes, given = await begun("forbidden")
    after, asked = stands(changes)
    assert after.tripwire is not None
    assert not await after.begin(given)
    assert asked.asked == 0


class Counted:
    """A request of which only one section is recorded."""

    def __init__(self) -> None:
        self.at: dict[str, dict[str, Any]] = {"states": {}}

    def standing(self) -> dict[str, dict[str, Any]]:
        """Return it."""
        return copy.deepcopy(self.at)

    def restore(self, standing: Mapping[str, Mapping[str, Any]]) -> None:
        """Change it."""
        self.at = {"states": dict(standing["states"])}


def test_a_value_holds_only_what_is_new() -> None:
    """Else a long request would write the square of its length."""
    request = Counted()
    changes = RequestChanges(request)
    request.at["states"] = {"a": 1, "b": 1}
    assert changes.take()["put"] == {"states": {"a": 1, "b": 1}}
    request.at["states"] = {"b": 2}
    assert changes.take() == {"number": 2, "put": {"states": {"b": 2}}, "gone": {"states": ["a"]}}


def test_a_value_that_differs_as_json_alone_is_new() -> None:
    """To Python, True and 1 are equal; guards of another process would read the old one."""
    request = Counted()
    changes = RequestChanges(request)
    request.at["states"] = {"a": {"n": True}, "b": [1], "c": 1}
    changes.take()
    request.at["states"] = {"a": {"n": 1}, "b": [1.0], "c": 1}
    assert repr(changes.take()["put"]) == "{'states': {'a': {'n': 1}, 'b': [1.0]}}"


def test_operations_that_ran_together_may_be_replayed_in_another_order() -> None:
    """The last one to change a value has it."""
    request, other = Counted(), Counted()
    changes, taken = RequestChanges(request), list[dict[str, Any]]()
    for states in ({"a": 1, "b": 1}, {"a": 2, "b": 1}, {"a": 2}):
        request.at["states"] = states
        taken.append(changes.take())
    replayed = RequestChanges(other)
    for one in reversed(taken):
        replayed.apply(one)
    assert other.at == request.at
