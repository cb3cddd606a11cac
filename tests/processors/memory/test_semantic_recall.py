"""Whether recall finds what it should, and puts it where it belongs."""

from datetime import timedelta

import pytest

from penstock import Message, MessageList, ModelError, OptionError, SemanticRecall, ToolPart, Workflow, processor
from penstock.engine import OwnershipError, StepFailedError
from penstock.engine.processor.context import InputContext
from penstock.engine.values.stored import VectorEntry
from penstock.models import CachedEmbedder, HashingEmbedder
from penstock.processors.memory import RecallRanking
from penstock.testing import VirtualClock
from tests.processors.memory.recall_cases import START, asked, indexed, made, quoted, recalled, said, start
from tests.processors.memory.shelf import KeywordEmbedder, Shelf

TALK = [
    said("a", "my cat is old"),
    said("b", "how nice", role="assistant", day=1),
    said("c", "the car broke", day=2),
    said("d", "how sad", role="assistant", day=3),
    said("e", "I eat pasta", day=4),
]


@pytest.mark.parametrize(
    ("range_", "ids"),
    [(0, ["c"]), (1, ["b", "c", "d"]), ((0, 2), ["c", "d", "e"]), ({"before": 2}, ["a", "b", "c"])],
)
async def test_a_hit_comes_with_its_neighbours_in_the_order_of_the_thread(range_, ids):
    """As many on each side as one says; before the input."""
    shelf, recall = made(top_k=1, message_range=range_)
    await indexed(shelf, recall, *TALK)
    outcome = await asked(recall, Message.user("a vehicle", id="q"))
    assert recalled(outcome.message_list) == ids
    assert [message.id for message in outcome.messages] == [*ids, "q"]


async def test_what_is_there_already_is_not_repeated():
    """Not as a hit, nor as a neighbour."""
    shelf, recall = made(top_k=1)
    await indexed(shelf, recall, *TALK)
    listed = MessageList([TALK[2], TALK[3]], source="memory").add("my vehicle")
    outcome = await asked(recall, listed)
    assert recalled(outcome.message_list) == ["b", "c", "d"]


async def test_recalled_messages_stand_among_the_memories_by_time():
    """What is older than the history comes before it."""
    shelf, recall = made(top_k=2, message_range=0, threshold=0.5)
    await indexed(shelf, recall, *TALK, said("f", "a pet", day=9))
    listed = MessageList([TALK[1], TALK[3]], source="memory").add([Message.assistant("hi", id="x")], source="input")
    outcome = await asked(recall, listed.add(Message.user("my dog", id="q")))
    assert [message.id for message in outcome.message_list.conversation] == ["a", "b", "d", "f", "x", "q"]


async def test_the_question_is_the_users_last_message_with_a_text():
    """Of the input; in its own words, parts joined."""
    embedder = KeywordEmbedder()
    shelf, recall = made(embedder=embedder, top_k=1, message_range=0)
    await indexed(shelf, recall, *TALK)
    embedder.calls.clear()
    outcome = await asked(recall, [Message.user("car"), Message.user("pet"), Message.assistant("car")])
    assert (embedder.calls, recalled(outcome.message_list)) == ([["pet"]], ["a"])


@pytest.mark.parametrize("question", [[Message.assistant("pet")], [Message.user(" ")]])
async def test_nothing_is_searched_for_where_nothing_is_asked(question):
    """No embedder is asked either."""
    embedder = KeywordEmbedder()
    shelf, recall = made(embedder=embedder)
    await asked(recall, question)
    await asked(recall, "pet", thread=None)
    assert (embedder.calls, shelf.queries) == ([], [])


async def test_low_scores_fill_up_unless_there_is_a_threshold():
    """The least likeness that one says."""
    shelf, recall = made(top_k=4, message_range=0)
    await indexed(shelf, recall, *TALK)
    assert len(recalled((await asked(recall, "pet")).message_list)) == 4
    _, strict = made(shelf, threshold=0.5, message_range=0)
    assert recalled((await asked(strict, "pet")).message_list) == ["a"]


