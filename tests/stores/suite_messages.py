"""What every store must do with messages; it knows no store."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock import Message, TextPart, ToolPart
from penstock.engine import DataPart, FilePart, ImagePart, MessageError, OwnershipError, ReasoningPart, UsageError
from penstock.engine.values.messages import StepStartPart, UnknownPart
from penstock.engine.values.stored import Thread
from tests.stores.made import entry, ids, many, said, texts

EVERY_KIND = (
    TextPart("text with \u0000, \ud83d, \U0001f600, '\"; DROP TABLE", metadata={"a": [1, {"b": None}]}),
    ReasoningPart("thought"),
    ImagePart(url="https://example.org/a.png", media_type="image/png"),
    FilePart(data="aGk=", media_type="text/plain", name="a.txt"),
    ToolPart("c1", "search", {"q": "x", "n": [1.5, True]}, "result", {"hits": ["a"]}),
    ToolPart("c2", "search", {}, "error", error="broke"),
    DataPart("weather", {"t": 21}),
    StepStartPart(),
    UnknownPart({"type": "new", "x": 1}),
)


class MessagesSuite:
    """Messages: kept whole, in the order given, once; read in pages, by id, with neighbours; deleted with vectors."""

    async def test_messages_are_kept_in_the_order_given(self, store):
        """The newest come first, unless the oldest are asked for."""
        stored = await store.save_messages(many(4))
        assert ids(stored) == ["t-m1", "t-m2", "t-m3", "t-m4"]
        assert [item.order for item in stored] == sorted({item.order for item in stored})
        newest = await store.messages("t")
        assert ids(newest.items) == ["t-m4", "t-m3", "t-m2", "t-m1"]
        oldest = await store.messages("t", oldest_first=True)
        assert oldest.items == stored
        assert oldest.following is None

    async def test_order_needs_no_times(self, store):
        """Messages of one moment, and ones whose clock went backwards, stay as they came."""
        late = datetime(2030, 1, 1, tzinfo=UTC)
        for number in range(5):
            made = Message.user("x", id=f"m{number}", thread_id="t", created_at=late - timedelta(days=number))
            await store.save_messages([made])
        assert ids((await store.messages("t", oldest_first=True)).items) == ["m0", "m1", "m2", "m3", "m4"]

    async def test_a_message_of_every_kind_of_part_comes_back_equal(self, store):
        """Nothing of it is lost: parts, metadata, time with its zone, halves of surrogates."""
        made = Message.assistant(
            EVERY_KIND,
            id="m1",
            thread_id="t",
            resource_id="r",
            created_at=datetime(2026, 3, 4, 5, 6, 7, 89, timezone(timedelta(hours=5, minutes=30))),
            metadata={"deep": {"list": [1, 2]}, "text": "\U0001f600"},
        )
        (stored,) = await store.save_messages([made])
        assert stored.message == made
        (read,) = (await store.messages("t")).items
        assert read.message == made
        assert read.message.metadata["deep"]["list"] == (1, 2)

    async def test_a_message_without_a_time_is_given_one_and_keeps_it(self, store):
        """It is the time of first storing, with its zone."""
        (stored,) = await store.save_messages([said("m1")])
        at = stored.message.created_at
        assert at is not None
        assert at.utcoffset() == timedelta(0)
        (again,) = await store.save_messages([said("m1", "changed")])
        assert again.message.created_at == at

    async def test_a_message_that_brings_another_time_has_it(self, store):
        """It replaces the whole message; the place stays."""
        await store.save_messages(many(2))
        at = datetime(2020, 1, 1, tzinfo=UTC)
        made = Message.user("changed", id="t-m1", thread_id="t", created_at=at)
        assert (await store.save_messages([made]))[0].message.created_at == at
        page = await store.messages("t", oldest_first=True)
        assert ids(page.items) == ["t-m1", "t-m2"]
        assert page.items[0].message == made

    async def test_saving_again_replaces_and_keeps_the_place(self, store):
        """As often as one likes: there is no double."""
        first = await store.save_messages(many(3))
        for _ in range(3):
            again = await store.save_messages([said("t-m2", "changed"), *many(1, start=4)])
        assert [item.order for item in again] == [first[1].order, again[1].order]
        page = await store.messages("t", oldest_first=True)
        assert texts(page.items) == ["text of t-m1", "changed", "text of t-m3", "text of t-m4"]

    async def test_one_id_twice_at_once_is_one_message(self, store):
        """The last of them counts; both come back as it is kept."""
        stored = await store.save_messages([said("m1", "one"), said("m2"), said("m1", "two")])
        assert texts(stored) == ["two", "text of m2", "two"]
        assert texts((await store.messages("t", oldest_first=True)).items) == ["two", "text of m2"]

    async def test_nothing_to_save_is_nothing(self, store):
        """No error, no thread."""
        assert await store.save_messages([]) == ()

    async def test_threads_that_are_missing_are_made(self, store):
        """Of the message's resource, or, if it has none, their own."""
        await store.save_messages([said("m1", thread="t"), said("m2", thread="u", resource=None)])
        assert [(await store.thread(name)).resource_id for name in ("t", "u")] == ["r", "u"]
        assert (await store.thread("t")).title == ""

    async def test_a_thread_that_is_there_stays_as_it_is(self, store):
        """Its title and metadata are not touched, nor is its version."""
        await store.create_thread(Thread("t", "r", "title", {"a": 1}))
        await store.save_messages([said("m1"), said("m2", resource=None)])
        kept = await store.thread("t")
        assert (kept.title, kept.metadata, kept.version, kept.resource_id) == ("title", {"a": 1}, 1, "r")

    @pytest.mark.parametrize(
        "made",
        [
            Message.user("x", thread_id="t"),
            Message.user("x", id="m9"),
            Message.user("x", id="m9", thread_id=""),
            Message.user("x", id="m9", thread_id="t", resource_id=""),
        ],
        ids=["no id", "no thread", "an empty thread", "an empty resource"],
    )
    async def test_a_message_without_id_or_thread_is_refused_with_all_others(self, store, made):
        """All or none."""
        with pytest.raises(MessageError):
            await store.save_messages([said("m1"), made])
        assert await store.messages_by_id(["m1"]) == ()
        assert await store.thread("t") is None

    async def test_a_message_for_the_thread_of_another_resource_is_refused_with_all_others(self, store):
        """Nothing of it is stored, and the error names nobody."""
        await store.save_messages([said("m1", thread="theirs", resource="owner-of-it")])
        with pytest.raises(OwnershipError) as caught:
            await store.save_messages([said("m2", thread="mine"), said("m3", "secret", "theirs")])
        assert "owner-of-it" not in str(caught.value)
        assert "secret" not in str(caught.value)
        assert await store.messages_by_id(["m2", "m3"]) == ()
        assert await store.thread("mine") is None

    async def test_messages_of_two_resources_for_one_new_thread_are_refused(self, store):
        """A thread is one resource's from its first message on."""
        with pytest.raises(OwnershipError):
            await store.save_messages([said("m1", resource="r"), said("m2", resource="s")])
        assert await store.thread("t") is None

    async def test_the_id_of_another_threads_message_is_refused(self, store):
        """Nobody takes a message away from its thread."""
        await store.save_messages([said("m1", "theirs", "u")])
        with pytest.raises(OwnershipError):
            await store.save_messages([said("m2"), said("m1", "mine", "t")])
        assert texts(await store.messages_by_id(["m1", "m2"])) == ["theirs"]

    async def test_one_id_in_two_threads_at_once_is_refused(self, store):
        """The same, within one call."""
        with pytest.raises(OwnershipError):
            await store.save_messages([said("m1", thread="t"), said("m1", thread="u")])
        assert await store.messages_by_id(["m1"]) == ()

    async def test_what_is_no_json_is_refused(self, store):
        """Rather than kept as something else."""
        with pytest.raises(MessageError):
            await store.save_messages([Message.user("x", id="m1", thread_id="t", metadata={"a": object()})])
        assert await store.thread("t") is None

    @pytest.mark.parametrize("oldest_first", [False, True], ids=["newest first", "oldest first"])
    async def test_pages_leave_none_out_and_show_none_twice(self, store, oldest_first):
        """Whatever is written meanwhile."""
        await store.save_messages(many(10))
        first = await store.messages("t", limit=4, oldest_first=oldest_first)
        await store.save_messages(many(2, start=11))
        second = await store.messages("t", limit=4, before=first.following, oldest_first=oldest_first)
        third = await store.messages("t", limit=4, before=second.following, oldest_first=oldest_first)
        newest = [f"t-m{number}" for number in range(10, 0, -1)]
        oldest = [f"t-m{number}" for number in range(1, 13)]
        assert ids([*first.items, *second.items, *third.items]) == (oldest if oldest_first else newest)
        assert third.following is None

    async def test_a_page_that_holds_the_rest_has_nothing_following(self, store):
        """Also where it is exactly full."""
        await store.save_messages(many(4))
        assert (await store.messages("t", limit=4)).following is None
        assert (await store.messages("t", limit=3)).following is not None

    async def test_a_page_of_messages_that_cannot_be_is_refused(self, store):
        """Wrong limits, made-up places, and places of the other order are the caller's mistakes."""
        await store.save_messages(many(3))
        place = (await store.messages("t", limit=1)).following
        for wrong in ({"limit": 0}, {"limit": 10_001}, {"before": "made up"}, {"before": place, "oldest_first": True}):
            with pytest.raises(UsageError):
                await store.messages("t", **wrong)

    async def test_messages_of_another_resource_are_not_read(self, store):
        """A thread that is not the resource's has nothing for it."""
        await store.save_messages([said("m1"), said("m2", resource=None)])
        assert ids((await store.messages("t", resource_id="r")).items) == ["m2", "m1"]
        assert (await store.messages("t", resource_id="s")).items == ()

    async def test_messages_are_found_by_id(self, store):
        """Each once, by thread and order, those that are not there left out."""
        await store.save_messages([*many(3, "u"), *many(3, "t")])
        found = await store.messages_by_id(["u-m3", "t-m2", "none", "u-m1", "t-m2"])
        assert ids(found) == ["t-m2", "u-m1", "u-m3"]
        assert await store.messages_by_id([]) == ()

    async def test_neighbours_come_along(self, store):
        """From the same thread only, each once, by thread and order, across the places of deleted ones."""
        await store.save_messages([*many(9, "t"), *many(2, "u")])
        await store.delete_messages(["t-m4"])
        found = await store.messages_around(["t-m5", "t-m6", "u-m1", "none"], before=1, after=2)
        assert ids(found) == ["t-m3", "t-m5", "t-m6", "t-m7", "t-m8", "u-m1", "u-m2"]
        assert ids(await store.messages_around(["t-m1"], before=0, after=0)) == ["t-m1"]
        assert await store.messages_around([], before=3, after=3) == ()

    async def test_fewer_than_no_neighbours_are_refused(self, store):
        """The caller's mistake."""
        with pytest.raises(UsageError):
            await store.messages_around(["m"], before=-1, after=0)

    async def test_messages_are_deleted_with_their_vectors(self, store):
        """In every index, all that are of them; and they are counted."""
        await store.save_messages(many(3))
        chunks = [entry("a", [1, 0], message="t-m1"), entry("b", [0, 1], message="t-m1"), entry("c", [1, 1])]
        await store.upsert_vectors("i", chunks)
        await store.upsert_vectors("j", [entry("a", [1, 0, 0], message="t-m1")])
        assert await store.delete_messages(["t-m1", "none", "t-m1"]) == 1
        assert ids((await store.messages("t")).items) == ["t-m3", "t-m2"]
        assert [hit.id for hit in await store.query_vectors("i", [1, 0], limit=9)] == ["c"]
        assert await store.query_vectors("j", [1, 0, 0], limit=9) == ()
        assert await store.delete_messages([]) == 0

    async def test_the_place_of_a_deleted_message_is_not_given_again(self, store):
        """So that no place to go on from is ever another's."""
        stored = await store.save_messages(many(3))
        await store.delete_messages(["t-m3"])
        (after,) = await store.save_messages(many(1, start=4))
        assert after.order > stored[2].order

    async def test_many_messages_at_once_are_kept(self, store):
        """More than a statement has places for values."""
        await store.save_messages(many(3000))
        page = await store.messages("t", limit=10_000, oldest_first=True)
        assert ids(page.items) == [f"t-m{number}" for number in range(1, 3001)]
        assert len(await store.messages_by_id(ids(page.items))) == 3000
        assert await store.delete_messages(ids(page.items)) == 3000
