"""For every reader there is, a guard finds nothing in what that reader reads.

`READERS` lists them: each function returns texts that somebody reads as one. The answers are random: a secret is cut
into pieces that stand in several blocks or steps, with other parts between. What finds it is no detector of ours.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import pytest

from penstock import Agent, Chunk, PIIDetector, RegexFilterProcessor, Workflow
from penstock.engine.values.messages import ReasoningPart, TextPart
from penstock.formats import Format, dump_messages
from penstock.workflows import web
from penstock.workflows.web import ag_ui, chat_completions, plain_text, responses as responses_api, ui_messages
from tests.laws import seeds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from penstock.engine.values.model import ModelRequest
    from penstock.workflows.agent.results import AgentResult

SECRETS = ("ada@example.com", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH", "4111 1111 1111 1111")
LABELLED = ("hunter2Secret!",)
"""A secret that only the words before it show."""


@dataclass
class Answer:
    """What a model says: the chunks of each step, and what must not be read."""

    steps: list[list[Chunk]]
    secret: str


class Scripted:
    """A model that says the chunks of an answer, step by step."""

    name = "scripted"

    def __init__(self, answer: Answer) -> None:
        self._steps = iter(answer.steps)

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        """Yield the chunks of the next step."""
        del request
        for chunk in next(self._steps):
            yield chunk


def look_up(q: str) -> str:
    """Find something."""
    return f"found {q}"


class Dice:
    """Rolls answers."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - dice, no secrets
        self.made = 0

    def answer(self) -> Answer:
        """Roll an answer of one to three steps."""
        secret = self.dice.choice((*SECRETS, *LABELLED))
        before = "The password is " if secret in LABELLED else "Write to "
        kind = self.dice.choice(("text", "text", "reasoning"))
        cut = self.cut(before + secret + " now.", self.dice.choice((2, 2, 3, 4)))
        steps: list[list[Chunk]] = [[]]
        for index, piece in enumerate(cut):
            if index and self.dice.random() < 0.3:
                steps.append([])
            elif index and self.dice.random() < 0.7:
                steps[-1] += self.between(kind)
            steps[-1] += self.block(kind, piece)
        if kind == "reasoning":
            steps[-1] += self.block("text", "Hello.")
        return Answer([self.ended(chunks, last=chunks is steps[-1]) for chunks in steps], secret)

    def cut(self, text: str, count: int) -> list[str]:
        """Cut a text into pieces, none of them empty."""
        places = sorted(self.dice.sample(range(1, len(text)), count - 1))
        return [text[low:high] for low, high in pairwise([0, *places, len(text)])]

    def block(self, kind: str, text: str) -> list[Chunk]:
        """Roll a block of text, in pieces, announced or not."""
        self.made += 1
        id = f"b{self.made}"
        deltas = [
            Chunk(f"{kind}-delta", piece, id) for piece in self.cut(text, self.dice.randint(1, min(len(text), 3)))
        ]
        if self.dice.random() < 0.3:
            return deltas
        return [Chunk(f"{kind}-start", id=id), *deltas, Chunk(f"{kind}-end", id=id)]

    def between(self, kind: str) -> list[Chunk]:
        """Roll something that stands between two blocks of a kind."""
        self.made += 1
        id = f"o{self.made}"
        other = "reasoning" if kind == "text" else "text"
        call: dict[str, Any] = {"call_id": id, "name": "outside", "arguments": {}}
        return self.dice.choice(
            (
                self.block(other, "Hm, well."),
                self.block(other, "Hm,") + self.block(other, " well."),
                [Chunk("source", payload={"id": id, "url": "http://a.b/c", "title": "x"})],
                [Chunk("file", payload={"media_type": "image/png", "url": "http://a.b/c.png"})],
                [Chunk("data-x", payload={"data": 1})],
                [Chunk("tool-call", id=id, payload=call), Chunk("tool-result", id=id, payload={**call, "result": 1})],
            )
        )

    def ended(self, chunks: list[Chunk], *, last: bool) -> list[Chunk]:
        """End a step: all but the last one with the call of a tool."""
        if last:
            return [*chunks, Chunk("finish", payload={"reason": "stop"})]
        self.made += 1
        call = {"call_id": f"c{self.made}", "name": "look_up", "arguments": {"q": "x"}}
        return [
            *chunks,
            Chunk("tool-call", id=f"c{self.made}", payload=call),
            Chunk("finish", payload={"reason": "tool-calls"}),
        ]