def test_an_embedder_may_bring_its_own_threshold():
    """Through its cache, too; unless one says otherwise."""
    assert SemanticRecall(Shelf()).threshold == SemanticRecall(Shelf(), CachedEmbedder(HashingEmbedder())).threshold
    assert SemanticRecall(Shelf()).threshold == HashingEmbedder.threshold
    assert SemanticRecall(Shelf(), KeywordEmbedder()).threshold is None
    assert SemanticRecall(Shelf(), threshold=None).threshold is None


async def test_a_resource_is_searched_in_all_its_threads_and_nobody_elses():
    """Other threads are quoted; others' threads are not there."""
    shelf, recall = made(message_range=0)
    await indexed(shelf, recall, said("o", "my cat", "t2"), said("x", "her cat", "t3", owner="r2"), *TALK)
    outcome = await asked(recall, "pet")
    assert "my cat" in quoted(outcome.message_list)
    assert "her cat" not in quoted(outcome.message_list)
    assert shelf.queries[0]["filter"] == {"resource_id": "r1"}


@pytest.mark.parametrize(("scope", "resource"), [("thread", "r1"), ("resource", None)])
async def test_a_thread_is_searched_alone_if_one_says_so_or_nobody_says_whose_it_is(scope, resource):
    """Nothing is quoted then."""
    shelf, recall = made(scope=scope, message_range=0, threshold=0.5)
    await indexed(shelf, recall, said("o", "my cat", "t2"), *TALK)
    outcome = await asked(recall, "pet", resource=resource)
    assert recalled(outcome.message_list) == ["a"]
    assert quoted(outcome.message_list) == ""
    assert shelf.queries[0]["filter"] == {"thread_id": "t1"}


async def test_anothers_thread_is_not_searched():
    """Whoever names it."""
    shelf, recall = made(scope="thread")
    await indexed(shelf, recall, said("x", "her cat", "t3", owner="r2"))
    with pytest.raises(StepFailedError) as told:
        await asked(recall, "pet", thread="t3", resource="r1")
    assert isinstance(told.value.__cause__, OwnershipError)
    assert shelf.queries == []


async def test_what_the_index_says_of_a_message_is_not_believed():
    """The message itself says whose it is; entries of messages that are gone find nothing."""
    shelf, recall = made(message_range=0)
    await indexed(shelf, recall, said("x", "her cat", "t3", owner="r2"))
    entries = [VectorEntry(id_, [1.0, 0.0, 0.0], id_, "t1", "r1") for id_ in ("x", "gone")]
    await shelf.upsert_vectors(recall.index_name, entries)
    outcome = await asked(recall, "pet")
    assert (recalled(outcome.message_list), quoted(outcome.message_list)) == ([], "")


async def test_hits_of_no_use_make_room_for_others():
    """Doubles do; of doubles the newest stays."""
    doubles = [said(f"d{day}", "Where is my cat?!", day=day) for day in range(3)]
    shelf, recall = made(top_k=2, message_range=0)
    await indexed(shelf, recall, *doubles, said("z", "the cat is in the garden", day=1))
    assert recalled((await asked(recall, "pet")).message_list) == ["d2", "z"]
    assert [query["top_k"] for query in shelf.queries] == [2, 8]
    _, all_of_them = made(shelf, top_k=2, message_range=0, near_duplicates=None)
    assert recalled((await asked(all_of_them, "pet")).message_list) == ["d0", "d1"]


async def test_a_search_looks_at_a_thousand_hits_at_most():
    """However many are wanted, and however many doubles there are."""
    doubles = [said(f"d{number}", "a cat", day=number) for number in range(1_100)]
    shelf, recall = made(top_k=100, message_range=0, ranking=RecallRanking(candidates=5))
    await indexed(shelf, recall, *doubles)
    assert recalled((await asked(recall, "pet")).message_list) == ["d1099"]
    assert [query["top_k"] for query in shelf.queries] == [500, 1_000]


