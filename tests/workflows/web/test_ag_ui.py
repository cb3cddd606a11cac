"""AG-UI: its own types validate our events, and its requests reach an agent as messages and approvals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from ag_ui.core import EventType, RunAgentInput
from ag_ui.core.events import Event
from pydantic import TypeAdapter

from penstock import Agent, Chunk, PIIDetector, RegexFilterProcessor, SQLiteStorage, Tool
from penstock.engine.values.errors import ReviewError
from penstock.processors.tools import HumanReview
from penstock.testing import ScriptedModel
from penstock.workflows.review import Reviews
from penstock.workflows.web import AGUIEncoder, RequestError, ag_ui
from tests.workflows.web.answers import VERDICT, call, finish, text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.anyio

EVENTS: TypeAdapter[Any] = TypeAdapter(Event)
CALL: Any = {"tool_calls": [{"id": "c1", "name": "refund", "args": {"order": 7}}]}


@pytest.fixture
def anyio_backend() -> str:
    """One is enough: the loop is tested elsewhere."""
    return "asyncio"


def checked(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return events, if they are those of the protocol, in an order that its client takes."""
    opened: dict[str, set[str]] = {"TEXT_MESSAGE": set(), "REASONING_MESSAGE": set(), "REASONING": set()}
    opened |= {"TOOL_CALL": set(), "STEP": set()}
    for event in events:
        made = EVENTS.validate_python(event)
        assert not made.model_extra, event
        kind, _, what = str(event["type"]).rpartition("_")
        if kind not in opened:
            continue
        id = next(event[name] for name in ("toolCallId", "stepName", "messageId") if name in event)
        if what in ("START", "STARTED"):
            assert id not in opened[kind]
            opened[kind].add(id)
        elif what != "RESULT":
            assert id in opened[kind]
            if what in ("END", "FINISHED"):
                opened[kind].remove(id)
    assert events[0]["type"] == "RUN_STARTED"
    assert [one["type"] for one in events].count("RUN_STARTED") == 1
    assert events[-1]["type"] in ("RUN_FINISHED", "RUN_ERROR")
    assert events[-1]["type"] == "RUN_ERROR" or not any(opened.values())
    return events


def sent(chunks: list[Chunk], **options: Any) -> list[dict[str, Any]]:
    """Return the events for chunks."""
    body = b"".join(ag_ui.stream_sync(iter(chunks), AGUIEncoder(thread_id="t", run_id="r", **options)))
    return checked([json.loads(line[6:]) for line in body.decode().splitlines() if line])


def test_every_chunk_has_an_event_of_the_protocol() -> None:
    """Texts and calls are closed before the run is."""
    events = sent(
        [
            Chunk("start"),
            Chunk("step-start"),
            Chunk("reasoning-start", id="r"),
            Chunk("reasoning-delta", "Hm.", "r"),
            Chunk("reasoning-end", id="r"),
            *text("One ", "moment."),
            *call('{"city"', ':"Oslo"}', arguments={"city": "Oslo"}),
            Chunk("tool-result", id="c1", payload={"call_id": "c1", "name": "weather", "result": {"degrees": 4}}),
            Chunk("step-finish", payload={"reason": "tool-calls", "is_continued": True}),
            Chunk("step-start"),
            *text("It is cold."),
            Chunk("source", payload={"id": "s1", "url": "https://a.example", "title": "A"}),
            Chunk("data-state", payload={"data": {"mood": "calm"}}),
            Chunk("data-mood", payload={"data": 1}),
            Chunk("step-finish", payload={"reason": "stop"}),
            finish(),
        ]
    )
    assert [event["type"] for event in events] == [
        *("RUN_STARTED", "STEP_STARTED"),
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
        *("REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"),
        *("STEP_FINISHED", "STEP_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END"),
        *("CUSTOM", "STATE_SNAPSHOT", "CUSTOM", "STEP_FINISHED", "RUN_FINISHED"),
    ]
    by_type = {event["type"]: event for event in events}
    said = next(event for event in events if event["type"] == "TEXT_MESSAGE_START")
    assert by_type["TOOL_CALL_START"]["parentMessageId"] == said["messageId"]
    assert by_type["TOOL_CALL_RESULT"]["content"] == '{"degrees":4}'
    assert by_type["STATE_SNAPSHOT"]["snapshot"] == {"mood": "calm"}
    assert (by_type["CUSTOM"]["name"], by_type["CUSTOM"]["value"]) == ("mood", 1)
    assert events[-1] == {"type": "RUN_FINISHED", "threadId": "t", "runId": "r", "outcome": {"type": "success"}}


