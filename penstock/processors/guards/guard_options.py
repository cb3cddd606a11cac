"""`set_up`: checks the options that all guards with a detector and a judge share, and makes the `GuardSetup` of them.

A guard searches with an embedded detector, which needs no model. It may also ask a judge (a model with a question)
about text whose meaning depends on the context. Its constructor calls `set_up`, and gives the result to the components
of the guard: what finds (`span_search`, `score_search`) and what acts (`span_action`, `score_action`).
"""

from __future__ import annotations

import difflib
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeVar, cast

from penstock.engine.processor.option_checks import check_callback
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.fixed import fix_options
from penstock.engine.text_guards.reporting import GuardReporter
from penstock.engine.text_guards.scope import choose_edits, choose_texts
from penstock.engine.text_guards.text_guard import MAX_HOLD, TextGuard
from penstock.engine.values import protocols as ports
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import FrozenDict
from penstock.models.judges.options import JudgeOptions
from penstock.models.named import as_model, names_model
from penstock.processors.guards.detector_options import NO_DETECTOR, OwnDetector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.engine.text_guards.scope import Arguments, Numbers, Phase, SystemMessages, Unscanned
    from penstock.processors.guards.detection import Detection

V = TypeVar("V")
R = TypeVar("R")

REPORTING = ("warn", "detect")
"""The strategies of guards that only report."""

_UNSHOWN = frozenset({"settings", "provider_options", "cache", "backoff"})  # how a model is asked; keys may be there


class GuardOptions(JudgeOptions, total=False):
    """The options that every guard has in addition to its own.

    Attributes:
        embedded: whether to use the embedded detector; True by default. With a model it runs first, and the model is
            not asked where the detector is certain. A guard without a ``model`` needs it, or a ``detector``.
        instructions: the question for the model, in place of the guard's own; None (the default) for the guard's own.
        judge_failure: what happens if the model fails. ``fail`` (the default): the guard fails, and its ``on_error``
            policy applies, which blocks unless it is changed. ``embedded``: the detectors decide.
        phase: the texts that the guard reads: ``input`` (the caller's messages and tool results),
            ``output`` (the model's answers and tool calls) or ``all``. The default depends on the guard.
        parts: the kinds of message parts to read; None (the default) for all. What belongs to a message itself, such
            as its name, is read in any case.
        history: whether to read the whole conversation again before each model call; False by default.
        system: which system messages to read: those that a ``client`` sent (the default), ``all`` or ``none``.
        last_message_only: whether to read only the last message of a stage; False by default.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block`` the run, ``flag`` them in
            the step's record, or ``allow`` them. The default is ``block`` for parts of the kinds that are read, and
            ``flag`` if the guard only reports.
        numbers: what replaces a number in which something is found, in JSON values and in JSON text: ``null``, so that
            a list or a column of numbers stays one, or ``text``: a string with the redacted digits. The default is
            ``null``, and ``text`` for a guard whose ``redaction_method`` puts tokens, which must be there to be turned
            back.
        arguments: what happens to a tool call if something would be redacted in an argument that decides what runs: a
            command, code, a path or an address, by its key or its form. ``block`` (the default): the run stops, so that
            nothing runs that the model did not write. ``redact``: the argument is redacted like others.
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
    numbers: Numbers
    arguments: Arguments
    on_detection: Callable[[Detection], object] | None
    on_violation: Callable[[Detection], object] | None
    include_text: bool
    id: str | None


JUDGE_OPTIONS = frozenset(JudgeOptions.__annotations__)
GUARD_OPTIONS = frozenset(GuardOptions.__annotations__)
_POLICY_OPTIONS = ("on_error", "mode", "overlap", "offload")  # options of the step's policy, whatever the processor


@dataclass(frozen=True)
class GuardSetup(Generic[V, R]):
    """The options of a guard that its components share, checked; see `set_up`.

    Attributes:
        guard_id: the id of the guard, for reports.
        strategy: the action on findings.
        embedded: whether the embedded detector is used; it is not if a ``detector`` replaces it.
        judge: the judge; None without a model.
        judge_failure: the meaning of a failure of the judge: ``fail`` or ``embedded``.
        detector: the user's own detector, and how it is combined with the embedded one.
        reporter: who is told about findings.
        fact: the name of the fact that the guard puts.
        offloadable: whether long work may be moved to a worker thread.
    """

    guard_id: str
    strategy: str
    embedded: bool
    judge: ports.Judge[V] | None
    judge_failure: str
    detector: OwnDetector[R]
    reporter: GuardReporter
    fact: str
    offloadable: bool

    @property
    def combine(self) -> str:
        """How the findings of the user's own detector and of the embedded one become one."""
        return self.detector.combine

    @property
    def edits(self) -> bool:
        """Whether texts are edited; if not, findings are blocked or reported."""
        return self.strategy not in ("block", "warn")


