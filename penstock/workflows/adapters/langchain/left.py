"""An answer as the guards left it, in the form in which the model gave it: whole, and in pieces as they release it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.messages import AIMessageChunk
from langchain_core.messages.tool import invalid_tool_call, tool_call_chunk

from penstock.engine.values.messages import FilePart, Message, ReasoningPart, TextPart, ToolPart
from penstock.formats import langchain as wire
from penstock.formats.wire import has_text, is_object
from penstock.workflows.adapters.langchain.reading import (
    CALL_BLOCKS,
    CALLS_FIELD,
    EXTRAS,
    PLAIN_FACTS,
    REASONING_FIELD,
    are_counts,
    body_of,
    extras_in,
    is_sealed,
    key_of,
    listed,
    parts_of,
    repeating,
    said_in,
    text_places,
    with_broken_calls,
    with_left,
    without_signs,
)
from penstock.workflows.agent.results import calls_of
from penstock.workflows.hosting.answers import as_text, data_left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from langchain_core.messages import AIMessage
    from langchain_core.messages.content import InvalidToolCall

    from penstock.engine.values.chunks import Chunk
    from penstock.engine.values.messages import Part
    from penstock.formats.wire import Json, Value
    from penstock.workflows.adapters.langchain.reading import LangChainAnswerReader
    from penstock.workflows.hosting import HostRequest


class Left:
    """An answer as the guards left it. Unchanged parts stay as the model gave them.

    Args:
        whole: the answer as the model gave it.
        parts: the parts of the answer that the guards left.

    Attributes:
        same: whether texts, calls and files are those of the model.
        unchanged: whether all is.
        text: the text.
    """

    def __init__(self, whole: AIMessage, parts: Sequence[Part]) -> None:
        self._whole = whole
        self._parts = parts
        self._given, self._left = extras_in(whole), data_left(parts, EXTRAS)
        self.same = said_in(parts) == said_in(parts_of(whole))
        self.unchanged = self.same and self._given == self._left
        self.text = "".join(part.text for part in parts if isinstance(part, TextPart))
        self._reasoning = "".join(part.text for part in parts if isinstance(part, ReasoningPart))
        self._calls = [part for part in parts if isinstance(part, ToolPart)]
        self._bodies = {part.data for part in parts if isinstance(part, FilePart)}

    def _extras(self, place: str, key: str | None = None) -> tuple[Mapping[str, Value], Mapping[str, Value]]:
        """Return the data of a place, as the guards got it and as they left it."""
        found: list[Mapping[str, Value]] = []
        for extras in (self._given, self._left):
            held = extras.get(place)
            held = held.get(key) if key is not None and is_object(held) else held
            found.append(held if is_object(held) else {})
        return found[0], found[1]

    def content(self, *, shown: bool = False) -> Value:
        """Return the content.

        Args:
            shown: whether the texts have left already, so that only the rest is wanted.
        """
        if isinstance(self._whole.content, str):
            return "" if shown else self.text
        texts = {kind: self._texts(kind) for kind in ("text", "reasoning")}
        made: list[Value] = []
        for number, block in enumerate(self._whole.content):
            made.extend(self._block(block, number, texts, shown=shown))
        rest = [part for kind in ("reasoning", "text") if texts[kind] is None for part in self._placed(kind)]
        return made if shown else [*made, *map(wire.write_part, rest)]

    def _texts(self, kind: str) -> list[str] | None:
        """Return the texts of the blocks of a kind, last one first; None if nobody can say which is whose."""
        old = [text for block in self._whole.content for text in _texts_of(block, kind)]
        new = [part.text for part in self._placed(kind)]
        if "".join(old) == "".join(new):
            return old[::-1]
        return new[::-1] if len(old) == len(new) else None

    def _placed(self, kind: str) -> list[TextPart | ReasoningPart]:
        """Return the parts that stand in the content."""
        parts = [part for part in self._parts if isinstance(part, (TextPart, ReasoningPart)) and part.type == kind]
        return parts[1:] if kind == "reasoning" and self._whole.additional_kwargs.get(REASONING_FIELD) else parts

    def _block(
        self, block: Value, number: int, texts: Mapping[str, list[str] | None], *, shown: bool
    ) -> Iterator[str | Json]:
        """Yield the rest of a block; nothing if it was removed."""
        if isinstance(block, str):
            left = texts["text"]
            if left and (text := left.pop()) and not shown:
                yield text
            return
        given, left_extras = self._extras("content", key_of(block, number))
        made = with_left(block, given, left_extras)
        if text_places(block, number):
            yield from _with_texts(block, made, texts, shown=shown)
        elif block.get("type") in CALL_BLOCKS:
            call = repeating(made, self._calls)
            if call is not None:
                yield call
        elif is_sealed(block):
            if self.same:
                yield block
        elif given.keys() <= left_extras.keys() and body_of(block) in {None, *self._bodies}:
            yield made

    def fields(self, *, shown: bool = False) -> Json:
        """Return the fields of the provider: those without text stay if the answer is as it was."""
        plain = self._whole.additional_kwargs
        given, left = self._extras("additional_kwargs")
        made = {
            name: item
            for name, item in with_left(plain, given, left).items()
            if name in given or (self.same and _says_nothing(item))
        }
        if made.get("audio") != plain.get("audio") or not self.same:  # the sound says what was changed
            made.pop("audio", None)
        has_field = isinstance(self._whole.content, str) or REASONING_FIELD in plain
        reasoning = self._reasoning
        if not isinstance(self._whole.content, str):  # the first one stands in a field, beside a content of blocks
            reasoning = next((part.text for part in self._parts if isinstance(part, ReasoningPart)), "")
        if has_field and reasoning and not shown:
            made[REASONING_FIELD] = reasoning
        return {name: item for name, item in made.items() if name != CALLS_FIELD}

    def reports(self) -> Json:
        """Return the provider's report; ``logprobs`` repeat the answer, so they stay with one that is as it was."""
        told = self._whole.response_metadata
        given, left = self._extras("response_metadata")
        return {
            name: item
            for name, item in with_left(told, given, left).items()
            if name in {*PLAIN_FACTS, *given} or _says_nothing(item) or (name == "logprobs" and self.same)
        }


