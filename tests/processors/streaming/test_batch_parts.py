"""Batches lose nothing, delay no other chunk, and are sent when the first limit is reached."""

import math
from collections.abc import AsyncIterator, Iterable

import anyio
import pytest
import trio.testing

from penstock import BatchPartsProcessor, Chunk, OptionError, Workflow

FINISH = Chunk("finish")
TOOL = Chunk("tool-call", payload={"call_id": "c", "name": "search", "arguments": {}})


def delta(text: str, block: str = "t", **payload: object) -> Chunk:
    """Return a piece of text."""
    return Chunk("text-delta", text, block, payload)


def left_by(batcher: BatchPartsProcessor, source: Iterable[Chunk | str]) -> list[Chunk]:
    """Return what leaves a stream behind a batcher, without an event loop."""
    with Workflow("w").then(batcher).start_sync().process_output_stream(source) as chunks:
        return list(chunks)


def shown(chunks: Iterable[Chunk]) -> list[str]:
    """Return texts as they are, and the types of other chunks."""
    return [chunk.text or chunk.type for chunk in chunks]


# Limits


def test_pieces_leave_as_one_when_there_are_enough() -> None:
    """Five, unless told otherwise; the rest at the end."""
    assert shown(left_by(BatchPartsProcessor(), ["a", "b", "c", "d", "e", "f", "g"])) == ["abcde", "fg"]
    assert shown(left_by(BatchPartsProcessor(batch_size=2), [*"abc"])) == ["ab", "c"]


def test_without_limits_a_text_leaves_in_one_piece() -> None:
    """However long it is."""
    assert shown(left_by(BatchPartsProcessor(batch_size=None), ["ab"] * 100)) == ["ab" * 100]


def test_a_batch_leaves_when_it_is_long_enough() -> None:
    """At least so many characters; pieces are not cut."""
    batcher = BatchPartsProcessor(batch_size=None, batch_characters=4)
    assert shown(left_by(batcher, ["ab", "c", "defgh", "ij", "k"])) == ["abcdefgh", "ijk"]


def test_the_first_limit_that_is_reached_counts() -> None:
    """Count, characters and sentences side by side."""
    batcher = BatchPartsProcessor(batch_size=3, batch_characters=6, batch_sentences=True)
    assert shown(left_by(batcher, ["a", "b", "c", "defghi", "j. k", "l", "m"])) == ["abc", "defghi", "j.", " klm"]


def test_pieces_without_text_do_not_count() -> None:
    """They fill nothing, but what they say is kept."""
    pieces = [delta(""), delta("a"), delta("", signature="s"), delta("b"), delta("c")]
    assert left_by(BatchPartsProcessor(batch_size=2), pieces) == [delta("ab", signature="s"), delta("c")]


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("batch_size", 0),
        ("batch_size", -3),
        ("batch_size", True),
        ("batch_size", 2.0),
        ("batch_characters", 0),
        ("batch_sentences", 1),
        ("emit_on_non_text", "no"),
        ("max_wait_time", -1),
        ("max_wait_time", math.nan),
        ("max_wait_time", math.inf),
        ("max_wait_time", True),
        ("max_wait_time", "1"),
    ],
)
def test_what_cannot_be_meant_is_refused(option: str, given: object) -> None:
    """The error names processor and option."""
    with pytest.raises(OptionError, match=rf"BatchPartsProcessor.*{option}"):
        BatchPartsProcessor(**{option: given})  # type: ignore[arg-type]


# What is kept


def test_a_piece_that_leaves_alone_is_the_one_that_came() -> None:
    """Nothing is made anew where nothing is joined."""
    pieces = [delta("a", x=1), TOOL, delta("b")]
    assert all(out is given for out, given in zip(left_by(BatchPartsProcessor(), pieces), pieces, strict=True))


def test_what_pieces_say_besides_is_kept_and_the_last_word_counts() -> None:
    """As providers put signatures and marks there."""
    pieces = [delta("a", x=1, y=1), delta("b"), delta("c", y=2)]
    assert left_by(BatchPartsProcessor(), pieces) == [delta("abc", x=1, y=2)]


def test_texts_of_two_blocks_or_runs_are_not_joined() -> None:
    """They are two texts, though they arrive by turns."""
    other = Chunk("text-delta", "d", "u", run_id="r")
    pieces = [delta("a"), delta("b"), delta("c", "u"), other, other, delta("e")]
    assert left_by(BatchPartsProcessor(), pieces) == [delta("ab"), delta("c", "u"), other.with_text("dd"), delta("e")]


