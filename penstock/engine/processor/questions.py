"""`StageQuestions`: the questions of one call of a stage; and `SuspendedPayload`, the payload of one that waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.payload import Payload
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.tripwire import Tripwire

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from penstock.engine.values.facts import Facts
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.questions import PendingQuestion

NOBODY_TO_ASK = "a person has to answer before this can go on, and nobody can be asked here"
"""The reason of the verdict where a run may not be suspended."""


class StageQuestions:
    """The questions of one call of a stage, and which of its steps are not finished because of them.

    Attributes:
        answers: the answers of persons, by the id of the question.
        finished: the steps that had finished before, and the ways that were taken.
        asked: the question of each step that waits, with the payload that the step saw, by path.
        held: the paths of steps that stand behind one that waits.
        muted: the paths of guards among them that would have asked.
        done: the paths of guards among them that ran to their end, and the ways that were taken.
        edited: whether a step that was given an answer changed messages or fields.
        start: the payload that the steps began with.
        origin: the payload before the stage, for a stage that is resumed in the same run; else None.
    """

    __slots__ = ("answers", "asked", "done", "edited", "finished", "held", "muted", "origin", "start")

    def __init__(self, answers: Values = EMPTY, finished: Iterable[str] = (), origin: Payload | None = None) -> None:
        self.answers = answers
        self.finished = frozenset(finished)
        self.origin = origin
        self.start: Payload | None = None
        self._clear()

    def _clear(self) -> None:
        self.asked: dict[str, tuple[PendingQuestion, Payload]] = {}
        self.held: set[str] = set()
        self.muted: set[str] = set()
        self.done: set[str] = set()
        self.edited = False

    def begin(self, start: Payload, finished: frozenset[str]) -> None:
        """Begin a pass over the steps that have not finished: the notes of the last one no longer count."""
        self.start, self.finished = start, finished
        self._clear()

    def apart(self) -> StageQuestions:
        """Return a copy that has noted nothing, for steps whose result may be dropped."""
        made = StageQuestions(self.answers, self.finished, self.origin)
        made.start = self.start
        return made

    def add(self, other: StageQuestions) -> None:
        """Add the notes of a copy."""
        self.asked.update(other.asked)
        self.held |= other.held
        self.muted |= other.muted
        self.done |= other.done
        self.edited = self.edited or other.edited

    def waits(self, steps: frozenset[str]) -> bool:
        """Return whether one of these steps waits for a person."""
        return bool(self.asked) and not steps.isdisjoint(self.asked)

    def changed(self, payload: Payload) -> bool:
        """Return whether a payload differs from the one that the steps began with, facts included."""
        return self.start is None or _differs(payload, self.start)

    def settled(self, end: Payload) -> bool:
        """Return whether all questions are about the payload that the stage leaves, with the edits of its guards."""
        return not any(_differs(seen, end) for _, seen in self.asked.values())

    def finished_of(self, steps: Collection[str]) -> frozenset[str]:
        """Return the finished steps and taken ways, if this pass had these steps to run."""
        ended = self.finished.union(steps) - self.held
        return (ended | self.done | (self.finished & self.held)).difference(self.asked, self.muted)


def _differs(one: Payload, other: Payload) -> bool:
    return one is not other and (one.differs(other) or not _same_facts(one.facts, other.facts))


def _same_facts(one: Facts, other: Facts) -> bool:
    return one is other or (one.keys() == other.keys() and all(one[key] is other[key] for key in one))


class SuspendedPayload(Payload):
    """The payload of a stage that waits for persons. It carries a verdict, so that nothing goes on by mistake.

    Attributes:
        questions: the questions, in the declared order of the steps.
        done: the paths of the steps that have finished, and the ways that were taken.
    """

    __slots__ = ("done", "questions")

    def __init__(self, end: Payload, questions: Sequence[PendingQuestion], done: Sequence[str]) -> None:
        first = questions[0]
        verdict = Tripwire(NOBODY_TO_ASK, first.processor_id, first.stage, metadata={"suspended": True})
        super().__init__(end.message_list, end.facts, end.fields, end.data, verdict, True, end.changes)  # noqa: FBT003
        self.questions = tuple(questions)
        self.done = tuple(done)

    def opened(self) -> SuspendedPayload:
        """Return the payload without the verdict, for a run that may wait."""
        made = SuspendedPayload(self, self.questions, self.done)
        made.tripwire = None
        return made
