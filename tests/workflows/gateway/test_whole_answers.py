"""Whole answers: the shortest way of one text through the guards has the result of the long one."""

from __future__ import annotations

import json
import random
import re

import pytest

from penstock import PIIDetector, Processor, RegexFilterProcessor, Workflow
from penstock.engine.values.errors import MessageError
from penstock.formats import wire_format
from penstock.workflows.gateway import judged_answer
from penstock.workflows.gateway.endpoints.chat import ChatCompletions
from penstock.workflows.gateway.endpoints.messages import Messages
from penstock.workflows.gateway.sections import MessagesSection
from penstock.workflows.gateway.whole_answer import only_text, reads_texts_only
from penstock.workflows.loading import load_workflow
from tests.workflows.gateway.exchanges import Scripted, run_exchange
from tests.workflows.gateway.planting import SECRET

WORDS = (
    "Good",
    "day",
    "forbidden",
    SECRET,
    "+49 30 901820",
    "4111 1111 1111 1111",
    "café",
    '{"a": ',
    "\\u0041",
    "\n",
    "",
)
ASK = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
COUNTS = (0, 7, 10**6 - 1, 10**6, 4111111111111111, None, "many")


class Chunks(Processor):
    """Sees the chunks of a stream."""

    def __init__(self):
        self.id = "chunks"
        self.seen = []

    def process_output_stream(self, chunk, ctx):
        del ctx
        self.seen.append(chunk.type)
        return chunk


class Late(Processor):
    """Changes the answer when it is whole."""

    id = "late"

    def process_output_result(self, ctx):
        return ctx.message_list.map_text(lambda text: text.replace("day", "night"), kinds=("text",))


def word(strategy):
    return RegexFilterProcessor(rules=[{"name": "word", "pattern": "forbidden|41111"}], strategy=strategy)


GUARDS = {
    "blocks": lambda: [word("block")],
    "edits": lambda: [PIIDetector(strategy="redact"), word("redact")],
    "warns": lambda: [word("warn")],
    "side by side": lambda: [Workflow("two").parallel(word("redact"), PIIDetector(strategy="redact"), merge="first")],
    "safety": lambda: [load_workflow("safety")],
    "a hook": lambda: [Chunks(), PIIDetector(strategy="redact")],
    "a later stage": lambda: [Late(), PIIDetector(strategy="redact")],
}


def text(chance):
    return chance.choice([" ", ""]).join(chance.choices(WORDS, k=chance.randint(0, 7)))


def chat(chance):
    message = {"role": "assistant", "content": text(chance)}
    if chance.random() < 0.2:
        message[chance.choice(["reasoning", "refusal", "annotations"])] = text(chance)
    if chance.random() < 0.1:
        call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "forbidden"}'}}
        message["tool_calls"] = [call]
    choice = {"index": 0, "message": message, "finish_reason": chance.choice(["stop", "length", "odd", None])}
    choices = [choice, {**choice, "index": 1}] if chance.random() < 0.1 else [choice]
    usage = {"prompt_tokens": chance.choice(COUNTS), "completion_tokens": chance.choice(COUNTS)}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices} | (
        {"usage": usage} if chance.random() < 0.8 else {}
    )


def message(chance):
    blocks = [{"type": "text", "text": text(chance)} for _ in range(chance.choice([0, 1, 1, 1, 2]))]
    if chance.random() < 0.1:
        blocks.append({"type": "tool_use", "id": "t1", "name": "find", "input": {"q": "forbidden"}})
    usage = {"input_tokens": chance.choice(COUNTS[:5]), "output_tokens": chance.choice(COUNTS[:5])}
    made = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": blocks}
    return made | {"stop_reason": chance.choice(["end_turn", "max_tokens", None]), "usage": usage}


ANSWERS = {"chat": (ChatCompletions, chat), "messages": (Messages, message)}


def answer_bytes(answer):
    return json.dumps(answer, ensure_ascii=False).encode()


