"""`Guard`: what all guards share: a model or none, where to look, whom to tell. It knows no category and no strategy.

A guard has an embedded detector, which is sure of some things, and may have a judge for what depends on the context.
"""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, ClassVar, Generic, NoReturn, TypeVar, cast

from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.guard import TextGuard
from penstock.engine.values import ports
from penstock.engine.values.errors import OptionError
from penstock.processors.guards.options import JUDGE_OPTIONS, callback, check_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.text_guards.whole_texts import Phase
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.detections import Detection
    from penstock.processors.guards.options import GuardOptions, JudgeOptions

log = logging.getLogger("penstock")

V = TypeVar("V")

REMOVES_MESSAGES = ("process_input", "process_input_step")
"""The stages in which a message can be left out; elsewhere the text that was judged is taken away."""

_UNSHOWN = frozenset({"settings", "provider_options", "cache", "backoff"})  # how a model is asked; keys may be there


class Guard(TextGuard, Generic[V]):
    """Judges texts by an embedded detector, a model, or both. ``V`` is the type of the model's verdicts.

    Attributes:
        strategies: what can be done about what is found; the first is the default.
        default_phase: where it looks unless it is told.
        embedded: whether the embedded detector is used.
        judge: whom it asks; None without a model.
    """

    role: ProcessorRole = "guard"
    on_error: ErrorPolicy = "block"
    strategies: ClassVar[tuple[str, ...]] = ()
    default_phase: ClassVar[Phase] = "all"

    def set_up(self, model: object, strategy: str, verdict: type[V], question: str, options: GuardOptions) -> None:
        """Check the options that all guards have; called by each guard's constructor.

        Args:
            model: a `Model`, a `Judge` for verdicts of the guard's type, or None: embedded only.
            strategy: what is done about what is found.
            verdict: the type of the model's verdicts.
            question: what the model is told unless ``instructions`` says otherwise.
            options: the options that all guards have.

        Raises:
            OptionError: an option that is not allowed, or neither a model nor the embedded detector.
            TypeError: an option that no guard has.
        """
        name = type(self).__name__
        check_names(type(self), options)
        own_id = options.get("id")
        if own_id is not None:
            self.id = own_id
        self.options = {**options}
        self.model = model
        self.strategy = one_of(name, "strategy", strategy, self.strategies)
        self.embedded = flag(name, "embedded", options.get("embedded", True))
        self.judge: ports.Judge[V] | None = _judge(name, model, verdict, question, options)
        if self.judge is None and not self.embedded:
            raise OptionError(name, "embedded", False, "True, or a model= must be given to judge in its place")  # noqa: FBT003 - what was given
        self.judge_failure = one_of(
            name, "judge_failure", options.get("judge_failure", "fail"), ("fail", *(("embedded",) * self.embedded))
        )
        self.place(
            options.get("phase", self.default_phase),
            options.get("parts"),
            history=options.get("history", False),
            system=options.get("system", False),
            last_message_only=options.get("last_message_only", False),
            unscanned=options.get("unscanned", "allow"),
        )
        self.on_detection = callback(name, "on_detection", options.get("on_detection"))
        self.on_violation = callback(name, "on_violation", options.get("on_violation"))
        self.include_text = flag(name, "include_text", options.get("include_text", False))
        self.awaits = self.judge is not None
        self.edits = "nothing" if strategy in ("block", "warn") else "spans"
        if strategy == "warn" and self.unscanned != "block":
            self.role, self.on_error = "observer", "allow"

    def fact_name(self, what: str, *told: object) -> str:
        """Return the name of a fact: of a guard that was given no id, one that says what tells it from others."""
        if "id" in self.options:
            return f"{self.id}.{what}"
        return f"{self.id}.{what}[{', '.join(map(str, (self.strategy, self.phase, *told)))}]"

    def option(self, name: str) -> object:
        """Return an option as it was given."""
        return vars(self).get(name)

    def __repr__(self) -> str:
        """Show the class and the options that differ from its defaults."""
        own = {
            name: self.option(name)
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if name != "options" and self.option(name) != parameter.default
        }
        told = {name: value for name, value in self.options.items() if name not in _UNSHOWN}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in {**own, **told}.items())})"

    def tell(self, ctx: AnyContext, detection: Detection) -> None:
        """Call the callbacks; an error in one is logged, and is not the guard's failure."""
        _call(ctx, "on_detection", self.on_detection, detection, quiet=self.include_text)
        if detection.flagged:
            _call(ctx, "on_violation", self.on_violation, detection, quiet=self.include_text)

    def warn(self, ctx: AnyContext, categories: Iterable[str]) -> None:
        """Log what was found and passes."""
        log.warning("%s: found in %s: %s", ctx.step_path, ctx.stage, ", ".join(dict.fromkeys(categories)))

    def block(
        self, ctx: AnyContext, categories: Iterable[str], metadata: Mapping[str, Value], why: str = ""
    ) -> NoReturn:
        """Stop the run; ``why``: for what reason beside the strategy."""
        named = ", ".join(dict.fromkeys(categories))
        ctx.abort(f"{why}the text holds what may not pass: {named}", metadata={"strategy": self.strategy, **metadata})

    def left_out(self, ctx: AnyContext, message_ids: Iterable[str]) -> MessageList:
        """Return the conversation without messages; stop the run if nothing is left of what the user asked."""
        gone = set(message_ids)
        before = ctx.message_list.input if ctx.stage == "process_input" else ctx.message_list.all
        asked = [message for message in before if message.role == "user"]
        if asked and all(message.id in gone for message in asked):
            ctx.abort(
                "every message of the user's was filtered out, so there is nothing to answer",
                metadata={"strategy": self.strategy, "removed": len(gone)},
            )
        ctx.note(removed=len(gone))
        return ctx.message_list.remove(*gone)

    def without_flagged(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation without the messages that have edits; where none can be left out, with the edits."""
        if not edits or ctx.stage not in REMOVES_MESSAGES:
            return ctx.message_list.edit_text(edits) if edits else None
        return self.left_out(ctx, {place.message_id: None for place in edits})


def unquoted(reason: str | None, text: str) -> str | None:
    """Return what a judge says, if it does not quote the text; None otherwise: it would show what is to be hidden."""
    from penstock.models.judges.asking import quotes  # loaded where a judge has said something

    return None if reason is None or quotes(reason, text) else reason


def _judge(guard: str, model: object, verdict: type[V], question: str, options: GuardOptions) -> ports.Judge[V] | None:
    told = {name: value for name, value in options.items() if name in JUDGE_OPTIONS}
    instructions = options.get("instructions")
    if instructions is not None and not (isinstance(cast("object", instructions), str) and instructions.strip()):
        raise OptionError(guard, "instructions", instructions, "a text that says what to judge, or None")
    if isinstance(model, type):
        raise OptionError(guard, "model", model, f"a model itself, no class: {model.__name__}(…)")
    if isinstance(model, ports.Model):  # some models have a method ``ask``, too
        from penstock.models.judges import Judge  # loaded where one is asked, with pydantic

        return Judge(model, verdict, instructions or question, **cast("JudgeOptions", told))
    if model is not None and not isinstance(model, ports.Judge):
        allowed = "a Model, as penstock.model('openai/gpt-5-mini') gives one, a Judge, or None"
        raise OptionError(guard, "model", model, allowed)
    spare = [*told, *(["instructions"] if instructions else [])]
    if spare:
        needs = "left out" if model is None else "given to the judge itself"
        shown = "…" if spare[0] in _UNSHOWN else options.get(spare[0])
        raise OptionError(guard, spare[0], shown, f"{needs}: it says how a model= is asked")
    return cast("ports.Judge[V] | None", model)


def _call(
    ctx: AnyContext, option: str, call: Callable[[Detection], object] | None, detection: Detection, *, quiet: bool
) -> None:
    if call is None:
        return
    try:
        call(detection)
    except Exception as error:
        # The traceback may show what the callback was given, so it is left out where that is the text.
        trace = None if quiet else error
        log.error("%s: %s raised %s", ctx.step_path, option, type(error).__name__, exc_info=trace)  # noqa: TRY400