def test_thoughts_and_arguments_are_not_batched() -> None:
    """They are no text of the answer."""
    pieces = [Chunk(f"{kind}-delta", "x", "i") for kind in ("reasoning", "tool-input") for _ in "ab"]
    assert left_by(BatchPartsProcessor(), pieces) == pieces


# Other chunks


@pytest.mark.parametrize("emit", [True, False])
@pytest.mark.parametrize(
    "other",
    [
        TOOL,
        FINISH,
        Chunk("step-finish"),
        Chunk("error"),
        Chunk("tool-result", id="c1", payload={"call_id": "c1"}),
        Chunk("source"),
        Chunk("object"),
        Chunk("data-x"),
        Chunk("reasoning-delta", "r", "r"),
        Chunk("text-end", id="t"),
        Chunk("file"),
    ],
)
def test_text_is_sent_ahead_of_what_has_a_place_in_the_answer(other: Chunk, emit: bool) -> None:
    """Whatever the option says: nothing is late, and nothing changes its place."""
    pieces = [delta("a"), delta("b"), other, delta("c")]
    assert left_by(BatchPartsProcessor(emit_on_non_text=emit), pieces) == [delta("ab"), other, delta("c")]


@pytest.mark.parametrize("other", [Chunk("raw"), Chunk("response-metadata"), Chunk("data-x", transient=True)])
def test_on_request_what_has_no_place_passes_by(other: Chunk) -> None:
    """By default text is sent before it."""
    pieces = [delta("a"), other, delta("b"), other, FINISH]
    assert left_by(BatchPartsProcessor(), pieces) == pieces
    batcher = BatchPartsProcessor(emit_on_non_text=False)
    assert left_by(batcher, pieces) == [other, other, delta("ab"), FINISH]


def test_the_end_of_a_text_and_of_the_step_send_what_is_left() -> None:
    """Before they are told."""
    pieces = [Chunk("text-start", id="t"), delta("a"), Chunk("text-end", id="t"), delta("b", "u"), FINISH]
    assert left_by(BatchPartsProcessor(), pieces) == pieces


# Sentences


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        (["One. Two. Three"], ["One. Two.", " Three"]),
        (["One", ".", " ", "Two"], ["One.", " Two"]),
        (["3", ".", "14", ". ", "a"], ["3.14.", " a"]),
        (['"No', "!", '"', ")", " he said"], ['"No!")', " he said"]),
        (["一。", "二", "？！」", "三"], ["一。", "二？！」", "三"]),
        (["a\nb", "c\n", "d"], ["a\n", "bc\n", "d"]),
        (["a.", "b", ".", ".", ". ", ".", " c"], ["a.b...", " .", " c"]),
        (["。", "。", "a"], ["。。", "a"]),
        (["no end", " at all"], ["no end at all"]),
        (["a.", "", " b"], ["a.", " b"]),
    ],
)
def test_sentences_leave_as_they_end(pieces: list[str], expected: list[str]) -> None:
    """Once it is known what follows; white space belongs to the next one."""
    batcher = BatchPartsProcessor(batch_size=None, batch_sentences=True)
    assert [chunk.text for chunk in left_by(batcher, pieces)] == expected


def test_a_mark_that_was_sent_already_ends_nothing() -> None:
    """The end of a full batch is no end of the next one's beginning."""
    batcher = BatchPartsProcessor(batch_size=2, batch_sentences=True)
    assert shown(left_by(batcher, ["a", ".", " b", "c"])) == ["a.", " bc"]


# Whom it belongs to


def test_two_batchers_keep_their_own() -> None:
    """Two and two make four."""
    workflow = Workflow("w").then(BatchPartsProcessor(batch_size=2)).then(BatchPartsProcessor(batch_size=2))
    with workflow.start_sync().process_output_stream([*"abcdefghi"]) as chunks:
        assert shown(chunks) == ["abcd", "efgh", "i"]


def test_what_one_answer_left_behind_is_not_in_the_next() -> None:
    """A consumer that leaves takes along what was held."""
    run = Workflow("w").then(BatchPartsProcessor(batch_size=3)).start_sync()
    with run.process_output_stream([*"abcde"]) as chunks:
        assert next(iter(chunks)).text == "abc"
    with run.process_output_stream(["x", TOOL]) as chunks:
        assert shown(chunks) == ["x", "tool-call"]