def test_reasoning_can_be_left_out() -> None:
    """Nothing of it is sent."""
    assert sent([Chunk("reasoning-delta", "Hm.", "r"), finish()], reasoning=False)[1:-1] == []


def test_how_an_answer_ends() -> None:
    """A verdict says nothing of itself; what was sent and no longer holds ends the run."""
    blocked = {"type": "RUN_ERROR", "message": "The answer was blocked.", "code": "content_filter"}
    assert sent([*text("Hi")[:-1], VERDICT])[-1] == blocked
    assert sent([VERDICT], refusal="No more.")[-1] == {**blocked, "message": "No more."}
    block = text("Hi")[0].id
    retracted = [Chunk("step-start"), *text("Hi"), Chunk("retract", payload={"blocks": [block]}), *text("Ho")]
    assert sent(retracted)[-1] == blocked
    assert sent([*call('{"a":1}', arguments={"a": 2})])[-1] == blocked
    assert sent([Chunk("abort")])[-1]["outcome"] == {"type": "cancelled"}
    left = sent([*call("{}", arguments={}), finish("tool-calls")])[-1]
    assert left["outcome"] == {"type": "success", "pendingToolCallIds": ["c1"]}
    cut = sent([*call('{"a"', arguments=None)[:2], finish("length")])
    assert cut[-1]["type"] == "RUN_FINISHED"


@pytest.mark.parametrize("strategy", ["redact", "block"])
async def test_a_guarded_answer_whole_and_streamed(strategy: Any) -> None:
    """The events say the same."""
    agent = Agent(
        ScriptedModel(["Ask ada@example.com"], repeat_last=True),
        processors=[RegexFilterProcessor(presets=["pii"], strategy=strategy)],
    )
    body = b"".join([piece async for piece in ag_ui.stream(agent.stream("Hi"), AGUIEncoder())])
    streamed = checked([json.loads(line[6:]) for line in body.decode().splitlines() if line])
    whole = checked(ag_ui.answer(await agent.generate("Hi"), AGUIEncoder()))
    for events in (streamed, whole):
        assert "ada@" not in json.dumps(events)
        said = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
        ended = events[-1]
        assert (said, ended["type"]) == ("Ask [EMAIL]", "RUN_FINISHED") or (ended.get("code"), strategy) == (
            "content_filter",
            "block",
        )


# Requests


def test_a_request_in_the_protocols_own_types() -> None:
    """Its messages are the client's, whatever their role; the rest is kept."""
    asked = RunAgentInput.model_validate(
        {
            "threadId": "t1",
            "runId": "r1",
            "protocolVersion": "1.0",
            "state": {"page": 3},
            "messages": [
                {"id": "1", "role": "system", "content": "Be kind."},
                {
                    "id": "2",
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Hi"},
                        {"type": "image", "source": {"type": "data", "value": "aGk=", "mimeType": "image/png"}},
                        {"type": "audio", "source": {"type": "url", "value": "https://a.example/a.mp3"}},
                        {"type": "document", "source": {"type": "url", "value": "https://a.example/a.pdf"}},
                    ],
                },
                {"id": "3", "role": "reasoning", "content": "Well."},
                {
                    "id": "4",
                    "role": "assistant",
                    "content": "One moment.",
                    "toolCalls": [
                        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
                        {"id": "c2", "type": "function", "function": {"name": "f", "arguments": "{broken"}},
                    ],
                },
                {"id": "5", "role": "tool", "toolCallId": "c1", "content": "done"},
                {"id": "6", "role": "tool", "toolCallId": "c2", "content": "", "error": "no JSON"},
                {"id": "7", "role": "activity", "activityType": "PLAN", "content": {"a": 1}},
            ],
            "tools": [{"name": "g", "description": "Looks."}],
            "context": [{"description": "page", "value": "orders"}],
            "forwardedProps": {"a": 1},
        }
    )
    read = ag_ui.read_request(asked.model_dump_json(by_alias=True))
    assert [(one.role, one.id, one.from_client) for one in read.messages] == [
        ("system", "1", True),
        ("user", "2", True),
        ("assistant", "3", True),
        ("tool", "5", True),
        ("tool", "6", True),
    ]
    assert [part.type for part in read.messages[1].parts] == ["text", "image", "audio", "file"]
    assert [part.type for part in read.messages[2].parts] == ["reasoning", "text", "tool", "tool"]
    first, second = read.messages[2].parts[2:]
    assert (getattr(first, "arguments", 0), getattr(second, "arguments", 0)) == ({"a": 1}, "{broken")
    results = [read.messages[place].parts[0] for place in (3, 4)]
    assert [(getattr(part, "name", ""), getattr(part, "state", "")) for part in results] == [
        ("f", "result"),
        ("f", "error"),
    ]
    assert (read.id, read.stream, read.tool_names) == ("t1", True, frozenset({"g"}))
    assert set(read.rest) == {"protocolVersion", "state", "context", "forwardedProps"}
    events = [*AGUIEncoder.answering(read).end()]
    assert (events[0]["threadId"], events[0]["runId"]) == ("t1", "r1")


