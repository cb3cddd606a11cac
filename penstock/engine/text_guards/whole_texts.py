"""`WholeTexts`: the base class of processors that work on texts, in messages and in tool values.

A subclass returns the edits (`WholeTexts.edits_of`). The base class finds the texts of each stage and applies the
edits.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast, get_args

from penstock.engine.processor.payload import TextEdits
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_items, is_mapping
from penstock.engine.values.message_list import TEXT_KINDS
from penstock.engine.values.texts import KeyText, TextPlace, leaves

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Mapping, Sequence

    from penstock.engine.processor.context import (
        AnyContext,
        InputContext,
        InputStepContext,
        OutputResultContext,
        OutputStepContext,
        ToolCallContext,
        ToolResultContext,
    )
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Layer, Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message, Part
    from penstock.engine.values.texts import Path

Phase = Literal["input", "output", "all"]
Unscanned = Literal["allow", "flag", "block"]

PHASES: dict[Phase, tuple[str, ...]] = {
    "input": tuple(name for name, stage in STAGES.items() if stage.guarded and stage.phase == "input"),
    "output": tuple(name for name, stage in STAGES.items() if stage.guarded and stage.phase == "output"),
}
PHASES["all"] = (*PHASES["input"], *PHASES["output"])

PART_KINDS: tuple[str, ...] = (*sorted(TEXT_KINDS), "data")
UNREADABLE = frozenset({"image", "audio", "file", "unknown"})
"""Kinds of parts whose contents cannot be read as text: images, audio, files, and unknown parts."""
_LEAST, _MOST = 10**6, 10**30  # numbers whose digits may be personal data, such as a phone number

Changes: TypeAlias = "Value"
"""What the methods of stages return: None, a changed list, or edits; awaitable if the processor is async."""


class Text(NamedTuple):
    """One text with its place.

    Attributes:
        place: where it is.
        text: the text.
        kind: the kind of its part.
        key: the key under which it stands in a value; otherwise empty.
        fixed: whether it cannot be edited as text, because it is the digits of a number, or not a JSON value.
    """

    place: TextPlace
    text: str
    kind: str
    key: str = ""
    fixed: bool = False


class Unread(NamedTuple):
    """A part that cannot be checked: where it stands, and its kind."""

    message_id: str
    part: int
    kind: str


class WholeTexts(Processor):
    """Works on all texts of a stage at once. Options choose the texts: ``phase``, ``parts``, ``history``, ``system``.

    Attributes:
        kinds: the kinds of parts whose texts it reads.
        phase: ``input`` (what goes to the model), ``output`` (what comes from it) or ``all``.
        history: whether it also reads the whole conversation before each model call.
        system: whether it also reads system messages.
        last_message_only: whether it reads only the last message of a stage.
        unscanned: what to do with parts that cannot be read: ``allow``, ``flag`` (note them) or ``block``.
    """

    kinds: tuple[str, ...] = tuple(sorted(TEXT_KINDS))
    phase: str = "all"
    history: bool = False
    system: bool = False
    last_message_only: bool = False
    unscanned: str = "allow"
    stages: Iterable[str] | None = PHASES["all"]
    offloadable = True

    def edits_of(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits, by place. Use the context to abort, to add notes and to put facts."""
        raise NotImplementedError

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits, by default those of `edits_of`; a subclass with ``awaits`` may be async here."""
        return self.edits_of(ctx, texts)

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the edits applied; None if nothing changes. A subclass may change more.

        Called once in each stage that has messages, after all their texts are judged.
        """
        return ctx.message_list.edit_text(edits) if edits else None

    def unread(self, ctx: AnyContext, parts: Sequence[Unread]) -> None:
        """Allow, note or block parts that cannot be read, according to ``unscanned``."""
        if not parts or self.unscanned == "allow":
            return
        kinds = [part.kind for part in parts]
        ctx.note(unscanned={kind: kinds.count(kind) for kind in dict.fromkeys(kinds)})
        if self.unscanned == "block":
            named = ", ".join(dict.fromkeys(kinds))
            told = [part._asdict() for part in parts[:_MOST_TOLD]]
            ctx.abort(f"it holds what cannot be checked: {named}", metadata={"unscanned": told})

    def __repr__(self) -> str:
        """Show the class and the options that differ from its defaults."""
        shown = [f"id={self.id!r}"] if "id" in vars(self) else []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = self.option(name)
            if name != "id" and value != parameter.default:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def option(self, name: str) -> object:
        """Return an option as the caller gave it."""
        return vars(self).get(name)

    def place(
        self,
        phase: Phase,
        parts: Iterable[str] | None,
        *,
        history: bool,
        system: bool,
        last_message_only: bool = False,
        unscanned: Unscanned = "allow",
    ) -> None:
        """Check the options that choose texts, and declare the stages that follow from them.

        Raises:
            OptionError: an option has a value that is not allowed.
        """
        name = type(self).__name__
        self.phase = one_of(name, "phase", phase, PHASES)
        self.kinds = _kinds(name, parts)
        self.parts = None if parts is None else self.kinds
        self.history = flag(name, "history", history)
        self.system = flag(name, "system", system)
        self.last_message_only = flag(name, "last_message_only", last_message_only)
        self.unscanned = one_of(name, "unscanned", unscanned, get_args(Unscanned))
        if (history or system) and phase == "output":
            raise OptionError(name, "phase", phase, "'input' or 'all' where history= or system= is set")
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
        return self._run(self._value_guarded(ctx, ctx.arguments, "arguments"))

    def process_tool_result(self, ctx: ToolResultContext) -> Changes:
        """Judge a tool's result, keys included."""
        return self._run(self._value_guarded(ctx, ctx.result, "result"))

    def _guard_messages(self, ctx: AnyContext, messages: Sequence[Message]) -> Changes:
        asked = messages[-1:] if self.last_message_only else messages
        shown = (*asked, *ctx.system_messages) if self.system and STAGES[ctx.stage].phase == "input" else asked
        return self._run(self._messages_guarded(ctx, shown))

    def _run(self, work: Coroutine[object, None, Changes]) -> Changes:
        return work if self.awaits else run_without_loop(work, self.id)

    async def _messages_guarded(self, ctx: AnyContext, shown: Sequence[Message]) -> Changes:
        unchanged = _unchanged(ctx)
        fresh = [message for message in shown if unchanged.get(message.id) is not message]
        self.unread(ctx, [part for message in fresh for part in _unreadable(message)])
        texts = [text for message in fresh for text in message_texts(message, self.kinds)]
        edits: Mapping[TextPlace, Edits] = await self.judged(ctx, texts) if texts else {}
        touched = {place.message_id for place in edits}
        unchanged.update({message.id: message for message in fresh if message.id not in touched})
        return self.changed(ctx, edits)

    async def _value_guarded(self, ctx: AnyContext, value: Value, field: str) -> Changes:
        texts = list(value_texts(value, (field,), TextPlace("", 0)))
        edits: Mapping[TextPlace, Edits] = await self.judged(ctx, texts) if texts else {}
        return TextEdits({place.path: made for place, made in edits.items()}) if edits else None