# Readers


def of_result(result: AgentResult[Any]) -> Iterator[str]:
    """Yield the texts of a result."""
    yield result.text
    for step in result.steps:
        yield step.text
        yield step.reasoning
    for message, _, _ in result.message_list.entries:
        yield message.text
        yield "".join(part.text for part in message.parts if isinstance(part, TextPart))
    answers = [message for message in result.message_list.all if message.role == "assistant"]
    yield "".join(part.text for message in answers for part in message.parts if isinstance(part, TextPart))
    yield "".join(part.text for message in answers for part in message.parts if isinstance(part, ReasoningPart))


def of_dumps(result: AgentResult[Any]) -> Iterator[str]:
    """Yield what each format writes, piece by piece, and the texts of each message joined."""
    names: tuple[Format, ...] = get_args(Format)
    for name in names:
        for message in dump_messages(result.message_list.conversation, name):
            yield from _strings(message)
            yield "".join(text for key, text in _texts(message) if key in ("text", "content"))


def of_trace(result: AgentResult[Any]) -> Iterator[str]:
    """Yield the trace."""
    yield json.dumps(result.trace.to_json())


RESULTS: dict[str, Callable[[AgentResult[Any]], Iterator[str]]] = {
    "result": of_result,
    "dumps": of_dumps,
    "trace": of_trace,
}


