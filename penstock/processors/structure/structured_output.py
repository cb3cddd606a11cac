"""`StructuredOutputProcessor`: make a validated object from an answer.

The object is made when the answer is complete, from what the guards left of it. An object that the answer's text does
not show as it is (because a second model made it, or because of JSON escapes) stands in a message of its own until the
end of the run: guards see and edit it like any text. There it is removed, parsed and validated again.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from penstock.engine.processor.option_checks import check_count, check_number
from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, freeze, is_mapping
from penstock.engine.values.messages import Message, TextPart, ToolPart
from penstock.engine.values.protocols import Model
from penstock.models.named import as_model, names_model
from penstock.processors.structure.facts import EDITED, NO_OBJECT, OBJECT, ObjectPlace, place_key
from penstock.processors.structure.object_parsing import (
    ParsedObject,
    check_repair,
    filled,
    from_texts,
    is_shown_in,
    parse_object,
    to_texts,
)
from penstock.processors.structure.schemas import (
    OWNER,
    JSONSchema,
    ObjectSchema,
    SchemaMismatchError,
    mismatch,
)
from penstock.processors.structure.second_model import (
    INSTRUCTIONS,
    ObjectMaker,
    SecondModel,
    SecondModelOptions,
    run_sections,
    schema_prompt,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import AnyContext, InputStepContext, OutputResultContext, OutputStepContext
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.workflow import Item


ErrorStrategy = Literal["strict", "warn", "fallback"]

CHUNK = "data-object"
"""The type of the chunk that brings the object to a client."""

_LOG = logging.getLogger("penstock.structure")
_TOOL_CALLS = frozenset({"tool-calls", "tool_calls"})
_FAILED = frozenset({"content-filter", "error"})


class _Unset(Enum):
    """The type of an option that was not given: None may be a value."""

    UNSET = "unset"

    def __repr__(self) -> str:
        """Return ``unset``."""
        return "unset"


UNSET: Final = _Unset.UNSET


class _AnswerObject(NamedTuple):
    """An object, and whether the answer's text shows all of it."""

    object: ParsedObject
    in_text: bool


