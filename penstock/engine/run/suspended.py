"""`SuspendedStages`: the stages of a run that wait for persons; and the call with which one is resumed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.engine.processor.payload import Payload
from penstock.engine.processor.state import StageCall
from penstock.engine.run.conversation import add_input
from penstock.engine.values.errors import UsageError
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, json_value

if TYPE_CHECKING:
    from penstock.engine.processor.questions import SuspendedPayload
    from penstock.engine.processor.stages import Stage
    from penstock.engine.processor.state import RunState
    from penstock.engine.values.frozen import Value, Values


class SuspendedStage(NamedTuple):
    """A stage that waits for persons.

    Attributes:
        call: its call.
        end: the payload that its guards left.
        origin: the payload before the stage.
    """

    call: StageCall
    end: SuspendedPayload
    origin: Payload


class SuspendedStages:
    """The stages of one run that wait for persons: one, or several calls of tools.

    Attributes:
        waiting: the stages, by their name and the id of the tool call that they are about.
    """

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[tuple[str, str], SuspendedStage] = {}

    def add(self, stage: Stage, suspended: SuspendedStage) -> None:
        """Add a stage that waits."""
        self.waiting[_key(stage, suspended.call.info)] = suspended

    def remove(self, suspended: SuspendedStage) -> None:
        """Remove a stage that is resumed."""
        self.waiting = {key: one for key, one in self.waiting.items() if one is not suspended}

    def find(self, stage: Stage, details: Values) -> SuspendedStage | None:
        """Return the stage that waits; the only one with its name, if no id of a tool call is given."""
        same = [one for key, one in self.waiting.items() if key[0] == stage.name]
        return same[0] if len(same) == 1 and "call_id" not in details else self.waiting.get(_key(stage, details))

    def refuse(self, stage: Stage, info: Values) -> bool:
        """Return False if a stage may run: both it and those that wait are about tool calls, and not about the same.

        Raises:
            UsageError: it may not run before the others are resumed.
        """
        here = _key(stage, info)
        for waiting in self.waiting:
            if not (here[1] and waiting[1] and waiting[1] != here[1]):
                raise UsageError(
                    f"{waiting[0]} waits for a person, so {stage.name} cannot run; pass the answers to "
                    "run.resume_stage(...)"
                )
        return False


def _key(stage: Stage, info: Values) -> tuple[str, str]:
    call_id: str = info.get("call_id") or "" if stage.value else ""
    return stage.name, call_id


def resumed_call(
    run: RunState,
    stage: Stage,
    waiting: SuspendedStage | None,
    now: Payload,
    messages: Value,
    fresh: frozenset[str],
    details: dict[str, Value],
) -> tuple[StageCall, Payload]:
    """Return the call with which a stage is resumed, and the payload that it starts from.

    Args:
        run: the state of the run.
        stage: the stage.
        waiting: the suspended stage, in the same run; its call and its fields are the defaults.
        now: the payload of the run as it stands.
        messages: the value of a stage of tools, or the prompt; else None.
        fresh: the ids of the messages that came with the suspended call.
        details: fields and details of the stage, by name.
    """
    if stage.value and messages is not None:
        details[stage.value] = json_value(messages, stage.value)
    own = {name: freeze(details.pop(name)) for name in stage.fields if name in details}
    steps = {"steps": details.pop("steps")} if "steps" in details else {}  # live objects, which are not frozen
    info = EMPTY if waiting is None else waiting.call.info
    fields = EMPTY if waiting is None else waiting.end.fields
    given = None if stage.value else messages
    current = now.message_list
    if given is not None:
        current, _ = add_input(stage, given, current)
    elif waiting is not None and not stage.keeps:
        current = waiting.end.message_list
    ids = fresh or (frozenset() if waiting is None else waiting.call.fresh)
    call = StageCall(run, stage, FrozenDict({**info, **freeze(details), **steps}) or EMPTY, ids)
    return call, Payload(current, now.facts, FrozenDict({**fields, **own}))


def before_messages(now: Payload, fresh: frozenset[str]) -> Payload:
    """Return the payload before a stage that another run suspended: without the messages that came with it."""
    known = [message for message in fresh if message in now.message_list]
    return Payload(now.message_list.remove(*known), now.facts) if known else now
