"""Whether what is new gets into the index: what the guards left, once, together, whatever becomes of the request."""

import pytest

from penstock import Message, MessageList, StorageError, Workflow, processor
from penstock.engine import StepFailedError
from penstock.engine.processor.context import OutputResultContext
from tests.processors.memory.recall_cases import asked, indexed, made, recalled, said, start
from tests.processors.memory.shelf import KeywordEmbedder, Shelf


def answered(question: str, answer: str) -> MessageList:
    """Return a conversation that has come to its end."""
    remembered = MessageList([Message.user("a dog, long ago", id="m")], source="memory")
    listed = remembered.add(Message.user(question, id="q"), source="input").add(Message.system("be kind"))
    return listed.add(Message.assistant(answer, id="a"), source="response")


async def run_through(recall, question="my cat", answer="a fine pet", *, fails=False, **where) -> None:
    """Run the stages of a request with one answer; ``fails``: the model does."""
    workflow = recall if isinstance(recall, Workflow) else Workflow("w").then(recall)
    async with start(workflow, **where) as run:
        run.message_list = answered(question, answer)
        await run.process_llm_request()
        if fails:
            run.abandon()
            return
        await run.process_output_result()


def ids(shelf: Shelf) -> list[str]:
    """Return the ids in the index."""
    return sorted(entry.id for entry in shelf.entries.values())


async def test_input_and_answers_are_embedded_in_one_call():
    """Not what is remembered, nor the system's, nor what is blank."""
    embedder = KeywordEmbedder()
    shelf, recall = made(embedder=embedder)
    await run_through(recall)
    assert embedder.calls == [["a fine pet", "my cat"]]
    assert [(each.id, each.message_id, each.thread_id, each.resource_id) for each in shelf.upserts[0]] == [
        ("a", "a", "t1", "r1"),
        ("q", "q", "t1", "r1"),
    ]
    await run_through(recall, "  ", "")
    assert len(shelf.upserts) == 1


async def test_a_text_that_was_searched_for_is_not_embedded_again():
    """The question and the input are one text."""
    embedder = KeywordEmbedder()
    _, recall = made(embedder=embedder)
    async with start(recall) as run:
        await run.process_input("my cat")
        await run.process_input_step()
        await run.process_output_result()
    assert embedder.calls == [["my cat"]]


async def test_a_long_message_is_indexed_in_pieces():
    """The first entry has the message's id; a message that is indexed again leaves no old piece."""
    shelf, recall = made()
    long = " ".join(f"Sentence {number} is about my cat." for number in range(50))
    await run_through(recall, long)
    assert ids(shelf) == ["a", "q", "q#1", "q#2"]
    assert {entry.message_id for entry in shelf.entries.values()} == {"a", "q"}
    shelf.put(said("q", "short"))
    assert await recall.reindex("t1") == 1
    assert ids(shelf) == ["a", "q"]


async def test_a_huge_message_does_not_take_the_embedder_down():
    """64 pieces are indexed."""
    shelf, recall = made()
    await run_through(recall, "word " * 100_000)
    assert len(ids(shelf)) == 65


async def test_elements_of_the_working_memory_are_not_indexed():
    """They are kept elsewhere."""
    embedder = KeywordEmbedder()
    _, recall = made(embedder=embedder)
    await run_through(recall, "x", "<working_memory>secret</working_memory>a pet")
    assert embedder.calls == [["a pet", "x"]]


@pytest.mark.parametrize("read_only", [True, lambda context: context["thread_id"] == "t1"])
async def test_nothing_is_indexed_where_nothing_is_to_be_kept(read_only):
    """Nor without a thread."""
    shelf, recall = made(read_only=read_only)
    await run_through(recall)
    _, open_ = made(shelf)
    await run_through(open_, thread=None)
    assert shelf.upserts == []


async def test_an_owner_that_the_request_does_not_name_is_the_threads():
    """So it is found again in a scope of the resource; one of another owner is refused."""
    shelf, recall = made()
    shelf.owners["t1"] = "ann"
    await run_through(recall, resource=None)
    assert {entry.resource_id for entry in shelf.entries.values()} == {"ann"}
    with pytest.raises(StepFailedError):
        await run_through(recall, resource="bob")
    assert len(shelf.upserts) == 1


async def test_an_accepted_input_is_indexed_though_no_answer_came():
    """Unless it is to be kept with an answer only."""
    shelf, recall = made()
    await run_through(recall, fails=True)
    assert ids(shelf) == ["q"]
    shelf, recall = made(keep_input="answered")
    await run_through(recall, fails=True)
    assert ids(shelf) == []