class StructuredOutputProcessor(Processor):
    """Make an object from the answer that ends a run: parsed from its text or made by a second model, always validated.

    At the end of the run it puts the fact `penstock.processors.structure.OBJECT` and sends one ``data-object`` chunk.

    Args:
        schema: the schema of the object: a type that pydantic can validate (a model, a dataclass, a TypedDict,
            ``list[int]`` …), or a JSON Schema (extra ``json-schema``), which gives plain dicts and lists.
        model: makes the object if the answer holds none that fits: a model, or a function (sync or async) of a
            `ModelRequest` that returns a text or the object. None: there is no second model.
        instructions: the beginning of the second model's system prompt; None: the built-in one.
        error_strategy: what happens if there is no object. ``strict``: the answer is rejected, and the agent's model
            tries again and gets the reason. ``warn``: there is no object, and a warning is logged. ``fallback``:
            ``fallback_value`` is the object.
        fallback_value: the object for ``fallback``; it must fit the schema. Only for ``error_strategy="fallback"``.
        native: whether the agent's own model is asked for the object (by ``response_format``). None: only if there is
            no ``model``.
        json_prompt_injection: tell models the schema in the prompt only, not by ``response_format``.
        repair: guess what broken JSON means (extra ``repair``). If False, only unambiguous faults are corrected.
        settings: settings of the second model.
        provider_options: options that go unchanged to the provider of the second model.
        timeout: seconds for each answer of the second model, above 0.
        retries: how often the second model is asked again, 0 or more; it gets a description of the problem.
        max_characters: the most characters of the run that the second model is shown, 1 or more.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option has a value that is not allowed.
        MissingExtraError: an option needs an extra that is not installed.
    """

    role = "transform"
    edits = "anything"

    def __init__(
        self,
        schema: Value,
        model: Model | str | ObjectMaker | None = None,
        *,
        instructions: str | None = None,
        error_strategy: ErrorStrategy = "strict",
        fallback_value: Value = UNSET,
        native: bool | None = None,
        json_prompt_injection: bool = False,
        repair: bool = False,
        settings: Values = EMPTY,
        provider_options: Values = EMPTY,
        timeout: float = 60.0,
        retries: int = 1,
        max_characters: int = 200_000,
        id: str | None = None,
    ) -> None:
        if id is not None:
            self.id = id
        self._schema = schema_of(schema)
        if names_model(model):
            model = as_model(model, OWNER)
        if model is not None and not isinstance(model, Model) and not callable(model):
            raise OptionError(OWNER, "model", model, "a Model or its name, a function of its request, or None")
        for option, given in (
            ("instructions", instructions),
            ("settings", settings),
            ("provider_options", provider_options),
        ):
            if model is None and given:
                raise OptionError(OWNER, option, "…", "left out unless model= is given: it is an option of that model")
        self.error_strategy = one_of(OWNER, "error_strategy", error_strategy, get_args(ErrorStrategy))
        self._fallback = self._checked_fallback(fallback_value)
        self.native = model is None if native is None else flag(OWNER, "native", native)
        self.json_prompt_injection = flag(OWNER, "json_prompt_injection", json_prompt_injection)
        self.repair = flag(OWNER, "repair", repair)
        if repair:
            check_repair()
        self._max_characters = check_count(OWNER, "max_characters", max_characters, least=1)
        options = SecondModelOptions(
            INSTRUCTIONS if instructions is None else a_text("instructions", instructions),
            json_prompt_injection,
            a_mapping("settings", settings),
            a_mapping("provider_options", provider_options),
            float(check_number(OWNER, "timeout", timeout, "a number of seconds above 0", above=True)),
            check_count(OWNER, "retries", retries, least=0),
            repair,
        )
        self._second_model = None if model is None else SecondModel(model, self._schema, options)
        self._place = place_key(self.id)
        self.provides = (OBJECT, EDITED, self._place)
        self.on_error = "block" if error_strategy == "strict" else "allow"
        self.awaits = model is not None

    def around(self, *items: Item) -> tuple[Item, ...]:
        """Return the items between two copies of this processor: the first makes the object, the last hands it over.

        So each item can see and edit the object, in `process_output_step` or in `process_output_result`.
        """
        first, last = copy.copy(self), copy.copy(self)
        first.stages = ("process_input_step", "process_output_step")
        last.stages, last.awaits = ("process_output_result",), False
        last.id = f"{self.id}-result"
        return (first, *items, last)

    def __repr__(self) -> str:
        """Show the schema and the error strategy."""
        given: Value = self._schema.given
        schema = getattr(given, "__name__", "a JSON Schema" if isinstance(given, Mapping) else repr(given))
        return f"{type(self).__name__}({schema}, error_strategy={self.error_strategy!r})"

    # Before the model call

    def process_input_step(self, ctx: InputStepContext) -> Value:
        """Tell the agent's model the schema, and remove the object of an earlier answer from the conversation."""
        return self._returned(self._input_step(ctx))

    def _input_step(self, ctx: InputStepContext) -> Value:
        changed = self._cleaned(ctx, self._stale(ctx))
        if not self.native:
            return changed
        if self.json_prompt_injection:
            prompt = schema_prompt(self._schema)
            if [message.text for message in ctx.message_list.tagged(self.id)] == [prompt]:
                return changed
            return (changed or ctx.message_list).replace_system(prompt, tag=self.id)
        if ctx.response_format is not None:  # the caller's own
            return changed
        return Overrides(response_format=self._schema.response_format, messages=changed)

    # When an answer is whole

    def process_output_step(self, ctx: OutputStepContext) -> Value:
        """Make the object of an answer that calls no tools; with ``error_strategy="strict"``, reject one without it."""
        work = self._output_step(ctx)
        return work if self.awaits else run_without_loop(work, self.id)

    async def _output_step(self, ctx: OutputStepContext) -> MessageList | Sequence[Message] | None:
        stale = self._stale(ctx)
        said = [message for message in ctx.message_list.response if message.id != stale]
        answer = said[-1] if said and said[-1].role == "assistant" else None
        if _calls_tools(ctx, answer):
            ctx.put(self._place, NO_OBJECT)
            return self._cleaned(ctx, stale)
        text = ctx.text if answer is None else answer.text
        is_edited = _is_edited(ctx, text)
        ctx.put(EDITED, () if is_edited else None)
        try:
            made = await self._object_of(ctx, said, text, is_edited=is_edited)
        except SchemaMismatchError as error:
            ctx.put(self._place, self._no_object(ctx, error, retry=not is_edited, is_edited=is_edited))
            return self._cleaned(ctx, stale)
        if made.in_text and answer is not None:
            ctx.put(self._place, ObjectPlace("answer", answer.id))
            return self._cleaned(ctx, stale)
        return self._with_message(ctx, made.object.data, answer, stale)

    async def _object_of(
        self, ctx: OutputStepContext, said: Sequence[Message], text: str, *, is_edited: bool
    ) -> _AnswerObject:
        """Return the object of an answer: parsed from its text, or made by the second model.

        Raises:
            SchemaMismatchError: there is none.
        """
        try:
            if ctx.finish_reason in _FAILED:
                raise mismatch("it was refused, or broke off", "refused")
            repair = self.repair and ctx.finish_reason != "length"
            found = parse_object(text, self._schema, repair=repair)
        except SchemaMismatchError as error:
            if is_edited and (filled := self._with_numbers(ctx, text)) is not None:
                return _AnswerObject(filled, in_text=False)
            shown = "" if self._second_model is None else run_sections(said, self._max_characters)
            if self._second_model is None or not shown:
                raise
            ctx.note(made_by="second model", parse_object=error.problems[0].kind)
            return _AnswerObject(await self._second_model.object_of(shown, ctx), in_text=False)
        return _AnswerObject(found, is_shown_in(found.data, text))

    def _with_numbers(self, ctx: OutputStepContext | OutputResultContext, text: str) -> ParsedObject | None:
        """Return the object of an answer with 0 for numbers that guards replaced by null and the schema requires."""
        found = filled(text, self._schema)
        if found is None:
            return None
        places = tuple(found[1])
        ctx.put(EDITED, places)
        ctx.note(edited=places)
        return found[0]

    def _with_message(
        self, ctx: OutputStepContext, data: Value, answer: Message | None, stale: str
    ) -> Sequence[Message]:
        """Return the conversation with the object in a message before the answer, which stays the last one."""
        texts = to_texts(data)
        message = ctx.message_list.completed(Message.assistant([TextPart(text) for text in texts]))
        ctx.put(self._place, ObjectPlace("beside", message.id, len(texts)))
        messages = [other for other in ctx.messages if other.id != stale]
        place = next((place for place, other in enumerate(messages) if other is answer), len(messages))
        return [*messages[:place], message, *messages[place:]]

    def _stale(self, ctx: AnyContext) -> str:
        """Return the id of the message that holds an earlier object; empty if there is none."""
        place = ctx.get(self._place, NO_OBJECT)
        return place.message_id if place.kind == "beside" else ""

    @staticmethod
    def _cleaned(ctx: AnyContext, stale: str) -> MessageList | None:
        """Return the conversation without a message; None if it does not hold it."""
        return ctx.message_list.remove(stale) if stale in ctx.message_list else None

    # At the end

    def process_output_result(self, ctx: OutputResultContext) -> Value:
        """Parse the object as the guards left it, put it as a fact and send it to the client."""
        return self._returned(self._output_result(ctx))

    def _output_result(self, ctx: OutputResultContext) -> MessageList | None:
        place = ctx.get(self._place)
        if place is None:  # the host has no process_output_step
            said = ctx.message_list.response
            place = ObjectPlace("answer", said[-1].id) if said else NO_OBJECT
        if place.kind == "fallback":
            self._give(ctx, copy.deepcopy(self._fallback), fallback=True)
        elif place.kind != "none":
            self._give_from(ctx, place)
        return self._cleaned(ctx, self._stale(ctx))

    def _give_from(self, ctx: OutputResultContext, place: ObjectPlace) -> None:
        message = ctx.message_list.get(place.message_id)
        try:
            self._give(ctx, self._parse_again(message, place).value)
        except SchemaMismatchError as error:
            left = self._with_numbers(ctx, self._text_again(message, place)) if message is not None else None
            if left is not None:
                self._give(ctx, left.value)
            elif self._no_object(ctx, error, retry=False).kind == "fallback":
                self._give(ctx, copy.deepcopy(self._fallback), fallback=True)

    def _parse_again(self, message: Message | None, place: ObjectPlace) -> ParsedObject:
        """Return the object as the guards left it.

        Raises:
            SchemaMismatchError: they left none, or it holds something that they could not see.
        """
        if message is None:
            raise mismatch("its message was removed", "removed")
        if place.kind == "beside":
            return parse_object(self._text_again(message, place), self._schema)
        found = parse_object(message.text, self._schema, repair=self.repair)
        if not is_shown_in(found.data, message.text):
            raise mismatch("the text does not show all of the object", "hidden")
        return found

    @staticmethod
    def _text_again(message: Message, place: ObjectPlace) -> str:
        """Return the text of the object as the guards left it."""
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        return from_texts(texts) if place.kind == "beside" and len(texts) == place.parts else message.text

    def _give(self, ctx: OutputResultContext, value: Value, *, fallback: bool = False) -> None:
        ctx.put(OBJECT, value)
        payload: dict[str, Value] = {"data": self._schema.to_json(value)}
        if fallback:
            payload["fallback"] = True
        if ctx.get(EDITED) is not None:
            payload["edited"] = True
        ctx.writer.write(Chunk(CHUNK, payload=freeze(payload), run_id=ctx.run_id))

    def _returned(self, result: Value) -> Value:
        """Return the result of a hook, as an awaitable if this processor declares that its hooks await."""
        return _awaited(result) if self.awaits else result

    # Without an object

    def _no_object(
        self, ctx: AnyContext, error: SchemaMismatchError, *, retry: bool, is_edited: bool = False
    ) -> ObjectPlace:
        """Apply ``error_strategy`` to an answer without an object; return the place to store."""
        places = [{"place": found.place, "kind": found.kind} for found in error.problems]
        if self.error_strategy == "strict":
            why = "a guard changed the answer, and its object no longer fits" if is_edited else _NO_OBJECT
            told: dict[str, Value] = {"errors": places, **({"edited": True} if is_edited else {})}
            ctx.abort(f"{why} the schema: {error}.", retry=retry, metadata=told)
        ctx.note(errors=places)
        if self.error_strategy == "fallback":
            return ObjectPlace("fallback")
        _LOG.warning("%s: the answer holds no object that fits the schema: %s", self.id, error)
        return NO_OBJECT

    def _checked_fallback(self, given: Value) -> Value:
        if self.error_strategy != "fallback":
            if given is not UNSET:
                raise OptionError(OWNER, "fallback_value", "…", "left out unless error_strategy is 'fallback'")
            return None
        if given is UNSET:
            raise OptionError(OWNER, "fallback_value", None, "a value, since error_strategy is 'fallback'")
        try:
            return self._schema.validate_python(given)
        except SchemaMismatchError as error:
            raise OptionError(OWNER, "fallback_value", "…", f"a value that fits the schema ({error})") from None


