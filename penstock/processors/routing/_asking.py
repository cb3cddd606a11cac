"""How a judge is asked for one of several choices: its instructions, and the form of its answer. It knows no stage."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Protocol, cast

from pydantic import Field, WithJsonSchema, create_model

from penstock.models.judges.judge import Judge
from penstock.models.judges.scores import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.values.frozen import Values
    from penstock.engine.values.ports import Model
    from penstock.processors.routing.decisions import ModelChoice

_TASK = (
    "Choose which of several models is to answer the request that is the content. Do not answer it yourself. Judge by "
    "what answering it well takes, and take the choice whose criteria fit it best."
)


class Chosen(Protocol):
    """What the judge answers: the name of a choice, and how likely that is the right one, if it says so."""

    choice: str
    probability: float | None


def choosing_judge(
    model: Model,
    choices: Sequence[ModelChoice],
    instructions: str | None,
    provider_options: Values,
    timeout: float,
    retries: int,
) -> Judge[Chosen]:
    """Return a judge that names one of the choices.

    Raises:
        OptionError: an option is not allowed.
    """
    told = "\n".join(f"- {json.dumps(each.name)}: {each.criteria}" for each in choices)
    return Judge(
        model,
        _verdict([each.name for each in choices]),
        f"{instructions or _TASK}\n\nThe choices:\n{told}",
        provider_options=provider_options,
        timeout=timeout,
        retries=retries,
    )


def _verdict(names: list[str]) -> type[Chosen]:
    """Return the form of the answer; which names there are is told, and looked at by whoever asks."""
    choice = Annotated[str, WithJsonSchema({"type": "string", "enum": names}), Field(description="the choice's name")]
    likely = Annotated[Score | None, Field(description="how likely this is the best choice, from 0 to 1")]
    return cast("type[Chosen]", create_model("ModelChoice", choice=(choice, ...), probability=(likely, None)))