async def test_pieces_of_one_message_are_one_hit():
    """However many of them are like the question."""
    long = " ".join(f"My cat has done thing number {number} today." for number in range(200))
    shelf, recall = made(top_k=2, message_range=0)
    await indexed(shelf, recall, said("a", long), said("b", "a pet"))
    assert len(shelf.entries) > 5
    assert recalled((await asked(recall, "dog")).message_list) == ["a", "b"]


async def test_a_long_question_is_searched_for_by_its_ends():
    """In pieces, as it would be indexed."""
    embedder = KeywordEmbedder()
    shelf, recall = made(embedder=embedder, top_k=1, message_range=0)
    await indexed(shelf, recall, *TALK)
    embedder.calls.clear()
    filling = " ".join(f"Sentence {number} says nothing at all." for number in range(300))
    outcome = await asked(recall, f"{filling} Now, my vehicle?")
    assert [len(call) for call in embedder.calls] == [4]
    assert recalled(outcome.message_list) == ["c"]


async def test_a_ranking_prefers_what_is_recent_and_shares_words():
    """Among candidates that are as like as each other."""
    old, new = said("old", "a cat called Tom", day=0), said("new", "a cat and a dog", day=300)
    clock = VirtualClock(START + timedelta(days=301))
    for ranking, expected in (
        (RecallRanking(recency=0.5, lexical=0), "new"),
        (RecallRanking(recency=0, lexical=0.5), "old"),
        (RecallRanking(recency=0.1, lexical=0.5, half_life=timedelta(days=1)), "old"),
    ):
        shelf, recall = made(top_k=1, message_range=0, ranking=ranking, clock=clock)
        await indexed(shelf, recall, old, new)
        assert recalled((await asked(recall, "is Tom a pet?")).message_list) == [expected]
        assert shelf.queries[0]["top_k"] == 4


async def test_halves_of_calls_are_not_recalled():
    """Providers refuse a result without its call, and a call without its result."""
    call = Message.assistant([ToolPart("c1", "f", {"q": "cat"})], id="call", thread_id="t1", resource_id="r1")
    result = Message.tool([ToolPart("c1", "f", state="result", result="cat")], id="res", thread_id="t1")
    shelf, recall = made(top_k=1)
    await indexed(shelf, recall, said("a", "my cat"), call)
    shelf.put(result, said("b", "thanks"))
    assert recalled((await asked(recall, "pet")).message_list) == ["a"]
    _, wider = made(shelf, top_k=1, message_range=(0, 2))
    assert recalled((await asked(wider, "pet")).message_list) == ["a", "call", "res"]


async def test_it_searches_once_in_a_request():
    """Not before each model call."""
    shelf, recall = made()
    await indexed(shelf, recall, *TALK)
    async with start(recall) as run:
        await run.process_input("pet")
        for _ in range(3):
            await run.process_input_step()
    assert len(shelf.queries) == 1


async def test_it_searches_with_what_the_guards_left():
    """The question is embedded in no other form, and not at all if it is blocked; unless one wants it raw."""

    @processor(edits="spans")
    def hide(ctx: InputContext) -> MessageList:
        return ctx.message_list.map_text(lambda text: text.replace("secret", "***"))

    @processor
    def block(ctx: InputContext) -> None:
        if "stop" in ctx.text:
            ctx.abort("no")

    for query, expected in (("guarded", ["my *** pet"]), ("raw", ["my secret pet", "stop, pet"])):
        embedder = KeywordEmbedder()
        _, recall = made(embedder=embedder, query=query)
        guarded = Workflow("w").then(recall).then(hide).then(block)
        for question in ("my secret pet", "stop, pet"):
            await asked(guarded, question)
        assert [text for call in embedder.calls for text in call] == expected


async def test_a_vector_without_a_message_is_no_hit():
    """It makes room for the next best, whether the message is deleted or was never stored."""
    shelf, recall = made(top_k=1, message_range=0)
    talk = [said("m1", "my pet", "t2"), said("m2", "a pet in a car", "t2")]
    await indexed(shelf, recall, *talk)
    assert "my pet" in quoted((await asked(recall, "pet")).message_list)
    del shelf.rows["m1"]
    shown = quoted((await asked(recall, "pet")).message_list)
    assert "a pet in a car" in shown
    assert "my pet" not in shown
    del shelf.rows["m2"]
    assert quoted((await asked(recall, "pet")).message_list) == ""


