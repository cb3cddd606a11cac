"""Whether vectors are remembered within their bytes, and nobody has embedded what somebody else is having embedded."""

import anyio
import pytest

from penstock import ModelError, OptionError
from penstock.engine import UsageError
from penstock.models import CachedEmbedder, HashingEmbedder


class Counting:
    """Gives each text a vector of its length, and notes what it was asked; waits for a gate, or fails, if told to."""

    name = "counting"

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.gate: anyio.Event | None = None
        self.failures = 0
        self.wrong = False

    async def embed(self, texts):
        """Return a vector for each."""
        self.calls.append(list(texts))
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ModelError(self.name, "it is not there")
        return [[float(len(text)), 0.5] for text in texts][: -1 if self.wrong else None]


async def test_what_is_known_is_not_asked_for():
    """Nor what is there twice; the order stays."""
    asked = Counting()
    cached = CachedEmbedder(asked)
    assert await cached.embed(["a", "bb", "a"]) == [[1.0, 0.5], [2.0, 0.5], [1.0, 0.5]]
    assert await cached.embed(["ccc", "bb"]) == [[3.0, 0.5], [2.0, 0.5]]
    assert asked.calls == [["a", "bb"], ["ccc"]]
    assert await cached.embed([]) == []
    assert (len(cached), cached.name) == (3, "counting")


async def test_nobody_can_change_what_is_kept():
    """A vector that was given is the caller's."""
    cached = CachedEmbedder(Counting())
    (await cached.embed(["a"]))[0][0] = 9.0
    assert await cached.embed(["a"]) == [[1.0, 0.5]]


async def test_it_keeps_to_its_bytes_and_forgets_what_was_not_used_for_longest():
    """An entry of two numbers takes some 316 bytes."""
    asked = Counting()
    cached = CachedEmbedder(asked, max_bytes=700)
    await cached.embed(["a"])
    await cached.embed(["bb"])
    await cached.embed(["a"])
    await cached.embed(["ccc"])
    assert cached.size <= 700
    assert len(cached) == 2
    asked.calls.clear()
    await cached.embed(["a", "ccc"])
    assert asked.calls == []
    cached.clear()
    assert (len(cached), cached.size) == (0, 0)


async def test_what_is_too_large_is_given_and_not_kept():
    """So is all else, with one byte."""
    cached = CachedEmbedder(Counting(), max_bytes=1)
    assert await cached.embed(["a"]) == [[1.0, 0.5]]
    assert len(cached) == 0


async def test_texts_that_come_at_the_same_time_are_asked_for_once():
    """Two with a text in common wait for each other's, and for no longer."""
    asked = Counting()
    asked.gate = anyio.Event()
    cached = CachedEmbedder(asked)
    found: dict[str, list[list[float]]] = {}

    async def ask(name: str, *texts: str) -> None:
        found[name] = await cached.embed(texts)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, "one", "a", "bb")
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask, "other", "bb", "ccc")
            await anyio.wait_all_tasks_blocked()
            asked.gate.set()
    assert sorted(asked.calls) == [["a", "bb"], ["ccc"]]
    assert found == {"one": [[1.0, 0.5], [2.0, 0.5]], "other": [[2.0, 0.5], [3.0, 0.5]]}


async def test_a_failure_is_that_of_who_asked():
    """Who waited for it asks anew."""
    asked = Counting()
    asked.gate, asked.failures = anyio.Event(), 1
    cached = CachedEmbedder(asked)
    found: list[object] = []

    async def ask() -> None:
        try:
            found.append(await cached.embed(["a"]))
        except ModelError:
            found.append("failed")

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            asked.gate.set()
    assert sorted(map(str, found)) == ["[[1.0, 0.5]]", "failed"]
    assert len(asked.calls) == 2


async def test_who_is_cancelled_lets_the_next_one_ask():
    """Nothing goes on that nobody waits for."""
    asked = Counting()
    asked.gate = anyio.Event()
    cached = CachedEmbedder(asked)
    scope = anyio.CancelScope()

    async def given_up() -> None:
        with scope:
            await cached.embed(["a"])

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(given_up)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(cached.embed, ["a"])
            await anyio.wait_all_tasks_blocked()
            scope.cancel()
            await anyio.wait_all_tasks_blocked()
            asked.gate.set()
    assert asked.calls == [["a"], ["a"]]
    assert len(cached) == 1


async def test_an_embedder_that_loses_texts_has_failed():
    """Vectors would belong to others' texts."""
    asked = Counting()
    asked.wrong = True
    with pytest.raises(ModelError, match="asked for 2 vectors, but returned 1"):
        await CachedEmbedder(asked).embed(["a", "bb"])


async def test_a_text_by_itself_is_refused():
    """Its letters would be embedded."""
    with pytest.raises(UsageError, match="list of texts"):
        await CachedEmbedder(Counting()).embed("text")


def test_it_shows_no_text_and_has_the_name_of_whom_it_asks():
    """None, if that has none."""
    cached = CachedEmbedder(HashingEmbedder())
    assert repr(cached) == "CachedEmbedder(HashingEmbedder(dimensions=512), 0 of 67,108,864 bytes)"
    assert cached.name == "hashing_512"


@pytest.mark.parametrize(
    ("option", "options"),
    [
        ("embedder", {"embedder": "openai/x"}),
        ("embedder", {"embedder": HashingEmbedder}),
        ("max_bytes", {"max_bytes": 0}),
    ],
)
def test_options_that_cannot_be_are_refused(option, options):
    """Once, in the constructor."""
    with pytest.raises(OptionError, match=option):
        CachedEmbedder(**{"embedder": Counting(), **options})