def set_up(
    guard: TextGuard,
    model: object,
    strategy: str,
    strategies: Iterable[str],
    verdict: Callable[[], type[V]],
    question: str,
    options: GuardOptions,
    *,
    detector: OwnDetector[R] = NO_DETECTOR,
    phase: Phase = "all",
    asks: bool = True,
    fact: Sequence[object],
) -> GuardSetup[V, R]:
    """Check the options that all guards have, and set the guard's declarations. Call it in the constructor.

    It sets the guard's ``model``, ``strategy``, ``options``, ``scope``, ``stages``, ``awaits``, ``needs_loop``,
    ``edits`` and, for a guard that only reports, ``role`` and ``on_error``.

    Args:
        guard: the guard.
        model: a `Model`, its name, a `Judge` for verdicts of type ``verdict``, a `JudgePanel`, or None for the
            embedded detector.
        strategy: the action on findings.
        strategies: the strategies that are allowed.
        verdict: returns the type of the model's verdicts; called if there is a model, since pydantic takes time.
        question: the question for the model, unless the option ``instructions`` replaces it.
        options: the options that all guards have, as the caller gave them.
        detector: the user's own detector.
        phase: the default of the option ``phase``.
        asks: whether there is something to ask the model.
        fact: the content of the guard's fact, the last part of its name; and names that tell it from those of others.

    Raises:
        OptionError: an option is not allowed, or there is neither a model nor the embedded detector.
        TypeError: an option does not exist.
    """
    name = type(guard).__name__
    check_option_names(type(guard), options)
    own_id = options.get("id")
    if own_id is not None:
        guard.id = own_id
    strategy = one_of(name, "strategy", strategy, strategies)
    embedded = flag(name, "embedded", options.get("embedded", True)) and detector.combine != "replace"
    detects = embedded or detector.calls is not None
    judge: ports.Judge[V] | None = _judge(name, guard.id, model, verdict, question, options)
    if judge is None and not detects:
        raise OptionError(name, "embedded", False, "True, or a model= must be given to judge in its place")  # noqa: FBT003 - the given value
    judge = judge if asks else None
    failures = ("fail", "embedded") if detects else ("fail",)
    judge_failure = one_of(name, "judge_failure", options.get("judge_failure", "fail"), failures)
    _choose_reading(guard, strategy, phase, options)
    reporter = _reporter(name, strategy, options)
    vars(guard).update(options=shown_options(options), model=model, strategy=strategy)
    fix_options(guard, GUARD_OPTIONS)
    _declare(guard, strategy, judge, detector)
    # Guards of one class have different facts: if a guard has no id of its own, the name says what tells it apart.
    apart = "" if "id" in options else f"[{', '.join(map(str, (strategy, guard.scope.phase, *fact[1:])))}]"
    named_fact = f"{guard.id}.{fact[0]}{apart}"
    return GuardSetup(
        guard.id, strategy, embedded, judge, judge_failure, detector, reporter, named_fact, guard.offloadable
    )


