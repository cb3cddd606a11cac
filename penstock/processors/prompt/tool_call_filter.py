"""`ToolCallFilter`: hides old tool calls and results from the model."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, get_args

from penstock.engine.processor.option_checks import check_optional_count
from penstock.engine.processor.payload import Answer
from penstock.engine.processor.processor import Processor, flag, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import Layer, is_items, is_mapping, thaw
from penstock.engine.values.messages import DataPart, Message, StepStartPart, TextPart, ToolPart
from penstock.models.conversations import call_key, has_content, names_of, replace_messages
from penstock.models.tokens.counters import counting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from penstock.engine.processor.context import Context, InputContext, LLMRequestContext, ToolCallContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Part
    from penstock.engine.values.protocols import TokenCounter
    from penstock.models.tokens.counters import Counting


# Calls paired with results

_WHOLE = "a whole number from 0 on"
_NO_CONTENT = (StepStartPart, DataPart)
"""Parts that have no content for a model."""


@dataclass(slots=True)
class ToolExchange:
    """A call with its result, or either alone. They are paired by the id of the call, at any distance.

    Attributes:
        key: the id of the call; numbered if an id is used again; made of the name of the tool in formats without ids.
        names: every name that the call or the result gives the tool.
        step: the number of the model step that made the call, from 0; -1 for a result without a call.
        last: the index of the last message in which it occurs.
        result: the part with the result; None if there is none yet.
    """

    key: str
    names: set[str] = field(default_factory=set[str])
    step: int = -1
    last: int = -1
    result: ToolPart | None = None

    @property
    def failed(self) -> bool:
        """Whether the result is an error."""
        return self.result is not None and self.result.state == "error"


@dataclass(slots=True)
class ToolTraffic:
    """All tool calls and results of a conversation.

    Attributes:
        exchanges: the pairs, in the order in which they began.
        owners: the pair to which a tool part belongs, by the index of its message and the index of the part.
        steps: how many model steps made calls.
        turn: the index of the first message after the last user message.
        answer: the index of the last assistant message.
        is_open: whether the conversation ends with a result that the model has not seen yet.
    """

    exchanges: list[ToolExchange] = field(default_factory=list[ToolExchange])
    owners: dict[tuple[int, int], ToolExchange] = field(default_factory=dict[tuple[int, int], ToolExchange])
    steps: int = 0
    turn: int = 0
    answer: int = 0
    is_open: bool = False

    def in_open_turn(self, exchange: ToolExchange) -> bool:
        """Return whether it belongs to the turn that the model is in."""
        return self.is_open and exchange.last >= self.turn

    def in_open_step(self, exchange: ToolExchange) -> bool:
        """Return whether the last step made the call, and the model has not seen the result yet."""
        return self.is_open and exchange.last >= self.answer and exchange.step in (-1, self.steps - 1)


def tool_traffic(messages: Sequence[Message]) -> ToolTraffic:
    """Return the tool calls and results of a conversation."""
    found = ToolTraffic(is_open=_ends_with_a_result(messages))
    latest: dict[str, ToolExchange] = {}
    for index, message in enumerate(messages):
        if message.role == "user":
            found.turn = index + 1
        elif message.role == "assistant":
            found.answer = index
        _collect(found, latest, index, message)
    return found


def _collect(found: ToolTraffic, latest: dict[str, ToolExchange], index: int, message: Message) -> None:
    """Add the tool parts of one message. ``latest`` has the exchange that last used an id."""
    called = False
    for place, part in enumerate(message.parts):
        if isinstance(part, StepStartPart):
            called = False
        if not isinstance(part, ToolPart):
            continue
        name = call_key(part)
        exchange = latest.get(name)
        calls = _is_call(part, message, exchange)
        if exchange is None or (calls and exchange.result is not None):
            exchange = latest[name] = ToolExchange(name if exchange is None else f"{name}\0{len(found.exchanges)}")
            found.exchanges.append(exchange)
        if calls:
            found.steps += not called
            called = True
            exchange.step = found.steps - 1
        exchange.names.update({part.name} - {""})
        exchange.last = index
        exchange.result = part if _is_finished(part) else exchange.result
        found.owners[index, place] = exchange


def _is_finished(part: ToolPart) -> bool:
    return part.state in ("result", "error")


def _is_call(part: ToolPart, message: Message, known: ToolExchange | None) -> bool:
    """Return whether a part starts a new exchange.

    A finished part of an assistant message does, unless it answers an open call.
    """
    if not _is_finished(part):
        return True
    return message.role != "tool" and (known is None or known.result is not None)


def _ends_with_a_result(messages: Sequence[Message]) -> bool:
    if not messages or messages[-1].role not in ("assistant", "tool"):
        return False
    parts = [part for part in messages[-1].parts if not isinstance(part, _NO_CONTENT)]
    return bool(parts) and isinstance(parts[-1], ToolPart) and _is_finished(parts[-1])


# Results as text

_MEDIA_TYPES = ("mediaType", "mimeType", "media_type", "mime_type")


def result_text(part: ToolPart) -> str:
    """Return the result of a tool as plain text.

    A str is returned as it is, a list line by line, a content entry as its text, anything else as compact JSON. Media
    are named by their type (``[image/png]``), never quoted.
    """
    return (part.error or "") if part.state == "error" else _text_of(part.result)


def _text_of(value: Layer) -> str:
    if isinstance(value, str):
        return value
    if is_items(value):
        return "\n".join(_text_of(item) for item in value)
    if is_mapping(value):
        named = _media_name(value)
        if named is not None:
            return named
        if value.get("type") == "text" and isinstance(value.get("text"), str):
            return str(value["text"])
        for key in ("value", "text"):
            if key in value and value.keys() <= {"type", key}:
                return _text_of(value[key])
    return "" if value is None else _as_json(_without_media(value))


def _as_json(value: Layer) -> str:
    """Return a JSON value as compact text."""
    return json.dumps(thaw(value), ensure_ascii=False, separators=(",", ":"))


def _media_name(value: dict[str, object]) -> str | None:
    """Return the placeholder for an object that holds media in base64; None if it holds none."""
    kind = next((found for key in _MEDIA_TYPES if isinstance(found := value.get(key), str)), None)
    return f"[{kind}]" if kind is not None and isinstance(value.get("data"), str) else None


def _without_media(value: Layer) -> Layer:
    if is_mapping(value):
        named = _media_name(value)
        return {key: _without_media(item) for key, item in value.items()} if named is None else named
    return [_without_media(item) for item in value] if is_items(value) else value


def _text_for_result(part: ToolPart, name: str) -> str | None:
    """Return the text that replaces a removed call: the name of the tool and its result; None if that is empty."""
    text = result_text(part)
    return f"{part.name or name} result:\n{text}" if text else None


def _is_marked(part: ToolPart) -> bool:
    """Return whether the result has the reference system's mark of an output made for the model.

    Only the mark is read: no guard checks the copy of the output beside it, so the text is taken from the result
    itself.
    """
    vendor = part.metadata.get("mastra")
    return is_mapping(vendor) and vendor.get("modelOutput") is not None


def _stub_for(part: ToolPart, size: int, unit: str, recall: str | None) -> ToolPart:
    """Return the part with a short note in place of its result. The note names the id with which to recall it."""
    hint = f"; call {recall} with its id to read it" if recall is not None and part.call_id else ""
    note = f"[result {part.call_id or 'of a tool'} left out, {size} {unit}{hint}]"
    return replace(part, result=None, error=note) if part.state == "error" else replace(part, result=note)


# Changes to messages


def _remove_exchanges(
    messages: Sequence[Message], traffic: ToolTraffic, chosen: Mapping[str, str | None]
) -> dict[str, tuple[Message, ...]]:
    """Return the changed messages by the ids of those that they replace.

    Args:
        messages: the conversation.
        traffic: its tool calls and results.
        chosen: the keys of the exchanges to remove, each with the text that replaces it, or None. The text stands in
            place of the call. For a result without a call, it becomes an assistant message after the tool messages
            around it.
    """
    changes: dict[str, tuple[Message, ...]] = {}
    placed: set[str] = set()
    waiting: list[Part] = []
    for index, message in enumerate(messages):
        mine = [traffic.owners.get((index, place)) for place in range(len(message.parts))]
        if any(owner is not None and owner.key in chosen for owner in mine):
            parts, orphans = _split_removed(message, mine, chosen, placed)
            changes[message.id] = (message.with_parts(parts),) if has_content(parts) else ()
            waiting += orphans
        is_last = index + 1 == len(messages) or messages[index + 1].role != "tool"
        if waiting and is_last:
            changes[message.id] = (*changes.get(message.id, (message,)), Message("assistant", tuple(waiting)))
            waiting = []
    return changes


def _split_removed(
    message: Message, owners: Sequence[ToolExchange | None], chosen: Mapping[str, str | None], placed: set[str]
) -> tuple[list[Part], list[Part]]:
    """Return the parts that stay, and the texts for results without calls, which cannot stand in tool messages."""
    parts: list[Part] = []
    orphans: list[Part] = []
    for part, owner in zip(message.parts, owners, strict=True):
        if owner is None or owner.key not in chosen:
            parts.append(part)
            continue
        text = chosen[owner.key]
        is_orphan = message.role == "tool"
        if text is None or owner.key in placed or (is_orphan and owner.step >= 0):
            continue
        placed.add(owner.key)
        (orphans if is_orphan else parts).append(TextPart(text))
    return parts, orphans


def _replace_results(
    messages: Sequence[Message], traffic: ToolTraffic, results: Mapping[str, ToolPart]
) -> dict[str, tuple[Message, ...]]:
    """Return the messages in which results change, by their ids.

    ``results`` has the new parts by the keys of their exchanges.
    """
    changes: dict[str, tuple[Message, ...]] = {}
    for index, message in enumerate(messages):
        parts = [
            results[owner.key]
            if (owner := traffic.owners.get((index, place))) is not None
            and owner.key in results
            and part is owner.result
            else part
            for place, part in enumerate(message.parts)
        ]
        if any(new is not old for new, old in zip(parts, message.parts, strict=True)):
            changes[message.id] = (message.with_parts(parts),)
    return changes


# The processor

FilterScope = Literal["prompt", "history"]
"""Whether the filter changes the prompt of each call, or the conversation, once."""

_HISTORY = "history"


class ToolCallFilter(Processor):
    """Removes old tool calls and results from the prompt. Calls and results are removed together.

    It never removes calls that the model is working on: results that the model has not seen yet, and (without
    ``filter_after_tool_steps``) the whole turn that they belong to. User and system messages are not changed. If the
    processor itself fails, the prompt is sent as it is (``on_error`` is ``allow``).

    Args:
        exclude: the names of the tools whose calls are removed. None: all tools; an empty list: none.
        filter_after_tool_steps: how many of the latest model steps with calls stay; 0 or more (parallel calls are one
            step). With 0, only results that the model has not seen yet stay. None: exchanges from before the
            request is removed, and all that the request adds stays.
        preserve_model_output: leave the text of a result in place of the call: True for results with the reference
            system's mark (``metadata["mastra"]["modelOutput"]``), or the names of tools. Media are named, not quoted.
            Default False.
        keep_errors: whether failed calls stay. Default False.
        keep_last: how many of the latest calls of each tool stay; 0 or more. One number for all tools, or a mapping
            from names of tools to numbers. Default 0.
        max_result_size: remove no calls, but replace results larger than this by a stub with the id of the call; 0 or
            more, in characters, or in tokens with ``token_counter``. None: remove calls.
        token_counter: measures results: an object with ``count(text)``, a function from text to tokens, the name of an
            encoding, or ``"heuristic"``. None: measure in characters.
        recall: the name of a tool that this processor answers itself, together with ``max_result_size``: called with
            ``{"id": …}``, it returns the result behind a stub. Offer the model a tool of that name.
        scope: ``prompt`` changes the prompt of each model call, and leaves the conversation as it is; ``history``
            changes the conversation once, when the request comes in, memory included. Default ``prompt``.
        id: the name in graphs and records. Default ``tool-call-filter``.

    Raises:
        OptionError: a value is not allowed, or would have no effect.
    """

    id = "tool-call-filter"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    offloadable = True
    edits = "anything"

    def __init__(
        self,
        *,
        exclude: Iterable[str] | None = None,
        filter_after_tool_steps: int | None = None,
        preserve_model_output: bool | Iterable[str] = False,
        keep_errors: bool = False,
        keep_last: int | Mapping[str, int] = 0,
        max_result_size: int | None = None,
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
        recall: str | None = None,
        scope: FilterScope = "prompt",
        id: str | None = None,
    ) -> None:
        if id is not None:
            self.id = id
        self.exclude = None if exclude is None else names_of(type(self).__name__, "exclude", exclude)
        name = type(self).__name__
        self.filter_after_tool_steps = check_optional_count(
            name, "filter_after_tool_steps", filter_after_tool_steps, _WHOLE
        )
        self.preserve_model_output = (
            preserve_model_output
            if isinstance(preserve_model_output, bool)
            else names_of(type(self).__name__, "preserve_model_output", preserve_model_output)
        )
        self.keep_errors = flag(type(self).__name__, "keep_errors", keep_errors)
        self.keep_last = self._counts(keep_last)
        self.max_result_size = check_optional_count(name, "max_result_size", max_result_size, _WHOLE)
        self.token_counter = self._counting(token_counter)
        self.scope = one_of(type(self).__name__, "scope", scope, get_args(FilterScope))
        self.recall = self._recall(recall)
        prompt = ("process_llm_request", "process_tool_call") if recall is not None else ("process_llm_request",)
        self.stages = prompt if self.scope == "prompt" else ("process_input",)
        if self.max_result_size is not None and self.preserve_model_output:
            allowed = "False with max_result_size=, which removes no calls"
            raise OptionError(type(self).__name__, "preserve_model_output", preserve_model_output, allowed)

    # Options

    def _counting(self, given: TokenCounter | Callable[[str], int] | str | None) -> Counting | None:
        if given is None:
            return None
        made = counting(type(self).__name__, given, "o200k_base")
        made.prepare()
        return made

    def _counts(self, given: int | Mapping[str, int]) -> Mapping[str, int] | int:
        if not is_mapping(given):
            return check_optional_count(type(self).__name__, "keep_last", given, _WHOLE) or 0
        return {
            name: check_optional_count(type(self).__name__, "keep_last", count, _WHOLE) or 0
            for name, count in given.items()
        }

    def _recall(self, given: object) -> str | None:
        if given is None:
            return None
        if not isinstance(given, str) or not given or self.max_result_size is None or self.scope != "prompt":
            allowed = (
                'the name of a tool, with max_result_size= and scope="prompt": otherwise there is nothing to recall'
            )
            raise OptionError(type(self).__name__, "recall", given, allowed)
        return given

    # Stages

    def process_llm_request(self, ctx: LLMRequestContext) -> MessageList | None:
        """Filter the prompt of one model call."""
        messages = ctx.message_list
        traffic = tool_traffic(messages.conversation)
        known = ctx.state.setdefault(_HISTORY, _earlier_exchanges(traffic))
        return self._filtered(ctx, messages, traffic, known)

    def process_input(self, ctx: InputContext) -> MessageList | None:
        """Filter the conversation as it comes in."""
        messages = ctx.message_list
        traffic = tool_traffic(messages.conversation)
        return self._filtered(ctx, messages, traffic, _earlier_exchanges(traffic))

    def process_tool_call(self, ctx: ToolCallContext) -> Answer | None:
        """Answer calls of the ``recall`` tool."""
        if ctx.tool_name != self.recall:
            return None
        call_id = ctx.arguments.get("id") if is_mapping(ctx.arguments) else None
        for message in reversed(ctx.message_list.conversation):
            for part in message.parts:
                if isinstance(part, ToolPart) and part.call_id == call_id and part.state in ("result", "error"):
                    return Answer(part.error if part.state == "error" else part.result)
        return Answer("There is no result of that id.")

    # The work

    def _filtered(
        self, ctx: Context, messages: MessageList, traffic: ToolTraffic, known: frozenset[str]
    ) -> MessageList | None:
        latest = self._latest_of_each_tool(traffic)
        old = [
            exchange
            for exchange in traffic.exchanges
            if exchange.key not in latest and self._is_selected(exchange) and self._is_old(exchange, traffic, known)
        ]
        if self.max_result_size is None:
            changes = _remove_exchanges(
                messages.conversation, traffic, {exchange.key: self._text_left_by(exchange) for exchange in old}
            )
            counts = {"removed": len(old)}
        else:
            stubs = self._stubs(old, self.max_result_size)
            changes = _replace_results(messages.conversation, traffic, stubs)
            counts = {"shortened": len(stubs)}
        if not changes:
            return None
        ctx.note(**counts)
        return replace_messages(messages, changes)

    def _is_selected(self, exchange: ToolExchange) -> bool:
        if self.keep_errors and exchange.failed:
            return False
        return self.exclude is None or not self.exclude.isdisjoint(exchange.names)

    def _is_old(self, exchange: ToolExchange, traffic: ToolTraffic, known: frozenset[str]) -> bool:
        if self.filter_after_tool_steps is None:
            return exchange.key in known
        late = exchange.step >= max(traffic.steps - self.filter_after_tool_steps, 0)
        return not late and not traffic.in_open_step(exchange)

    def _latest_of_each_tool(self, traffic: ToolTraffic) -> set[str]:
        """Return the keys of the latest exchanges of each tool, as many as ``keep_last`` says."""
        latest: set[str] = set()
        counts: dict[str, int] = {}
        for exchange in reversed(traffic.exchanges):
            for name in exchange.names:
                counts[name] = counts.get(name, 0) + 1
                allowed = self.keep_last if isinstance(self.keep_last, int) else self.keep_last.get(name, 0)
                if counts[name] <= allowed:
                    latest.add(exchange.key)
        return latest

    def _text_left_by(self, exchange: ToolExchange) -> str | None:
        """Return the text that replaces a removed exchange."""
        result, preserve = exchange.result, self.preserve_model_output
        if result is None or preserve is False:
            return None
        stays = _is_marked(result) if preserve is True else not preserve.isdisjoint(exchange.names)
        return _text_for_result(result, min(exchange.names, default="")) if stays else None

    def _stubs(self, old: list[ToolExchange], allowed: int) -> dict[str, ToolPart]:
        """Return the stubs for results that are too large, by the keys of their exchanges."""
        stubs: dict[str, ToolPart] = {}
        unit, size_of = ("characters", len) if self.token_counter is None else ("tokens", self.token_counter.count)
        for exchange in old:
            if exchange.result is None:
                continue
            size = size_of(result_text(exchange.result))
            note = _stub_for(exchange.result, size, unit, self.recall)
            if size > max(allowed, size_of(result_text(note))):
                stubs[exchange.key] = note
        return stubs


def _earlier_exchanges(traffic: ToolTraffic) -> frozenset[str]:
    """Return the keys of the exchanges before the current turn."""
    return frozenset(exchange.key for exchange in traffic.exchanges if not traffic.in_open_turn(exchange))
