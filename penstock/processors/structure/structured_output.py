"""`StructuredOutputProcessor`: makes an object of an answer. It knows forms and who makes objects, no agent.

The object is made when the answer is whole, of what the guards left of it. What it says and the answer's text does not
show as it is stands in a message of its own until the end of the run, so that guards see and edit it like any text;
there it is taken out, read and validated again, and only then given to anybody.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, get_args

from penstock.engine.processor.payload import Overrides
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.tasks import run_without_loop
from penstock.engine.values.chunks import Chunk
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, freeze
from penstock.engine.values.messages import Message, TextPart, ToolPart
from penstock.engine.values.ports import Model
from penstock.processors.structure._asking import INSTRUCTIONS, Asking, Maker, Manner, told_by_prompt
from penstock.processors.structure._finding import check_guesses
from penstock.processors.structure._form import OWNER
from penstock.processors.structure._forms import form_of
from penstock.processors.structure._options import a_count, a_mapping, a_text, seconds
from penstock.processors.structure._problems import UnfitError, unreadable
from penstock.processors.structure._reading import Read, read, stands_in
from penstock.processors.structure._sections import sections
from penstock.processors.structure._writing import put_together, written
from penstock.processors.structure.facts import NO_DRAFT, OBJECT, Draft, draft_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import AnyContext, InputStepContext, OutputResultContext, OutputStepContext
    from penstock.engine.values.frozen import Value, Values
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.workflow import Item

ErrorStrategy = Literal["strict", "warn", "fallback"]

CHUNK = "data-object"
"""The chunk that tells a client the object."""

_LOG = logging.getLogger("penstock.structure")
_GOES_ON = frozenset({"tool-calls", "tool_calls"})
_NOT_SAID = frozenset({"content-filter", "error"})


class _Unset(Enum):
    """What nobody gave: None may be a value."""

    UNSET = "unset"

    def __repr__(self) -> str:
        """Show that nothing was given."""
        return "unset"


UNSET: Final = _Unset.UNSET


class _Made(NamedTuple):
    """An object, and whether all it says can be read in the answer's text."""

    object: Read
    in_text: bool


