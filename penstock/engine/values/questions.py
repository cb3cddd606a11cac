"""`PendingQuestion`: a question to a person (``ctx.suspend``); and the signal that carries it out of a hook."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from penstock.engine.values.answer_schema import answer_problem, check_schema
from penstock.engine.values.errors import MessageError, UsageError
from penstock.engine.values.frozen import EMPTY, json_value

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A question of a step to a person. Equal runs ask it under the same id.

    Attributes:
        id: made of the stage, the step's path, the number within the hook, and the id of the tool call.
        step: the path of the step.
        processor_id: the id of its processor.
        stage: the stage.
        reason: why a person is asked, a sentence.
        schema: the JSON Schema of the answer, as far as `penstock.engine.values.answer_schema` knows it; None: any
            JSON value.
        shown: JSON values to show to the person.
        expires_in: the seconds within which an answer is expected; None: no limit.
        call_id: the id of the tool call that it is about; else empty.
    """

    id: str
    step: str
    processor_id: str
    stage: str
    reason: str
    schema: Values | None = None
    shown: Values = EMPTY
    expires_in: float | None = None
    call_id: str = ""

    def __post_init__(self) -> None:
        """Freeze the values, and refuse those that cannot be stored.

        Raises:
            UsageError: the schema is not supported, there is no reason, something to show is not a JSON value, or the
                time is not a number above 0.
        """
        if not isinstance(cast("object", self.reason), str) or not self.reason:
            raise UsageError("ctx.suspend takes a reason: a sentence that says why a person is asked")
        try:
            object.__setattr__(self, "shown", json_value(self.shown, "show"))
            object.__setattr__(self, "schema", json_value(self.schema, "schema"))
        except MessageError as error:
            raise UsageError(f"ctx.suspend takes JSON values: {error}") from None
        if self.schema is not None:
            check_schema(self.schema)
        if not isinstance(self.shown, dict):
            raise UsageError("ctx.suspend takes show= as a mapping of names to JSON values")
        seconds = self.expires_in
        if seconds is not None and not (_is_number(seconds) and math.isfinite(seconds) and seconds > 0):
            raise UsageError(f"ctx.suspend takes expires_in= as seconds above 0, or None, not {seconds!r}")

    def check(self, answer: Value) -> Value:
        """Return an answer as a frozen JSON value.

        Raises:
            UsageError: it is not a JSON value, or does not fit the schema. The message does not quote it.
        """
        try:
            value = json_value(answer, "answer")
        except MessageError as error:
            raise UsageError(f"an answer is a JSON value: {error}") from None
        problem = None if self.schema is None else answer_problem(self.schema, value)
        if problem is not None:
            raise UsageError(f"the answer does not fit the schema of the question: {problem}")
        return value


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def question_id(stage: str, step: str, number: int, call_id: str) -> str:
    """Return the id of a question; no path holds ``//``, so that no two questions share one."""
    made = f"{stage}/{step}//{number}"
    return f"{made}//{call_id}" if call_id else made


class SuspendSignal(BaseException):
    """Carries a question out of a hook. Do not raise or catch it: call ``ctx.suspend``."""

    def __init__(self, question: PendingQuestion) -> None:
        self.question = question
        super().__init__(question.id)
