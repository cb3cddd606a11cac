"""`JudgeLog`: keeps the verdicts of models that judge, so that a run which goes on elsewhere asks none again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import Usage


class JudgeQuestion(NamedTuple):
    """A question to a judge.

    Attributes:
        key: a hash of everything that the verdict depends on: model, settings, instructions, form and contents.
        contents: the texts to judge.
        public: the instructions and the form of the answer, which come from the application.
        path: the path of the step that asks.
        stage: its stage.
        step: the number of the model step.
        model: the name of the model.
    """

    key: str
    contents: Sequence[str]
    public: str
    path: str
    stage: str
    step: int
    model: str


class JudgedVerdict(NamedTuple):
    """A verdict of a judge: JSON values, the entries that were left out, and the tokens that it took, if known."""

    data: Value
    dropped: tuple[str, ...]
    usage: Usage | None


class JudgeLog(Protocol):
    """The verdicts of judges in one run, over all processes that the run goes through."""

    def find(self, question: JudgeQuestion) -> JudgedVerdict | None:
        """Return the verdict that was given earlier in this run; None if the judge has to be asked."""
        ...

    async def keep(self, question: JudgeQuestion, verdict: JudgedVerdict) -> None:
        """Keep a verdict for the rest of the run."""
        ...