OPEN: Any = {
    "id": "2",
    "role": "assistant",
    "toolCalls": [{"id": "c1", "type": "function", "function": {"name": "refund", "arguments": '{"order":7}'}}],
}


TWO: Any = {**OPEN, "toolCalls": [*OPEN["toolCalls"], {**OPEN["toolCalls"][0], "id": "c2"}]}

MALFORMED: list[tuple[Any, str]] = [
    ({"messages": 1}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": [{"type": "poem"}]}]}, "messages[0].content[0].type"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file", "value": "f"}}]}]},
        "messages[0].content[0].source.type",
    ),
    ({"messages": [OPEN], "resume": [{"interruptId": "c2", "status": "cancelled"}]}, "resume[0].interruptId"),
    ({"messages": [OPEN], "resume": [{"interruptId": "c1", "status": "maybe"}]}, "resume[0].status"),
    ({"messages": [TWO], "resume": [{"interruptId": "c1", "status": "cancelled"}]}, "resume"),
    ({"messages": [OPEN], "resume": [{"interruptId": "c1", "status": "resolved"}]}, "resume[0].payload.approved"),
    (
        {
            "messages": [OPEN],
            "resume": [{"interruptId": "c1", "status": "resolved", "payload": {"approved": "yes"}}],
        },
        "resume[0].payload.approved",
    ),
    (
        {
            "messages": [OPEN],
            "resume": [{"interruptId": "c1", "status": "resolved", "payload": {"approved": True, "editedArgs": {}}}],
        },
        "resume[0].payload.editedArgs",
    ),
]


@pytest.mark.parametrize(("body", "place"), MALFORMED)
def test_a_malformed_request_is_refused_with_the_place(body: Any, place: str) -> None:
    """An answer that is not understood approves nothing."""
    with pytest.raises(RequestError) as raised:
        ag_ui.read_request(body)
    assert raised.value.place == place


# Approvals


class Shop:
    """A service with a store, and the messages of its client."""

    def __init__(self, store: SQLiteStorage) -> None:
        self.store = store
        self.ran: list[int] = []
        self.messages: list[Any] = [{"id": "1", "role": "user", "content": "Refund order 7"}]

    def refund(self, order: int) -> str:
        """Refund an order."""
        self.ran.append(order)
        return f"refunded {order}"

    async def post(self, answer: Any, *resume: Any) -> list[dict[str, Any]]:
        """Send the messages, and return the events; the client keeps the calls."""
        body = {"threadId": "t", "runId": "r", "messages": self.messages, "resume": list(resume)}
        asked = ag_ui.read_request(RunAgentInput.model_validate(body).model_dump_json(by_alias=True))
        self.model = ScriptedModel([answer])
        guards = [PIIDetector(redaction_method="placeholder")]
        agent = Agent(self.model, tools=[Tool(self.refund, approval=True)], processors=guards, reviews=self.store)
        stream = agent.stream(asked.messages, **asked.options())
        sent = [piece async for piece in ag_ui.stream(stream, AGUIEncoder.answering(asked))]
        return checked([json.loads(line[6:]) for line in b"".join(sent).decode().splitlines() if line])


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Return a service that asks nobody yet."""
    return Shop(SQLiteStorage(tmp_path / "runs.db"))


async def test_an_approval_is_an_interrupt_and_its_answer_runs_the_tool_once(shop: Shop) -> None:
    """It ends the stored run, so the store's approval and the client's are the same."""
    asked = await shop.post(CALL)
    [interrupt] = asked[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["reason"], interrupt["toolCallId"]) == ("c1", "tool_call", "c1")
    assert EventType.TOOL_CALL_END in [event["type"] for event in asked]
    [run] = (await Reviews(shop.store).runs()).items
    shop.messages.append(OPEN)
    answer = {"interruptId": "c1", "status": "resolved", "payload": {"approved": True}}
    done = await shop.post("Done.", answer)
    [result] = [event for event in done if event["type"] == "TOOL_CALL_RESULT"]
    assert (result["toolCallId"], result["content"]) == ("c1", "refunded 7")
    assert not [event for event in done if event["type"] == "TOOL_CALL_START"]
    await shop.post("Done.", answer)
    assert shop.ran == [7]
    with pytest.raises(ReviewError, match="it has ended"):
        await Reviews(shop.store).approve(run.run_id)


def said(*calls: str, content: str = "", role: str = "assistant") -> dict[str, Any]:
    """Return a message as the protocol's client makes it of an answer."""
    made = [{"id": id, "type": "function", "function": {"name": "refund", "arguments": '{"order": 7}'}} for id in calls]
    return {"id": "-".join(["m", *calls]), "role": role, "content": content, **({"toolCalls": made} if made else {})}