class StructuredOutputProcessor(Processor):
    """Makes an object of the answer that ends a run: read from its text, or made by a second model; always validated.

    It puts the fact `OBJECT` and sends one ``data-object`` chunk, at the end of the run.

    Args:
        schema: what the object must look like: a type that pydantic can validate (a model, a dataclass, a TypedDict,
            ``list[int]`` …), or a JSON Schema (extra ``json-schema``), which gives plain dicts and lists.
        model: asked for the object if the answer holds none that fits: a model, or a function of its `ModelRequest`.
        instructions: what that model is told first, in place of our own words.
        error_strategy: what comes of an answer without such an object. ``strict``: the answer is rejected, and the
            agent's model tries again, told what was wrong; ``warn``: there is no object, and the log says so;
            ``fallback``: ``fallback_value`` is the object.
        fallback_value: that value, of the schema; for ``fallback`` only.
        native: whether the agent's own model is asked for the object (``response_format``). None: if no ``model`` is
            there to make it.
        json_prompt_injection: models are told the schema in words only, not by ``response_format``.
        repair: whether broken JSON may be guessed (extra ``repair``); without, only what is certain is put right.
        settings: settings of the second model.
        provider_options: what goes to its provider as it stands.
        timeout: seconds for each of its answers.
        retries: how often it is asked again, told what was wrong.
        max_characters: how much of the run it is shown at most.
        id: the processor's name in the graph.

    Raises:
        OptionError: an option is not allowed.
        MissingExtraError: an option wants a library that is not installed.
    """

    role = "transform"
    edits = "anything"

    def __init__(
        self,
        schema: Value,
        model: Model | Maker | None = None,
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
        self._form = form_of(schema)
        if model is not None and not isinstance(model, Model) and not callable(model):
            raise OptionError(OWNER, "model", model, "a Model, a function of its request, or None")
        for option, given in (
            ("instructions", instructions),
            ("settings", settings),
            ("provider_options", provider_options),
        ):
            if model is None and given:
                raise OptionError(OWNER, option, "…", "left out without model=, which it is for")
        self.error_strategy = one_of(OWNER, "error_strategy", error_strategy, get_args(ErrorStrategy))
        self._fallback = self._checked_fallback(fallback_value)
        self.native = model is None if native is None else flag(OWNER, "native", native)
        self.json_prompt_injection = flag(OWNER, "json_prompt_injection", json_prompt_injection)
        self.repair = flag(OWNER, "repair", repair)
        if repair:
            check_guesses()
        self._max_characters = a_count("max_characters", max_characters, 1)
        manner = Manner(
            INSTRUCTIONS if instructions is None else a_text("instructions", instructions),
            json_prompt_injection,
            a_mapping("settings", settings),
            a_mapping("provider_options", provider_options),
            seconds("timeout", timeout),
            a_count("retries", retries, 0),
            repair,
        )
        self._asking = None if model is None else Asking(model, self._form, manner)
        self._draft = draft_key(self.id)
        self.provides = (OBJECT, self._draft)
        self.on_error = "block" if error_strategy == "strict" else "allow"
        self.awaits = model is not None

    def around(self, *items: Item) -> tuple[Item, ...]:
        """Return the items between two halves of this processor: it makes the object first, and reads it last.

        So every one of them may look at the object in `process_output_step` and in `process_output_result`, whichever
        of the two it has.
        """
        first, last = copy.copy(self), copy.copy(self)
        first.stages = ("process_input_step", "process_output_step")
        last.stages, last.awaits = ("process_output_result",), False
        last.id = f"{self.id}-result"
        return (first, *items, last)

    def __repr__(self) -> str:
        """Show what the object must look like, and what is done where there is none."""
        given: Value = self._form.given
        schema = getattr(given, "__name__", "a JSON Schema" if isinstance(given, Mapping) else repr(given))
        return f"{type(self).__name__}({schema}, error_strategy={self.error_strategy!r})"

    # Before the model call

    def process_input_step(self, ctx: InputStepContext) -> Value:
        """Tell the agent's model what is wanted, and show it no object of an answer that was not the last."""
        return self._handed(self._input_step(ctx))

    def _input_step(self, ctx: InputStepContext) -> Value:
        changed = self._tidied(ctx, self._stale(ctx))
        if not self.native:
            return changed
        if self.json_prompt_injection:
            told = told_by_prompt(self._form)
            if [message.text for message in ctx.message_list.tagged(self.id)] == [told]:
                return changed
            return (changed or ctx.message_list).replace_system(told, tag=self.id)
        if ctx.response_format is not None:  # the caller's own
            return changed
        return Overrides(response_format=self._form.response_format, messages=changed)

    # When an answer is whole

    def process_output_step(self, ctx: OutputStepContext) -> Value:
        """Make the object of an answer that calls no tools; with ``error_strategy="strict"`` reject one without any."""
        work = self._output_step(ctx)
        return work if self.awaits else run_without_loop(work, self.id)

    async def _output_step(self, ctx: OutputStepContext) -> MessageList | Sequence[Message] | None:
        stale = self._stale(ctx)
        said = [message for message in ctx.message_list.response if message.id != stale]
        answer = said[-1] if said and said[-1].role == "assistant" else None
        if _goes_on(ctx, answer):
            ctx.put(self._draft, NO_DRAFT)
            return self._tidied(ctx, stale)
        try:
            made = await self._made(ctx, said, ctx.text if answer is None else answer.text)
        except UnfitError as error:
            ctx.put(self._draft, self._without(ctx, error, retry=True))
            return self._tidied(ctx, stale)
        if made.in_text and answer is not None:
            ctx.put(self._draft, Draft("answer", answer.id))
            return self._tidied(ctx, stale)
        return self._beside(ctx, made.object.data, answer, stale)

    async def _made(self, ctx: OutputStepContext, said: Sequence[Message], text: str) -> _Made:
        """Return the object of an answer: read from its text, or else made by whoever makes objects.

        Raises:
            UnfitError: there is none.
        """
        try:
            if ctx.finish_reason in _NOT_SAID:
                raise unreadable("it was refused, or broke off", "refused")
            guesses = self.repair and ctx.finish_reason != "length"
            found = read(text, self._form, guesses=guesses)
        except UnfitError as error:
            shown = "" if self._asking is None else sections(said, self._max_characters)
            if self._asking is None or not shown:
                raise
            ctx.note(made_by="second model", read=error.problems[0].kind)
            return _Made(await self._asking.object_of(shown, ctx), in_text=False)
        return _Made(found, stands_in(found.data, text))

    def _beside(self, ctx: OutputStepContext, data: Value, answer: Message | None, stale: str) -> Sequence[Message]:
        """Return the conversation with the object in front of the answer: what stands last remains the answer."""
        texts = written(data)
        message = ctx.message_list.completed(Message.assistant([TextPart(text) for text in texts]))
        ctx.put(self._draft, Draft("beside", message.id, len(texts)))
        messages = [other for other in ctx.messages if other.id != stale]
        place = next((place for place, other in enumerate(messages) if other is answer), len(messages))
        return [*messages[:place], message, *messages[place:]]

    def _stale(self, ctx: AnyContext) -> str:
        """Return the id of the message in which an earlier object stands; empty if there is none."""
        draft = ctx.get(self._draft, NO_DRAFT)
        return draft.message_id if draft.kind == "beside" else ""

    @staticmethod
    def _tidied(ctx: AnyContext, stale: str) -> MessageList | None:
        """Return the conversation without a message that is to be in it no longer; None if it is not."""
        return ctx.message_list.remove(stale) if stale in ctx.message_list else None

    # At the end

    def process_output_result(self, ctx: OutputResultContext) -> Value:
        """Read the object as the guards left it, and give it: as a fact, and to the client."""
        return self._handed(self._output_result(ctx))

    def _output_result(self, ctx: OutputResultContext) -> MessageList | None:
        draft = ctx.get(self._draft)
        if draft is None:  # the host has no process_output_step
            said = ctx.message_list.response
            draft = Draft("answer", said[-1].id) if said else NO_DRAFT
        if draft.kind == "fallback":
            self._give(ctx, copy.deepcopy(self._fallback), fallback=True)
        elif draft.kind != "none":
            self._read_again(ctx, draft)
        return self._tidied(ctx, self._stale(ctx))

    def _read_again(self, ctx: OutputResultContext, draft: Draft) -> None:
        message = ctx.message_list.get(draft.message_id)
        try:
            self._give(ctx, self._as_left(message, draft).value)
        except UnfitError as error:
            if self._without(ctx, error, retry=False).kind == "fallback":
                self._give(ctx, copy.deepcopy(self._fallback), fallback=True)

    def _as_left(self, message: Message | None, draft: Draft) -> Read:
        """Return the object as the guards left it.

        Raises:
            UnfitError: they left none, or it says what they could not read.
        """
        if message is None:
            raise unreadable("it was taken away", "removed")
        if draft.kind == "beside":
            texts = [part.text for part in message.parts if isinstance(part, TextPart)]
            return read(put_together(texts) if len(texts) == draft.parts else message.text, self._form)
        found = read(message.text, self._form, guesses=self.repair)
        if not stands_in(found.data, message.text):
            raise unreadable("its text does not show all that it says", "hidden")
        return found

    def _give(self, ctx: OutputResultContext, value: Value, *, fallback: bool = False) -> None:
        ctx.put(OBJECT, value)
        told: dict[str, Value] = {"data": self._form.data(value)}
        if fallback:
            told["fallback"] = True
        ctx.writer.write(Chunk(CHUNK, payload=freeze(told), run_id=ctx.run_id))

    def _handed(self, result: Value) -> Value:
        """Return the result of a hook as the processor has declared that its hooks give theirs."""
        return _awaited(result) if self.awaits else result

    # Without an object

    def _without(self, ctx: AnyContext, error: UnfitError, *, retry: bool) -> Draft:
        """Do what the strategy says where there is no object; return what stands in its place."""
        places = [{"place": found.place, "kind": found.kind} for found in error.problems]
        if self.error_strategy == "strict":
            ctx.abort(f"it holds no object of the form asked for: {error}.", retry=retry, metadata={"errors": places})
        ctx.note(errors=places)
        if self.error_strategy == "fallback":
            return Draft("fallback")
        _LOG.warning("%s: there is no object: %s", self.id, error)
        return NO_DRAFT

    def _checked_fallback(self, given: Value) -> Value:
        if self.error_strategy != "fallback":
            if given is not UNSET:
                raise OptionError(OWNER, "fallback_value", "…", "left out unless error_strategy is 'fallback'")
            return None
        if given is UNSET:
            raise OptionError(OWNER, "fallback_value", None, "given where error_strategy is 'fallback'")
        try:
            return self._form.own(given)
        except UnfitError as error:
            raise OptionError(OWNER, "fallback_value", "…", f"as the schema says ({error})") from None


def _goes_on(ctx: OutputStepContext, answer: Message | None) -> bool:
    """Tell whether another answer is to come: tools are called."""
    if ctx.tool_calls or ctx.finish_reason in _GOES_ON:
        return True
    parts = () if answer is None else answer.parts
    return any(isinstance(part, ToolPart) and part.state in ("call", "partial") for part in parts)


async def _awaited(result: Value) -> Value:
    return result
