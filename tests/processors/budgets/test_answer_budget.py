"""`TokenLimiterProcessor` on answers: streamed in any pieces, or whole."""

from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock import Chunk, Message, MessageList, Outcome, TextPart, TokenLimiterProcessor, ToolPart, Workflow
from penstock.models.tokens import HeuristicCounter
from penstock.processors.budgets.answer_budget import NOTICE
from penstock.testing import run_stage
from tests.laws import examples

TEXT = "The quick brown fox jumps over the lazy dog. It runs away; nobody follows it, don't you see?"


def limiter(limit: int, **options: Any) -> TokenLimiterProcessor:
    """Return a limiter of answers."""
    return TokenLimiterProcessor(limit, side="answer", **options)


def streamed(guard: TokenLimiterProcessor, source: Iterable[Chunk | str]) -> tuple[list[Chunk], Outcome]:
    """Return what leaves the stream stage, and how it ended."""
    with Workflow("w").then(guard).start_sync().process_output_stream(source) as chunks:
        left = list(chunks)
    return left, chunks.outcome


def text_of(chunks: Iterable[Chunk]) -> str:
    """Return the joined text."""
    return "".join(chunk.text for chunk in chunks if chunk.type == "text-delta")


def told(chunks: Iterable[Chunk]) -> list[dict[str, Any]]:
    """Return the notices."""
    return [dict(chunk.payload) for chunk in chunks if chunk.type == NOTICE]


def cut_into(text: str, places: Iterable[int]) -> list[str]:
    """Return the text in pieces, cut at those places."""
    stops = [0, *sorted({place % (len(text) + 1) for place in places}), len(text)]
    return [text[start:stop] for start, stop in pairwise(stops) if start < stop]


# Streams


@settings(max_examples=examples(150), deadline=None)
@given(
    places=st.lists(st.integers(0, 100), max_size=20),
    limit=st.integers(0, 30),
    at=st.sampled_from(["token", "word", "sentence"]),
    ellipsis=st.sampled_from(["", "…"]),
)
def test_a_stream_gives_what_the_whole_answer_gives(places, limit, at, ellipsis) -> None:
    """However it was cut into chunks; the history holds what was shown."""
    guard = limiter(limit, cut_at=at, ellipsis=ellipsis)
    left, _ = streamed(guard, cut_into(TEXT, places))
    whole = run_stage(guard, "process_output_result", Message.assistant(TEXT)).text
    assert text_of(left) == whole
    assert run_stage(guard, "process_output_result", Message.assistant(text_of(left))).text == text_of(left)
    assert len(told(left)) == (0 if whole == TEXT else 1)


def test_an_answer_in_one_piece_is_cut_and_not_lost() -> None:
    """The reference drops the piece, and with it the answer."""
    left, outcome = streamed(limiter(4), ["one two three four five six seven eight"])
    assert text_of(left) == "one two three four"
    assert told(left) == [{"processor_id": "token-limiter", "limit": 4, "tokens": 8}]
    assert not outcome.blocked


def test_later_text_is_dropped_and_everything_else_passes() -> None:
    """Calls, sources and control chunks are none of the budget's business."""
    others = [Chunk("tool-call", payload={"toolName": "t"}), Chunk("source"), Chunk("data-x"), Chunk("finish")]
    left, _ = streamed(limiter(1), ["one two", *others, "three"])
    assert text_of(left) == "one"
    assert [chunk.type for chunk in left if chunk.type != "text-delta"] == [NOTICE, *(one.type for one in others)]
    assert all(chunk.transient for chunk in left if chunk.type == NOTICE)


def test_no_chunk_overtakes_text_that_was_held_back() -> None:
    """A word that waits for its end goes out before a call."""
    left, _ = streamed(limiter(9, cut_at="word"), [Chunk("text-delta", "one tw", "t"), Chunk("tool-call"), "o"])
    assert [chunk.text or chunk.type for chunk in left] == ["one", " tw", "tool-call", "o"]


def test_blocks_share_the_budget() -> None:
    """One after the other, and however they are interleaved."""
    blocks = [Chunk("text-start", id="a"), Chunk("text-delta", "one two ", "a"), Chunk("text-end", id="a")]
    more = [Chunk("text-start", id="b"), Chunk("text-delta", "three four", "b"), Chunk("text-end", id="b")]
    left, _ = streamed(limiter(4), [*blocks, *more])
    assert [(chunk.id, chunk.text) for chunk in left if chunk.text] == [("a", "one two"), ("a", " "), ("b", "three")]
    left, _ = streamed(limiter(9, cut_at="word"), [blocks[1], more[1], Chunk("text-delta", "five", "a")])
    assert text_of(left) == "one two three fourfive"


def test_a_block_that_nothing_is_left_of_is_not_begun() -> None:
    """Neither start nor end."""
    blocks = [Chunk("text-start", id="a"), Chunk("text-delta", "one", "a"), Chunk("text-end", id="a")]
    left, _ = streamed(limiter(0), blocks)
    assert [chunk.type for chunk in left] == [NOTICE]


def test_abort_stops_the_run() -> None:
    """With the numbers; text beyond the limit is never sent."""
    left, outcome = streamed(limiter(3, strategy="abort"), ["one two ", "three four"])
    assert text_of(left) == "one two "
    assert outcome.tripwire is not None
    assert dict(outcome.tripwire.metadata) == {"limit": 3, "tokens": 4, "counter": "o200k_base"}
    assert "four" not in outcome.tripwire.reason
    assert told(left) == []


