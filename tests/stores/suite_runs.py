"""What every store must do with suspended runs; it knows no store."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock.engine import MessageError, StorageConflictError, UsageError
from penstock.engine.values.protocols import RunStore
from penstock.engine.values.stored import StoredRun
from tests.stores.made import many


async def pages(store, limit, **asked):
    """Return the ids of all runs that are listed, page by page."""
    seen: list[str] = []
    after = None
    while True:
        page = await store.runs(limit=limit, after=after, **asked)
        assert len(page.items) <= limit
        seen += [run.id for run in page.items]
        after = page.following
        if after is None:
            return seen


class RunsSuite:
    """Runs: replaced by version, listed in pages, deleted with their thread and their owner."""

    async def test_it_is_a_run_store(self, store):
        """The port is met."""
        assert isinstance(store, RunStore)

    async def test_a_run_that_is_not_there_is_none(self, store):
        """No error, no run; and there is nothing to delete."""
        assert await store.run("x") is None
        assert await store.delete_run("x") is False
        assert (await store.runs()).items == ()

    async def test_a_run_is_kept_as_it_was_given(self, store):
        """All fields come back, with the times of storing and version 1."""
        before = datetime.now(UTC) - timedelta(seconds=1)
        due = datetime(2030, 1, 1, 12, 0, 0, 123456, timezone(timedelta(hours=2)))
        body = {"calls": [{"id": "c1", "arguments": {"to": "anna", "n": 1.5}}], "asks": [None, True, "é\0\ud83d"]}
        given = StoredRun("x", "mailer", "running", body, "t", "r", due)
        kept = await store.save_run(given)
        assert await store.run("x") == kept
        assert replace(kept, created_at=None, updated_at=None, version=0) == given
        assert kept.version == 1
        assert before < kept.created_at < datetime.now(UTC) + timedelta(seconds=1)
        assert kept.updated_at == kept.created_at
        assert {time.utcoffset() for time in (kept.created_at, kept.due_at)} == {timedelta(0)}

    async def test_a_run_may_have_neither_thread_nor_owner_nor_time(self, store):
        """As a request without a memory; a time without a zone is of UTC."""
        kept = await store.save_run(StoredRun("x", "mailer"))
        assert (kept.status, kept.body, kept.thread_id, kept.resource_id, kept.due_at) == (
            "waiting",
            {},
            None,
            None,
            None,
        )
        naive = datetime(2030, 1, 1)  # noqa: DTZ001 - the point
        kept = await store.save_run(replace(kept, due_at=naive))
        assert kept.due_at == naive.replace(tzinfo=UTC)
        assert await store.run("x") == kept

    async def test_a_run_is_replaced_in_the_version_that_was_read(self, store):
        """Everything but its id and the time of its making; each version is the next one."""
        first = await store.save_run(StoredRun("x", "mailer", "waiting", {"a": 1}, "t", "r"))
        later = replace(first, agent="other", status="ended", body={"b": 2}, thread_id=None, resource_id="s")
        second = await store.save_run(replace(later, created_at=datetime(1990, 1, 1, tzinfo=UTC)))
        assert second == replace(later, created_at=first.created_at, updated_at=second.updated_at, version=2)
        assert second.updated_at >= first.updated_at
        assert await store.run("x") == second
        assert (await store.save_run(second)).version == 3

    @pytest.mark.parametrize("version", [0, 1, 3])
    async def test_a_run_that_has_another_version_is_not_replaced(self, store, version):
        """The version that it has is told, and nothing is stored."""
        first = await store.save_run(StoredRun("x", "mailer", body={"text": "one"}))
        second = await store.save_run(replace(first, body={"text": "two"}))
        with pytest.raises(StorageConflictError) as caught:
            await store.save_run(replace(first, body={"text": "three"}, version=version))
        assert caught.value.version == 2
        assert "text" not in str(caught.value)
        assert await store.run("x") == second

    async def test_a_run_that_was_deleted_is_not_replaced(self, store):
        """Nor brought back by somebody who has read it; its id is free."""
        first = await store.save_run(StoredRun("x", "mailer"))
        assert await store.delete_run("x") is True
        with pytest.raises(StorageConflictError) as caught:
            await store.save_run(first)
        assert caught.value.version == 0
        assert await store.run("x") is None
        assert await store.delete_run("x") is False
        assert (await store.save_run(StoredRun("x", "mailer"))).version == 1

    async def test_a_body_that_is_not_json_is_refused(self, store):
        """And the version before stays."""
        kept = await store.save_run(StoredRun("x", "mailer", body={"a": 1}))
        with pytest.raises(MessageError, match=r"run\.body"):
            await store.save_run(replace(kept, body={"a": object()}))
        assert await store.run("x") == kept

    @pytest.mark.parametrize(
        "wrong",
        [
            {"id": ""},
            {"agent": ""},
            {"agent": 3},
            {"status": "odd"},
            {"thread_id": ""},
            {"resource_id": ""},
            {"version": -1},
            {"version": None},
            {"version": True},
            {"version": 2**63},
            {"due_at": datetime.max.replace(tzinfo=timezone(timedelta(hours=-1)))},
        ],
    )
    async def test_a_run_that_cannot_be_is_refused(self, store, wrong):
        """Before the database is asked."""
        with pytest.raises(UsageError):
            await store.save_run(replace(StoredRun("x", "mailer"), **wrong))
        assert await store.run("x") is None

    async def test_runs_are_listed_in_pages_by_status_and_agent(self, store):
        """Each once, the one that was first stored first, whatever has been changed since."""
        ids = ["f", "a", "e", "b", "d", "c", "g"]
        for number, name in enumerate(ids):
            status = ("waiting", "running", "ended")[number % 3]
            kept = await store.save_run(StoredRun(name, f"agent{number % 2}", status, {"number": number}))
            if number == 0:
                first = kept
        await store.save_run(replace(first, body={"changed": True}))
        assert await pages(store, 2) == ids
        assert await pages(store, 7) == ids
        assert await pages(store, 2, status="waiting") == ["f", "b", "g"]
        assert await pages(store, 1, agent="agent1") == ["a", "b", "c"]
        assert await pages(store, 1, status="waiting", agent="agent0") == ["f", "g"]
        assert await pages(store, 1, status="ended", agent="nobody") == []
        assert (await store.runs(limit=1)).items == (await store.run("f"),)
        assert await pages(store, 2, newest_first=True) == ids[::-1]
        assert await pages(store, 2, status="waiting", newest_first=True) == ["g", "b", "f"]

    async def test_pages_are_whole_while_others_write(self, store):
        """Runs that are there all the time are listed once, in order; a deleted one does not disturb the rest."""
        ids = [f"{number * 7 % 8}" for number in range(8)]
        for name in ids:
            await store.save_run(StoredRun(name, "mailer"))
        seen: list[str] = []
        after = None
        for turn in range(20):
            page = await store.runs(limit=2, status="waiting", after=after)
            seen += [run.id for run in page.items]
            after = page.following
            if after is None:
                break
            if turn < 3:
                await store.save_run(StoredRun(f"0-{turn}", "mailer"))  # its id sorts before most
                await store.save_run(page.items[0])
            if turn == 0:
                await store.delete_run(page.items[-1].id)  # where the next page goes on
        assert after is None
        assert seen == [*ids, "0-0", "0-1", "0-2"]

    async def test_a_page_of_runs_that_cannot_be_is_refused(self, store):
        """Wrong limits, statuses and made-up places to go on from are the caller's mistakes, and said so."""
        for wrong in ({"limit": 0}, {"limit": 10_001}, {"status": "odd"}, {"after": "made up"}):
            with pytest.raises(UsageError):
                await store.runs(**wrong)

    async def test_runs_are_deleted_with_their_thread(self, store):
        """Also if the store has no such thread; those of other threads stay."""
        await store.save_messages(many(1, "t"))
        for name, thread in (("x", "t"), ("y", "t"), ("z", "u"), ("loose", None)):
            await store.save_run(StoredRun(name, "mailer", thread_id=thread, resource_id="r"))
        assert await store.delete_thread("t") is True
        assert await pages(store, 9) == ["z", "loose"]
        assert await store.delete_thread("u") is False
        assert await pages(store, 9) == ["loose"]

    async def test_runs_are_deleted_with_their_owner(self, store):
        """Those that name it, and those of its threads; what is others' stays, whatever its name."""
        await store.save_messages(many(1, "t"))
        for name, thread, resource in (
            ("named", None, "r"),
            ("of its thread", "t", None),
            ("of a thread elsewhere", "u", "r"),
            ("of another", "u", "s"),
            ("of nobody", None, None),
            ("of a thread of that name", "r", "s"),
        ):
            await store.save_run(StoredRun(name, "mailer", thread_id=thread, resource_id=resource))
        assert await store.delete_resource("r") == 1
        assert await pages(store, 9) == ["of another", "of nobody", "of a thread of that name"]