@pytest.mark.parametrize("method", ["query_vectors", "messages_by_id", "messages_around"])
async def test_a_store_that_fails_costs_the_memories_not_the_request(method, caplog):
    """It is logged, and on record; or raised, or blocks, if one says so."""
    for policy in ("allow", "block"):
        shelf, recall = made(on_error=policy)
        await indexed(shelf, recall, *TALK)
        shelf.broken = {method}
        async with start(recall) as run:
            await run.process_input("pet")
            outcome = await run.process_input_step()
        assert outcome.blocked is (policy == "block")
        assert [record.error for record in run.records if record.status == "failed"] == ["StorageError"]
    assert "semantic-recall" in caplog.text


async def test_an_embedder_that_fails_is_raised_if_one_says_so():
    """Nothing of the question is in the error."""
    _, recall = made(embedder=KeywordEmbedder(fails=True))
    with pytest.raises(StepFailedError) as told:
        await asked(recall, "my secret pet")
    assert isinstance(told.value.__cause__, ModelError)
    assert "secret" not in str(told.value)


async def test_the_record_tells_how_much_was_found():
    """And no text."""
    shelf, recall = made(top_k=1)
    await indexed(shelf, recall, *TALK)
    async with start(recall) as run:
        await run.process_input("pet")
        await run.process_input_step()
    assert run.records[-1].details == {"hits": 1, "recalled": 2, "likeness": 1.0}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("storage", "memory.db"),
        ("embedder", "openai/text-embedding-3-small"),
        ("vectors", "memory.db"),
        ("top_k", 0),
        ("top_k", True),
        ("message_range", -1),
        ("message_range", (1,)),
        ("message_range", {"around": 1}),
        ("message_range", {}),
        ("message_range", "1"),
        ("scope", "everybody"),
        ("threshold", "0.5"),
        ("threshold", float("nan")),
        ("index_name", " "),
        ("ranking", 0.5),
        ("near_duplicates", 1.5),
        ("max_characters", 0),
        ("query", "redacted"),
        ("keep_input", "never"),
        ("indexing", "later"),
        ("read_only", "no"),
        ("on_error", "ignore"),
    ],
)
def test_options_that_cannot_be_are_refused(option, value):
    """Once, in the constructor, by name."""
    with pytest.raises(OptionError, match=option):
        SemanticRecall(**{"storage": Shelf(), option: value})


@pytest.mark.parametrize(
    "options",
    [{"recency": -0.1}, {"lexical": 2}, {"recency": 0.6, "lexical": 0.6}, {"half_life": 3}, {"candidates": 0}],
)
def test_rankings_that_cannot_be_are_refused(options):
    """Weights make 1 at most."""
    with pytest.raises(OptionError, match=next(iter(options)) if len(options) == 1 else "lexical"):
        RecallRanking(**options)


def test_two_of_the_same_options_are_equal():
    """So are graphs that hold them; an index is named for its embedder."""
    shelf = Shelf()
    assert SemanticRecall(shelf) == SemanticRecall(shelf) != SemanticRecall(shelf, top_k=2)
    assert SemanticRecall(shelf).index_name == "penstock_memory_hashing_512"
    assert SemanticRecall(shelf, HashingEmbedder(dimensions=64)).index_name == "penstock_memory_hashing_64"
    assert SemanticRecall(shelf, index_name="mine").index_name == "mine"


def test_its_halves_have_the_stages_of_each():
    """One to place first, one to place last."""
    recall = SemanticRecall(Shelf())
    loader, saver = recall.loader, recall.saver
    assert (recall.loads, recall.saves) == (True, True)
    assert (loader.loads, loader.saves, loader.stores, loader.id) == (True, False, False, "semantic-recall")
    assert (saver.loads, saver.saves, saver.stores, saver.id) == (False, True, True, "semantic-recall-saver")
    assert (saver.edits, SemanticRecall(Shelf(), read_only=True).stores) == ("nothing", False)