_UNCHANGED = "penstock.settled"
_MOST_TOLD = 100  # parts in a tripwire's metadata


def _unreadable(message: Message) -> Iterator[Unread]:
    """Yield the parts of a message that cannot be checked."""
    for index, part in enumerate(message.parts):
        if part.type in UNREADABLE:
            yield Unread(message.id, index, part.type)


def _unchanged(ctx: AnyContext) -> dict[str, Message]:
    """Return the messages that were judged and need no edit, by id; none if the state is not a mapping."""
    state: Value = ctx.state
    if not is_mapping(state):
        return {}
    found: dict[str, Message] = state.setdefault(_UNCHANGED, {})
    return found


def message_texts(message: Message, kinds: Iterable[str]) -> Iterator[Text]:
    """Yield the texts of a message's parts of those kinds."""
    for index, part in enumerate(message.parts):
        if part.type in kinds:
            yield from _part_texts(part, TextPlace(message.id, index))


def _part_texts(part: Part, where: TextPlace) -> Iterator[Text]:
    for name in part.texts:
        value = getattr(part, name)
        if part.type in ("tool", "data"):
            yield from value_texts(value, (name,), where, part.type)
        elif isinstance(value, str):
            yield Text(where._replace(path=(name,)), value, part.type)


def value_texts(value: Layer, path: Path, where: TextPlace, kind: str = "tool") -> Iterator[Text]:
    """Yield the strings of a value, keys and long numbers included, each with the key that it stands under."""
    for found, text in leaves(value, path):
        yield Text(where._replace(path=found), text, kind, _key_of(found))
    for found, said in _unedited(value, path):
        yield Text(where._replace(path=found), said, kind, _key_of(found), fixed=True)


def _key_of(path: Path) -> str:
    """Return the key that the value at a path stands under; empty for a key itself."""
    if isinstance(path[-1], KeyText):
        return ""
    return next((step for step in reversed(path[1:]) if isinstance(step, str)), "")


def _unedited(value: Value, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield what can be read but not edited: digits of numbers, keys that are not strings, values that are not JSON."""
    if is_mapping(value):
        for key, item in value.items():
            if not isinstance(key, str):
                yield (*path, key), _read(key)
            yield from _unedited(item, (*path, key))
    elif is_items(value):
        for index, item in enumerate(value):
            yield from _unedited(item, (*path, index))
    elif isinstance(value, (int, float)):
        if not isinstance(value, bool) and _LEAST <= abs(value) < _MOST:
            yield path, str(abs(int(value)))
    elif value is not None and not isinstance(value, str):
        yield path, _read(value)


def _read(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _kinds(processor: str, parts: object) -> tuple[str, ...]:
    if parts is None:
        return tuple(sorted(TEXT_KINDS))
    named = (parts,) if isinstance(parts, str) else parts
    listed = cast("Iterable[object]", named) if isinstance(named, Iterable) else ()
    given = [one_of(processor, "parts", part, PART_KINDS) for part in listed]
    if not given:
        raise OptionError(processor, "parts", parts, f"one or more of {', '.join(map(repr, PART_KINDS))}")
    return tuple(dict.fromkeys(given))
