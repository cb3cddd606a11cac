"""Close calls to tools that nobody answered, before a conversation is sent to a model.

Providers refuse a call without a result, a result without its call, and a result that does not directly follow its
call. One such call in a stored conversation would make every later request fail.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from penstock.engine.values.messages import DataPart, Message, ReasoningPart, SourcePart, StepStartPart, ToolPart
from penstock.models.conversations import call_key, has_result, is_provider_executed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.values.messages import Part

OpenCalls = Literal["close", "drop"]
"""A call without a result gets an error that says so in a prompt, or it is left out."""

UNANSWERED = "There is no result: the conversation went on before this call was answered."
REFUSED = "the user did not allow this call"

_NO_ANSWER = (ReasoningPart, StepStartPart, DataPart, SourcePart)
"""Parts that make no answer of their own: providers refuse a message that has no others."""

_Place = tuple[int, int]
"""A part, by the index of its message and its own index."""


def with_calls_closed(
    messages: Sequence[Message], open_calls: OpenCalls = "close", *, separate: bool = False
) -> Sequence[Message]:
    """Return a prompt in which each call has its result, and each result its call; the same object if it was so.

    A result that stands behind other messages is moved to its call. Calls of one message with the same id get ids of
    their own, such as ``c1-2``, and so do their results. A call whose arguments were never complete is left
    out, and so are a result without a call, and a call without a result to a tool that the provider runs.

    Args:
        messages: the prompt.
        open_calls: ``close`` gives a call without a result an error that says so; ``drop`` leaves the call out.
        separate: whether that error is a message of its own, as in frameworks. Such conversations may also have several
            answers in a row in front of the results of all of them. Tools that the provider runs, and calls without an
            id, stay as they are there.
    """
    return CallCloser().closed(messages, open_calls, separate=separate)


class CallCloser:
    """Closes the open calls of prompts that grow: a beginning that was whole is not read again."""

    __slots__ = ("_whole",)

    def __init__(self) -> None:
        self._whole: tuple[Message, ...] = ()  # a beginning of the last prompt: each call in it has its result

    def closed(self, prompt: Sequence[Message], open_calls: OpenCalls, *, separate: bool) -> Sequence[Message]:
        """Return a prompt as `with_calls_closed` does."""
        messages, whole = tuple(prompt), self._whole
        if messages[: len(whole)] != whole:
            whole = self._whole = ()
        calls = _MatchedCalls(messages[len(whole) :], separate=separate)
        if calls.is_broken:
            return (*whole, *calls.closed(open_calls))
        if calls.are_answered:
            self._whole = messages
        return prompt


class _MatchedCalls:
    """The calls and the results of a prompt, each by its place."""

    def __init__(self, messages: Sequence[Message], *, separate: bool) -> None:
        self._messages = messages
        self._separate = separate
        self._dropped = set[_Place]()
        self._waiting: dict[str, list[_Place]] = {}
        answered: dict[_Place, _Place] = {}
        called: list[_Place] = []
        for index, message in enumerate(messages):
            for number, part in enumerate(message.parts):
                if not isinstance(part, ToolPart):
                    continue
                place, key = (index, number), call_key(part)
                if message.role == "assistant" and part.state == "call":
                    self._supersede(key, index)
                    called.append(place)
                    self._waiting.setdefault(key, []).append(place)
                elif message.role == "assistant" and has_result(part):  # a call with its result
                    self._supersede(key, index)
                    if self._waiting.get(key):
                        answered[self._waiting[key].pop(0)] = place
                elif has_result(part) and self._waiting.get(key):
                    answered[self._waiting[key].pop(0)] = place
                elif not (separate and is_provider_executed(part)):
                    self._dropped.add(place)
        hosted = {place for place in called if place not in answered and self._is_hosted(place)}
        if not separate:
            self._dropped |= hosted
        self._unanswered = {*called} - answered.keys() - self._dropped - hosted
        # A result within a message of which another call has its result behind it would part that one from its call, as
        # one with text behind it does.
        self._answered_behind = {call[0] for call, result in answered.items() if result[0] != call[0]}
        self._parting = set[_Place]() if separate else self._parting_results(answered)
        self._renamed = self._repeated_ids(answered)
        self._moved = {call: result for call, result in answered.items() if not self._follows(call[0], result[0])}

    def _repeated_ids(self, answered: Mapping[_Place, _Place]) -> dict[_Place, str]:
        """Return ids for calls that have none, or that of an earlier call of the message, and for their results."""
        ids: dict[_Place, str] = {}
        results = {*answered.values()} | self._dropped
        for index, message in enumerate(self._messages):
            counts: dict[str, int] = {}
            for number, part in enumerate(message.parts if message.role == "assistant" else ()):
                place = (index, number)
                if not isinstance(part, ToolPart) or place in results or (self._separate and not part.call_id):
                    continue
                counts[part.call_id] = count = counts.get(part.call_id, 0) + 1
                if count == 1 and part.call_id:
                    continue
                stem = part.call_id or f"call-{index}"
                given = {one.call_id for one in message.parts if isinstance(one, ToolPart)}
                while (id := f"{stem}-{count}") in given:  # another call has it
                    counts[part.call_id] = count = count + 1
                ids[place] = id
                if place in answered:
                    ids[answered[place]] = id
        return ids

    def _parting_results(self, answered: Mapping[_Place, _Place]) -> set[_Place]:
        """Return results within messages that have another call, with its result behind them, and text behind that."""
        behind = {call for call, result in answered.items() if call[0] != result[0]}
        first = {index: min(number for at, number in behind if at == index) for index, _ in behind}
        return {
            (index, number)
            for index, low in first.items()
            if any(not isinstance(part, ToolPart) for part in self._messages[index].parts[low + 1 :])
            for number, part in enumerate(self._messages[index].parts)
            if isinstance(part, ToolPart) and has_result(part) and not is_provider_executed(part)
        } - {*answered.values()}

    def _supersede(self, key: str, index: int) -> None:
        """Drop calls of earlier messages that wait for a result: a later message repeats their id."""
        earlier = [place for place in self._waiting.get(key, ()) if place[0] < index]
        if earlier:
            self._dropped.update(earlier)
            self._waiting[key] = self._waiting[key][len(earlier) :]

    def _is_hosted(self, place: _Place) -> bool:
        """Return whether the provider runs the tool of a call itself, so that nobody else can give a result."""
        part = self._messages[place[0]].parts[place[1]]
        return isinstance(part, ToolPart) and is_provider_executed(part)

    def _follows(self, call: int, result: int) -> bool:
        """Return whether a provider accepts a result in this message for a call in that one."""
        roles = [message.role for message in self._messages[call + 1 : result]]
        while self._separate and roles and roles[0] == "assistant":
            roles.pop(0)
        return all(role == "tool" for role in roles)

    @property
    def is_broken(self) -> bool:
        """Whether a provider would refuse the prompt."""
        return bool(self._dropped or self._unanswered or self._moved or self._parting or self._renamed)

    @property
    def are_answered(self) -> bool:
        """Whether no call waits for a result, which may follow."""
        return not any(self._waiting.values())

    def closed(self, open_calls: OpenCalls) -> tuple[Message, ...]:
        """Return the prompt with its calls closed."""
        gone = self._dropped | set(self._moved.values()) | (self._unanswered if open_calls == "drop" else set[_Place]())
        made: list[Message] = []
        for index, message in enumerate(self._messages):
            parts: list[Part] = []
            behind: list[Message] = []
            for number in range(len(message.parts)):
                place = (index, number)
                if place in gone:
                    continue
                part = self._part(place)
                if place in self._parting and isinstance(part, ToolPart):
                    behind.append(Message("tool", (part,)))
                    parts.append(replace(part, state="call", result=None, error=None))
                    continue
                if place in self._moved:
                    behind.append(self._alone(self._moved[place]))
                if place in self._unanswered and isinstance(part, ToolPart):
                    closed = replace(part, state="error", error=part.error or UNANSWERED)
                    alone = self._separate or index in self._answered_behind
                    parts.append(part if alone else closed)
                    behind += [Message("tool", (closed,))] if alone else []
                else:
                    parts.append(part)
            if tuple(parts) == message.parts:
                made.append(message)
            elif any(not isinstance(part, _NO_ANSWER) for part in parts):
                made.append(message.with_parts(parts))
            made += behind
        return tuple(made)

    def _alone(self, place: _Place) -> Message:
        """Return a result in a message of its own."""
        message = self._messages[place[0]]
        whole = len(message.parts) == 1 and place not in self._renamed
        return message if whole else Message("tool", (self._part(place),))

    def _part(self, place: _Place) -> Part:
        part = self._messages[place[0]].parts[place[1]]
        return (
            replace(part, call_id=self._renamed[place])
            if isinstance(part, ToolPart) and place in self._renamed
            else part
        )