@pytest.mark.parametrize(
    "split",
    [
        [said("c1", content="I refund."), said(content="Hm.", role="reasoning")],
        [said("c1"), said(content="I refund.")],
        [said("c1", content="One."), said("c2", content="Two.")],
    ],
)
async def test_an_answer_that_the_client_has_split_is_one(shop: Shop, split: list[Any]) -> None:
    """All of its calls want an answer, and those that are approved run."""
    ids = [call["id"] for message in split for call in message.get("toolCalls", ())]
    await shop.post({"tool_calls": [{"name": "refund", "args": {"order": 7}, "id": id} for id in ids]})
    shop.messages += split
    answers = [{"interruptId": id, "status": "resolved", "payload": {"approved": True}} for id in ids]
    if len(ids) > 1:
        with pytest.raises(RequestError, match="answer all interrupts"):
            ag_ui.read_request({"messages": shop.messages, "resume": answers[1:]})
    await shop.post("Done.", *answers)
    assert shop.ran == [7] * len(ids)


async def test_a_question_for_a_reviewer_is_an_interrupt_that_the_client_cannot_answer(shop: Shop) -> None:
    """A run that waits is no success; nothing of the question is told."""
    agent = Agent(ScriptedModel(["Hello."], repeat_last=True), processors=[HumanReview(["input"])], reviews=shop.store)
    body = b"".join([piece async for piece in ag_ui.stream(agent.stream("Hi"), AGUIEncoder())])
    streamed = checked([json.loads(line[6:]) for line in body.decode().splitlines() if line])
    result = await agent.generate("Hi")
    whole = checked(ag_ui.answer(result, AGUIEncoder()))
    interrupt: dict[str, Any] = {}
    for events in (streamed, whole):
        [interrupt] = events[-1]["outcome"]["interrupts"]
        assert (interrupt["reason"], "toolCallId" in interrupt) == ("penstock:review", False)
        assert "Is this allowed" not in json.dumps(events)
    assert interrupt["id"] == f"review-{result.run_id}"
    answer = {"interruptId": interrupt["id"], "status": "resolved", "payload": {"approved": True}}
    read = ag_ui.read_request({"messages": shop.messages, "resume": [answer]})
    assert [part.type for message in read.messages for part in message.parts] == ["text"]
    assert (await Reviews(shop.store).run(result.run_id)).undecided


@pytest.mark.parametrize("status", ["resolved", "cancelled"])
async def test_a_refusal_reaches_the_model_with_its_reason(shop: Shop, status: str) -> None:
    """As the guards left it. A cancelled interrupt says that nobody has decided."""
    await shop.post(CALL)
    shop.messages.append(OPEN)
    payload = {"approved": False, "reason": "ask bob@example.com"} if status == "resolved" else None
    done = await shop.post("I cannot.", {"interruptId": "c1", "status": status, "payload": payload})
    [result] = [event for event in done if event["type"] == "TOOL_CALL_RESULT"]
    assert result["content"] == "The call was rejected."
    read = repr(shop.model.requests)
    assert ("ask [EMAIL]" if status == "resolved" else "has not decided") in read
    assert "bob@" not in read
    assert shop.ran == []
