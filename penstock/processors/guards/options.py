"""The options that all guards have, and the checks of options that several have; it knows no guard."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypedDict, cast

from penstock.engine.processor.processor import is_async
from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from penstock.engine.text_guards.whole_texts import Phase, Unscanned
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.ports import Cache
    from penstock.models.judges.asking import Backoff, Structured
    from penstock.processors.guards.detections import Detection


class JudgeOptions(TypedDict, total=False):
    """How a guard's model is asked; see `penstock.Judge` for what each says."""

    settings: Values
    provider_options: Values
    structured: Structured
    timeout: float
    retries: int
    backoff: Backoff
    limit: int
    cache: Cache | Literal["memory"] | None
    ttl: float | None
    max_characters: int


class GuardOptions(JudgeOptions, total=False):
    """What every guard can be told beside its own options.

    Attributes:
        embedded: whether its embedded detector is used. With a model, too: it comes first, and what it is sure of
            is decided.
        instructions: what the model is told in place of the guard's own question.
        judge_failure: what a model's failure means: ``fail`` (the guard has failed, and its ``on_error`` says what
            becomes of that: it blocks), or ``embedded`` (what the embedded detector says, counts).
        phase: ``input`` (what goes to the model: the caller's messages and tools' results), ``output`` (what comes
            from it: answers and calls to tools) or ``all``.
        parts: the kinds of parts to look into; all that carry text but ``data`` by default.
        history: look at the whole conversation before each model call too.
        system: look at system messages too.
        last_message_only: look at the last of a stage's messages alone.
        unscanned: what becomes of parts whose contents no guard can read, such as pictures and files: ``allow`` them,
            ``flag`` them in the step's record, or ``block``.
        on_detection: called, not awaited, with a `Detection` for each text that was judged.
        on_violation: called, not awaited, with a `Detection` for each text that was flagged.
        include_text: give the text to both callbacks; it goes nowhere else.
        id: its name in the graph.
    """

    embedded: bool
    instructions: str | None
    judge_failure: Literal["fail", "embedded"]
    phase: Phase
    parts: Iterable[str] | None
    history: bool
    system: bool
    last_message_only: bool
    unscanned: Unscanned
    on_detection: Callable[[Detection], object] | None
    on_violation: Callable[[Detection], object] | None
    include_text: bool
    id: str | None


JUDGE_OPTIONS = frozenset(JudgeOptions.__annotations__)
GUARD_OPTIONS = frozenset(GuardOptions.__annotations__)
_PLACING = ("on_error", "mode", "overlap", "offload")  # what is a policy of the step, whatever the processor


def check_names(guard: type, options: Mapping[str, object]) -> None:
    """Refuse options that a guard does not have.

    Raises:
        TypeError: there is one; the message says which name is close, or where the option belongs.
    """
    for name in options:
        if name not in GUARD_OPTIONS:
            raise TypeError(f"{guard.__name__}() has no option {name!r}; {_meant(name, guard)}")


def _meant(name: str, guard: type) -> str:
    if name in _PLACING:
        return f"it is said where the guard is placed: .then(guard, {name}=…)"
    own = [parameter.name for parameter in inspect.signature(guard).parameters.values() if parameter.name != "options"]
    known = [*own, *sorted(GUARD_OPTIONS)]
    ends = [option for option in own if option.endswith(f"_{name}")]
    close = ends or difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"there are {', '.join(known)}"


def callback(guard: str, option: str, given: object) -> Callable[[Detection], object] | None:
    """Return the option if it can be called without waiting, or is None.

    Raises:
        OptionError: it cannot.
    """
    if given is not None and (not callable(given) or is_async(given)):
        raise OptionError(guard, option, given, "a plain function, since nobody awaits it: def, not async def")
    return cast("Callable[[Detection], object] | None", given)


def share(guard: str, option: str, given: object) -> float:
    """Return the option if it is a number from 0 to 1.

    Raises:
        OptionError: it is not.
    """
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not 0 <= given <= 1:
        raise OptionError(guard, option, given, "a number from 0 to 1")
    return float(given)


def shares(guard: str, option: str, given: Value, names: Iterable[str]) -> float | Mapping[str, float] | None:
    """Return the option if it is a number from 0 to 1, or such numbers by name; None if it is None.

    Raises:
        OptionError: it is something else, or names what is not among ``names``.
    """
    if given is None or not isinstance(given, Mapping):
        return None if given is None else share(guard, option, given)
    known = tuple(names)
    table = cast("Mapping[str, object]", given)
    for name in table:
        if name not in known:
            raise OptionError(guard, f"{option}[{name!r}]", name, f"one of {', '.join(map(repr, known))}")
    return {name: share(guard, f"{option}[{name!r}]", value) for name, value in table.items()}


def names(guard: str, option: str, given: object) -> tuple[str, ...]:
    """Return the option as a tuple of names, each once.

    Raises:
        OptionError: it is no list of names, or an empty one.
    """
    listed = (given,) if isinstance(given, str) else given
    found = tuple(dict.fromkeys(cast("Iterable[object]", listed))) if isinstance(listed, Iterable) else ()
    if not found or not all(isinstance(name, str) and name for name in found):
        raise OptionError(guard, option, given, "a list of names, at least one")
    return cast("tuple[str, ...]", found)