def noted(ways, chunks):
    ways.add(len(chunks))
    return chunks


def told(got):
    """Return all that a client and an operator see of an exchange."""
    ended = got.ended
    verdict = ended.verdict
    named = None if verdict is None else (verdict.processor_id, verdict.stage, verdict.reason, verdict.metadata)
    facts = (ended.status, ended.error, ended.edited, ended.unknown, ended.usage, ended.streamed)
    return got.status, got.headers, _without_ids(got), named, facts


def _without_ids(got):
    """Return the body; of a refusal that the gateway made itself without its id and its time."""
    body = got.json
    if got.ended.verdict is not None or got.ended.error:
        return {key: value for key, value in body.items() if key not in ("id", "created")}
    return got.body


@pytest.mark.parametrize("protocol", ANSWERS)
@pytest.mark.parametrize("guards", GUARDS)
@pytest.mark.rest
async def test_the_shortest_way_has_the_result_of_the_long_one(guards, protocol, monkeypatch):
    endpoint, made = ANSWERS[protocol]
    ways = set()
    for seed in range(25):
        answer = made(random.Random(f"{guards} {protocol} {seed}"))  # noqa: S311 - no secret
        got = []
        for shortest in (True, False):
            with monkeypatch.context() as patch:
                if shortest:
                    patch.setattr(judged_answer, "only_text", lambda *given: noted(ways, only_text(*given)))
                else:
                    patch.setattr(judged_answer, "reads_texts_only", lambda _: False)
                upstream = Scripted([answer_bytes(answer)], "application/json")
                got.append(told(await run_exchange(endpoint(), ASK, upstream, *GUARDS[guards]())))
        assert got[0] == got[1], answer
    assert (1 in ways) == (guards != "a hook")


async def test_a_hook_sees_all_chunks_of_a_whole_answer():
    seen = Chunks()
    answer = {"id": "c", "choices": [{"index": 0, "message": {"content": "Good"}, "finish_reason": "stop"}]}
    await run_exchange(ChatCompletions(), ASK, Scripted([answer_bytes(answer)], "application/json"), seen)
    assert seen.seen == ["text-start", "text-delta", "text-end", "finish"]


async def test_records_of_a_run_tell_of_all_chunks(monkeypatch):
    """Whoever asks for records or traces gets those of the long way."""
    asked = []
    monkeypatch.setattr(judged_answer, "only_text", lambda *given: asked.append(given))
    answer = {"id": "c", "choices": [{"index": 0, "message": {"content": "Good"}, "finish_reason": "stop"}]}
    for watched in ({"records": True}, {"observers": [object()]}):
        upstream = Scripted([answer_bytes(answer)], "application/json")
        got = await run_exchange(ChatCompletions(), ASK, upstream, PIIDetector(strategy="redact"), **watched)
        assert got.json == answer
    assert not asked


def test_a_step_that_may_end_the_stream_sees_where_it_stands():
    plain = Workflow("a").then(PIIDetector(strategy="redact"))
    assert reads_texts_only(plain.start().plans)
    assert not reads_texts_only(Workflow("b").then(PIIDetector(strategy="redact")).then(Chunks()).start().plans)
    assert reads_texts_only(Workflow("c").then(Late()).start().plans)


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic"])
@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer", "tool", None, 3])
@pytest.mark.parametrize("content", ["Hi", " ", "", None, 7, [], {"type": "text"}])
def test_a_plain_message_is_read_as_its_format_reads_it(wire, role, content):
    """A message of a role and a text does not go through the reader of its format; it has the same result."""
    section = MessagesSection(("messages",), wire)
    for item in ({"role": role, "content": content}, {"role": role, "content": content, "name": "Ann"}, {"role": role}):
        try:
            known = [wire_format(wire).read([item], "messages", 0)]
        except MessageError as error:
            with pytest.raises(MessageError, match=re.escape(str(error))):
                section.read([item])
        else:
            assert section.read([item]) == known
