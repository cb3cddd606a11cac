"""What every store must do whose data several processes share: two stores over one place; it knows no store."""

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from penstock.engine import StorageConflictError
from penstock.engine.values.stored import StoredRun
from tests.stores.made import entry, found, ids, many, said, texts

TASKS = 40


class SharedSuite:
    """Two stores over the same data see each other's work, and neither spoils the other's."""

    async def test_what_one_stores_the_other_reads(self, store, second):
        """At once: it was awaited."""
        await store.save_messages(many(2))
        assert ids((await second.messages("t")).items) == ["t-m2", "t-m1"]
        await second.save_messages([said("t-m1", "changed")])
        assert texts((await store.messages("t")).items) == ["text of t-m2", "changed"]

    async def test_what_is_closed_may_be_used_again(self, store):
        """It opens itself, and all is there; closing twice is no error."""
        await store.save_messages(many(1))
        await store.close()
        await store.close()
        assert ids((await store.messages("t")).items) == ["t-m1"]

    async def test_vectors_are_current_in_both(self, store, second):
        """New ones, replaced ones and deleted ones, however often each has looked before."""
        await store.upsert_vectors("i", [entry("a", [1, 0])])
        assert found(await second.query_vectors("i", [1, 0], limit=9)) == ["a"]
        await store.upsert_vectors("i", [entry("b", [1, 0])])
        assert found(await second.query_vectors("i", [1, 0], limit=9)) == ["a", "b"]
        await second.upsert_vectors("i", [entry("a", [0, 1])])
        assert found(await store.query_vectors("i", [0, 1], limit=1)) == ["a"]
        await second.save_messages([said("b")])
        await second.delete_messages(["b"])
        assert found(await store.query_vectors("i", [1, 0], limit=9)) == ["a"]
        await store.upsert_vectors("i", [entry("c", [1, 1])])
        assert found(await second.query_vectors("i", [0, 1], limit=9)) == ["a", "c"]

    async def test_a_change_of_one_is_a_conflict_for_the_other(self, store, second):
        """Versions are the data's, not the store's."""
        await store.put_working_memory("thread", "t", "one", expected=0)
        await second.put_working_memory("thread", "t", "two", expected=1)
        with pytest.raises(StorageConflictError):
            await store.put_working_memory("thread", "t", "three", expected=1)

    async def test_of_two_that_act_on_one_version_of_a_run_one_wins(self, store, second):
        """The other one stores nothing, and is told the version that there is now."""
        kept = await store.save_run(StoredRun("x", "mailer"))
        won: list[StoredRun] = []
        lost: list[StorageConflictError] = []

        async def act(own, name: str, run: StoredRun) -> None:
            try:
                won.append(await own.save_run(replace(run, status="running", body={"by": name})))
            except StorageConflictError as error:
                lost.append(error)

        for run in (kept, StoredRun("new", "mailer")):
            async with anyio.create_task_group() as group:
                group.start_soon(act, store, "store", run)
                group.start_soon(act, second, "second", run)
            assert len(won) == 1
            assert [error.version for error in lost] == [run.version + 1]
            assert await store.run(run.id) == await second.run(run.id) == won[0]
            won.clear()
            lost.clear()

    async def test_no_change_of_a_run_is_lost_to_another(self, store, second):
        """Tasks of both count in one run, reading again until nobody else has meanwhile."""
        await store.save_run(StoredRun("x", "mailer", body={"count": 0}))

        async def count(own) -> None:
            while True:
                run = await own.run("x")
                try:
                    await own.save_run(replace(run, body={"count": run.body["count"] + 1}))
                except StorageConflictError:
                    continue
                return

        async with anyio.create_task_group() as group:
            for turn in range(8):
                group.start_soon(count, (store, second)[turn % 2])
        kept = await second.run("x")
        assert (kept.body, kept.version) == ({"count": 8}, 9)

    async def test_many_tasks_of_both_write_the_same_threads(self, store, second):
        """Nothing is lost, nothing is there twice, each task's messages follow each other, no place is given twice."""

        async def write(writer, number: int) -> None:
            for turn in range(3):
                made = [said(f"{number}-{turn}-{part}", thread=f"t{number % 3}") for part in "ab"]
                await writer.save_messages(made)

        async with anyio.create_task_group() as group:
            for number in range(TASKS):
                group.start_soon(write, (store, second)[number % 2], number)
        for name in range(3):
            page = await store.messages(f"t{name}", limit=10_000, oldest_first=True)
            every = ids(page.items)
            orders = [item.order for item in page.items]
            writers = [number for number in range(TASKS) if number % 3 == name]
            assert orders == sorted(set(orders))
            assert sorted(every) == sorted(f"{n}-{turn}-{part}" for n in writers for turn in range(3) for part in "ab")
            for number in writers:
                own = [id for id in every if id.startswith(f"{number}-")]
                assert own == [f"{number}-{turn}-{part}" for turn in range(3) for part in "ab"]
            for first, after in zip(every[::2], every[1::2], strict=True):
                assert after == first[:-1] + "b", "what is saved together stands together"

    async def test_many_tasks_read_at_once_while_others_write(self, store, second):
        """Each sees whole batches, in order."""
        await store.save_messages(many(3))
        seen: list[list[str]] = []

        async def read(reader) -> None:
            page = await reader.messages("t", limit=10_000, oldest_first=True)
            seen.append(ids(page.items))

        async with anyio.create_task_group() as group:
            for turn in range(100):
                group.start_soon(read, (store, second)[turn % 2])
                if turn % 10 == 0:
                    group.start_soon(store.save_messages, many(3, start=3 * turn + 4))
        assert len(seen) == 100
        longest = ids((await store.messages("t", limit=10_000, oldest_first=True)).items)
        assert len(longest) == 33
        assert all(len(one) % 3 == 0 and one == longest[: len(one)] for one in seen)

    async def test_both_open_an_empty_place_at_once(self, store, second):
        """Its tables are made once."""
        async with anyio.create_task_group() as group:
            group.start_soon(store.save_messages, [said("m1", thread="t")])
            group.start_soon(second.save_messages, [said("m2", thread="u")])
        assert ids(await store.messages_by_id(["m1", "m2"])) == ["m1", "m2"]

    async def test_who_is_cancelled_leaves_nothing_half(self, store, second):
        """All of a call's messages are there, or none; and the store goes on."""
        for wait in range(6):
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    for number in range(4):
                        group.start_soon(store.save_messages, many(5, f"c{wait}-{number}"))
                    for _ in range(wait):
                        await anyio.lowlevel.checkpoint()
                    scope.cancel()
            for number in range(4):
                assert len((await second.messages(f"c{wait}-{number}")).items) in {0, 5}
        await store.save_messages(many(1))
        assert ids((await second.messages("t")).items) == ["t-m1"]
