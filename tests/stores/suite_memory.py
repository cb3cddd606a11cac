"""What every store must do with working memories; it knows no store."""

from datetime import timedelta

import anyio
import pytest

from penstock.engine import StorageConflictError, UsageError


class MemorySuite:
    """Working memories: of a thread or a resource, changed by compare-and-set, with the versions before."""

    async def test_there_is_none_at_first(self, store):
        """No error."""
        assert await store.working_memory("resource", "r") is None
        assert await store.working_memory_history("resource", "r") == ()

    async def test_it_is_kept_with_its_version_time_and_author(self, store):
        """Versions count from 1."""
        first = await store.put_working_memory("resource", "r", "one", expected=None, author="run-1")
        assert (first.text, first.version, first.author) == ("one", 1, "run-1")
        assert first.updated_at.utcoffset() == timedelta(0)
        assert await store.working_memory("resource", "r") == first
        second = await store.put_working_memory("resource", "r", "two", expected=1)
        assert (second.text, second.version, second.author) == ("two", 2, "")

    async def test_scopes_and_keys_are_apart(self, store):
        """A thread's is not a resource's of the same name."""
        await store.put_working_memory("resource", "x", "of the resource", expected=0)
        await store.put_working_memory("thread", "x", "of the thread", expected=0)
        assert (await store.working_memory("resource", "x")).text == "of the resource"
        assert (await store.working_memory("thread", "x")).text == "of the thread"
        assert await store.working_memory("thread", "y") is None

    async def test_what_was_changed_meanwhile_is_not_overwritten(self, store):
        """The version that it has is told, nothing is stored."""
        await store.put_working_memory("thread", "t", "one", expected=0)
        for expected in (0, 2):
            with pytest.raises(StorageConflictError) as caught:
                await store.put_working_memory("thread", "t", "secret", expected=expected)
            assert caught.value.version == 1
            assert "secret" not in str(caught.value)
        with pytest.raises(StorageConflictError) as caught:
            await store.put_working_memory("thread", "none", "two", expected=1)
        assert caught.value.version == 0
        assert (await store.working_memory("thread", "t")).text == "one"

    async def test_the_last_ten_versions_are_kept_at_least(self, store):
        """The newest first; the first of them is how it stands."""
        for number in range(1, 13):
            await store.put_working_memory("thread", "t", f"text {number}", expected=number - 1)
        history = await store.working_memory_history("thread", "t")
        assert [record.version for record in history] == list(range(12, 2, -1))
        assert [record.text for record in history][:2] == ["text 12", "text 11"]
        assert len(await store.working_memory_history("thread", "t", limit=3)) == 3
        assert history[0] == await store.working_memory("thread", "t")

    async def test_a_length_of_history_that_cannot_be_is_refused(self, store):
        """The caller's mistake."""
        with pytest.raises(UsageError):
            await store.working_memory_history("thread", "t", limit=0)

    async def test_a_scope_that_there_is_not_is_refused(self, store):
        """Rather than kept where nobody looks for it."""
        with pytest.raises(UsageError):
            await store.put_working_memory("user", "x", "text", expected=None)

    async def test_an_empty_text_is_a_text(self, store):
        """And any other comes back as it was."""
        await store.put_working_memory("thread", "t", "", expected=0)
        assert (await store.working_memory("thread", "t")).text == ""
        odd = "a \U0001f600 </working_memory>\r\n'\""
        await store.put_working_memory("thread", "t", odd, expected=None)
        assert (await store.working_memory("thread", "t")).text == odd

    async def test_it_is_deleted_with_all_its_versions(self, store):
        """And no other; who expects what is gone does not write it back."""
        for scope, key in (("thread", "x"), ("resource", "x"), ("resource", "y")):
            await store.put_working_memory(scope, key, "one", expected=0)
            await store.put_working_memory(scope, key, "two", expected=1)
        assert await store.delete_working_memory("resource", "x") is True
        assert await store.working_memory("resource", "x") is None
        assert await store.working_memory_history("resource", "x") == ()
        assert await store.delete_working_memory("resource", "x") is False
        with pytest.raises(StorageConflictError) as caught:
            await store.put_working_memory("resource", "x", "three", expected=2)
        assert caught.value.version == 0
        assert (await store.working_memory("thread", "x")).text == "two"
        assert (await store.working_memory("resource", "y")).text == "two"
        assert (await store.put_working_memory("resource", "x", "anew", expected=0)).version == 1
        assert [record.text for record in await store.working_memory_history("resource", "x")] == ["anew"]

    async def test_no_scope_has_nothing_to_delete(self, store):
        """A slip is told, rather than taken for done."""
        with pytest.raises(UsageError):
            await store.delete_working_memory("user", "x")

    async def test_of_many_who_expect_the_same_one_wins(self, store):
        """Twenty tasks, one version."""
        won: list[int] = []

        async def change(number: int) -> None:
            try:
                await store.put_working_memory("thread", "t", f"by {number}", expected=0)
            except StorageConflictError:
                return
            won.append(number)

        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(change, number)
        assert len(won) == 1
        kept = await store.working_memory("thread", "t")
        assert (kept.text, kept.version) == (f"by {won[0]}", 1)

    async def test_tasks_that_read_again_lose_nothing(self, store):
        """Compare-and-set until it holds."""

        async def add(number: int) -> None:
            while True:
                now = await store.working_memory("thread", "t")
                text, version = (now.text, now.version) if now else ("", 0)
                try:
                    await store.put_working_memory("thread", "t", f"{text}{number},", expected=version)
                except StorageConflictError:
                    continue
                return

        async with anyio.create_task_group() as group:
            for number in range(12):
                group.start_soon(add, number)
        kept = await store.working_memory("thread", "t")
        assert kept.version == 12
        assert sorted(int(part) for part in kept.text.split(",") if part) == list(range(12))
