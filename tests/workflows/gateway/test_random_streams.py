"""Random streams: choices and texts side by side, a secret cut over neighbours, other frames and escapes, any bytes."""

from __future__ import annotations

import json
import random
import re

import pytest

from penstock import PIIDetector, Processor
from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from tests.workflows.gateway.exchanges import Scripted, cut, run_exchange
from tests.workflows.gateway.planting import SECRET, holds_secret

pytestmark = pytest.mark.rest

ASK = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
WORDS = ("Good", "day", "café", "你好", "👩‍🚀", 'a "quote"', "back\\slash", "\n\n", "{json:", "\u2028", "  ")
LINES = re.compile(r"\r\n|\n|\r")


class Late(Processor):
    """Hides the secret when the answer is whole."""

    id = "late"

    def process_output_result(self, ctx):
        return ctx.message_list.map_text(lambda text: text.replace(SECRET, "[X]"), kinds=("text", "reasoning"))


def pieces(chance, text):
    ends = sorted({chance.randint(1, len(text)) for _ in range(chance.choice([1, 3, len(text)]))} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def made(chance, has_secret):
    """Return the texts of an answer by choice and field, and the data of the events that spell them in turns."""
    texts, queues = {}, []
    for index in range(chance.randint(1, 3)):
        for key in chance.sample(["content", "refusal", "reasoning"], chance.randint(1, 2)):
            words = chance.choices(WORDS, k=chance.randint(1, 8))
            if has_secret and chance.random() < 0.7:
                words.insert(chance.randint(0, len(words)), SECRET)
            texts[index, key] = " ".join(words)
            queues.append([(index, {key: piece}) for piece in pieces(chance, texts[index, key])])
    choices = []
    while any(queues):
        index, delta = chance.choice([queue for queue in queues if queue]).pop(0)
        choices.append({"index": index, "delta": delta, "finish_reason": None})
    ended = [{"index": index, "delta": {}, "finish_reason": "stop"} for index in {index for index, _ in texts}]
    return texts, [{"id": "c", "choices": [choice]} for choice in [*choices, *ended]]


def framed(chance, data):
    line = chance.choice(["\n", "\r\n", "\r"])
    frames = [f"data: {json.dumps(one, ensure_ascii=chance.random() < 0.5)}" for one in data]
    return "".join(f"{frame}{line}{line}" for frame in [*frames, "data: [DONE]"]).encode()


def spelled(body):
    found = {}
    for line in LINES.split(body.decode()):
        data = json.loads(line[6:]) if line.startswith("data: {") else {}
        for choice in data.get("choices", ()):
            for key, piece in choice["delta"].items():
                found[choice["index"], key] = found.get((choice["index"], key), "") + piece
    return found


async def test_the_bytes_are_the_same_whether_they_are_sent_at_once_or_handed_up():
    """A server takes pieces from within the stream; a caller that iterates gets the same ones."""
    for seed in range(60):
        chance = random.Random(seed)  # noqa: S311
        _, data = made(chance, has_secret=seed % 3 > 0)
        raw = framed(chance, data)
        cuts = [place.end() for place in re.finditer(rb"\n\n", raw)] if seed % 2 else [chance.randint(1, len(raw))] * 9
        guard = PIIDetector(strategy="redact")
        got = [
            await run_exchange(ChatCompletions(), ASK, Scripted(cut(raw, cuts)), guard, direct=direct)
            for direct in (True, False)
        ]
        assert got[0].body == got[1].body
        assert [read for _, read in got[0].pieces] == [read for _, read in got[1].pieces]


@pytest.mark.parametrize("guard", [PIIDetector(strategy="redact"), Late()], ids=["live", "late"])
@pytest.mark.parametrize("start", range(0, 300, 100))
async def test_no_secret_leaves_a_random_stream_and_nothing_else_is_lost(guard, start):
    for seed in range(start, start + 100):
        chance = random.Random(seed)  # noqa: S311
        texts, data = made(chance, has_secret=seed % 3 > 0)
        raw = framed(chance, data)
        cuts = [chance.randint(1, len(raw)) for _ in range(chance.choice([0, 9, len(raw)]))]
        got = await run_exchange(ChatCompletions(), ASK, Scripted(cut(raw, cuts)), guard)
        out = spelled(got.body)
        assert got.ended.error == "", seed
        assert not holds_secret(got.body), seed
        assert not any(SECRET in text for text in out.values()), seed
        if not any(SECRET in text for text in texts.values()):
            assert got.body == raw, seed
        for name, text in texts.items():
            if SECRET not in text:
                assert out[name] == text, seed
            elif isinstance(guard, Late):
                assert out[name] == text.replace(SECRET, "[X]"), seed
