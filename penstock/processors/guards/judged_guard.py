"""`Guard`: options, judge and message removal that all guards with a detector and a judge share.

A guard searches with an embedded detector, which needs no model. It may also ask a judge (a model with a question)
about text whose meaning depends on the context. `SpanGuard` finds spans of text, `ScoreGuard` scores texts. A
`GuardReporter` reports the findings, and each callback gets a `Detection`.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Generic, Literal, NoReturn, TypeVar, cast

from penstock.engine.processor.processor import flag, given_options, is_async, one_of
from penstock.engine.text_guards.reading import has_words
from penstock.engine.text_guards.reporting import GuardReporter
from penstock.engine.text_guards.text_guard import MAX_HOLD, TextGuard
from penstock.engine.values import protocols as ports
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.values.model import JudgeError
from penstock.models.judges.options import JudgeOptions
from penstock.models.named import as_model, names_model

if TYPE_CHECKING:
    from penstock.detection.spans import Span
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.whole_texts import Phase, SystemMessages, Unscanned
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.texts import TextPlace

V = TypeVar("V")

REMOVES_MESSAGES = ("process_input", "process_input_step")
"""The stages in which a guard can remove a message. In other stages it removes the text that was judged."""

Combine = Literal["max", "replace", "confirm"]
"""How the findings of ``detector=`` and of the embedded detector become one."""

REPORTING = ("warn", "detect")
"""The strategies of guards that only report."""

UNLISTED = "unlisted"
"""The category of a judge's findings whose category the judge was not offered."""

_UNSHOWN = frozenset({"settings", "provider_options", "cache", "backoff"})  # how a model is asked; keys may be there


class GuardOptions(JudgeOptions, total=False):
    """The options that every guard has in addition to its own.

    Attributes:
        embedded: whether to use the embedded detector; True by default. With a model it runs first, and the model is
            not asked where the detector is certain. A guard without a ``model`` needs it, or a ``detector``.
        instructions: the question for the model, in place of the guard's own; None (the default) for the guard's own.
        judge_failure: what happens if the model fails. ``fail`` (the default): the guard fails, and its ``on_error``
            policy applies, which blocks unless it is changed. ``embedded``: the detectors decide.
        phase: what the guard reads: ``input`` (what goes to the model: the caller's messages and tool results),
            ``output`` (what comes from the model: answers and tool calls) or ``all``. The default depends on the guard.
        parts: the kinds of message parts to read; None (the default) for all. What belongs to a message itself, such
            as its name, is read in any case.
        history: whether to read the whole conversation again before each model call; False by default.
        system: which system messages to read: those that a ``client`` sent (the default), ``all`` or ``none``.
        last_message_only: whether to read only the last message of a stage; False by default.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block`` the run, ``flag`` them in
            the step's record, or ``allow`` them. The default is ``block`` for parts of the kinds that are read, and
            ``flag`` if the guard only reports.
        on_detection: a plain function that is called with a `Detection` for each text that was judged; None by default.
        on_violation: the same, for each text that was flagged.
        include_text: whether both callbacks get the text; False by default. Nothing else gets it.
        id: the name of the step in the graph; by default the guard's.
    """

    embedded: bool
    instructions: str | None
    judge_failure: Literal["fail", "embedded"]
    phase: Phase
    parts: Iterable[str] | None
    history: bool
    system: SystemMessages
    last_message_only: bool
    unscanned: Unscanned | None
    on_detection: Callable[[Detection], object] | None
    on_violation: Callable[[Detection], object] | None
    include_text: bool
    id: str | None


JUDGE_OPTIONS = frozenset(JudgeOptions.__annotations__)
GUARD_OPTIONS = frozenset(GuardOptions.__annotations__)
_POLICY_OPTIONS = ("on_error", "mode", "overlap", "offload")  # options of the step's policy, whatever the processor


