"""`AskingCall`: the call of a stage in which steps may ask a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.processor.questions import StageQuestions
from penstock.engine.processor.state import StageCall
from penstock.engine.values.frozen import EMPTY

if TYPE_CHECKING:
    from penstock.engine.processor.state import RunState, StageLike
    from penstock.engine.tracing.span_log import LoggedSpan
    from penstock.engine.values.frozen import Values


class AskingCall(StageCall):
    """A call of a stage with steps that may ask a person.

    Attributes:
        questions: the questions of the steps.
        holding: whether the steps stand behind one that waits: they may not ask now.
    """

    __slots__ = ("_holding", "_questions")

    def __init__(
        self,
        run: RunState,
        stage: StageLike,
        info: Values,
        fresh: frozenset[str],
        span: LoggedSpan | None,
        questions: StageQuestions,
    ) -> None:
        super().__init__(run, stage, info, fresh, span)
        self._questions = questions
        self._holding = False

    @classmethod
    def of(cls, call: StageCall, questions: StageQuestions | None = None) -> AskingCall:
        """Return the call as one in which steps may ask; itself if it is one."""
        if isinstance(call, AskingCall):
            return call
        made = cls(call.run, call.stage, call.info, call.fresh, call.span, questions or StageQuestions())
        made.limited, made.retried = call.limited, call.retried
        return made

    @property
    def questions(self) -> StageQuestions:
        """The questions of the steps."""
        return self._questions

    @property
    def holding(self) -> bool:
        """Whether the steps stand behind one that waits: they may not ask now."""
        return self._holding

    def held_back(self) -> AskingCall:
        """Return a copy of the call for guards behind a step that waits."""
        made = self._with(self.run)
        made._holding = True
        return made

    def apart(self) -> AskingCall:
        """Return a copy of the call whose questions are kept apart."""
        made = self._with(self.run)
        made._questions = self._questions.apart()
        return made

    def unanswered(self) -> AskingCall:
        """Return a copy of the call for guards that judge the words of a person: their own questions are over."""
        made = self.apart()
        made._questions.answers = EMPTY
        made._holding = True
        return made

    def within(self, span: LoggedSpan) -> AskingCall:
        made = self._with(self.run)
        made.span = span
        return made

    def _with(self, run: RunState) -> AskingCall:
        made = AskingCall(run, self.stage, self.info, self.fresh, self.span, self._questions)
        made.limited, made.retried = self.limited and run is self.run, self.retried
        made._holding = self._holding
        return made