def test_two_streams_of_one_run_do_not_mix() -> None:
    """Though they are read by turns."""
    run = Workflow("w").then(BatchPartsProcessor(batch_size=2)).start_sync()
    with run.process_output_stream([*"abc"]) as one, run.process_output_stream([*"xyz"]) as other:
        assert [(a.text, b.text) for a, b in zip(one, other, strict=True)] == [("ab", "xy"), ("c", "z")]


def test_it_stands_where_it_is_told_and_is_equal_to_its_like() -> None:
    """A value, as all processors are."""
    assert BatchPartsProcessor(id="b") == BatchPartsProcessor(id="b") != BatchPartsProcessor(batch_size=2, id="b")
    assert BatchPartsProcessor(max_wait_time=0) == BatchPartsProcessor()
    assert not BatchPartsProcessor().timed
    assert BatchPartsProcessor(max_wait_time=1).timed


# Time


async def timed(batcher: BatchPartsProcessor, events: Iterable[float | str | Chunk]) -> list[tuple[float, str]]:
    """Return what leaves and when; a number among the events is a silence of so many seconds."""
    began = anyio.current_time()

    async def source() -> AsyncIterator[Chunk | str]:
        for event in events:
            if isinstance(event, (int, float)):
                await anyio.sleep(event)
            else:
                yield event

    async with Workflow("w").then(batcher).start() as run, run.process_output_stream(source()) as chunks:
        return [(round(anyio.current_time() - began, 3), chunk.text or chunk.type) async for chunk in chunks]


def on_a_clock_that_jumps(batcher: BatchPartsProcessor, *events: float | str | Chunk) -> list[tuple[float, str]]:
    """Run it where time passes as soon as nothing else can happen."""
    options = {"clock": trio.testing.MockClock(autojump_threshold=0)}
    return anyio.run(timed, batcher, events, backend="trio", backend_options=options)


def test_when_the_time_is_up_a_batch_leaves_though_the_source_is_silent() -> None:
    """It takes no later chunk along."""
    batcher = BatchPartsProcessor(max_wait_time=2)
    assert on_a_clock_that_jumps(batcher, "a", 1, "b", 60, FINISH) == [(2, "ab"), (61, "finish")]


def test_the_time_counts_from_the_first_piece_of_each_batch() -> None:
    """A batch that left takes its time with it."""
    batcher = BatchPartsProcessor(batch_size=2, max_wait_time=2)
    given = ("a", 1.5, "b", 1, "c", 1.5, "d", 1.5, "e", 60, TOOL, "f", 1, "g", 3)
    left = [(1.5, "ab"), (4, "cd"), (7.5, "e"), (65.5, "tool-call"), (66.5, "fg")]
    assert on_a_clock_that_jumps(batcher, *given) == left


def test_a_sentence_that_left_gives_the_next_one_its_own_time() -> None:
    """What stays came just now."""
    batcher = BatchPartsProcessor(batch_size=None, batch_sentences=True, max_wait_time=2)
    assert on_a_clock_that_jumps(batcher, "A.", 1, " B", 9) == [(1, "A."), (3, " B")]


def test_pieces_without_text_start_no_time() -> None:
    """There is nothing to show."""
    batcher = BatchPartsProcessor(max_wait_time=2)
    assert on_a_clock_that_jumps(batcher, delta("", x=1), 5, delta("a"), 5) == [(7, "a")]


def test_chunks_that_pass_by_take_no_time_away() -> None:
    """The batch behind them leaves in time."""
    batcher = BatchPartsProcessor(max_wait_time=2, emit_on_non_text=False)
    assert on_a_clock_that_jumps(batcher, "a", 1, Chunk("raw"), 9) == [(1, "raw"), (2, "a")]


@pytest.mark.anyio
async def test_a_batch_leaves_while_the_source_waits_for_ever() -> None:
    """On both event loops; who has seen it may leave."""
    closed = anyio.Event()

    async def source() -> AsyncIterator[str]:
        try:
            yield "a"
            await anyio.sleep_forever()
        finally:
            closed.set()

    workflow = Workflow("w").then(BatchPartsProcessor(max_wait_time=0.001))
    with anyio.fail_after(60):
        async with workflow.start() as run, run.process_output_stream(source()) as chunks:
            assert (await anext(aiter(chunks))).text == "a"
    assert closed.is_set()
