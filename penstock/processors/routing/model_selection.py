"""`ModelSelectionProcessor`: chooses the model of a request by what is asked. It knows no agent."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, cast, get_args

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.values import ports
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.messages import TextPart
from penstock.engine.values.model import JudgeError
from penstock.engine.values.tripwire import BlockedError
from penstock.processors.routing.decisions import (
    MODEL_CHOICE,
    ModelChoice,
    ModelDecision,
    checked_model,
    choices_of,
    name_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from typing_extensions import TypeIs

    from penstock.engine.processor.context import InputContext, InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Model
    from penstock.processors.routing._asking import Chosen

A = TypeVar("A")

Scope = Literal["run", "first-step"]
"""For which model calls of a request the choice holds: all, or those up to the first accepted answer."""

Select: TypeAlias = "Callable[[A], Awaitable[Model | str | None] | Model | str | None]"
"""Picks a model, or its name, by a classifier's answers; None for the one that is configured."""

_LOG = logging.getLogger("penstock")


@dataclass(slots=True)
class Selection:
    """What is kept of a request.

    Attributes:
        decision: what was decided; None as long as nothing is.
        configured: the model of the first step, as it came in.
        begun: whether there was a step.
        off: whether another model took its place meanwhile, so that the choice holds no longer.
    """

    decision: ModelDecision | None = None
    configured: Value = None
    begun: bool = False
    off: bool = False


