"""What Penstock needs of the outside, as protocols, with plain defaults of the smallest; it knows no implementation.

Anything with these methods will do: bring your own, or take the ones in `penstock.testing` for tests.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from penstock.engine.chunks import Chunk
    from penstock.engine.frozen import Value
    from penstock.engine.model import ModelRequest
    from penstock.engine.records import Record

V_co = TypeVar("V_co", covariant=True)


@runtime_checkable
class Clock(Protocol):
    """Tells the time; messages are stamped by it."""

    def now(self) -> datetime:
        """Return the time now, with its zone."""
        ...


@runtime_checkable
class Ids(Protocol):
    """Gives ids to messages and runs."""

    def next(self) -> str:
        """Return an id that was not given before."""
        ...


@runtime_checkable
class Observer(Protocol):
    """Is told what the steps of a run did, as it happens. An error it raises is logged, and changes nothing."""

    def on_record(self, record: Record) -> None:
        """Take note of what one step did. Called in the run's own task: be quick, do not block."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts the tokens of texts.

    Two attributes may say more about it, which makes it cheaper to use on a stream: ``additive``, if the counts of two
    texts add up to the count of both together wherever a letter or digit ends the first and a blank or a line end
    begins the second; ``monotone``, if a text never has fewer tokens than its beginning. ``name`` is shown in records.
    """

    def count(self, text: str) -> int:
        """Return how many tokens the text has: 0 or more, of any text, special tokens' names included."""
        ...


@runtime_checkable
class Model(Protocol):
    """Answers requests in chunks. `penstock.engine.model` says what a request is, and which chunks an answer has.

    An attribute ``identity``, a mapping, may say what else tells it apart from others of its name: its address, its own
    settings. Never a key. Verdicts of models that differ in it are not taken for each other's.
    """

    @property
    def name(self) -> str:
        """What it is called, for people: ``openai/gpt-5``. Never a key."""
        ...

    def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Return the answer, chunk by chunk; closing it (``aclose``) ends the request.

        Raises:
            ModelError: while it is read: it could not be asked, or gave no whole answer.
        """
        ...


class Judged(Protocol[V_co]):
    """A verdict, and what it took."""

    @property
    def verdict(self) -> V_co:
        """The verdict."""
        ...

    @property
    def model(self) -> str:
        """The name of whoever gave it. Never a key."""
        ...

    @property
    def dropped(self) -> tuple[str, ...]:
        """Which entries of it could not be read and are left out; empty if it is whole."""
        ...


@runtime_checkable
class Judge(Protocol[V_co]):
    """Gives verdicts of one type about texts: `penstock.processors.judges.Judge` asks a model for them."""

    async def ask(self, content: str, *, ctx: Value = None) -> Judged[V_co]:
        """Return the verdict about a text; ``ctx``: the context of the hook that asks, for its record.

        Raises:
            JudgeError: there is none; never to be taken for "nothing found".
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, in order; all of one length.

        Raises:
            ModelError: it could not be asked, or gave no whole answer.
        """
        ...


@runtime_checkable
class Cache(Protocol):
    """Keeps texts under keys for a while: in memory, or in a server that several processes share.

    It may forget whatever it likes. What it raises is logged, and taken for "not there".
    """

    async def get(self, key: str) -> str | None:
        """Return what is kept under the key, or None."""
        ...

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Keep the value, for ``ttl`` seconds if that is given, in place of what was there."""
        ...


class SystemClock:
    """The machine's clock, in UTC."""

    __slots__ = ()

    def now(self) -> datetime:
        """Return the time now, in UTC."""
        return datetime.now(UTC)


class RandomIds:
    """Ids of 24 hexadecimal digits from the system's randomness: unique across processes, forks included."""

    __slots__ = ()

    def next(self) -> str:
        """Return a new id."""
        return os.urandom(12).hex()


SYSTEM_CLOCK = SystemClock()
RANDOM_IDS = RandomIds()
