"""What every store must do with threads; it knows no store."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.engine import OwnershipError, StorageConflictError, UsageError
from penstock.engine.values.errors import NotStoredError
from penstock.engine.values.protocols import Storage, VectorStore
from penstock.engine.values.stored import Thread
from tests.stores.made import entry, ids, many, said


class ThreadsSuite:
    """Threads: made once, owned by one resource, changed by version, listed in pages, deleted with all of theirs."""

    async def test_it_is_a_storage_and_a_vector_store(self, store):
        """Both ports are met."""
        assert isinstance(store, Storage)
        assert isinstance(store, VectorStore)

    async def test_a_thread_that_is_not_there_is_none(self, store):
        """No error, no thread."""
        assert await store.thread("t") is None

    async def test_a_thread_is_kept_as_it_was_given(self, store):
        """Title and metadata come back, with the times of storing and version 1."""
        before = datetime.now(UTC) - timedelta(seconds=1)
        kept = await store.create_thread(Thread("t", "r", "A title", {"tags": ["a", 1, None], "more": {"x": 1.5}}))
        assert await store.thread("t") == kept
        assert (kept.id, kept.resource_id, kept.title, kept.version) == ("t", "r", "A title", 1)
        assert kept.metadata == {"tags": ("a", 1, None), "more": {"x": 1.5}}
        assert kept.created_at is not None
        assert before < kept.created_at < datetime.now(UTC) + timedelta(seconds=1)
        assert kept.created_at.utcoffset() == timedelta(0)
        assert kept.updated_at == kept.created_at

    async def test_a_thread_keeps_the_times_that_it_was_given(self, store):
        """What is brought from elsewhere is as old as it is; times come back in UTC, to the microsecond."""
        made = datetime(2020, 1, 1, 12, 0, 0, 123456, timezone(timedelta(hours=2)))
        kept = await store.create_thread(Thread("t", "r", created_at=made, updated_at=made + timedelta(days=1)))
        assert (kept.created_at, kept.updated_at) == (made, made + timedelta(days=1))
        assert kept.created_at is not None
        assert kept.created_at.utcoffset() == timedelta(0)

    async def test_a_thread_is_made_once(self, store):
        """The second time the kept one comes back, unchanged."""
        first = await store.create_thread(Thread("t", "r", "one", {"a": 1}))
        assert await store.create_thread(Thread("t", "r", "two", {"b": 2})) == first

    async def test_a_thread_of_another_resource_is_refused(self, store):
        """And the error does not say whose it is."""
        await store.create_thread(Thread("t", "owner-of-it", "secret title"))
        with pytest.raises(OwnershipError) as caught:
            await store.create_thread(Thread("t", "r"))
        assert "owner-of-it" not in str(caught.value)
        assert "secret" not in str(caught.value)

    async def test_a_title_is_changed_and_metadata_stay(self, store):
        """What is not given is left."""
        first = await store.create_thread(Thread("t", "r", "one", {"a": 1}))
        second = await store.update_thread("t", title="two")
        assert (second.title, second.metadata, second.version) == ("two", {"a": 1}, 2)
        assert second.created_at == first.created_at
        assert await store.thread("t") == second

    async def test_metadata_take_the_place_of_the_ones_before(self, store):
        """They are not merged; an empty title is a title."""
        await store.create_thread(Thread("t", "r", "one", {"a": 1}))
        changed = await store.update_thread("t", title="", metadata={"b": 2})
        assert (changed.title, changed.metadata) == ("", {"b": 2})

    async def test_a_change_of_what_has_changed_is_refused(self, store):
        """The version that it has is told."""
        await store.create_thread(Thread("t", "r"))
        await store.update_thread("t", title="two", expected=1)
        with pytest.raises(StorageConflictError) as caught:
            await store.update_thread("t", title="three", expected=1)
        assert caught.value.version == 2
        kept = await store.thread("t")
        assert kept is not None
        assert kept.title == "two"

    async def test_a_change_of_nothing_leaves_what_is_there(self, store):
        """Though the version is looked at."""
        first = await store.create_thread(Thread("t", "r", "one", {"a": 1}))
        kept = await store.update_thread("t", expected=1)
        assert (kept.title, kept.metadata, kept.created_at) == (first.title, first.metadata, first.created_at)
        with pytest.raises(StorageConflictError):
            await store.update_thread("t", expected=9)

    async def test_a_change_of_no_thread_is_an_error(self, store):
        """There is nothing to change."""
        with pytest.raises(NotStoredError):
            await store.update_thread("t", title="two")

    async def test_threads_are_listed_the_last_changed_first_in_pages(self, store):
        """Every thread once, whatever the size of the pages."""
        start = datetime(2026, 1, 1, tzinfo=UTC)
        for number in range(7):
            await store.create_thread(
                Thread(f"t{number}", "r" if number % 2 else "s", updated_at=start + timedelta(hours=number))
            )
        seen: list[str] = []
        after = None
        while True:
            page = await store.threads(limit=3, after=after)
            seen += [thread.id for thread in page.items]
            after = page.following
            if after is None:
                break
        assert seen == ["t6", "t5", "t4", "t3", "t2", "t1", "t0"]
        mine = await store.threads(resource_id="r")
        assert [thread.id for thread in mine.items] == ["t5", "t3", "t1"]
        assert mine.following is None

    async def test_threads_changed_at_one_time_are_told_apart_on_pages(self, store):
        """None is left out, none comes twice."""
        at = datetime(2026, 1, 1, tzinfo=UTC)
        for number in range(5):
            await store.create_thread(Thread(f"t{number}", "r", updated_at=at))
        first = await store.threads(limit=2)
        second = await store.threads(limit=2, after=first.following)
        third = await store.threads(limit=2, after=second.following)
        every = [thread.id for page in (first, second, third) for thread in page.items]
        assert sorted(every) == ["t0", "t1", "t2", "t3", "t4"]
        assert third.following is None

    async def test_a_new_message_brings_its_thread_to_the_front(self, store):
        """It was changed last."""
        start = datetime(2020, 1, 1, tzinfo=UTC)
        for number in range(3):
            await store.create_thread(Thread(f"t{number}", "r", updated_at=start + timedelta(hours=number)))
        await store.save_messages([said("m1", thread="t0")])
        assert [thread.id for thread in (await store.threads()).items] == ["t0", "t2", "t1"]

    async def test_a_thread_is_deleted_with_all_that_is_its_own(self, store):
        """Messages, vectors, working memory and its history go; what is others' stays."""
        await store.save_messages([*many(3, "t"), *many(2, "u")])
        await store.upsert_vectors("i", [entry("t-m1", [1, 0], thread="t"), entry("u-m1", [1, 0], thread="u")])
        await store.put_working_memory("thread", "t", "of the thread", expected=0)
        await store.put_working_memory("resource", "t", "of a resource of that name", expected=0)
        assert await store.delete_thread("t") is True
        assert await store.thread("t") is None
        assert (await store.messages("t")).items == ()
        assert await store.messages_by_id(["t-m1"]) == ()
        assert await store.working_memory("thread", "t") is None
        assert await store.working_memory_history("thread", "t") == ()
        kept = await store.working_memory("resource", "t")
        assert kept is not None
        assert kept.text == "of a resource of that name"
        assert [hit.id for hit in await store.query_vectors("i", [1, 0], limit=9)] == ["u-m1"]
        assert ids((await store.messages("u")).items) == ["u-m2", "u-m1"]
        assert await store.delete_thread("t") is False

    async def test_all_that_is_a_resources_is_deleted(self, store):
        """Threads with all of theirs, its vectors, its working memory; what is others' stays, whatever its name."""
        await store.save_messages([*many(3, "t"), *many(1, "u"), said("v-m1", thread="v", resource="s")])
        await store.create_thread(Thread("empty", "r"))
        await store.create_thread(Thread("r", "s"))
        mine = [entry("t-m1", [1, 0], thread="t"), entry("loose", [1, 0], thread="elsewhere")]
        await store.upsert_vectors("i", [*mine, entry("v-m1", [1, 0], thread="v", resource="s")])
        await store.upsert_vectors("j", [entry("u-m1", [1, 0, 0], thread="u")])
        places = [("resource", "r"), ("thread", "t"), ("thread", "empty"), ("resource", "s"), ("thread", "r")]
        for scope, key in [*places, ("resource", "t")]:
            await store.put_working_memory(scope, key, "notes", expected=0)
        assert await store.delete_resource("r") == 3
        assert [thread.id for thread in (await store.threads()).items if thread.resource_id == "r"] == []
        assert (await store.messages("t")).items == ()
        assert ids(await store.messages_by_id(["t-m1", "u-m1", "v-m1"])) == ["v-m1"]
        assert [hit.id for hit in await store.query_vectors("i", [1, 0], limit=9)] == ["v-m1"]
        assert await store.query_vectors("j", [1, 0, 0], limit=9) == ()
        left = [await store.working_memory(scope, key) is not None for scope, key in [*places, ("resource", "t")]]
        assert left == [False, False, False, True, True, True]
        assert await store.delete_resource("r") == 0
        await store.save_messages([said("t-m1", "again", thread="t", resource="s")])  # its ids are free
        assert ids((await store.messages("t")).items) == ["t-m1"]

    async def test_a_resource_without_threads_is_deleted_too(self, store):
        """What was known of it goes; it counts as no thread."""
        await store.put_working_memory("resource", "r", "notes", expected=0)
        assert await store.delete_resource("r") == 0
        assert await store.working_memory_history("resource", "r") == ()

    async def test_a_page_of_threads_that_cannot_be_is_refused(self, store):
        """Wrong limits and made-up places to go on from are the caller's mistakes, and said so."""
        with pytest.raises(UsageError):
            await store.threads(limit=0)
        with pytest.raises(UsageError):
            await store.threads(limit=10_001)
        with pytest.raises(UsageError):
            await store.threads(after="made up")
