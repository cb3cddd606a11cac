"""`WholeTexts`: the base class of processors that work on texts, in messages and in tool values.

A subclass returns the edits (`WholeTexts.edits_of`). The base class finds the texts of each stage and applies the
edits.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.engine.processor.payload import TextEdits
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import run_without_loop
from penstock.engine.text_guards.reading import (
    Unread,
    distinct,
    holds_unread,
    message_texts,
    unread_bodies,
    value_texts,
)
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.engine.values.messages import PartKind
from penstock.engine.values.texts import TextPlace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.engine.processor.context import (
        AnyContext,
        InputContext,
        InputStepContext,
        OutputResultContext,
        OutputStepContext,
        ToolCallContext,
        ToolResultContext,
    )
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message

Phase = Literal["input", "output", "all"]
Unscanned = Literal["allow", "flag", "block"]
SystemMessages = Literal["client", "all", "none"]

PHASES: dict[Phase, tuple[str, ...]] = {
    "input": tuple(name for name, stage in STAGES.items() if stage.guarded and stage.phase == "input"),
    "output": tuple(name for name, stage in STAGES.items() if stage.guarded and stage.phase == "output"),
}
PHASES["all"] = (*PHASES["input"], *PHASES["output"])

PART_KINDS: tuple[str, ...] = get_args(PartKind)

Changes: TypeAlias = "Value"
"""What the methods of stages return: None, a changed list, or edits; awaitable if the processor is async."""


class WholeTexts(Processor):
    """Works on all texts of a stage at once. Options choose the texts: ``phase``, ``parts``, ``history``, ``system``.

    Attributes:
        kinds: the kinds of parts whose texts it reads.
        phase: ``input`` (what goes to the model), ``output`` (what comes from it) or ``all``.
        history: whether it also reads the whole conversation before each model call.
        system: which system messages it also reads: those of a ``client``, ``all`` or ``none``.
        last_message_only: whether it reads only the last message of a stage.
        on_unread: what to do with bodies that cannot be read: ``allow``, ``flag`` (note them) or ``block``.
        unread_kinds: the kinds of parts for which it does that.
    """

    kinds: tuple[str, ...] = PART_KINDS
    phase: str = "all"
    history: bool = False
    system: str = "client"
    last_message_only: bool = False
    on_unread: str = "allow"
    unread_kinds: tuple[str, ...] = PART_KINDS
    stages: Iterable[str] | None = PHASES["all"]
    offloadable = True

    def edits_of(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits, by place. Use the context to abort, to add notes and to put facts."""
        raise NotImplementedError

    def is_quiet(self, texts: Sequence[Text]) -> bool:
        """Return whether a glance shows that nothing is to be done about texts, so that they need not be judged."""
        del texts
        return False

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits, by default those of `edits_of`; a subclass with ``awaits`` may be async here."""
        return self.edits_of(ctx, texts)

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits applied; None if nothing changes. A subclass may change more.

        Called once in each stage that has messages, after all their texts are judged.
        """
        return ctx.message_list.edit_text(edits) if edits else None

    def unread(self, ctx: AnyContext, parts: Sequence[Unread]) -> None:
        """Allow, note or block bodies that cannot be read, according to `on_unread`."""
        if not parts or self.on_unread == "allow":
            return
        kinds = [part.kind for part in parts]
        ctx.note(unscanned={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)})
        if self.on_unread == "block":
            named = ", ".join(dict.fromkeys(kinds))
            told = [part._asdict() for part in parts[:_MOST_TOLD]]
            ctx.abort(
                f"it holds what {type(self).__name__} cannot read, in parts of the type {named}; to let such parts "
                f"pass, write {type(self).__name__}(unscanned='allow'), or unscanned='flag' to note them in the "
                "record; for a guard of a preset, give it to the preset: privacy(unscanned='allow')",
                metadata={"unscanned": told},
            )

    def __repr__(self) -> str:
        """Show the class and the options that differ from its defaults."""
        shown = [f"id={self.id!r}"] if "id" in vars(self) else []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = self.option(name)
            if name != "id" and value != parameter.default:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def place(
        self,
        phase: Phase,
        parts: Iterable[str] | None,
        *,
        history: bool,
        system: SystemMessages = "client",
        last_message_only: bool = False,
        unscanned: Unscanned | None = None,
        usual: Unscanned | None = None,
    ) -> None:
        """Check the options that choose texts, and declare the stages that follow from them.

        Args:
            phase: ``input``, ``output`` or ``all``.
            parts: the kinds of parts to read; None for all. What belongs to a message itself is read in any case.
            history: whether to read the whole conversation before each model call.
            system: which system messages to read.
            last_message_only: whether to read only the last message of a stage.
            unscanned: what to do with bodies that cannot be read; None for ``usual``, in parts of the kinds that are
                read.
            usual: the default of ``unscanned``; None for that of the class.

        Raises:
            OptionError: an option has a value that is not allowed.
        """
        name = type(self).__name__
        self.phase = one_of(name, "phase", phase, PHASES)
        self.kinds = _kinds(name, parts)
        self.parts = None if parts is None else self.kinds
        self.history = flag(name, "history", history)
        self.system = one_of(name, "system", system, get_args(SystemMessages))
        self.last_message_only = flag(name, "last_message_only", last_message_only)
        self.unscanned = unscanned
        acts = usual or type(self).on_unread if unscanned is None else unscanned
        self.on_unread = one_of(name, "unscanned", acts, get_args(Unscanned))
        self.unread_kinds = self.kinds if unscanned is None else PART_KINDS
        if (history or system == "all") and phase == "output":
            raise OptionError(name, "phase", phase, "'input' or 'all' where history=True or system='all' is set")
        chosen = PHASES[phase]
        if "tool" not in self.kinds:
            chosen = tuple(stage for stage in chosen if not STAGES[stage].value)
        chosen = tuple(stage for stage in chosen if getattr(self, stage, None) is not None)
        self.stages = (*chosen, "process_input_step") if history else chosen

    def process_input(self, ctx: InputContext) -> Changes:
        """Judge the messages of the caller."""
        return self._guard_messages(ctx, ctx.messages)

    def process_input_step(self, ctx: InputStepContext) -> Changes:
        """Judge the whole conversation before each model call (with ``history=True``)."""
        return self._guard_messages(ctx, ctx.messages)

    def process_output_step(self, ctx: OutputStepContext) -> Changes:
        """Judge the model's answers, tool calls included, before the tools run."""
        return self._guard_messages(ctx, ctx.message_list.response)

    def process_output_result(self, ctx: OutputResultContext) -> Changes:
        """Judge all answers of the model in this run."""
        return self._guard_messages(ctx, ctx.messages)

    def process_tool_call(self, ctx: ToolCallContext) -> Changes:
        """Judge a tool's arguments, keys included."""
        return self._guard_value(ctx, ctx.arguments, "arguments")

    def process_tool_result(self, ctx: ToolResultContext) -> Changes:
        """Judge a tool's result, keys included."""
        return self._guard_value(ctx, ctx.result, "result")

    def _guard_messages(self, ctx: AnyContext, messages: Sequence[Message]) -> Changes:
        asked = messages[-1:] if self.last_message_only else messages
        unchanged = _unchanged(ctx)
        fresh: list[Message] = []
        unread: list[Unread] = []
        texts: list[Text] = []
        for message in (*asked, *self._system_messages(ctx)):
            if unchanged.get(message.id) is not message:
                fresh.append(message)
                texts += message_texts(message, self.kinds)
                if self.on_unread != "allow":
                    unread += unread_bodies(message, self.unread_kinds)
        if unread:
            self.unread(ctx, unread)

        def finish(edits: Mapping[TextPlace, Edits]) -> Changes:
            touched = {place.message_id for place in edits} if edits else ()
            for message in fresh:
                if message.id not in touched:
                    unchanged[message.id] = message
            return self.changed(ctx, edits)

        return self._judge(ctx, distinct(texts) if len(texts) > 1 else texts, finish)

    def _system_messages(self, ctx: AnyContext) -> Sequence[Message]:
        """Return the system messages that are read in a stage."""
        if self.system == "none" or STAGES[ctx.stage].phase != "input":
            return ()
        if self.system == "all":
            return ctx.message_list.system
        return [message for message, source, _ in ctx.entries if source == "system" and message.from_client]

    def _judge(
        self, ctx: AnyContext, texts: list[Text], finish: Callable[[Mapping[TextPlace, Edits]], Changes]
    ) -> Changes:
        """Judge texts, and return what ``finish`` makes of the edits; awaitable if the processor is async."""
        if self.awaits:
            return self._judge_async(ctx, texts, finish)
        if not texts or self.is_quiet(texts):
            return finish(_NO_EDITS)
        return finish(self.possible(ctx, texts, run_without_loop(self.judged(ctx, texts), self.id)))

    async def _judge_async(
        self, ctx: AnyContext, texts: list[Text], finish: Callable[[Mapping[TextPlace, Edits]], Changes]
    ) -> Changes:
        if not texts or self.is_quiet(texts):
            return finish(_NO_EDITS)
        return finish(self.possible(ctx, texts, await self.judged(ctx, texts)))

    def possible(
        self, ctx: AnyContext, texts: Iterable[Text], edits: Mapping[TextPlace, Edits]
    ) -> Mapping[TextPlace, Edits]:
        """Return the edits without those of fixed texts, which cannot be made: a guard stops the run for them."""
        if not edits:
            return edits
        fixed = dict.fromkeys(text.place for text in texts if text.fixed and edits.get(text.place))
        if fixed and self.role == "guard":
            fields = ", ".join(dict.fromkeys(str(place.path[0]) for place in fixed))
            ctx.abort(f"it would edit what can only be read: an id, an address, metadata or a number ({fields})")
        return {place: made for place, made in edits.items() if place not in fixed} if fixed else edits

    def _guard_value(self, ctx: AnyContext, value: Value, field: str) -> Changes:
        if self.on_unread != "allow" and "tool" in self.unread_kinds and holds_unread(value):
            self.unread(ctx, [Unread("", 0, "tool")])
        texts = list(value_texts(value, (field,), TextPlace("", 0)))
        return self._judge(ctx, texts, _value_edits)


def _value_edits(edits: Mapping[TextPlace, Edits]) -> Changes:
    return TextEdits({place.path: made for place, made in edits.items()}) if edits else None


_NO_EDITS: Mapping[TextPlace, Edits] = {}
_UNCHANGED = "penstock.settled"
_MOST_TOLD = 100  # parts in a tripwire's metadata


def _unchanged(ctx: AnyContext) -> dict[str, Message]:
    """Return the messages that were judged and need no edit, by id; none if the state is not a mapping."""
    state: Value = ctx.state
    if not is_mapping(state):
        return {}
    found: dict[str, Message] = state.setdefault(_UNCHANGED, {})
    return found


def _kinds(processor: str, parts: object) -> tuple[str, ...]:
    if parts is None:
        return PART_KINDS
    named = (parts,) if isinstance(parts, str) else parts
    listed = cast("Iterable[object]", named) if isinstance(named, Iterable) else ()
    given = [one_of(processor, "parts", part, PART_KINDS) for part in listed]
    if not given:
        raise OptionError(processor, "parts", parts, f"one or more of {', '.join(map(repr, PART_KINDS))}")
    return tuple(dict.fromkeys(given))