def test_a_chunk_that_ends_the_answer_at_the_limit_is_within_it() -> None:
    """Equal is allowed; nothing is told."""
    left, _ = streamed(limiter(2), ["one", " two"])
    assert (text_of(left), told(left)) == ("one two", [])


def test_each_part_may_have_the_limit_for_itself() -> None:
    """A chunk that is too long is cut, the next begins anew."""
    left, _ = streamed(limiter(2, count_mode="part"), ["one two three", " four", " five six seven"])
    assert text_of(left) == "one two four five six"
    assert told(left) == [{"processor_id": "token-limiter", "limit": 2, "tokens": 3}]
    _, outcome = streamed(limiter(2, count_mode="part", strategy="abort"), ["one", " two three four"])
    assert outcome.tripwire is not None
    assert outcome.tripwire.metadata["tokens"] == 3


def test_snapshots_of_a_structured_answer_are_counted_each_alone() -> None:
    """One that is too long is left out; the text's tokens count, too."""
    snapshots = [Chunk("object", payload={"object": {"a": "b" * size}}) for size in (1, 2, 400, 3)]
    left, _ = streamed(limiter(20), [*snapshots, Chunk("object-result", payload={"object": {"a": "b" * 400}})])
    assert [chunk for chunk in left if chunk.type != NOTICE] == [snapshots[0], snapshots[1], snapshots[3]]
    assert len(told(left)) == 1
    left, _ = streamed(limiter(20, count_mode="part"), ["one two", snapshots[2]])
    assert [chunk.type for chunk in left] == ["text-delta", NOTICE]


def test_two_limiters_keep_accounts_of_their_own() -> None:
    """The reference's share one, and halve the budget."""
    flow = Workflow("w").then(limiter(100)).then(limiter(5))
    with flow.start_sync().process_output_stream(["one", " two", " three", " four"]) as chunks:
        assert text_of(chunks) == "one two three four"


async def test_what_a_rejected_attempt_said_does_not_count() -> None:
    """The next attempt has what was left before; accepted steps count together."""

    async def source(*texts: str) -> AsyncIterator[str]:
        for text in texts:
            yield text

    async def step(run: Any, *texts: str) -> str:
        async with run.process_output_stream(source(*texts)) as chunks:
            return text_of([chunk async for chunk in chunks])

    guard = limiter(4)
    used = guard.new_state()
    used.enter(0, 0)
    used.spent, used.over = 3, True
    used.enter(1, 1)
    assert (used.before, used.spent, used.over) == (0, 0, False)
    used.spent = 2
    used.enter(2, 0)
    assert (used.before, used.spent, used.over) == (2, 0, False)
    async with Workflow("w").then(guard).start() as run:
        assert await step(run, "one two three four five") == "one two three four"


# Whole answers


def test_the_texts_of_an_answer_share_the_budget() -> None:
    """In order; other parts and messages are left alone, and what nothing is left of goes."""
    call = ToolPart("c", "t", {}, "result", "long long long")
    messages = MessageList([Message.user("user text is not counted", id="u")], source="input").add(
        [
            Message.assistant([TextPart("one two"), call, TextPart("three four"), TextPart("five")], id="a"),
            Message.assistant("six", id="b"),
        ]
    )
    outcome = run_stage(limiter(3), "process_output_result", messages)
    user, answer = outcome.message_list.conversation
    assert user.text == "user text is not counted"
    assert answer.parts == (TextPart("one two"), call, TextPart("three"))
    assert dict(outcome.records[0].details) == {"limit": 3, "tokens": 4, "counter": "o200k_base"}


def test_an_answer_that_fits_is_not_touched() -> None:
    """Nor is it put on record."""
    outcome = run_stage(limiter(9), "process_output_result", Message.assistant("short answer"))
    assert (outcome.text, outcome.records[0].status) == ("short answer", "passed")


def test_a_whole_answer_can_stop_the_run() -> None:
    """The tokens told are those up to the text that was too much."""
    answer = Message.assistant([TextPart("one"), TextPart("two three"), TextPart("four")])
    outcome = run_stage(limiter(2, strategy="abort"), "process_output_result", answer)
    assert outcome.tripwire is not None
    assert outcome.tripwire.metadata["tokens"] == 3
    outcome = run_stage(limiter(1, strategy="abort", count_mode="part"), "process_output_result", answer)
    assert outcome.tripwire.metadata["tokens"] == 2


def test_parts_alone_are_cut_each() -> None:
    """`count_mode="part"` for whole answers."""
    answer = Message.assistant([TextPart("one two three"), TextPart("four"), TextPart("five six seven")])
    outcome = run_stage(limiter(2, count_mode="part"), "process_output_result", answer)
    assert [part.text for part in outcome.messages[-1].parts] == ["one two", "four", "five six"]


def test_characters_are_never_halved() -> None:
    """A cut falls between code points, whatever the tokens are."""
    outcome = run_stage(
        limiter(1, token_counter=HeuristicCounter()), "process_output_result", Message.assistant("😀😃😄😁😆")
    )
    assert outcome.text == "😀😃😄"


@pytest.mark.parametrize("strategy", ["truncate", "abort"])
def test_a_limit_of_nothing_lets_nothing_through(strategy: str) -> None:
    """Not even a word."""
    left, _ = streamed(limiter(0, strategy=strategy), ["a", "b"])
    assert text_of(left) == ""