def _choose_reading(guard: TextGuard, strategy: str, phase: Phase, options: GuardOptions) -> None:
    """Set the texts that a guard reads, and the form of its edits in them."""
    choose_texts(
        guard,
        options.get("phase", phase),
        options.get("parts"),
        history=options.get("history", False),
        system=options.get("system", "client"),
        last_message_only=options.get("last_message_only", False),
        unscanned=options.get("unscanned"),
        usual="flag" if strategy in REPORTING else "block",
    )
    choose_edits(guard, options.get("numbers", guard.numbers), options.get("arguments", "block"))


def _declare(guard: TextGuard, strategy: str, judge: object, detector: OwnDetector[R]) -> None:
    """Set the declarations of a guard: whether it waits, edits, or only reports."""
    guard.awaits = judge is not None or detector.calls is not None
    guard.needs_loop = judge is not None or (detector.calls is not None and detector.calls.needs_loop)
    guard.edits = "nothing" if strategy in ("block", "warn") else "spans"
    if strategy == "warn" and guard.scope.on_unread != "block":
        guard.role, guard.on_error = "observer", "allow"


def shown_options(options: GuardOptions) -> FrozenDict[str, object]:
    """Return the options that a guard shows: those that were given, but for those that may hold keys.

    None is the default of each of them that may be None, so that guards are equal whether it was given or not.
    """
    shown = {name: value for name, value in options.items() if name not in _UNSHOWN and value is not None}
    return FrozenDict(shown)


def limit_hold(guard: TextGuard, needed: int, usual: int = MAX_HOLD) -> None:
    """Set ``max_hold`` of a guard unless it is declared, in a subclass or on the guard itself.

    Args:
        guard: the guard, in its constructor.
        needed: how many characters of a stream the guard must be able to hold back.
        usual: how many it may hold back if no limit is declared; ``needed`` if that is more.

    Raises:
        OptionError: the declared limit is less than ``needed``.
    """
    declared = "max_hold" in vars(guard) or TextGuard is not next(
        owner for owner in type(guard).__mro__ if "max_hold" in vars(owner)
    )
    if not declared:
        guard.max_hold = max(usual, needed)
    elif guard.max_hold < needed:
        raise OptionError(
            type(guard).__name__,
            "max_hold",
            guard.max_hold,
            f"{needed} or more: so many characters of a stream the guard must be able to hold; "
            f"declare max_hold = {needed}, or leave it out",
        )


# Judges


def _judge(
    guard: str, own_id: str, model: object, verdict: Callable[[], type[V]], question: str, options: GuardOptions
) -> ports.Judge[V] | None:
    given = {name: value for name, value in options.items() if name in JUDGE_OPTIONS}
    instructions = options.get("instructions")
    if instructions is not None and not (isinstance(cast("object", instructions), str) and instructions.strip()):
        raise OptionError(guard, "instructions", instructions, "a text that says what to judge, or None")
    if isinstance(model, type):
        raise OptionError(guard, "model", model, f"an instance of the model, not its class: {model.__name__}(…)")
    model = as_model(model, guard) if names_model(model) else model
    if isinstance(model, ports.JudgeSource) and not given:
        return model.judge_for(own_id, verdict(), instructions or question)
    if isinstance(model, ports.Model):  # some models have a method ``ask``, too
        from penstock.models.judges import Judge  # loaded where one is asked, with pydantic

        return Judge(model, verdict(), instructions or question, **cast("JudgeOptions", given))
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


def _reporter(guard: str, strategy: str, options: GuardOptions) -> GuardReporter:
    callbacks = {name: check_callback(guard, name, options.get(name)) for name in ("on_detection", "on_violation")}
    return GuardReporter(
        strategy, callbacks, shows_text=flag(guard, "include_text", options.get("include_text", False))
    )
