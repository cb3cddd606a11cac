"""Counters: o200k_base without the network, the character heuristic, one's own; and what is remembered."""

import copy
import os
import pickle
import subprocess
import sys
import threading
import weakref
from unittest.mock import patch

import pytest
import tiktoken
from hypothesis import given, settings, strategies as st
from tiktoken_ext import openai_public

from penstock import Message, OptionError
from penstock.engine import UsageError
from penstock.engine.values.protocols import TokenCounter
from penstock.models.tokens import BPECounter, Counting, HeuristicCounter, bpe
from penstock.models.tokens.bpe import boundaries, last_boundary, slices
from penstock.models.tokens.counters import MOST, Memo, counting
from penstock.models.tokens.message_costs import prices
from tests.laws import examples

BPE = BPECounter()
HEURISTIC = HeuristicCounter()


def test_the_shipped_encoding_is_tiktokens_own() -> None:
    """Pattern, special tokens, name and hash; the ranks are those of the file."""
    asked = {}

    def ranks(_: str, expected_hash: str) -> dict[bytes, int]:
        asked["hash"] = expected_hash
        return {}

    with patch.object(openai_public, "load_tiktoken_bpe", ranks):
        theirs = openai_public.o200k_base()
    assert (theirs["name"], theirs["pat_str"], theirs["special_tokens"]) == (bpe.SHIPPED, bpe.PIECES, bpe.SPECIAL)
    assert asked["hash"] == bpe.DIGEST
    assert bpe.load("o200k_base").n_vocab == 200_019


def test_counting_needs_no_network_and_writes_nothing(tmp_path) -> None:
    """In a process of its own, with a cache that cannot be written and sockets that cannot be opened."""
    script = (
        "import socket\n"
        "def refuse(*_, **__): raise AssertionError('network')\n"
        "socket.socket.connect = refuse\n"
        "from penstock.models.tokens import BPECounter\n"
        "print(BPECounter().count('Hello world'))\n"
    )
    place = tmp_path / "cache"
    place.touch()
    env = os.environ | {"TIKTOKEN_CACHE_DIR": str(place / "nowhere")}
    done = subprocess.run([sys.executable, "-c", script], env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_importing_the_limiter_does_not_import_tiktoken() -> None:
    """It is slow to import, and needed when tokens are counted."""
    script = "import sys, penstock.processors.budgets.token_limiter; print('tiktoken' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_special_tokens_are_text() -> None:
    """Anybody can write their names."""
    assert BPE.count("<|endoftext|>") == 7


def test_threads_load_the_vocabulary_once() -> None:
    """Whoever comes first; the others wait."""
    made: list[object] = []
    with patch.dict(bpe._loaded, clear=True), patch.object(bpe, "_shipped", lambda: made.append(1) or object()):
        threads = [threading.Thread(target=bpe.load, args=["o200k_base"]) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert made == [1]


def test_preparing_loads_in_a_thread_of_its_own() -> None:
    """So that whoever builds a workflow does not wait."""
    where: list[str] = []
    with (
        patch.dict(bpe._loaded, clear=True),
        patch.object(bpe, "_threads", []),
        patch.object(bpe, "_shipped", lambda: where.append(threading.current_thread().name)),
    ):
        BPECounter().prepare()
        BPECounter().prepare()
        [thread] = bpe._threads
        thread.join()
    assert where == ["penstock-vocabulary"]


def test_a_child_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    """A lock held while the process was forked would be held for ever."""
    held = bpe._lock
    bpe._forget_lock()
    assert bpe._lock is not held
    assert bpe._threads == []
    BPECounter().prepare()


def test_a_damaged_vocabulary_is_refused(tmp_path) -> None:
    """Its hash is checked."""
    file = tmp_path / "o200k_base.tiktoken"
    file.write_bytes(b"aGVsbG8= 0\n")
    with patch.object(bpe, "VOCABULARY", file), pytest.raises(UsageError, match="damaged"):
        bpe._shipped()


def test_another_encoding_that_cannot_be_fetched_says_what_to_do() -> None:
    """Where there is no network; when it is built, not in the first request, which it would block."""
    with (
        patch.object(tiktoken, "get_encoding", side_effect=OSError("no route")),
        patch.dict(bpe._loaded, clear=True),
        pytest.raises(OptionError, match=r"TIKTOKEN_CACHE_DIR.*ships with penstock") as caught,
    ):
        BPECounter("cl100k_base")
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value.__cause__.__cause__, OSError)


def test_an_unknown_encoding_is_refused() -> None:
    """When it is built."""
    with pytest.raises(OptionError, match="o200k_base"):
        BPECounter("o300k")


def test_a_very_long_text_is_counted_in_pieces() -> None:
    """Cut where tokens add up, so the sum is exact."""
    text = "lorem ipsum 12 " * 20_000
    assert BPE.count(text) == len(bpe.load("o200k_base").encode_ordinary(text))
    assert BPE.count("x" * 250_000) > 0


WORDS = st.sampled_from(
    ["don't", "we'LL ", "a", "Ab ", "12", "3456", " ", "\n", "\r\n", "...", "/", "漢", "é", "ſ", "😀"]
)
texts = st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=16).map("".join))