@dataclass(frozen=True, slots=True, repr=False)
class Detection:
    """The result for one text, or for one window of it. Callbacks get it.

    Attributes:
        processor_id: the id of the guard.
        stage: the stage in which the guard ran, such as ``process_input``.
        message_id: the id of the message; empty in a stream, and for a tool's arguments or result.
        part: the index of the part in the message, from 0.
        field: the field that holds the text: ``text``, ``arguments``, ``result``, ``name`` …
        flagged: whether a score reached its threshold.
        strategy: what the guard did; ``none`` if nothing was flagged.
        categories: the categories that reached their threshold.
        scores: all scores by category, from 0 to 1.
        spans: where something was found, in characters from the beginning of the text; empty if the text was judged as
            a whole.
        reason: the judge's reason; None without a judge, and if the reason would quote the text.
        judge: the name of the model that judged; empty for the embedded detector.
        text: the text; None unless ``include_text`` is set.
    """

    processor_id: str
    stage: str
    message_id: str
    part: int
    field: str
    flagged: bool
    strategy: str
    categories: tuple[str, ...] = ()
    scores: Mapping[str, float] = EMPTY
    spans: tuple[Span, ...] = ()
    reason: str | None = None
    judge: str = ""
    text: str | None = None

    def __repr__(self) -> str:
        """Show everything except the text."""
        return f"Detection({self.processor_id!r}, {self.stage!r}, {self.strategy!r}, {self.categories!r})"