class ModelSelectionProcessor(Processor[Selection], Generic[A]):
    """Chooses the model of a request by its latest user message: once, when the request comes in.

    It fails open: whatever goes wrong, the model that is configured stays, and a line in the log says so. Give it
    ``model`` and ``choices``, or ``classifier`` and ``select``.

    Args:
        model: who chooses: a model that is asked which of the choices fits.
        choices: the models to choose from, two or more, each of its own name.
        classifier: what answers about the text of a request: a function, async or not, or a `Judge`.
        select: picks a model, or its name, by those answers, async or not; None keeps the one that is configured.
        instructions: what ``model`` is told in place of the usual task; the choices and their criteria are added.
        min_probability: how sure ``model`` has to be, from 0 to 1; a choice that does not say so does not count.
        scope: ``run``: for all steps of a request; ``first-step``: until the first answer is accepted.
        apply: whether the model is put in place. If not, the decision is only told (the fact `MODEL_CHOICE`), for
            conditions of branches, and nothing else changes.
        on_decision: called with each `ModelDecision`, async or not; what it raises is logged, and changes nothing.
        provider_options: what goes to the provider of ``model`` as it stands.
        max_input_length: how many characters of a request are shown, its beginning and its end; None for all.
        timeout: for how many seconds ``model`` is waited for, at each attempt.
        retries: how often it is asked again where it gave no choice.
        id: its name in the graph.

    Raises:
        OptionError: an option that is not allowed, or that would do nothing.
    """

    id = "model-selection"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    provides = (MODEL_CHOICE,)

    def __init__(
        self,
        *,
        model: Model | None = None,
        choices: Sequence[ModelChoice | Values] = (),
        classifier: Callable[[str], A | Awaitable[A]] | ports.Judge[A] | None = None,
        select: Select[A] | None = None,
        instructions: str | None = None,
        min_probability: float | None = None,
        scope: Scope = "run",
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
        self.model = model
        self.choices: tuple[ModelChoice, ...] = ()
        self.classifier = classifier
        self.select = select
        self.instructions = instructions
        self.min_probability = _share(name, min_probability)
        self.scope = one_of(name, "scope", scope, get_args(Scope))
        self.apply = flag(name, "apply", apply)
        self.on_decision = on_decision
        self.provider_options = provider_options
        self.max_input_length = _length(name, max_input_length)
        for option, given in (("select", select), ("on_decision", on_decision)):
            if given is not None and not callable(cast("object", given)):
                raise OptionError(name, option, given, "a function")
        self.timeout, self.retries = timeout, retries
        self._judge: ports.Judge[Chosen] | None = None
        if classifier is None and select is None:
            self.choices = choices_of(name, choices)
            self._judge = self._chooser()
        else:
            self._check_own_form(choices)
        if not self.apply and self.scope != "run":
            raise OptionError(name, "scope", scope, "'run' beside apply=False, which puts no model in place")
        self.stages = None if self.apply else ("process_input",)
        self.edits = "anything" if self.apply else "nothing"

    def _chooser(self) -> ports.Judge[Chosen]:
        from penstock.processors.routing._asking import choosing_judge  # loaded where a model chooses

        name = type(self).__name__
        if self.model is None:
            raise OptionError(name, "model", None, "a Model that chooses, or left out beside classifier= and select=")
        instructions = cast("object", self.instructions)
        if instructions is not None and not (isinstance(instructions, str) and instructions.strip()):
            raise OptionError(name, "instructions", self.instructions, "a text that says something")
        options = self.provider_options or EMPTY
        return choosing_judge(self.model, self.choices, self.instructions, options, self.timeout, self.retries)

    def _check_own_form(self, choices: object) -> None:
        """Refuse what is for the other form only, and half of this one."""
        name = type(self).__name__
        classifier: object = self.classifier
        if not (callable(classifier) or _is_judge(classifier)):
            raise OptionError(name, "classifier", self.classifier, "a function of a text, or a Judge, beside select=")
        if self.select is None:
            raise OptionError(name, "select", None, "a function of the classifier's answers")
        unused = {
            "model": self.model,
            "choices": choices or None,
            "instructions": self.instructions,
            "min_probability": self.min_probability,
            "provider_options": self.provider_options,
        }
        for option, given in unused.items():
            if given is not None:
                raise OptionError(name, option, given, "left out: the classifier answers by itself")

    def __eq__(self, other: object) -> bool:
        """Tell whether both are of one class with equal options; the judge is made of them."""
        return type(self) is type(other) and _told(self) == _told(other)

    __hash__ = None

    def new_state(self) -> Selection:
        """Return the state of one request."""
        return Selection()

    # Stages

    async def process_input(self, ctx: InputContext[Selection]) -> None:
        """Decide, unless that was done for this request."""
        if ctx.state.decision is not None:
            return
        decision = ctx.state.decision = await self._decision(ctx)
        ctx.put(MODEL_CHOICE, decision)
        named = None if decision.model is None else name_of(decision.model)
        told = {"model": named, "choice": decision.choice, "probability": decision.probability}
        ctx.note(**{key: it for key, it in {**told, "abstained": decision.abstained}.items() if it is not None})
        await self._tell(decision)

    def process_input_step(self, ctx: InputStepContext[Selection]) -> Overrides | None:
        """Put the chosen model in place for a call."""
        chosen = self._chosen_for(ctx)
        return None if chosen is None else Overrides(model=chosen)

    def _chosen_for(self, ctx: InputStepContext[Selection]) -> Model | str | None:
        state, decision = ctx.state, ctx.state.decision
        if decision is None or decision.model is None or state.off:
            return None
        if not state.begun:
            state.begun, state.configured = True, ctx.model
        elif not _is_same(state.configured, ctx.model):
            state.off = True  # somebody else has chosen, a fallback say, and knows why
            ctx.note(off=True)
            return None
        accepted = len(ctx.steps) if ctx.steps is not None else ctx.step_number
        return None if self.scope == "first-step" and accepted else decision.model

    # Deciding

    async def _decision(self, ctx: InputContext[Selection]) -> ModelDecision:
        text = _request(ctx.messages, self.max_input_length)
        if not text:
            return ModelDecision(abstained="no-text")
        try:
            if self._judge is not None:
                return self._weighed((await self._judge.ask(text, ctx=ctx)).verdict)
            return await self._picked(text, ctx)
        except BlockedError:  # a verdict of a run inside the classifier
            raise
        except Exception as error:  # noqa: BLE001 - whatever goes wrong, the configured model stays
            why = f": {error.reason}" if isinstance(error, JudgeError) else ""
            _LOG.warning("%s chose no model (%s%s); the configured one stays", ctx.step_path, type(error).__name__, why)
            return ModelDecision(abstained="error")

    def _weighed(self, chosen: Chosen) -> ModelDecision:
        """Return what comes of a judge's choice."""
        wanted = chosen.choice.strip().casefold()
        found = next((choice for choice in self.choices if choice.name.strip().casefold() == wanted), None)
        likely = chosen.probability
        if found is None:
            return ModelDecision(None, None, likely, "no-model-for-choice")
        if self.min_probability is not None and (likely is None or likely < self.min_probability):
            return ModelDecision(None, found.name, likely, "below-threshold")
        return ModelDecision(found.model, found.name, likely)

    async def _picked(self, text: str, ctx: InputContext[Selection]) -> ModelDecision:
        """Return what comes of a classifier's answers."""
        classifier: object = self.classifier
        if _is_judge(classifier):
            answers: Value = (await classifier.ask(text, ctx=ctx)).verdict
        else:
            answers = await _settled(cast("Callable[[str], Value]", classifier)(text))
        picked = await _settled(cast("Callable[[Value], Value]", self.select)(answers))
        if picked is None:
            return ModelDecision(abstained="no-model-for-choice")
        model = checked_model(picked)
        return ModelDecision(model, name_of(model))

    async def _tell(self, decision: ModelDecision) -> None:
        if self.on_decision is None:
            return
        try:
            await _settled(self.on_decision(decision))
        except Exception as error:  # noqa: BLE001 - who is told changes nothing
            _LOG.warning("on_decision of %r failed (%s); the run goes on", self.id, type(error).__name__)


def _is_judge(given: object) -> TypeIs[ports.Judge[Value]]:
    return isinstance(given, ports.Judge)


def _told(selection: object) -> Values:
    return {name: given for name, given in vars(selection).items() if name != "_judge"}


async def _settled(answer: Value) -> Value:
    return await answer if inspect.isawaitable(answer) else answer


def _request(messages: Iterable[Message], most: int | None) -> str:
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


def _share(name: str, given: object) -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise OptionError(name, "min_probability", given, "a number from 0 to 1")
    return float(given)


def _length(name: str, given: object) -> int | None:
    if given is not None and (type(given) is not int or given < 1):
        raise OptionError(name, "max_input_length", given, "a number of characters, 1 or more, or None")
    return given