@settings(max_examples=examples(400), deadline=None)
@given(text=texts)
def test_tokens_add_up_where_a_word_ends_and_a_blank_begins(text: str) -> None:
    """What the counters claim with `additive`."""
    for stop in boundaries(text):
        for counter in (BPE, HEURISTIC):
            assert counter.count(text[:stop]) + counter.count(text[stop:]) == counter.count(text)
    found = list(boundaries(text))
    assert last_boundary(text) == (found[-1] if found else 0)


@settings(max_examples=examples(400), deadline=None)
@given(text=texts)
def test_the_heuristic_never_falls_and_no_character_is_denser_than_said(text: str) -> None:
    """What the counters claim with `monotone` and `densest`."""
    counts = [HEURISTIC.count(text[:size]) for size in range(len(text) + 1)]
    assert counts == sorted(counts)
    assert counts[-1] <= HEURISTIC.densest * len(text)
    assert BPE.count(text) <= BPE.densest * len(text)


@given(text=texts, size=st.integers(1, 9))
def test_slices_lose_nothing(text: str, size: int) -> None:
    """And none is longer than asked for."""
    found = list(slices(text, size))
    assert "".join(found) == text
    assert all(len(piece) <= size for piece in found)


def test_half_a_surrogate_is_counted_too() -> None:
    """Whatever a str can hold can be counted."""
    assert BPE.count("\ud83d") > 0
    assert HEURISTIC.count("\ud83d") == 1


@pytest.mark.parametrize(
    ("given", "name", "tokens"),
    [
        (None, "o200k_base", 2),
        ("heuristic", "heuristic", 2),
        ("o200k_base", "o200k_base", 2),
        (len, "len", 11),
        (BPECounter(), "o200k_base", 2),
    ],
)
def test_a_counter_comes_in_several_forms(given, name, tokens) -> None:
    """An encoding, its name, a function, an object."""
    found = counting("X", given, "o200k_base")
    assert (found.name, found.count("Hello world")) == (name, tokens)
    assert found == counting("X", given, "o200k_base")
    assert isinstance(found.counter, TokenCounter)


def test_what_cannot_count_is_refused() -> None:
    """When it is built, with what would do."""
    with pytest.raises(OptionError, match="count"):
        counting("X", 12, "o200k_base")


@pytest.mark.parametrize("answer", [-1, 1.5, None, True])
def test_a_counter_that_counts_nonsense_fails(answer) -> None:
    """Never negative, never half."""
    with pytest.raises(UsageError, match="0 or more"):
        counting("X", lambda _: answer, "o200k_base").count("a")


def test_what_was_counted_is_not_counted_again() -> None:
    """Texts are remembered, up to a bound; what is used stays longer."""
    asked: list[str] = []

    def count(text: str) -> int:
        asked.append(text)
        return 1

    found = counting("X", count, "")
    found.count("a")
    found.count("a")
    assert asked == ["a"]
    memo: Memo[int] = Memo()
    memo.put((4, 1), 1)
    for number in range(2 * MOST):
        memo.put((1, number), number)
        memo.get((4, 1))
    assert memo.get((4, 1)) == 1
    assert memo.get((1, 0)) is None
    assert len(memo) <= 2 * MOST
    assert len(pickle.loads(pickle.dumps(memo))) == 0  # noqa: S301 - our own


def test_what_was_counted_is_not_held() -> None:
    """Neither texts nor messages, however large or small, nor what was counted of messages that are gone."""
    found = counting("X", len, "")
    costs = prices(found, "chat")
    texts = [f"{number} " + "word " * size for number, size in enumerate([0, 10, 1_000, 100_000] * 5)]
    messages = [Message.user(text) for text in texts]
    before = [sys.getrefcount(text) for text in texts]
    for message in messages:
        assert costs.sent(message) == costs.sent(message) == costs.kept(message)
    assert [sys.getrefcount(text) for text in texts] == before
    assert (len(costs._sent), len(costs._kept)) == (20, 20)
    assert len(copy.deepcopy(costs._sent)) == len(pickle.loads(pickle.dumps(costs._kept))) == 0  # noqa: S301 - our own
    gone = [weakref.ref(message) for message in messages]
    del message, messages
    assert {one() for one in gone} == {None}
    assert (len(costs._sent), len(costs._kept)) == (0, 0)


def test_a_message_in_the_place_of_another_is_counted_anew() -> None:
    """An object may get the id of one that is gone."""
    costs = prices(counting("X", len, ""), "chat")
    for number in range(2_000):
        assert costs.sent(Message.user("x" * number)) == 4 + number


def test_counters_are_values() -> None:
    """Equal by what they count with; they pickle without the vocabulary."""
    assert BPECounter() == pickle.loads(pickle.dumps(BPE))  # noqa: S301 - our own
    assert len(pickle.dumps(BPE)) < 200
    assert {BPECounter(), BPE} == {BPE}
    assert HeuristicCounter() == HEURISTIC != BPE
    assert repr(Counting(HEURISTIC)) == "HeuristicCounter()"
    assert "o200k_base" in repr(BPE)
