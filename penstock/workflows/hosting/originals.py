"""`Originals`: the framework's objects behind the messages of a run. An unchanged message stays the very same object.

Messages are found by the ids under which the run holds them, so nothing is written into their metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from penstock.engine.values.messages import Message
from penstock.workflows.hosting.matching import as_asked, is_finished

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from penstock.workflows.hosting.request import HostRequest

T = TypeVar("T")


class Original(NamedTuple, Generic[T]):
    """An object of the framework, and the message that was read from it."""

    given: T
    said: Message


class Originals(Generic[T]):
    """The framework's objects behind the messages of one request.

    Args:
        request: the request.
        write: makes the framework's objects for a message that has changed, with its original, or for a new one, with
            None. Results of an answer's calls come as one message of their own, after the answer.
    """

    def __init__(self, request: HostRequest, write: Callable[[Message, Original[T] | None], Iterable[T]]) -> None:
        self._request = request
        self._write = write
        self._noted: Sequence[Original[T]] = ()
        self._answers: dict[str, Original[T]] = {}

    def note(self, given: Iterable[T], said: Iterable[Message]) -> None:
        """Note the conversation of a model call; it takes the place of the one before.

        Args:
            given: the framework's objects.
            said: the messages that were read from them, one from each.
        """
        self._noted = list(map(Original, given, said))

    def note_answer(self, answer: Message, given: T) -> None:
        """Note the object that the framework got for an answer of the run."""
        self._answers[answer.id] = Original(given, as_asked(answer))

    def written(self, messages: Iterable[Message]) -> list[T]:
        """Return messages of the run as the framework's objects, in order.

        Each object is given back once, so that a copy that a step adds is a new message of the framework.
        """
        now = self._request.current([original.said for original in self._noted])
        pairs = zip(now, self._noted, strict=True)
        by_id = {message.id: original for message, original in pairs if message is not None and message.id}
        by_id |= self._answers
        found = [(message, by_id.get(message.id)) for message in messages]
        taken = {id(original) for _, original in found}
        alike: dict[Hashable, list[Original[T]]] = {}
        for original in reversed(self._noted):
            if id(original) not in taken:
                alike.setdefault(_content(original.said), []).append(original)
        return [
            one
            for message, original in found
            for one in self._written(message, original or _first(alike.get(_content(message))))
        ]

    def _written(self, message: Message, original: Original[T] | None) -> Iterator[T]:
        if message.role != "assistant" or (original is not None and any(map(is_finished, original.said.parts))):
            yield from self._one(message, original)
            return
        yield from self._one(as_asked(message), original)
        results = tuple(filter(is_finished, message.parts))
        if results:
            yield from self._write(Message("tool", results), None)

    def left(self, given: Sequence[T], said: Sequence[Message]) -> list[T]:
        """Return the framework's objects as the guards left them; those that were removed are left out."""
        pairs = zip(map(Original, given, said), self._request.current(said), strict=True)
        return [one for original, now in pairs if now is not None for one in self._one(now, original)]

    def _one(self, message: Message, original: Original[T] | None) -> Iterable[T]:
        if original is not None and original.said.parts == message.parts:
            return [original.given]
        return self._write(message, original)


def _content(message: Message) -> Hashable:
    return message.role, message.parts


def _first(originals: list[Original[T]] | None) -> Original[T] | None:
    return originals.pop() if originals else None
