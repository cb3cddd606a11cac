"""`TextScope`: which texts of a request a guard reads, and what it does about bodies that it cannot read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, cast, get_args

from penstock.engine.processor.processor import flag, one_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.values.errors import OptionError
from penstock.engine.values.messages import PartKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.stages import Stage
    from penstock.engine.text_guards.reading import Unread
    from penstock.engine.values.messages import Message

Phase = Literal["input", "output", "all"]
Unscanned = Literal["allow", "flag", "block"]
SystemMessages = Literal["client", "all", "none"]
Numbers = Literal["null", "text"]
Arguments = Literal["block", "redact"]

PHASES: dict[Phase, tuple[str, ...]] = {
    "input": tuple(name for name, stage in STAGES.items() if stage.guarded and stage.phase == "input"),
    "output": tuple(name for name, stage in STAGES.items() if stage.guarded and stage.phase == "output"),
}
PHASES["all"] = (*PHASES["input"], *PHASES["output"])

PART_KINDS: tuple[str, ...] = get_args(PartKind)

_MOST_TOLD = 100  # parts in a tripwire's metadata


@dataclass(frozen=True, slots=True)
class TextScope:
    """Which texts a guard reads.

    Attributes:
        phase: ``input`` (what goes to the model), ``output`` (what comes from it) or ``all``.
        parts: the kinds of parts as they were chosen; None for all.
        history: whether it also reads the whole conversation before each model call.
        system: which system messages it also reads: those of a ``client``, ``all`` or ``none``.
        last_message_only: whether it reads only the last message of a stage.
        unscanned: what to do with bodies that cannot be read, as it was chosen; None for ``on_unread``.
        on_unread: what to do with them: ``allow``, ``flag`` (note them) or ``block``.
    """

    phase: str = "all"
    parts: tuple[str, ...] | None = None
    history: bool = False
    system: str = "client"
    last_message_only: bool = False
    unscanned: str | None = None
    on_unread: str = "block"

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of parts whose texts are read."""
        return PART_KINDS if self.parts is None else self.parts

    @property
    def unread_kinds(self) -> tuple[str, ...]:
        """The kinds of parts whose bodies are noted or blocked if they cannot be read."""
        return self.kinds if self.unscanned is None else PART_KINDS

    def system_messages(self, ctx: AnyContext) -> Sequence[Message]:
        """Return the system messages that are read in a stage."""
        if self.system == "none" or STAGES[ctx.stage].phase != "input":
            return ()
        if self.system == "all":
            return ctx.message_list.system
        return [message for message, source, _ in ctx.entries if source == "system" and message.from_client]

    def reads(self, stage: Stage, source: str) -> bool:
        """Return whether a stage's hook of a guard reads messages of a source, or the value of a tool's stage.

        Args:
            stage: the stage; the guard must have it.
            source: a source of a `MessageList`, ``client-system`` for system messages of a client, or the name of the
                field with a tool's value.
        """
        if stage.value or stage.phase == "output":
            return source == (stage.value or "response")
        if source in ("system", "client-system"):
            return self.system == "all" or (self.system == "client" and source == "client-system")
        return stage.shows_source(source)

    def unread(self, ctx: AnyContext, guard: str, parts: Sequence[Unread]) -> None:
        """Allow, note or block bodies that cannot be read; ``guard`` is the name of the guard's class."""
        if not parts or self.on_unread == "allow":
            return
        kinds = [part.kind for part in parts]
        ctx.note(unscanned={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)})
        if self.on_unread == "block":
            named = ", ".join(dict.fromkeys(kinds))
            listed = [part._asdict() for part in parts[:_MOST_TOLD]]
            ctx.abort(
                f"it holds what {guard} cannot read, in parts of the type {named}; to let such parts "
                f"pass, write {guard}(unscanned='allow'), or unscanned='flag' to note them in the "
                "record; for a guard of a preset, give it to the preset: privacy(unscanned='allow')",
                metadata={"unscanned": listed},
            )


class _Guard(Protocol):
    scope: TextScope
    stages: Iterable[str] | None
    numbers: str
    arguments: str


def choose_texts(
    guard: _Guard,
    phase: Phase,
    parts: Iterable[str] | None,
    *,
    history: bool = False,
    system: SystemMessages = "client",
    last_message_only: bool = False,
    unscanned: Unscanned | None = None,
    usual: Unscanned = "block",
) -> None:
    """Check the options that choose texts, and set a guard's ``scope`` and the ``stages`` that follow from it.

    Args:
        guard: the guard, in its constructor.
        phase: ``input``, ``output`` or ``all``.
        parts: the kinds of parts to read; None for all. What belongs to a message itself is read in any case.
        history: whether to read the whole conversation before each model call.
        system: which system messages to read.
        last_message_only: whether to read only the last message of a stage.
        unscanned: what to do with bodies that cannot be read; None for ``usual``, in parts of the kinds that are read.
        usual: the default of ``unscanned``.

    Raises:
        OptionError: an option has a value that is not allowed.
    """
    name = type(guard).__name__
    guard.scope = TextScope(
        one_of(name, "phase", phase, PHASES),
        None if parts is None else _kinds(name, parts),
        flag(name, "history", history),
        one_of(name, "system", system, get_args(SystemMessages)),
        flag(name, "last_message_only", last_message_only),
        unscanned,
        one_of(name, "unscanned", usual if unscanned is None else unscanned, get_args(Unscanned)),
    )
    if (history or system == "all") and phase == "output":
        raise OptionError(name, "phase", phase, "'input' or 'all' where history=True or system='all' is set")
    chosen = PHASES[phase]
    if "tool" not in guard.scope.kinds:
        chosen = tuple(stage for stage in chosen if not STAGES[stage].value)
    guard.stages = (*chosen, "process_input_step") if history else chosen


def choose_edits(guard: _Guard, numbers: str = "null", arguments: str = "block") -> None:
    """Check the options that say how a guard edits, and set them.

    Args:
        guard: the guard, in its constructor.
        numbers: what becomes of a number in which something is edited: ``null``, or a ``text``.
        arguments: what to do where an edit would change what a tool runs: ``block``, or ``redact``.

    Raises:
        OptionError: an option has a value that is not allowed.
    """
    name = type(guard).__name__
    guard.numbers = one_of(name, "numbers", numbers, get_args(Numbers))
    guard.arguments = one_of(name, "arguments", arguments, get_args(Arguments))


def _kinds(processor: str, parts: object) -> tuple[str, ...]:
    named = (parts,) if isinstance(parts, str) else parts
    listed = cast("Iterable[object]", named) if isinstance(named, Iterable) else ()
    given = [one_of(processor, "parts", part, PART_KINDS) for part in listed]
    if not given:
        raise OptionError(processor, "parts", parts, f"one or more of {', '.join(map(repr, PART_KINDS))}")
    return tuple(dict.fromkeys(given))
