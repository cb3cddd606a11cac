"""`ModelSelectionProcessor`: chooses the model of a request by its latest user message."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Generic, Literal, Protocol, TypeAlias, TypeVar, cast, get_args

from penstock.engine.processor.option_checks import (
    check_count,
    check_number,
    check_optional_count,
    check_score,
    check_text,
)
from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.tasks import resolved
from penstock.engine.values import protocols as ports
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.engine.values.messages import TextPart
from penstock.engine.values.model import JudgeError
from penstock.engine.values.protocols import Model
from penstock.engine.values.tripwire import BlockedError
from penstock.models.named import as_model

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from typing_extensions import TypeIs

    from penstock.engine.processor.context import InputContext, InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.models.judges.judge import Judge

_LOG = logging.getLogger("penstock")


# Choices and decisions

Abstained: TypeAlias = Literal["no-text", "below-threshold", "no-model-for-choice", "error"]
"""Why no model was chosen.

- ``no-text``: the request has no text of a user
- ``below-threshold``: the probability of the choice is below ``min_probability``, or missing
- ``no-model-for-choice``: no choice was named, or an unknown one; or ``select`` returned None
- ``error``: the model or a function failed
"""


def name_of(model: Model | str) -> str:
    """Return the name of a model."""
    return model if isinstance(model, str) else model.name


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """A model, and the requests for which it should be chosen.

    Attributes:
        model: the model, or its name.
        criteria: for which requests it is meant, in words. The choosing model reads this text.
        name: the name of the choice; by default the name of the model.

    Raises:
        OptionError: ``model`` is neither a `Model` nor a name, or a text is blank.
    """

    model: Model | str
    criteria: str
    name: str = ""

    def __post_init__(self) -> None:
        """Check the values, and fill in the name."""
        _check_model("ModelChoice", "model", self.model)
        for option, given in (("criteria", self.criteria), ("name", self.name or name_of(self.model))):
            check_text("ModelChoice", option, given, blank=False)
        object.__setattr__(self, "name", self.name or name_of(self.model))


@dataclass(frozen=True, slots=True)
class ModelDecision:
    """Which model was chosen for a request, or why none was.

    Attributes:
        model: the model, or its name; None if the configured model stays.
        choice: the name of the choice, if a known one was named.
        probability: the probability that the choice is the best one, from 0 to 1; None if unknown.
        abstained: why no model was chosen; None if one was.
    """

    model: Model | str | None = None
    choice: str | None = None
    probability: float | None = None
    abstained: Abstained | None = None

    def __repr__(self) -> str:
        """Show the names, which are those of the application, and no text of the request."""
        named = None if self.model is None else name_of(self.model)
        shown = {"model": named, "choice": self.choice, "probability": self.probability, "abstained": self.abstained}
        return f"ModelDecision({', '.join(f'{key}={it!r}' for key, it in shown.items() if it is not None)})"


MODEL_CHOICE: Key[ModelDecision] = Key("model-choice")
"""The fact with the `ModelDecision` of a request, for the conditions of branches."""


_FEWEST = 2  # models to choose from
_KEYS = ("model", "criteria", "name")


def _checked_choices(processor: str, given: object) -> tuple[ModelChoice, ...]:
    """Return the option ``choices`` as `ModelChoice` objects.

    Raises:
        OptionError: an item is neither a `ModelChoice` nor a mapping of its fields, there are fewer than two, or two
            have the same name.
    """
    made = tuple(_choice(processor, each) for each in _items(given))
    names = {choice.name.strip().casefold() for choice in made}
    if len(made) < _FEWEST or len(names) < len(made):
        raise OptionError(
            processor, "choices", given, f"a list of {_FEWEST} ModelChoices or more, each of its own name"
        )
    return made


def _items(given: object) -> Sequence[object]:
    return cast("Sequence[object]", given) if isinstance(given, Sequence) and not isinstance(given, str) else ()


def _choice(processor: str, given: object) -> ModelChoice:
    if isinstance(given, ModelChoice):
        return given
    fields: Values = given if is_mapping(given) else {}
    if not {"model", "criteria"} <= fields.keys() <= set(_KEYS):
        raise OptionError(processor, "choices", given, f"ModelChoices, or mappings with {', '.join(_KEYS)}")
    return ModelChoice(**fields)


def _check_model(processor: str, option: str, given: object) -> None:
    if not (isinstance(given, Model) or (isinstance(given, str) and given.strip())):
        raise OptionError(processor, option, given, "a Model, or the name of one")


# The judge that chooses

_TASK = (
    "Choose which of several models is to answer the request that is the content. Do not answer it yourself. Judge by "
    "what answering it well takes, and take the choice whose criteria fit it best."
)


class ChoiceAnswer(Protocol):
    """The answer of the choosing model: the name of a choice, and its probability, if it gives one."""

    choice: str
    probability: float | None


def choosing_judge(
    model: Model,
    choices: Sequence[ModelChoice],
    instructions: str | None,
    provider_options: Values,
    timeout: float,
    retries: int,
) -> Judge[ChoiceAnswer]:
    """Return a judge that names one of the choices.

    Raises:
        OptionError: an option of the judge is not allowed.
    """
    from penstock.models.judges.judge import Judge  # loaded only if a model chooses

    listed = "\n".join(f"- {json.dumps(each.name)}: {each.criteria}" for each in choices)
    return Judge(
        model,
        _answer_type([each.name for each in choices]),
        f"{instructions or _TASK}\n\nThe choices:\n{listed}",
        provider_options=provider_options,
        timeout=timeout,
        retries=retries,
    )


def _answer_type(names: list[str]) -> type[ChoiceAnswer]:
    """Return the type of the answer. The names are given to the model, but checked by the caller."""
    from pydantic import Field, WithJsonSchema, create_model  # loaded only if a model chooses

    from penstock.models.judges.scores import Score

    choice = Annotated[str, WithJsonSchema({"type": "string", "enum": names}), Field(description="the choice's name")]
    likely = Annotated[Score | None, Field(description="how likely this is the best choice, from 0 to 1")]
    return cast("type[ChoiceAnswer]", create_model("ModelChoice", choice=(choice, ...), probability=(likely, None)))


# The processor

A = TypeVar("A")

ChoiceScope = Literal["run", "first-step"]
"""For which model calls of a request the choice counts: all, or those up to the first accepted answer."""

Select: TypeAlias = "Callable[[A], Awaitable[Model | str | None] | Model | str | None]"
"""Returns a model, or its name, for a classifier's answer; None keeps the configured model."""


