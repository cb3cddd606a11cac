"""`Judgement`: a verdict, and what it took; it knows no judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.model import Usage

V_co = TypeVar("V_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Judgement(Generic[V_co]):
    """A verdict of a model's, and how it came about.

    Attributes:
        verdict: the verdict, made for this asker alone.
        model: the name of the model that gave it.
        dropped: the entries of lists and mappings that were broken and are left out: where they stood (``*`` for a key
            of a mapping), and pydantic's name for what is wrong with them.
        attempts: how often the model was asked for it; 0 if it was remembered, or given to somebody who asked before.
        usage: the tokens that these attempts took; None if the provider did not say, or none was made.
    """

    verdict: V_co
    model: str
    dropped: tuple[str, ...] = ()
    attempts: int = 1
    usage: Usage | None = None

    @property
    def cached(self) -> bool:
        """Whether it cost nothing: it was remembered, or asked for by somebody else at the same time."""
        return self.attempts == 0


def noted(ctx: AnyContext, model: str, attempts: int, usage: Usage | None, dropped: int = 0) -> None:
    """Enter what a judgement took in the run's account, and in the record of the hook that asked.

    The record has it as ``details["judge"][model]``. What was remembered took nothing, and is in the record only.
    """
    if attempts:
        ctx.spend(model, usage, attempts=attempts)
    effects = ctx.effects
    notes: Values = (effects.notes or {}) if effects is not None else {}
    models: Values = notes.get("judge", {})
    made = _counts(attempts, usage, dropped)
    before: Values = models.get(model, {})
    ctx.note(judge={**models, model: {name: before.get(name, 0) + count for name, count in made.items()}})


def _counts(attempts: int, usage: Usage | None, dropped: int) -> dict[str, Value]:
    return {
        "verdicts": 1,
        "calls": attempts,
        "input_tokens": (usage.input_tokens or 0) if usage is not None else 0,
        "output_tokens": (usage.output_tokens or 0) if usage is not None else 0,
        "dropped": dropped,
    }
