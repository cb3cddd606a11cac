"""`RunRecord`: the verdicts of one run, over all processes that it goes through, without the texts that they judged."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Self

from penstock.engine.graph.plan import plan_steps
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.frozen import EMPTY, FrozenDict, freeze, thaw
from penstock.engine.values.judging import JudgedVerdict
from penstock.pictures.as_json import options_of
from penstock.workflows.review.references import References
from penstock.workflows.review.stored_run import dump_usage, dump_verdict, load_usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from penstock.engine.graph.plan_cache import Plans
    from penstock.engine.run.run import Run
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.judging import JudgeQuestion
    from penstock.engine.values.tripwire import Record

_STORED = ("tripped", "failed")


class RunRecord:
    """The verdicts of the steps and judges of one run. Lives as long as the run; is its observer and its judge log.

    A judge's verdict is found again by a hash of the run, the guard with its options, the question and the text. What
    it quotes of the text is stored as a reference; see `References`. A guard with other options finds none.

    Args:
        stored: what `dumped` gave in the process before; empty if there was none.
        changed: is awaited after each new verdict of a judge; it stores the record, if the run is stored.
    """

    skips_passed = True

    def __init__(self, stored: Values = EMPTY, changed: Callable[[], Awaitable[None]] | None = None) -> None:
        self._verdicts: list[Values] = [*stored.get("verdicts", ())]
        self._judged: dict[str, Values] = {one["id"]: one for one in stored.get("judged", ())}
        self._changed = changed
        self._guards: dict[str, str] = {}
        self._plans: Plans | None = None
        self._run_id = ""

    def for_run(self, run: Run) -> Self:
        """Follow a run; see `Observer`."""
        self._plans, self._run_id = run.plans, run.run_id
        return self

    def on_record(self, record: Record) -> None:
        """Keep the record of a step that did more than pass."""
        judges: Values = record.details.get("judge", EMPTY)
        if not (record.status in _STORED or record.edits or record.flagged or judges):
            return
        verdict = dump_verdict(record.tripwire)
        if record.shadow and record.tripwire is not None:  # nobody was shown it
            verdict = {**_ABSENT, "processor_id": record.processor_id, "stage": record.stage}
        made = {
            "path": record.step,
            "processor": record.processor_id,
            "stage": record.stage,
            "status": record.status,
            "shadow": record.shadow,
            "edits": len(record.edits),
            "flagged": record.flagged,
            "error": record.error,
            "tripwire": verdict,
            "judges": judges,
        }
        self._verdicts.append(FrozenDict(freeze(made)))

    def find(self, question: JudgeQuestion) -> JudgedVerdict | None:
        """Return the verdict that was given earlier in this run."""
        found = self._judged.get(self._id(question))
        if found is None:
            return None
        data = References(question.contents).resolve(thaw(found["verdict"]))
        return JudgedVerdict(data, tuple(found["dropped"]), load_usage(found["usage"]))

    async def keep(self, question: JudgeQuestion, verdict: JudgedVerdict) -> None:
        """Keep a verdict. Of several about the same, the first counts."""
        id = self._id(question)
        if id in self._judged:
            return
        made = {
            "id": id,
            "path": question.path,
            "stage": question.stage,
            "step": question.step,
            "model": question.model,
            "verdict": References(question.contents, question.public).refer(verdict.data),
            "dropped": verdict.dropped,
            "usage": dump_usage(verdict.usage),
        }
        self._judged[id] = FrozenDict(freeze(made))
        if self._changed is not None:
            await self._changed()

    def dumped(self) -> dict[str, Value]:
        """Return the record as JSON values."""
        return {"verdicts": thaw(tuple(self._verdicts)), "judged": thaw(tuple(self._judged.values()))}

    def _id(self, question: JudgeQuestion) -> str:
        written = json.dumps([self._run_id, self._guard(question.path), question.key])
        return sha256(written.encode()).hexdigest()

    def _guard(self, path: str) -> str:
        """Return a hash of the processor at a path and its options."""
        if path not in self._guards:
            self._guards |= {} if self._plans is None else _fingerprints(self._plans)
        return self._guards.setdefault(path, "")


_ABSENT: Mapping[str, Value] = {"reason": "", "retry": False, "metadata": {}}


def _fingerprints(plans: Plans) -> dict[str, str]:
    """Return a hash of each processor with its options, by the paths of its steps."""
    found: dict[str, str] = {}
    for stage in STAGES:
        for step in plan_steps(plans.stage(stage), fallbacks=True):
            written = json.dumps([type(step.processor).__qualname__, options_of(step.processor)], default=repr)
            found[step.path] = sha256(written.encode("utf-8", "surrogatepass")).hexdigest()
    return found