class Guard(TextGuard, Generic[V]):
    """A `TextGuard` with the options of all guards, and with a judge if it gets a model.

    ``V`` is the type of the judge's verdicts. Use `SpanGuard` or `ScoreGuard`, or write `scan` and `act` yourself.

    The guard sets ``max_hold`` if no subclass declares it: to 4,096 characters (`MAX_HOLD`), or to more if it needs
    more. A declared ``max_hold`` counts as it is; one that is less than the guard needs is an `OptionError`.

    Attributes:
        strategies: the values that the option ``strategy`` accepts; the first is the default.
        default_phase: the default of the option ``phase``.
        detector: the detector of the user's own; None if there is none.
        combine: how its findings and those of the embedded detector become one.
        embedded: whether the embedded detector is used; it is not if ``detector`` replaces it.
        judge: the judge; None without a model.
        removes_messages: whether an edit of a text removes its message, in the stages that can.
    """

    role: ProcessorRole = "guard"
    on_error: ErrorPolicy = "block"
    strategies: ClassVar[tuple[str, ...]] = ()
    removes_messages: bool = False
    default_phase: ClassVar[Phase] = "all"
    detector: object = None
    combine: str = "max"
    awaits_detector: bool = False
    detector_needs_loop: bool = False

    def set_up(self, model: object, strategy: str, verdict: type[V], question: str, options: GuardOptions) -> None:
        """Check and store the options that all guards have. Call it in the constructor.

        Args:
            model: a `Model`, its name, a `Judge` for verdicts of type ``verdict``, a `JudgePanel`, or None for the
                embedded detector.
            strategy: one of `strategies`.
            verdict: the type of the model's verdicts.
            question: the question for the model, unless the option ``instructions`` replaces it.
            options: the options that all guards have, as the caller gave them.

        Raises:
            OptionError: an option is not allowed, or there is neither a model nor the embedded detector.
            TypeError: an option does not exist.
        """
        name = type(self).__name__
        check_option_names(type(self), options)
        own_id = options.get("id")
        if own_id is not None:
            self.id = own_id
        self.options = {**options}
        self.model = model
        self.strategy = one_of(name, "strategy", strategy, self.strategies)
        self.embedded = flag(name, "embedded", options.get("embedded", True)) and self.combine != "replace"
        self.judge: ports.Judge[V] | None = _judge(name, self.id, model, verdict, question, options)
        detects = self.embedded or self.detector is not None
        if self.judge is None and not detects:
            raise OptionError(name, "embedded", False, "True, or a model= must be given to judge in its place")  # noqa: FBT003 - what was given
        self.judge_failure = one_of(
            name, "judge_failure", options.get("judge_failure", "fail"), ("fail", *(("embedded",) * detects))
        )
        self.place(
            options.get("phase", self.default_phase),
            options.get("parts"),
            history=options.get("history", False),
            system=options.get("system", "client"),
            last_message_only=options.get("last_message_only", False),
            unscanned=options.get("unscanned"),
            usual="flag" if strategy in REPORTING else "block",
        )
        self.on_detection = _callback(name, "on_detection", options.get("on_detection"))
        self.on_violation = _callback(name, "on_violation", options.get("on_violation"))
        self.include_text = flag(name, "include_text", options.get("include_text", False))
        callbacks = {"on_detection": self.on_detection, "on_violation": self.on_violation}
        self._reporter = GuardReporter(strategy, callbacks, shows_text=self.include_text)
        self.awaits = self.judge is not None or self.awaits_detector
        self.needs_loop = self.judge is not None or self.detector_needs_loop
        self.removes_messages = strategy in ("filter", "decide")
        self.edits = "nothing" if strategy in ("block", "warn") else "spans"
        if strategy == "warn" and self.on_unread != "block":
            self.role, self.on_error = "observer", "allow"

    def limit_hold(self, needed: int, usual: int = MAX_HOLD) -> None:
        """Set `max_hold` unless it is declared, in a subclass or on the guard itself. Called once, by ``set_up``.

        Args:
            needed: how many characters of a stream the guard must be able to hold back.
            usual: how many it may hold back if no limit is declared; ``needed`` if that is more.

        Raises:
            OptionError: the declared limit is less than ``needed``.
        """
        declared = "max_hold" in vars(self) or TextGuard is not next(
            owner for owner in type(self).__mro__ if "max_hold" in vars(owner)
        )
        if not declared:
            self.max_hold = max(usual, needed)
        elif self.max_hold < needed:
            raise OptionError(
                type(self).__name__,
                "max_hold",
                self.max_hold,
                f"{needed} or more: so many characters of a stream the guard must be able to hold; "
                f"declare max_hold = {needed}, or leave it out",
            )

    def fact_name(self, what: str, *named: object) -> str:
        """Return the name of a fact of this guard.

        If the guard has no id of its own, the name contains its strategy, its phase and ``named``, so that guards of
        one class have different facts.
        """
        if "id" in self.options:
            return f"{self.id}.{what}"
        return f"{self.id}.{what}[{', '.join(map(str, (self.strategy, self.phase, *named)))}]"

    def option(self, name: str) -> object:
        """Return an option as it was given; of the collected ones, those that may be shown."""
        if name == "options":
            return {key: value for key, value in self.options.items() if key not in _UNSHOWN}
        return super().option(name)

    def __repr__(self) -> str:
        """Show the class and the options that differ from their defaults."""
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given_options(self).items())})"

    def report(self, ctx: AnyContext, detection: Detection) -> None:
        """Call the callbacks for the detection."""
        self._reporter.call(ctx, "on_detection", detection)
        if detection.flagged:
            self._reporter.call(ctx, "on_violation", detection)

    def warn(self, ctx: AnyContext, categories: Iterable[str]) -> None:
        """Log a finding that is let through."""
        self._reporter.warn(ctx, categories)

    def block(
        self, ctx: AnyContext, categories: Iterable[str], metadata: Mapping[str, Value], why: str = ""
    ) -> NoReturn:
        """Stop the run. ``why`` is the beginning of the reason, if the strategy alone does not explain it."""
        self._reporter.block(ctx, categories, metadata, why)

    def possible(
        self, ctx: AnyContext, texts: Iterable[Text], edits: Mapping[TextPlace, Edits]
    ) -> Mapping[TextPlace, Edits]:
        """Return the edits that can be made; all of them where `without_flagged` removes whole messages for them."""
        if self.removes_messages and ctx.stage in REMOVES_MESSAGES:
            return edits
        return super().possible(ctx, texts, edits)

    def without_messages(self, ctx: AnyContext, message_ids: Iterable[str]) -> MessageList:
        """Return the conversation without messages; stop the run if no user message of the request would remain."""
        gone = set(message_ids)
        before = ctx.message_list.input if ctx.stage == "process_input" else ctx.message_list.conversation
        asked = [message for message in before if message.role == "user"]
        if asked and all(message.id in gone for message in asked):
            reason = "every message of the user's was filtered out, so there is nothing to answer"
            self._reporter.stop(ctx, reason, {"removed": len(gone)})
        ctx.note(removed=len(gone))
        return ctx.message_list.remove(*gone)

    def without_flagged(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation without the messages that have edits.

        In stages that cannot remove messages, return it with the edits made. None if there are no edits.
        """
        if not edits or ctx.stage not in REMOVES_MESSAGES:
            return ctx.message_list.edit_text(edits) if edits else None
        return self.without_messages(ctx, {place.message_id: None for place in edits})


# What can only be read


_SHORT_CODE = 40
"""Characters: a shorter code, such as most ids, is too short for a sentence."""


def says_something(text: str) -> bool:
    """Return whether a fixed text holds words, plain or encoded. Guards that judge what is said skip other ones."""
    if has_words(text):
        return True
    if len(text) <= _SHORT_CODE:
        return False
    from penstock.detection.encoded import spoken  # loaded where texts are searched

    return any(map(has_words, spoken(text)))


def split_fixed(texts: Iterable[Text]) -> tuple[list[Text], list[list[Text]]]:
    """Return the texts that can be edited, and the others that say something: those of a message as one."""
    free: list[Text] = []
    fixed: dict[str, list[Text]] = {}
    for text in texts:
        if not text.fixed:
            free.append(text)
        elif says_something(text.text):
            fixed.setdefault(text.place.message_id, []).append(text)
    return free, [*fixed.values()]


# Judges


def _judge(
    guard: str, own_id: str, model: object, verdict: type[V], question: str, options: GuardOptions
) -> ports.Judge[V] | None:
    given = {name: value for name, value in options.items() if name in JUDGE_OPTIONS}
    instructions = options.get("instructions")
    if instructions is not None and not (isinstance(cast("object", instructions), str) and instructions.strip()):
        raise OptionError(guard, "instructions", instructions, "a text that says what to judge, or None")
    if isinstance(model, type):
        raise OptionError(guard, "model", model, f"an instance of the model, not its class: {model.__name__}(…)")
    model = as_model(model, guard) if names_model(model) else model
    if isinstance(model, ports.JudgeSource) and not given:
        return model.judge_for(own_id, verdict, instructions or question)
    if isinstance(model, ports.Model):  # some models have a method ``ask``, too
        from penstock.models.judges import Judge  # loaded where one is asked, with pydantic

        return Judge(model, verdict, instructions or question, **cast("JudgeOptions", given))
    if model is not None and not isinstance(model, (ports.Judge, ports.JudgeSource)):
        allowed = "a Model, the name of one such as 'openai/gpt-5-mini', a Judge, a JudgePanel, or None"
        raise OptionError(guard, "model", model, allowed)
    spare = [*given, *(["instructions"] if instructions else [])]
    if spare:
        owner = "panel" if isinstance(model, ports.JudgeSource) else "judge"
        needs = "left out" if model is None else f"given to the {owner} itself"
        shown = "…" if spare[0] in _UNSHOWN else options.get(spare[0])
        raise OptionError(guard, spare[0], shown, f"{needs}: it configures how a model= is asked")
    return cast("ports.Judge[V] | None", model)


def require_complete(judged: Value, *, flagged: bool, model: str) -> None:
    """Refuse a verdict that flags nothing but lacks entries that could not be parsed, since those may matter.

    Raises:
        JudgeError: it is such a verdict.
    """
    if judged.dropped and not flagged:
        raise JudgeError(model, "unreadable", f"{len(judged.dropped)} entries of its verdict could not be read")


def unquoted(reason: str | None, text: str) -> str | None:
    """Return a judge's reason; None if it quotes the text, since it could show what must stay hidden."""
    from penstock.models.judges.verdict_requests import quotes  # loaded where a judge has given a reason

    return None if reason is None or quotes(reason, text) else reason


def highest_scores(entries: Iterable[tuple[str, float]], categories: Iterable[str]) -> dict[str, float]:
    """Return the highest score of each category; entries of other categories count as `UNLISTED`."""
    known = {category.casefold(): category for category in categories}
    scores: dict[str, float] = {}
    for name, score in entries:
        category = known.get(name.strip().casefold(), UNLISTED)
        scores[category] = max(score, scores.get(category, 0.0))
    return scores


# Checks of options


def check_option_names(guard: type, options: Mapping[str, object]) -> None:
    """Refuse options that a guard does not have.

    Raises:
        TypeError: there is one; the message suggests a similar name, or says where the option belongs.
    """
    for name in options:
        if name not in GUARD_OPTIONS:
            raise TypeError(f"{guard.__name__}() has no option {name!r}; {_suggestion(name, guard)}")


def _suggestion(name: str, guard: type) -> str:
    if name == "error_strategy":
        return "did you mean on_error? It is an option of the step: .then(guard, on_error='block')"
    if name in _POLICY_OPTIONS:
        return f"it is an option of the step, given where the guard is placed: .then(guard, {name}=…)"
    own = [parameter.name for parameter in inspect.signature(guard).parameters.values() if parameter.name != "options"]
    known = [*own, *sorted(GUARD_OPTIONS)]
    ends = [option for option in own if option.endswith(f"_{name}")]
    close = ends or difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def _callback(guard: str, option: str, given: object) -> Callable[[Detection], object] | None:
    if given is not None and (not callable(given) or is_async(given)):
        raise OptionError(guard, option, given, "a plain function (def, not async def), since it is not awaited")
    return cast("Callable[[Detection], object] | None", given)


def check_score(guard: str, option: str, given: object) -> float:
    """Return the option if it is a number from 0 to 1.

    Raises:
        OptionError: it is not.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise OptionError(guard, option, given, "a number from 0 to 1")
    return float(given)


def check_scores(guard: str, option: str, given: Value, names: Iterable[str]) -> float | Mapping[str, float] | None:
    """Return the option if it is a number from 0 to 1, a mapping of names to such numbers, or None.

    Raises:
        OptionError: it is none of these, or has a name that is not among ``names``.
    """
    if given is None or not isinstance(given, Mapping):
        return None if given is None else check_score(guard, option, given)
    known = tuple(names)
    table = cast("Mapping[str, object]", given)
    for name in table:
        if name not in known:
            raise OptionError(guard, f"{option}[{name!r}]", name, f"one of {', '.join(map(repr, known))}")
    return {name: check_score(guard, f"{option}[{name!r}]", value) for name, value in table.items()}


def check_names(guard: str, option: str, given: object) -> tuple[str, ...]:
    """Return the option as a tuple of names, each once.

    Raises:
        OptionError: it is not a list of names, or an empty one.
    """
    listed = (given,) if isinstance(given, str) else given
    found = tuple(dict.fromkeys(cast("Iterable[object]", listed))) if isinstance(listed, Iterable) else ()
    if not found or not all(isinstance(name, str) and name for name in found):
        raise OptionError(guard, option, given, "a list of names, at least one")
    return cast("tuple[str, ...]", found)


def check_count(guard: str, option: str, given: object, allowed: str) -> int:
    """Return the option if it is an int, 0 or more.

    Raises:
        OptionError: it is not.
    """
    if type(given) is not int or given < 0:
        raise OptionError(guard, option, given, allowed)
    return given