def _says_nothing(item: Value) -> bool:
    return not has_text(item) or are_counts(item)


def _texts_of(block: Value, kind: str) -> list[str]:
    if isinstance(block, str):
        return [block] if kind == "text" else []
    return [text for found, _, text in text_places(block, 0) if found == kind and text]


def _with_texts(
    block: Mapping[str, Value], made: Json, texts: Mapping[str, list[str] | None], *, shown: bool
) -> Iterator[Json]:
    """Yield a block with its texts; without them if they were shown, such as a signature."""
    places = text_places(block, 0)
    kind, place, _ = places[0]
    left, key = texts[kind], place.key
    old = [text for _, _, text in places]
    new = None if left is None else [left.pop() if text else "" for text in old]
    if new != old:
        made = without_signs(made)
    if shown:
        rest = {name: item for name, item in made.items() if name != key}
        if rest.keys() - {"type", "index"} and "index" in rest:
            yield rest
    elif new is not None:
        said = iter(new)
        made[key] = (
            next(said)
            if place.number is None
            else [
                {**one, "text": next(said)} if is_object(one) and isinstance(one.get("text"), str) else one
                for one in listed(block[key])
            ]
        )
        yield made


class LangChainAnswerWriter:
    """Writes the answer as the guards release it: pieces of text, and behind them the rest.

    Args:
        reader: returns the reader of the model's answer.
    """

    def __init__(self, reader: Callable[[], LangChainAnswerReader]) -> None:
        self._reader = reader
        self._shown = False

    def piece(self, chunk: Chunk) -> AIMessageChunk | None:
        """Return a piece of text as LangChain's; None for other chunks."""
        if chunk.type not in ("text-delta", "reasoning-delta") or not chunk.text:
            return None
        self._shown = True
        place = self._reader().places.get(chunk.id)
        if place is not None:
            return AIMessageChunk(content=[place.holding(chunk.text)])
        if chunk.type == "reasoning-delta":
            return AIMessageChunk(content="", additional_kwargs={REASONING_FIELD: chunk.text})
        return AIMessageChunk(content=chunk.text)

    def rest(self, request: HostRequest) -> AIMessageChunk:
        """Return the rest after the shown texts, or the whole answer; with the fields that the provider needs back."""
        answer = request.answer or Message("assistant")
        whole = self._reader().whole or AIMessageChunk(content="")
        left = Left(whole, answer.parts)
        calls = [call for call in calls_of(answer) if not _is_broken(call)]
        made = AIMessageChunk(
            content=left.content(shown=self._shown),
            additional_kwargs=left.fields(shown=self._shown),
            response_metadata=left.reports(),
            tool_call_chunks=[
                tool_call_chunk(name=call.name, args=as_text(call.arguments), id=call.call_id, index=number)
                for number, call in enumerate(calls)
            ],
            usage_metadata=_used(request, whole),
            id=None if self._shown else whole.id,
            chunk_position="last",
        )
        return with_broken_calls(made, map(_broken_call, filter(_is_broken, calls_of(answer))))


def _is_broken(call: ToolPart) -> bool:
    return isinstance(call.arguments, str)


def _broken_call(call: ToolPart) -> InvalidToolCall:
    return invalid_tool_call(name=call.name, args=str(call.arguments), id=call.call_id)


def _used(request: HostRequest, whole: AIMessageChunk) -> Any:
    """Return the tokens of the call, rejected answers included."""
    used, last = request.usage, whole.usage_metadata
    spent = (used.input_tokens or 0, used.output_tokens or 0)
    if last is None or spent == (last["input_tokens"], last["output_tokens"]):
        return last
    return {"input_tokens": spent[0], "output_tokens": spent[1], "total_tokens": sum(spent)}