def chat(told: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what a client of chat completions joins."""
    choices = [choice.get("delta", choice.get("message")) for event in told for choice in event.get("choices", ())]
    for key in ("content", "reasoning_content"):
        yield "".join(choice.get(key) or "" for choice in choices)


def responses(told: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what a client of the Responses API joins: the deltas, and `output_text`."""
    yield "".join(event["delta"] for event in told if event.get("type") == "response.output_text.delta")
    for event in told:
        output = event.get("response", event).get("output", ())
        contents = [content for item in output for content in item.get("content") or ()]
        yield "".join(content.get("text", "") for content in contents)


def ui(told: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what a client of the AI SDK joins."""
    yield "".join(event["delta"] for event in told if event.get("type") == "text-delta")
    for id in {event.get("id") for event in told}:
        yield "".join(event["delta"] for event in told if event.get("type") == "reasoning-delta" and event["id"] == id)


def of_ag_ui(told: list[dict[str, Any]]) -> Iterator[str]:
    """Yield what a client of AG-UI joins: all texts, each message, and all reasoning."""
    texts = [event for event in told if event["type"] == "TEXT_MESSAGE_CONTENT"]
    yield "".join(event["delta"] for event in texts)
    yield "".join(event["delta"] for event in told if event["type"] == "REASONING_MESSAGE_CONTENT")
    for id in {event["messageId"] for event in texts}:
        yield "".join(event["delta"] for event in texts if event["messageId"] == id)
    yield from (event["content"] for event in told if event["type"] == "TOOL_CALL_RESULT")


ENCODERS: dict[str, tuple[Any, Callable[[], Any], Callable[[Any], Iterator[str]]]] = {
    "chat": (chat_completions, lambda: web.ChatCompletionsEncoder("m", reasoning="reasoning_content"), chat),
    "responses": (responses_api, lambda: web.ResponsesEncoder("m", reasoning=True), responses),
    "ui": (ui_messages, web.UIMessagesEncoder, ui),
    "ag_ui": (ag_ui, web.AGUIEncoder, of_ag_ui),
    "plain": (plain_text, web.PlainTextEncoder, lambda told: iter([told])),
}


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, Any]", value).items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _strings(item)


def _texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the strings of a value with their keys."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in cast("dict[str, Any]", value).items():
            yield from _texts(item, name)
    elif isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _texts(item, key)


def _events(sent: bytes) -> Any:
    """Return the events of a stream; of plain text, the text."""
    text = sent.decode()
    if "data: " not in text:
        return text
    lines = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


# Laws

Strategy = Literal["redact", "block"]


def _agent(answer: Answer, strategy: Strategy, release: Any) -> Agent:
    guards = [PIIDetector(strategy=strategy), RegexFilterProcessor(presets=["secrets"], strategy=strategy)]
    return Agent(Scripted(answer), processors=guards, tools=[look_up], release=release)


async def _read(answer: Answer, strategy: Strategy, release: Any) -> AsyncIterator[tuple[str, str]]:
    """Yield every text that a reader reads, with the reader's name."""
    result = await _agent(answer, strategy, release).generate("hi", records=True)
    for name, read in RESULTS.items():
        for text in read(result):
            yield name, text
    async with _agent(answer, strategy, release).stream("hi") as stream:
        yield "text_stream", "".join([piece async for piece in stream.text_stream])
    for name, (module, make, read) in ENCODERS.items():
        sent = [piece async for piece in module.stream(_agent(answer, strategy, release).stream("hi"), make())]
        for text in read(_events(b"".join(sent))):
            yield f"{name}, streamed", text
        whole = module.answer(result, make())
        for text in read([whole] if isinstance(whole, dict) else whole):
            yield f"{name}, whole", text


@pytest.mark.parametrize("seed", seeds(range(120)))
async def test_no_reader_of_an_agents_answer_reads_a_secret(seed: int) -> None:
    """Whatever stands between its pieces, however it is sent."""
    dice = Dice(seed)
    answer = dice.answer()
    strategy: Strategy = dice.dice.choice(("redact", "block"))
    release = dice.dice.choice(("auto", "live", "step", "result"))
    found = [(name, text) async for name, text in _read(answer, strategy, release) if answer.secret in text]

    assert not found, (strategy, release, answer.steps)


@pytest.mark.parametrize("between", ["Hm. " * 2_000, "嗯" * 8_000])
async def test_long_reasoning_between_two_steps_hides_no_text_of_the_first(between: str) -> None:
    """Each kind of text is read on for itself, also one without spaces."""
    calling = Chunk("tool-call", id="c", payload={"call_id": "c", "name": "look_up", "arguments": {"q": "x"}})
    more = Chunk("finish", payload={"reason": "tool-calls"})
    first = [Chunk("text-delta", "见" * 600 + " Write to ada@", "t"), calling, more]
    second = [Chunk("reasoning-delta", between, "r"), calling, more]
    last = [Chunk("text-delta", "example.com now.", "t"), Chunk("finish", payload={"reason": "stop"})]
    result = await _agent(Answer([first, second, last], SECRETS[0]), "redact", "auto").generate("hi")

    assert result.status == "success"
    assert SECRETS[0] not in result.text


@pytest.mark.parametrize("seed", seeds(range(200)))
def test_no_reader_of_a_stream_reads_a_secret(seed: int) -> None:
    """The text of a stream, its message, and its chunks joined by kind."""
    answer = Dice(seed).answer()
    source = [
        chunk for step in answer.steps for chunk in step if chunk.type not in ("finish", "tool-call", "tool-result")
    ]
    guards = [PIIDetector(), RegexFilterProcessor(presets=["secrets"], strategy="redact")]
    workflow = Workflow("w")
    for guard in guards:
        workflow = workflow.then(guard)
    with workflow.start_sync().process_output_stream(source) as stream:
        left = list(stream)
    texts = [stream.text, stream.message.text, "".join(chunk.text for chunk in left if chunk.type == "text-delta")]

    assert not [text for text in texts if answer.secret in text]
