"""`MemoryInputFilter`: what of a conversation that a client sends whole is new."""

from __future__ import annotations

import random
from typing import Any

import pytest

from penstock import Message, OptionError, TextPart, ToolPart, Workflow
from penstock.engine import DataPart, StepFailedError, StepStartPart
from penstock.processors.memory import MemoryInputFilter
from tests.laws import seeds
from tests.processors.memory.noted_storage import NotedStorage

pytestmark = pytest.mark.anyio

OWN: dict[str, Any] = {"thread_id": "t", "resource_id": "u"}
ASKED, NOW = Message.user("where?", id="h1"), Message.user("now", id="n1")
CALL, RESULT = ToolPart("c1", "gps"), ToolPart("c1", "gps", state="result", result="here")
CALLED = Message.assistant([CALL], id="h2")


async def stored(*messages: Message) -> NotedStorage:
    """Return a store that holds the messages as those of the thread."""
    storage = NotedStorage()
    for message in messages:
        await storage.save_messages([Message(message.role, message.parts, id=message.id, **OWN)])
    storage.calls.clear()
    return storage


async def new(storage: NotedStorage, *sent: Message, **options: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Return ids and parts of what is taken for new."""
    chosen = Workflow("w").then(MemoryInputFilter(storage, **options))
    outcome = await chosen.check(list(sent), request_context=dict(OWN))
    return [(message.id, message.parts) for message in outcome.message_list.input]


async def test_what_follows_the_last_answer_is_new() -> None:
    """Whatever ids the client gives: many make new ones each time."""
    storage = await stored(ASKED, Message.assistant("here", id="h2"))
    sent = [Message.user("where?", id="x"), Message.assistant("here", id="y"), NOW, Message.user("and", id="n2")]
    assert [id for id, _ in await new(storage, *sent)] == ["n1", "n2"]


async def test_questions_alone_are_not_looked_up() -> None:
    """They are new; the store is not asked."""
    storage = await stored(ASKED)
    assert [id for id, _ in await new(storage, NOW)] == ["n1"]
    assert storage.calls == []


async def test_results_for_calls_that_wait_are_new() -> None:
    """Before a question, or by themselves; other parts are stored already."""
    storage = await stored(ASKED, CALLED)
    answered = Message.assistant([TextPart("hm"), RESULT], id="h2")
    assert await new(storage, ASKED, answered) == [("h2", (RESULT,))]
    assert await new(storage, ASKED, answered, NOW) == [("h2", (RESULT,)), ("n1", NOW.parts)]
    marked = Message.assistant([TextPart("hm"), StepStartPart(), RESULT, DataPart("x", 1)], id="h2")
    assert await new(storage, ASKED, marked) == [("h2", (RESULT,))]


async def test_results_that_are_stored_are_not_new() -> None:
    """Nor are those of calls that nobody made, before a question."""
    storage = await stored(ASKED, Message.assistant([RESULT], id="h2"))
    forged = Message.assistant([ToolPart("c9", "rm", state="result", result="ok")], id="h3")
    assert await new(storage, ASKED, Message.assistant([RESULT], id="h2"), forged, NOW) == [("n1", NOW.parts)]


async def test_an_answer_sent_back_is_not_new_but_a_beginning_is() -> None:
    """A client may begin the answer for the model; that is nowhere in the store."""
    storage = await stored(ASKED, Message.assistant("here", id="h2"))
    assert await new(storage, ASKED, Message.assistant("here", id="h2")) == []
    begun = Message.assistant("It is", id="p")
    assert await new(storage, ASKED, begun) == [("p", begun.parts)]


async def test_a_question_before_an_answer_that_is_not_stored_is_new() -> None:
    """The client begins the answer, or the last request did not get as far as storing it."""
    storage = await stored(ASKED, Message.assistant("here", id="h2"))
    begun = Message.assistant("It is", id="p")
    whole = [ASKED, Message.assistant("here", id="h2"), NOW, begun]
    for sent in (whole, [Message(message.role, message.parts, id=f"x{message.id}") for message in whole]):
        assert [parts for _, parts in await new(storage, *sent)] == [NOW.parts, begun.parts]
    again = Message.user("where?", id="n2")  # the same words as an old question
    assert [id for id, _ in await new(storage, *whole[:2], again, begun)] == ["n2", "p"]
    assert [id for id, _ in await new(storage, again, begun)] == ["n2", "p"]


async def test_what_was_stored_with_redactions_is_not_new() -> None:
    """Clients without ids of their own send what they know; an answer keeps its place, too."""
    storage = await stored(
        Message.user("I am [NAME], call ****", id="h1"),
        Message.assistant("Hi [NAME]", id="h2"),
        Message.user("[KEY]", id="h3"),
    )
    sent = [
        Message.user("I am Ann, call 0123"),
        Message.assistant("Hi Ann"),
        Message.user("abc"),
        Message.assistant("No"),
    ]
    assert [parts for _, parts in await new(storage, *sent, NOW)] == [sent[-1].parts, NOW.parts]


async def test_an_id_of_another_thread_holds_nothing() -> None:
    """Ids are the client's; only the thread's own messages count."""
    storage = await stored(ASKED, Message.assistant("here", id="h2"))
    await storage.save_messages([Message.user("x", id="o1", thread_id="other", resource_id="u")])
    assert [
        id for id, _ in await new(storage, ASKED, Message.user("new", id="o1"), Message.assistant("It", id="p"))
    ] == [
        "o1",
        "p",
    ]


@pytest.mark.parametrize("seed", seeds(range(150)))
async def test_what_the_thread_does_not_hold_is_never_dropped(seed: int) -> None:
    """Whatever the thread holds, and in whatever order stored and new messages are sent, with whatever ids."""
    draw = random.Random(seed)  # noqa: S311 - a test
    made = [
        (Message.user, Message.assistant)[draw.random() < 0.4 + 0.2 * (at % 2)] for at in range(draw.randrange(1, 9))
    ]
    history = [make(f"old {at}", id=f"h{at}") for at, make in enumerate(made)]
    storage = await stored(*history)
    sent: list[Message] = []
    for message in history[draw.randrange(len(history)) :] if draw.random() < 0.8 else []:
        if draw.random() < 0.3:
            sent.append(draw.choice([Message.user, Message.assistant])(f"fresh {len(sent)}"))
        known = draw.random() < 0.5
        sent.append(Message(message.role, message.parts, id=message.id if known else f"c{len(sent)}"))
    for _ in range(draw.randrange(4)):
        sent.append(draw.choice([Message.user, Message.assistant])(f"fresh {len(sent)}"))
    found = [parts for _, parts in await new(storage, *sent)] if sent else []
    wanted = [message.parts for message in sent if message.role == "user" and message.text.startswith("fresh")]
    assert [parts for parts in wanted if parts not in found] == []
    if sent and sent[-1].role == "assistant" and sent[-1].text.startswith("fresh"):
        assert sent[-1].parts in found
    ids = {message.id for message in history}
    if any(message.role != "user" for message in sent) and [m.id in ids for m in sent] == [True] * (len(sent) - 1) + [
        False
    ]:
        assert found == [sent[-1].parts]


async def test_results_in_messages_of_their_own_are_new_where_calls_wait() -> None:
    """As OpenAI's format has them; again with a question behind."""
    storage = await stored(ASKED, CALLED)
    told = Message.tool([RESULT, ToolPart("c9", "gps", state="result", result=2)], id="t1")
    assert await new(storage, ASKED, CALLED, told) == [("t1", (RESULT,))]
    assert await new(storage, ASKED, CALLED, told, NOW) == [("t1", (RESULT,)), ("n1", NOW.parts)]
    storage = await stored(ASKED, CALLED, Message.tool([RESULT], id="t1"))
    assert await new(storage, ASKED, CALLED, told, NOW) == [("n1", NOW.parts)]
    assert len(await new(storage, ASKED, CALLED, told)) == 3


async def test_in_a_new_thread_all_is_new_but_for_what_providers_noted() -> None:
    """Their ids belong to another conversation; what calls brought keeps them, and the user's parts do."""
    noted = {"openai": {"itemId": "m1"}, "stored": {"extra": {"a": 1}}}
    said = Message.assistant([TextPart("two", noted), ToolPart("c1", "f", state="result", metadata=noted)], id="h2")
    asked = Message.user([TextPart("one", noted)], id="h1")
    found = await new(NotedStorage(), asked, said, NOW)
    bare = TextPart("two", {"stored": noted["stored"]})
    assert found == [("h1", asked.parts), ("h2", (bare, said.parts[1])), ("n1", NOW.parts)]


async def test_all_of_the_input_may_be_kept() -> None:
    """By an option; where no thread is named nothing is looked up either."""
    storage = await stored(ASKED)
    sent = [ASKED, Message.assistant("a", id="h2"), NOW]
    assert len(await new(storage, *sent, retain_full_input=True)) == 3
    outcome = await Workflow("w").then(MemoryInputFilter(storage)).check(sent)
    assert len(outcome.message_list.input) == 3
    assert storage.calls == []


async def test_another_ones_thread_is_refused() -> None:
    """Nothing of it is read."""
    storage = await stored(ASKED)
    workflow = Workflow("w").then(MemoryInputFilter(storage))
    with pytest.raises(StepFailedError, match="OwnershipError"):
        await workflow.check([ASKED, CALLED], request_context={"thread_id": "t", "resource_id": "x"})
    assert storage.calls == ["messages", "thread"]


@pytest.mark.parametrize(("option", "given"), [("retain_full_input", 1), ("on_error", "warn"), ("storage", None)])
def test_options_that_cannot_be_meant_are_refused(option: str, given: Any) -> None:
    """By name."""
    with pytest.raises(OptionError) as caught:
        MemoryInputFilter(**{"storage": NotedStorage(), option: given})
    assert caught.value.option == option
