"""The base of processors that work on texts, wherever a message or a tool carries them; it knows stages and places.

A subclass says what to do with texts (`WholeTexts.judge`); this module finds them in each stage and puts the edits
back.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from penstock.engine.errors import OptionError
from penstock.engine.frozen import freeze, is_items, is_mapping
from penstock.engine.message_list import TEXT_KINDS
from penstock.engine.processor import Processor, one_of
from penstock.engine.results import TextEdits
from penstock.engine.texts import KeyText, TextPlace, leaves

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from penstock.engine.context import (
        Context,
        InputContext,
        InputStepContext,
        OutputResultContext,
        OutputStepContext,
        ToolCallContext,
        ToolResultContext,
    )
    from penstock.engine.edits import Edits
    from penstock.engine.facts import Key
    from penstock.engine.message_list import MessageList
    from penstock.engine.messages import Message, Part
    from penstock.engine.texts import Path

Phase = Literal["input", "output", "all"]

PHASES: dict[Phase, tuple[str, ...]] = {
    "input": ("process_input", "process_tool_result"),
    "output": ("process_output_step", "process_tool_call", "process_output_result"),
}
PHASES["all"] = (*PHASES["input"], *PHASES["output"])

PART_KINDS: tuple[str, ...] = (*sorted(TEXT_KINDS), "data")
_LEAST, _MOST = 10**6, 10**30  # numbers whose digits could say something about a person


class Text(NamedTuple):
    """One text with its place; ``fixed`` is a number's digits, which cannot be edited as text."""

    place: TextPlace
    text: str
    kind: str
    key: str = ""
    fixed: bool = False


class WholeTexts(Processor[dict[str, Any]]):
    """Works on all texts of a stage at once. ``phase``, ``parts``, ``history`` and ``system`` choose them."""

    kinds: tuple[str, ...] = PART_KINDS
    system: bool = False

    def judge(self, ctx: Context[Any], texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits to make, by place; abort, note or put facts through the context."""
        raise NotImplementedError

    def __repr__(self) -> str:
        """Show the class and the options that differ from its defaults."""
        shown = [f"id={self.id!r}"] if "id" in vars(self) else []
        for name, parameter in inspect.signature(type(self)).parameters.items():
            value = self.option(name)
            if name != "id" and value != parameter.default:
                shown.append(f"{name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def option(self, name: str) -> object:
        """Return an option as it was given."""
        return vars(self).get(name)

    def place(self, phase: Phase, parts: Iterable[str] | None, *, history: bool, system: bool) -> None:
        """Check the options that say where to look, and declare the stages that follow from them.

        Raises:
            OptionError: an option that is not allowed.
        """
        name = type(self).__name__
        self.phase = one_of(name, "phase", phase, PHASES)
        self.kinds = _kinds(name, parts)
        self.parts = None if parts is None else self.kinds
        self.history = flag(name, "history", history)
        self.system = flag(name, "system", system)
        if (history or system) and phase == "output":
            raise OptionError(name, "phase", phase, "'input' or 'all' where history= or system= is set")
        chosen = PHASES[phase]
        if "tool" not in self.kinds:
            chosen = tuple(stage for stage in chosen if "tool" not in stage)
        self.stages = (*chosen, "process_input_step") if history else chosen

    def process_input(self, ctx: InputContext) -> MessageList | None:
        """Look at what the caller sent."""
        return self._guard_messages(ctx, ctx.messages)

    def process_input_step(self, ctx: InputStepContext) -> MessageList | None:
        """Look at the whole conversation before each model call (``history=True``)."""
        return self._guard_messages(ctx, ctx.messages)

    def process_output_step(self, ctx: OutputStepContext) -> MessageList | None:
        """Look at the model's answers, calls to tools included, before the tools run."""
        return self._guard_messages(ctx, ctx.message_list.response)

    def process_output_result(self, ctx: OutputResultContext) -> MessageList | None:
        """Look at all that the model answered in this run."""
        return self._guard_messages(ctx, ctx.messages)

    def process_tool_call(self, ctx: ToolCallContext) -> TextEdits | None:
        """Look at a tool's arguments, keys included."""
        return self._guard_value(ctx, ctx.arguments, "arguments")

    def process_tool_result(self, ctx: ToolResultContext) -> TextEdits | None:
        """Look at a tool's result, keys included."""
        return self._guard_value(ctx, ctx.result, "result")

    def _guard_messages(self, ctx: Context[Any], messages: tuple[Message, ...]) -> MessageList | None:
        shown = (*messages, *ctx.system_messages) if self.system and "input" in ctx.stage else messages
        settled: dict[str, Message] = ctx.state.setdefault("settled", {})  # what was found to need nothing
        fresh = [message for message in shown if settled.get(message.id) is not message]
        texts = [text for message in fresh for text in message_texts(message, self.kinds)]
        edits: Mapping[TextPlace, Edits] = self.judge(ctx, texts) if texts else {}
        touched = {place.message_id for place in edits}
        settled.update({message.id: message for message in fresh if message.id not in touched})
        return ctx.message_list.edit_text(edits) if edits else None

    def _guard_value(self, ctx: Context[Any], value: Any, field: str) -> TextEdits | None:
        texts = list(value_texts(value, (field,), TextPlace("", 0)))
        edits: Mapping[TextPlace, Edits] = self.judge(ctx, texts) if texts else {}
        return TextEdits({place.path: made for place, made in edits.items()}) if edits else None


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


def value_texts(value: Any, path: Path, where: TextPlace, kind: str = "tool") -> Iterator[Text]:
    """Yield the strings of a JSON value, keys and long numbers included, each with the key it stands under."""
    for found, text in leaves(value, path):
        yield Text(where._replace(path=found), text, kind, _key_of(found))
    for found, number in _numbers(value, path):
        yield Text(where._replace(path=found), number, kind, _key_of(found), fixed=True)


def _key_of(path: Path) -> str:
    """Return the name that the value at a path goes by; a key itself goes by none."""
    if isinstance(path[-1], KeyText):
        return ""
    return next((step for step in reversed(path[1:]) if isinstance(step, str)), "")


def _numbers(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if is_mapping(value):
        for key, item in value.items():
            yield from _numbers(item, (*path, key))
    elif is_items(value):
        for index, item in enumerate(value):
            yield from _numbers(item, (*path, index))
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and _LEAST <= value < _MOST:
        yield path, str(int(value))


def tell(ctx: Context[Any], key: Key[Mapping[str, int]], counts: Mapping[str, int]) -> None:
    """Put counts under a fact, added to those of earlier stages."""
    before = ctx.get(key) or {}
    ctx.put(key, freeze({name: before.get(name, 0) + counts.get(name, 0) for name in {**before, **counts}}))


def flag(processor: str, option: str, given: object) -> bool:
    """Return the option if it is a bool.

    Raises:
        OptionError: it is not.
    """
    if not isinstance(given, bool):
        raise OptionError(processor, option, given, "True or False")
    return given


def _kinds(processor: str, parts: Iterable[str] | None) -> tuple[str, ...]:
    if parts is None:
        return tuple(sorted(TEXT_KINDS))
    given = (parts,) if isinstance(parts, str) else tuple(parts)
    for part in given:
        one_of(processor, "parts", part, PART_KINDS)
    if not given:
        raise OptionError(processor, "parts", parts, f"one or more of {', '.join(map(repr, PART_KINDS))}")
    return tuple(dict.fromkeys(given))