_NO_OBJECT = "the answer holds no object that fits"


def _is_edited(ctx: OutputStepContext, text: str) -> bool:
    """Return whether the text of an answer is another one than the model sent, as far as the host tells."""
    return ctx.sent_text is not None and ctx.sent_text != text


def _calls_tools(ctx: OutputStepContext, answer: Message | None) -> bool:
    """Tell whether tools are called, so that another answer follows."""
    if ctx.tool_calls or ctx.finish_reason in _TOOL_CALLS:
        return True
    parts = () if answer is None else answer.parts
    return any(isinstance(part, ToolPart) and part.state in ("call", "partial") for part in parts)


async def _awaited(result: Value) -> Value:
    return result


def a_text(option: str, given: object) -> str:
    """Check an option that must be a text, and return it."""
    if not isinstance(given, str) or not given.strip():
        raise OptionError(OWNER, option, given, "a str that is not blank")
    return given


def a_mapping(option: str, given: object) -> Values:
    """Check an option that must be a mapping, and return it frozen. Errors do not show it: it may hold API keys."""
    if not isinstance(given, Mapping):
        raise OptionError(OWNER, option, "…", "a mapping")
    frozen: Values = freeze({**given})
    return frozen


def schema_of(schema: Value) -> ObjectSchema:
    """Return the schema of a Python type or of a JSON Schema.

    Raises:
        OptionError: it is neither.
        MissingExtraError: it is a JSON Schema, and the extra ``json-schema`` is not installed.
    """
    if is_mapping(schema):
        return JSONSchema(schema)
    if schema is None or isinstance(schema, str):
        raise OptionError(OWNER, "schema", schema, "a type that pydantic can validate, or a JSON Schema")
    from penstock.processors.structure.type_schema import TypeSchema  # loads pydantic

    return TypeSchema(schema)
