"""Messages of a framework, given back after a run: unchanged ones are the very objects, whatever guards do beside."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings, strategies as st

from penstock import InputContext, Message, MessageList, Processor
from penstock.engine.values.messages import TextPart, ToolPart
from penstock.testing import ScriptedModel
from penstock.workflows.hosting import Host, HostRequest, HostSupport, ModelCall, Original, Originals
from tests.laws import examples
from tests.workflows.hosting.loop import result

pytestmark = pytest.mark.anyio

KEEP, EDIT, DROP = "keep", "edit", "drop"


@pytest.fixture
def anyio_backend() -> str:
    """Frameworks run on asyncio."""
    return "asyncio"


@dataclass(eq=False)
class Theirs:
    """A message of the framework, known by its identity.

    Attributes:
        role: the role.
        text: the text.
        beside: what the framework notes, and nobody reads.
    """

    role: str
    text: str
    beside: object = None


def read(message: Theirs) -> Message:
    """Return one of the framework's messages as ours."""
    if message.role == "tool":
        return result(ToolPart("c1", "lookup", {}), message.text)
    return Message(message.role, (TextPart(message.text),))  # type: ignore[arg-type]


def write(message: Message, original: Original[Theirs] | None) -> Iterator[Theirs]:
    """Return a message of ours as the framework's; one with a result for each result."""
    if message.role == "tool":
        yield from (Theirs("tool", str(part.result)) for part in message.parts if isinstance(part, ToolPart))
    else:
        yield Theirs(message.role, message.text, None if original is None else original.given.beside)


class Fates(Processor):
    """Does to each message what is planned for its place, and may put one more in front."""

    edits = "anything"

    def __init__(self, plan: Sequence[str], *, adds: bool) -> None:
        self.plan = plan
        self.adds = adds

    def process_input(self, ctx: InputContext) -> list[Message] | MessageList:
        """Carry the plan out."""
        made = [Message.user("added")] if self.adds else []
        for message, fate in zip(ctx.messages, self.plan, strict=True):
            if fate != DROP:
                said = TextPart(f"{message.text}!")
                made.append(message if fate == KEEP else message.with_parts([said]))
        return made or ctx.message_list.clear()


def opened(step: Processor) -> HostRequest:
    """Return a request with a processor."""
    return Host(HostSupport("test_host"), [step]).open()


conversations = st.lists(
    st.tuples(
        st.sampled_from(["user", "assistant"]), st.sampled_from(["Hi", "Hi", "Go"]), st.sampled_from([KEEP, EDIT, DROP])
    ),
    min_size=1,
    max_size=6,
)


@given(rows=conversations, adds=st.booleans())
@settings(max_examples=examples(80), deadline=None)
async def test_each_message_is_its_object_or_the_one_written_for_it(
    rows: list[tuple[str, str, str]], adds: bool
) -> None:
    """In order; changed ones keep what stands beside their text, new ones come where they were put."""
    history = [Theirs(role, text, beside=number) for number, (role, text, _) in enumerate(rows)]
    request = opened(Fates([fate for _, _, fate in rows], adds=adds))
    said = [read(message) for message in history]
    originals = Originals[Theirs](request, write)
    originals.note(history, said)
    await request.begin(said)
    sent = originals.written(request.run.message_list.all)
    await request.close()
    fates = [(message, fate) for message, (_, _, fate) in zip(history, rows, strict=True) if fate != DROP]
    if adds:
        assert sent.pop(0).text == "added"
    assert [message.text for message in sent] == [one.text + ("!" if fate == EDIT else "") for one, fate in fates]
    for now, (one, fate) in zip(sent, fates, strict=True):
        assert (now is one) == (fate == KEEP)
        assert now.beside == one.beside
    left = originals.left(history, said)
    assert [one.text for one in left] == [one.text for one in sent]


class Renews(Processor):
    """Gives each message a new id, and adds a copy of the first one."""

    edits = "anything"

    def process_input(self, ctx: InputContext) -> list[Message]:
        """Do both."""
        return [*(Message(message.role, message.parts) for message in ctx.messages), Message.user(ctx.messages[0].text)]


async def test_messages_of_the_same_text_under_new_ids_are_their_objects_once_each() -> None:
    """In order; the copy that a step adds is written."""
    history = [Theirs("user", "Hi", beside="one"), Theirs("user", "Hi", beside="two")]
    request = opened(Renews())
    said = list(map(read, history))
    originals = Originals[Theirs](request, write)
    originals.note(history, said)
    await request.begin(said)
    *sent, copy = originals.written(request.run.message_list.all)
    await request.close()
    assert sent == history
    assert (copy.text, copy.beside) == ("Hi", None)


async def test_an_answer_and_the_results_of_its_calls_follow_each_other() -> None:
    """The answer is the object that the framework got for it; its results are one message of ours, after it."""
    model = ScriptedModel([{"tool_calls": [{"id": "c1", "name": "lookup", "args": {}}]}])
    request = opened(Fates([KEEP], adds=False))
    history = [Theirs("user", "Hi")]
    originals = Originals[Theirs](request, write)
    originals.note(history, map(read, history))
    answer = await request.whole_answer(ModelCall(model, list(map(read, history))))
    reply = Theirs("assistant", "", beside="calls lookup")
    originals.note_answer(answer, reply)
    await request.tool_result("lookup", "found", "c1")
    sent = originals.written(request.run.message_list.all)
    await request.close()
    assert sent[:2] == [history[0], reply]
    assert [(one.role, one.text) for one in sent[2:]] == [("tool", "found")]


async def test_a_changed_answer_is_written_anew() -> None:
    """Its noted object holds a text that guards have changed since."""
    model = ScriptedModel([{"text": "Hello"}])
    request = opened(Fates([KEEP], adds=False))
    originals = Originals[Theirs](request, write)
    said = [Message.user("Hi")]
    answer = await request.whole_answer(ModelCall(model, said))
    originals.note_answer(answer, Theirs("assistant", "Hello", beside=1))
    [made] = originals.written([answer.with_parts([TextPart("Hel")])])
    await request.close()
    assert (made.text, made.beside) == ("Hel", 1)