@dataclass(slots=True)
class SelectionState:
    """The state of one request.

    Attributes:
        decision: the decision; None until it is made.
        configured: the model with which the first step came in.
        begun: whether there was a step.
        off: whether a later processor has set another model, so that the choice no longer counts.
    """

    decision: ModelDecision | None = None
    configured: Value = None
    begun: bool = False
    off: bool = False


class ModelSelectionProcessor(Processor[SelectionState], Generic[A]):
    """Chooses the model of a request by its latest user message, once, when the request comes in.

    Pass ``model`` and ``choices`` to let a model choose, or ``classifier`` and ``select`` to choose with your own code.
    On any error the configured model stays, and a warning is logged.

    Args:
        model: the model that chooses.
        choices: the models to choose from: two or more `ModelChoice` objects, or mappings of their fields, with
            different names.
        classifier: a function of the text, async or not, or a `Judge`.
        select: a function of the classifier's answer, async or not, that returns a model, its name, or None for the
            configured model.
        instructions: replaces the task that ``model`` is given. The choices and their criteria are added in any case.
            None: the built-in task.
        min_probability: the least probability of a choice, from 0 to 1. A choice without a probability does not count
            then. None: any choice counts.
        scope: ``run``: the choice counts for all steps of a request; ``first-step``: until the first answer is
            accepted.
        apply: whether to set the model. If False, the decision is only put as the fact `MODEL_CHOICE`, for conditions
            of branches.
        on_decision: called with each `ModelDecision`, async or not. If it raises, the error is logged.
        provider_options: passed to the provider of ``model`` as it is.
        max_input_length: how many characters of the message are shown: its beginning and its end; 1 or more, or None
            for all. Default 20,000.
        timeout: how long ``model`` may take for each attempt, in seconds; above 0. Default 10. Not used with
            ``classifier``.
        retries: how many more times ``model`` is asked if it names no choice; 0 or more. Default 1. Not used with
            ``classifier``.
        id: the name in graphs and records. Default ``model-selection``.

    Raises:
        OptionError: a value is not allowed, or would have no effect.
    """

    id = "model-selection"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    provides = (MODEL_CHOICE,)

    def __init__(
        self,
        *,
        model: Model | str | None = None,
        choices: Sequence[ModelChoice | Values] = (),
        classifier: Callable[[str], A | Awaitable[A]] | ports.Judge[A] | None = None,
        select: Select[A] | None = None,
        instructions: str | None = None,
        min_probability: float | None = None,
        scope: ChoiceScope = "run",
        apply: bool = True,
        on_decision: Callable[[ModelDecision], object] | None = None,
        provider_options: Values | None = None,
        max_input_length: int | None = 20_000,
        timeout: float = 10.0,
        retries: int = 1,
        id: str | None = None,
    ) -> None:
        if id is not None:
            self.id = id
        name = type(self).__name__
        self.model = None if model is None else as_model(model, name)
        self.choices: tuple[ModelChoice, ...] = ()
        self.classifier = classifier
        self.select = select
        self.instructions = instructions
        self.min_probability = (
            None if min_probability is None else check_score(name, "min_probability", min_probability)
        )
        self.scope = one_of(name, "scope", scope, get_args(ChoiceScope))
        self.apply = flag(name, "apply", apply)
        self.on_decision = on_decision
        self.provider_options = provider_options
        characters = "a number of characters, 1 or more, or None"
        self.max_input_length = check_optional_count(name, "max_input_length", max_input_length, characters, 1)
        for option, given in (("select", select), ("on_decision", on_decision)):
            if given is not None and not callable(cast("object", given)):
                raise OptionError(name, option, given, "a function")
        self.timeout = check_number(name, "timeout", timeout, "a number of seconds above 0", most=math.inf, above=True)
        self.retries = check_count(name, "retries", retries, "a whole number from 0 on")
        self._judge: ports.Judge[ChoiceAnswer] | None = None
        if classifier is None and select is None:
            self.choices = _checked_choices(name, choices)
            self._judge = self._make_judge()
        else:
            self._check_own_form(choices)
        if not self.apply and self.scope != "run":
            raise OptionError(name, "scope", scope, "'run' with apply=False, which does not change the model")
        self.stages = None if self.apply else ("process_input",)
        self.edits = "anything" if self.apply else "nothing"

    def _make_judge(self) -> ports.Judge[ChoiceAnswer]:
        name = type(self).__name__
        if self.model is None:
            raise OptionError(name, "model", None, "a Model that chooses; or pass classifier= and select=")
        instructions = cast("object", self.instructions)
        if instructions is not None:
            check_text(name, "instructions", instructions, blank=False)
        options = self.provider_options or EMPTY
        return choosing_judge(self.model, self.choices, self.instructions, options, self.timeout, self.retries)

    def _check_own_form(self, choices: object) -> None:
        """Refuse options of the other form, and a classifier without ``select``."""
        name = type(self).__name__
        classifier: object = self.classifier
        if not (callable(classifier) or _is_judge(classifier)):
            raise OptionError(
                name, "classifier", self.classifier, "a function of a text, or a Judge, together with select="
            )
        if self.select is None:
            raise OptionError(name, "select", None, "a function of the classifier's answer")
        unused = {
            "model": self.model,
            "choices": choices or None,
            "instructions": self.instructions,
            "min_probability": self.min_probability,
            "provider_options": self.provider_options,
        }
        for option, given in unused.items():
            if given is not None:
                raise OptionError(name, option, given, "omitted: it has no effect with classifier= and select=")

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one class with equal options."""
        return type(self) is type(other) and _options_of(self) == _options_of(other)

    __hash__ = None

    def new_state(self) -> SelectionState:
        """Return the state of a new request."""
        return SelectionState()

    # Stages

    async def process_input(self, ctx: InputContext[SelectionState]) -> None:
        """Make the decision, once for each request."""
        if ctx.state.decision is not None:
            return
        decision = ctx.state.decision = await self._decide(ctx)
        ctx.put(MODEL_CHOICE, decision)
        named = None if decision.model is None else name_of(decision.model)
        details = {
            "model": named,
            "choice": decision.choice,
            "probability": decision.probability,
            "abstained": decision.abstained,
        }
        ctx.note(**{key: value for key, value in details.items() if value is not None})
        await self._call_back(decision)

    def process_input_step(self, ctx: InputStepContext[SelectionState]) -> Overrides | None:
        """Set the chosen model for a call."""
        chosen = self._chosen_for(ctx)
        return None if chosen is None else Overrides(model=chosen)

    def _chosen_for(self, ctx: InputStepContext[SelectionState]) -> Model | str | None:
        state, decision = ctx.state, ctx.state.decision
        if decision is None or decision.model is None or state.off:
            return None
        if not state.begun:
            state.begun, state.configured = True, ctx.model
        elif not _is_same(state.configured, ctx.model):
            state.off = True  # a later processor has chosen another model, a fallback for example
            ctx.note(off=True)
            return None
        accepted = len(ctx.steps) if ctx.steps is not None else ctx.step_number
        return None if self.scope == "first-step" and accepted else decision.model

    # Deciding

    async def _decide(self, ctx: InputContext[SelectionState]) -> ModelDecision:
        text = _latest_user_text(ctx.messages, self.max_input_length)
        if not text:
            return ModelDecision(abstained="no-text")
        try:
            if self._judge is not None:
                return self._judged_decision((await self._judge.ask(text, ctx=ctx)).verdict)
            return await self._classified_decision(text, ctx)
        except BlockedError:  # raised by a guard of a run inside the classifier
            raise
        except Exception as error:  # noqa: BLE001 - on any error the configured model stays
            why = f": {error.reason}" if isinstance(error, JudgeError) else ""
            _LOG.warning("%s chose no model (%s%s); the configured one stays", ctx.step_path, type(error).__name__, why)
            return ModelDecision(abstained="error")

    def _judged_decision(self, chosen: ChoiceAnswer) -> ModelDecision:
        """Return the decision for a judge's answer."""
        wanted = chosen.choice.strip().casefold()
        found = next((choice for choice in self.choices if choice.name.strip().casefold() == wanted), None)
        likely = chosen.probability
        if found is None:
            return ModelDecision(None, None, likely, "no-model-for-choice")
        if self.min_probability is not None and (likely is None or likely < self.min_probability):
            return ModelDecision(None, found.name, likely, "below-threshold")
        return ModelDecision(found.model, found.name, likely)

    async def _classified_decision(self, text: str, ctx: InputContext[SelectionState]) -> ModelDecision:
        """Return the decision for a classifier's answer."""
        classifier: object = self.classifier
        if _is_judge(classifier):
            answers: Value = (await classifier.ask(text, ctx=ctx)).verdict
        else:
            answers = await resolved(cast("Callable[[str], Value]", classifier)(text))
        picked = await resolved(cast("Callable[[Value], Value]", self.select)(answers))
        if picked is None:
            return ModelDecision(abstained="no-model-for-choice")
        _check_model("select", "model", picked)
        model = cast("Model | str", picked)
        return ModelDecision(model, name_of(model))

    async def _call_back(self, decision: ModelDecision) -> None:
        if self.on_decision is None:
            return
        try:
            await resolved(self.on_decision(decision))
        except Exception as error:  # noqa: BLE001 - a failing callback does not stop the run
            _LOG.warning("on_decision of %r failed (%s); the run goes on", self.id, type(error).__name__)


def _is_judge(given: object) -> TypeIs[ports.Judge[Value]]:
    return isinstance(given, ports.Judge)


def _options_of(selection: object) -> Values:
    return {name: given for name, given in vars(selection).items() if name != "_judge"}


def _latest_user_text(messages: Iterable[Message], most: int | None) -> str:
    """Return the text of the latest user message; of a long one its beginning and its end."""
    asked = [message for message in messages if message.role == "user"]
    parts = asked[-1].parts if asked else ()
    text = " ".join(part.text for part in parts if isinstance(part, TextPart)).strip()
    if most is None or len(text) <= most:
        return text
    half = most // 2
    return f"{text[: most - half]}\n…\n{text[len(text) - half :]}"


def _is_same(one: Value, other: Value) -> bool:
    return one is other or bool(one == other)
