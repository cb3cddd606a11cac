"""8,000 tokens of a conversation of 10,000 messages: `process_llm_request` of a started run, against tiktoken by hand.

By hand: the system's messages are looked for and counted, the others from the newest back until one does not fit; the
next time counts are looked up by the message's id. The run has its messages, as in an agent's loop, where each model
call trims the same conversation.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

from harness import Contest, Timed, Work
from peers import trimmers

from penstock import Message, MessageList, Run, TokenLimiterProcessor, Workflow
from penstock.models.tokens.bpe import load
from penstock.models.tokens.counters import Memo

MESSAGES = Path(__file__).parents[2] / "examples" / "data" / "messages.jsonl"
LENGTH = 10_000
LIMIT = 8_000
FRAME, CONVERSATION = 4, 3

Trim = Callable[[], list[str]]


async def contests() -> list[Contest]:
    """Return the contests: nothing counted yet, and counted before."""
    messages = conversation()
    limiter = TokenLimiterProcessor(LIMIT, trim_mode="contiguous")
    best = TokenLimiterProcessor(LIMIT)
    by_id: dict[str, int] = {}
    first = f"{LIMIT:,} tokens of {LENGTH:,} messages, the first time"
    again = f"{LIMIT:,} tokens of {LENGTH:,} messages, the next time"
    return [
        Contest(
            first,
            "tiktoken from the newest back, stopping at the limit",
            await _ours(limiter, messages, forgets=True),
            _hand(lambda: by_hand(messages, {})),
            1.2,
            {name: _hand(trim) for name, trim in trimmers.all_of(messages, LIMIT, FRAME, CONVERSATION).items()},
        ),
        Contest(
            again,
            "the same with counts looked up by id",
            await _ours(limiter, messages, forgets=False),
            _hand(lambda: by_hand(messages, by_id)),
            2.0,
        ),
        Contest(
            f"{again}, best fit",
            "the same, skipping what does not fit",
            await _ours(best, messages, forgets=False),
            _hand(lambda: by_hand(messages, by_id, contiguous=False)),
        ),
    ]


def conversation() -> list[Message]:
    """Return a system message and real texts, in turns, the newest last."""
    texts = [json.loads(line)["text"] for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    chosen = random.Random(1)  # noqa: S311 - a benchmark
    turns = [
        (Message.user if turn % 2 == 0 else Message.assistant)(f"{chosen.choice(texts)} ({turn})", id=f"m{turn}")
        for turn in range(LENGTH)
    ]
    return [Message.system("Be brief.", id="system"), *turns, Message.user("And now?", id="newest")]


def by_hand(messages: list[Message], known: dict[str, int], *, contiguous: bool = True) -> list[str]:
    """Return the ids of what fits; an answer at the beginning whose question did not fit goes, too."""
    encode = load("o200k_base").encode_ordinary

    def cost(message: Message) -> int:
        found = known.get(message.id)
        if found is None:
            found = known[message.id] = FRAME + len(encode(message.text))
        return found

    system = [message for message in messages if message.role == "system"]
    others = [message for message in messages if message.role != "system"]
    left = LIMIT - CONVERSATION - sum(map(cost, system))
    kept: list[Message] = []
    at = len(others) - 1
    while at >= 0 and left >= FRAME:
        unit = [others[at]]
        if not contiguous and others[at].role == "assistant":
            unit.append(others[at - 1])
        need = sum(map(cost, unit))
        if need <= left:
            kept += unit
            left -= need
            at -= len(unit)
        elif contiguous:
            break
        else:
            at -= len(unit)
    if contiguous and kept[-1].role == "assistant":
        kept.pop()
    return [message.id for message in (*system, *reversed(kept))]


async def _ours(limiter: TokenLimiterProcessor, messages: list[Message], *, forgets: bool) -> Work:
    run = Workflow("prompt").then(limiter).start()
    await run.process_output_step(MessageList(messages))

    async def ours(times: int) -> list[str]:
        kept: list[str] = []
        for _ in range(times):
            if forgets:
                forget(limiter)
            kept = await _ids(run)
        return kept

    return ours


async def _ids(run: Run) -> list[str]:
    outcome = await run.process_llm_request()
    return [entry.message.id for entry in outcome.message_list.entries]


def forget(limiter: TokenLimiterProcessor) -> None:
    """Let a limiter forget what it counted."""
    limiter._counting._memo = Memo(len)
    prices = limiter._prompt.prices
    prices._kept, prices._sent = Memo(len), Memo(len)


def _hand(trim: Trim) -> Work:
    async def work(times: int) -> list[str]:
        kept: list[str] = []
        for _ in range(times):
            kept = trim()
        return kept

    return work


SCENARIO = Timed("token_limiter", contests)