async def test_an_input_that_was_blocked_is_not_indexed():
    """Whichever stage did it, before the model was asked."""

    def blocking(stage: str):
        @processor(stage, id="guard")
        def guard(ctx):
            ctx.abort("no")

        return guard

    for stage in ("process_input", "process_input_step", "process_llm_request"):
        for workflow_of in (lambda r, g: Workflow("w").then(g).then(r), lambda r, g: Workflow("w").then(r).then(g)):
            shelf, recall = made()
            async with start(workflow_of(recall.saver, blocking(stage))) as run:
                await run.process_input("my cat")
                await run.process_input_step()
                await run.process_llm_request()
            assert ids(shelf) == [], stage


async def test_checks_beside_the_model_are_waited_for():
    """The input is not accepted before their verdict."""

    @processor("process_input", edits="nothing")
    async def slow(ctx):
        ctx.abort("no")

    shelf, recall = made()
    workflow = Workflow("w").then(slow, overlap="model").then(recall.saver)

    async def model() -> str:
        return "hi"

    async with start(workflow, overlap=True) as run:
        await run.process_input("my cat")
        await run.process_input_step()
        await run.process_llm_request()
        assert (await run.call_model(model)).outcome.blocked
    assert ids(shelf) == []


async def test_an_answer_that_is_rejected_later_is_taken_back():
    """By a processor that stands behind, where none should."""

    @processor
    def late(ctx: OutputResultContext) -> None:
        ctx.abort("no")

    shelf, recall = made()
    await run_through(Workflow("w").then(recall).then(late))
    assert ids(shelf) == ["q"]


async def test_an_answer_that_is_removed_later_is_taken_back():
    """As one that is rejected."""

    @processor(edits="anything")
    def late(ctx: OutputResultContext) -> MessageList:
        return ctx.message_list.remove(ctx.messages[-1].id)

    shelf, recall = made()
    await run_through(Workflow("w").then(recall).then(late))
    assert ids(shelf) == ["q"]


async def test_indexing_may_wait_for_the_end_of_the_run():
    """The client has everything by then; blocked answers are not there any more."""
    shelf, recall = made(indexing="end")
    async with start(recall) as run:
        run.message_list = answered("my cat", "a fine pet")
        await run.process_llm_request()
        await run.process_output_result()
        assert shelf.upserts == []
    assert ids(shelf) == ["a", "q"]

    @processor
    def late(ctx: OutputResultContext) -> None:
        ctx.abort("no")

    shelf, recall = made(indexing="end")
    await run_through(Workflow("w").then(recall).then(late))
    assert ids(shelf) == ["q"]


async def test_a_failure_with_the_answer_follows_the_policy():
    """It is not tried again behind the caller's back."""
    embedder = KeywordEmbedder(fails=True)
    shelf, recall = made(embedder=embedder)
    with pytest.raises(StepFailedError):
        await run_through(recall)
    shelf, recall = made(on_error="allow")
    shelf.broken = {"upsert_vectors"}
    await run_through(recall)
    shelf.broken = set()
    assert ids(shelf) == []


async def test_a_failure_at_the_end_is_logged_with_the_cure(caplog):
    """There is nobody to raise it to; no text is told."""
    shelf, recall = made(indexing="end")
    shelf.broken = {"upsert_vectors"}
    await run_through(recall, "my secret cat")
    assert "call reindex()" in caplog.text
    assert "StorageError" in caplog.text
    assert "secret" not in caplog.text


async def test_an_index_can_be_made_of_what_is_stored():
    """Of a thread, a resource, or everybody; twice makes no difference."""
    shelf, recall = made(message_range=0, threshold=0.5)
    rows = [said(f"m{number}", f"cat number {number}", "t1" if number % 2 else "t2") for number in range(230)]
    shelf.put(*rows, said("x", "her cat", "t3", owner="r2"), said("s", "", "t1"))
    assert await recall.reindex("t1") == 115
    assert await recall.reindex(resource_id="r1") == 230
    assert await recall.reindex() == await recall.reindex() == 231
    assert len(ids(shelf)) == 231
    assert len(recalled((await asked(recall, "pet")).message_list)) > 0


@pytest.mark.parametrize("where", [("none", None), ("t1", "bob")])
async def test_a_thread_that_is_not_there_or_anothers_cannot_be_indexed(where):
    """It is said, not passed over."""
    shelf, recall = made()
    await indexed(shelf, recall, said("a", "my cat"))
    with pytest.raises(StorageError):
        await recall.reindex(where[0], resource_id=where[1])
