"""`RequestChanges`: the changes of a request by recorded operations, for engines that replay them elsewhere.

An engine of durable execution records an operation once, and gives its value again where the work is replayed after a
crash. The value holds the changes of the request, so that a replayed request stands where it stood, without a guard
being asked again. A value holds no more than these changes, not the conversation so far.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, cast

from penstock.engine.values.frozen import FrozenDict, freeze, thaw
from penstock.processors.memory import VAULT
from penstock.workflows.agent.json_changes import same_json
from penstock.workflows.agent.questions import LateRead
from penstock.workflows.agent.suspended import dump_step, is_repeated, load_step
from penstock.workflows.review.stored_run import dump_run, dump_verdict, load_verdict, redactor_of, restore_run

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.agent.progress import RequestProgress

    Standing = dict[str, dict[str, Value]]
    """JSON values by section and name: ``messages`` by id, ``order`` by place, ``steps`` by number …."""

    class Recordable(Protocol):
        """A request that can be recorded."""

        def standing(self) -> Standing:
            """Return how far it has come."""
            ...

        def restore(self, standing: Mapping[str, Values]) -> None:
            """Let it stand there."""
            ...


class RequestChanges:
    """The changes of one request by recorded operations.

    Args:
        request: the request.
    """

    def __init__(self, request: Recordable) -> None:
        self._request = request
        self._seen: Standing = {}
        self._changed_by: dict[tuple[str, str], int] = {}  # the numbers of the operations that changed it last
        self._count = 0

    def take(self) -> dict[str, Value]:
        """Return the changes since the last operation ended, as JSON values."""
        now, before = self._request.standing(), self._seen
        self._seen = now
        self._count += 1
        put = {name: _news(before.get(name, {}), now[name]) for name in now}
        gone = {name: [key for key in before[name] if key not in now.get(name, {})] for name in before}
        return {
            "number": self._count,
            "put": {name: news for name, news in put.items() if news},
            "gone": {name: keys for name, keys in gone.items() if keys},
        }

    def apply(self, changes: Values) -> None:
        """Let the request stand where it stood when an operation had ended, in another process.

        Operations that ran at the same time may be replayed in another order than they ended in: the later change
        of a value stays.
        """
        number = changes["number"]
        for section, news in changes["put"].items():
            known = self._seen.setdefault(section, {})
            known.update({key: value for key, value in news.items() if self._is_newer(section, key, number)})
        for section, keys in changes["gone"].items():
            for key in keys:
                if self._is_newer(section, key, number):
                    self._seen.get(section, {}).pop(key, None)
        self._count = max(self._count, number)
        self._request.restore(defaultdict(dict, self._seen))

    def _is_newer(self, section: str, key: str, number: int) -> bool:
        if self._changed_by.get((section, key), 0) > number:
            return False
        self._changed_by[section, key] = number
        return True


def _news(before: Values, now: Values) -> dict[str, Value]:
    return {key: value for key, value in now.items() if key not in before or not same_json(before[key], value)}


def dump_progress(run: Run, progress: RequestProgress) -> Standing:
    """Return the conversation of a request, its facts, states, budgets and attempts; hidden values are not in it."""
    body = thaw(dict(dump_run(run)))
    entries = body.pop("messages")
    ids = [entry["message"].get("id", "") for entry in entries]
    steps = [dump_step(step) for step in progress.steps]
    late: Values = FrozenDict(progress.read_late._asdict())
    return {
        "messages": dict(zip(ids, entries, strict=True)),
        "order": {str(place): id for place, id in enumerate(ids)},
        "facts": body.pop("facts"),
        "states": body.pop("states"),
        "steps": {str(number): thaw(freeze(redactor_of(run)(step))) for number, step in enumerate(steps)},
        "late": thaw(freeze(late)),
        "run": {**body, "verdict": dump_verdict(run.tripwire)},
    }


def restore_progress(run: Run, progress: RequestProgress, standing: Mapping[str, Values]) -> None:
    """Let a run and its progress stand where `dump_progress` found them.

    Args:
        run: the run.
        progress: its progress; the attempts are added to it, so it must be a new one.
        standing: what `dump_progress` gave.
    """
    for step in _in_order(standing["steps"]):
        progress.steps.append(load_step(step))
    accepted = [step for step in progress.steps if not is_repeated(step)]
    progress.accepted = len(accepted)
    progress.finish_reason = accepted[-1].finish_reason if accepted else None
    progress.read_late = LateRead(**freeze(standing["late"]))
    entries = [standing["messages"][id] for id in _in_order(standing["order"])]
    own = {name: standing[name] for name in ("facts", "states")}
    body = cast("Values", freeze({**standing["run"], **own, "messages": entries}))
    begin, vault = run.message_list.with_entries(()), run.facts.get(VAULT)
    restore_run(run, body, begin, last_answer=progress.last_answer, vault=vault)
    if body["verdict"] is not None and run.tripwire is None:
        run.stop(cast("Tripwire", load_verdict(body["verdict"])))


def _in_order(values: Values) -> list[Value]:
    return [values[str(number)] for number in range(len(values))]
