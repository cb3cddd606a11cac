"""Whether agents recall what was said in other requests, and nothing that a guard kept from them."""

from collections.abc import Sequence

import pytest

from penstock import (
    Agent,
    InMemoryStorage,
    Memory,
    Message,
    PIIDetector,
    RegexFilterProcessor,
    Restore,
    SemanticRecall,
    SQLiteStorage,
    Workflow,
    processor,
    tool,
)
from penstock.engine.processor.context import OutputResultContext, OutputStepContext
from penstock.models import HashingEmbedder
from penstock.testing import ScriptedModel

ANN = {"resource_id": "ann"}


class Listening(HashingEmbedder):
    """Notes all that it was to embed; to have it fail is a switch."""

    __slots__ = ("broken", "heard")

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[str] = []
        self.broken = False

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        self.heard += texts
        if self.broken:
            raise OSError("no network")
        return await super().embed(texts)


@pytest.fixture(params=["memory", "file"])
async def storage(request, tmp_path):
    """Give a store in memory, and one in a file."""
    store = InMemoryStorage() if request.param == "memory" else SQLiteStorage(tmp_path / "chat.db")
    yield store
    await store.close()


def agent(storage, model, *processors, embedder=None, **options) -> Agent:
    """Return an agent that recalls, by words."""
    recall = {"message_range": 0, "threshold": 0.3, **options}
    memory = Memory(storage, last_messages=2, semantic_recall=recall, embedder=embedder or Listening())
    return Agent(model, memory=memory, processors=processors)


def told(model: ScriptedModel) -> list[tuple[str, str]]:
    """Return what the model was shown last."""
    return [(message.role, message.text) for message in model.requests[-1].messages]


async def test_an_older_message_of_the_thread_comes_back_before_the_last_ones(storage):
    """As it was; the last ones are there once."""
    model = ScriptedModel(["Nice name.", "Yes.", "Indeed.", "Tom!"])
    mine = agent(storage, model)
    for text in ("My cat is called Tom.", "It is a fine day.", "I like it.", "How is my cat called?"):
        await mine.generate(text, thread_id="t1", **ANN)
    assert told(model) == [
        ("user", "My cat is called Tom."),
        ("user", "I like it."),
        ("assistant", "Indeed."),
        ("user", "How is my cat called?"),
    ]


async def test_a_message_of_another_thread_is_quoted_to_the_model(storage):
    """On the user's side; it becomes no part of this thread."""
    model = ScriptedModel(["Nice name.", "Tom!"])
    mine = agent(storage, model)
    await mine.generate("My cat is called Tom.", thread_id="t1", **ANN)
    await mine.generate("How is my cat called?", thread_id="t2", **ANN)
    [(role, text), last] = told(model)
    assert (role, last) == ("user", ("user", "How is my cat called?"))
    assert "> My cat is called Tom." in text
    rows = (await storage.messages("t2")).items
    assert [row.message.text for row in rows] == ["Tom!", "How is my cat called?"]


async def test_nobody_recalls_what_another_said(storage):
    """Whatever the threads are called."""
    model = ScriptedModel(["Nice name.", "I do not know."])
    mine = agent(storage, model)
    await mine.generate("My cat is called Tom.", thread_id="t1", **ANN)
    await mine.generate("How is my cat called?", thread_id="t2", resource_id="bob")
    assert told(model) == [("user", "How is my cat called?")]


async def test_a_deleted_message_is_not_recalled(storage):
    """Its vector is gone with it."""
    model = ScriptedModel(["Nice name.", "I do not know."])
    mine = agent(storage, model)
    await mine.generate("My cat is called Tom.", thread_id="t1", **ANN)
    await storage.delete_thread("t1")
    await mine.generate("How is my cat called?", thread_id="t2", **ANN)
    assert told(model) == [("user", "How is my cat called?")]


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_was_redacted_is_embedded_in_no_other_form(storage, streamed):
    """Neither the question, nor the input, nor the answer."""
    embedder = Listening()
    model = ScriptedModel(["Write to bob@example.com then.", "Done."])
    mine = agent(storage, model, PIIDetector(strategy="redact", redaction_method="remove"), embedder=embedder)
    for text in ("I am ann@example.com, whom do I ask?", "Whom did I ask, as ann@example.com?"):
        if streamed:
            async with mine.stream(text, thread_id="t1", **ANN) as stream:
                assert "example" not in "".join([piece async for piece in stream.text_stream])
        else:
            await mine.generate(text, thread_id="t1", **ANN)
    assert len(embedder.heard) >= 4
    assert not [text for text in embedder.heard if "example" in text]


async def test_values_that_are_put_back_for_the_client_are_not_embedded(storage):
    """Their tokens are, as they are stored."""
    embedder = Listening()
    model = ScriptedModel([lambda request: f"You said: {request.messages[-1].text}"])
    vault = PIIDetector(redaction_method="token", phase="input")
    result = await agent(storage, model, vault, Restore(), embedder=embedder).generate(
        "I am ann@example.com", thread_id="t1", **ANN
    )
    assert "ann@example.com" in result.text
    assert not [text for text in embedder.heard if "example" in text]
    rows = [row.message.text for row in (await storage.messages("t1")).items]
    assert sorted({text for text in embedder.heard if "You" in text}) == [text for text in rows if "You" in text]


async def test_a_token_that_is_recalled_does_not_become_a_value_of_this_request(storage):
    """It stood for another one."""
    model = ScriptedModel(["Noted.", lambda request: request.messages[0].text])
    mine = agent(storage, model, PIIDetector(redaction_method="token", phase="input"), Restore())
    await mine.generate("The address of the plumber is ann@example.com", thread_id="t1", **ANN)
    result = await mine.generate("Tell bob@example.com the address of the plumber", thread_id="t2", **ANN)
    assert "> The address of the plumber is [EMAIL]" in result.text
    assert "bob@example.com" not in result.text


async def test_a_blocked_input_is_neither_searched_for_nor_indexed(storage):
    """The embedder hears nothing of it."""
    embedder = Listening()
    guard = RegexFilterProcessor(rules=[{"name": "secret", "pattern": "secret"}])
    result = await agent(storage, ScriptedModel([]), guard, embedder=embedder).generate(
        "my secret", thread_id="t1", **ANN
    )
    assert (result.status, embedder.heard) == ("blocked", [])


@pytest.mark.parametrize("stage", ["process_output_step", "process_output_result"])
@pytest.mark.parametrize("indexing", ["answer", "end"])
async def test_a_blocked_answer_is_not_indexed_and_its_question_is(storage, stage, indexing):
    """Nor one that was rejected."""
    embedder = Listening()

    @processor(stage, id="guard")
    def guard(ctx):
        if any("secret" in message.text for message in ctx.messages):
            ctx.abort("no")

    mine = agent(storage, ScriptedModel(["a secret"]), guard, embedder=embedder, indexing=indexing)
    result = await mine.generate("Tell me a story.", thread_id="t1", **ANN)
    assert result.status == "blocked"
    assert set(embedder.heard) == {"Tell me a story."}
    again = ScriptedModel(["Once upon a time."])
    await agent(storage, again, embedder=embedder).generate("Which story did I want?", thread_id="t2", **ANN)
    assert "> Tell me a story." in told(again)[0][1]


async def test_of_attempts_only_the_accepted_one_is_indexed(storage):
    """What was rejected was not said."""
    embedder = Listening()

    @processor
    def strict(ctx: OutputStepContext) -> None:
        if "wrong" in ctx.text:
            ctx.abort("that is wrong", retry=True)

    mine = agent(storage, ScriptedModel(["wrong", "right"]), strict, embedder=embedder)
    await mine.generate("Go on.", thread_id="t1", max_processor_retries=1, **ANN)
    assert set(embedder.heard) == {"Go on.", "right"}


async def test_it_searches_once_however_many_steps_there_are(storage):
    """All that was said in them is indexed together."""

    @tool
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city}"

    embedder = Listening()
    calls = {"text": "I look.", "tool_calls": [{"name": "weather", "args": {"city": "Rome"}}]}
    model = ScriptedModel([calls, "Sunny."])
    memory = Memory(storage, semantic_recall=True, embedder=embedder)
    await Agent(model, memory=memory, tools=[weather]).generate("Weather?", thread_id="t1", **ANN)
    assert embedder.heard[0] == "Weather?"
    assert embedder.heard[1:] == ["I look.", "Sunny.", "Weather?"]


async def test_an_embedder_that_fails_does_not_cost_the_answer(storage, caplog):
    """It is logged, and what it missed can be indexed later."""
    embedder = Listening()
    embedder.broken = True
    model = ScriptedModel(["Nice name.", "Tom!"])
    mine = agent(storage, model, embedder=embedder)
    assert (await mine.generate("My cat is called Tom.", thread_id="t1", **ANN)).status == "success"
    assert "OSError" in caplog.text
    assert "Tom" not in caplog.text
    embedder.broken = False
    assert await SemanticRecall(storage, embedder).reindex() == 2
    await mine.generate("How is my cat called?", thread_id="t2", **ANN)
    assert "> My cat is called Tom." in told(model)[0][1]


async def test_a_recall_within_a_workflow_of_ones_own_takes_the_memorys_place(storage):
    """It is not placed twice."""
    model = ScriptedModel(["Nice name.", "Tom!"])
    embedder = Listening()
    own = Workflow("mine").then(SemanticRecall(storage, embedder, threshold=0.3, message_range=0))
    mine = Agent(model, memory=Memory(storage, last_messages=0, semantic_recall=True), processors=[own])
    await mine.generate("My cat is called Tom.", thread_id="t1", **ANN)
    await mine.generate("How is my cat called?", thread_id="t1", **ANN)
    assert told(model) == [("user", "My cat is called Tom."), ("user", "How is my cat called?")]
    assert embedder.heard.count("How is my cat called?") <= 2


async def test_a_thread_that_is_older_than_its_index_is_indexed_on_demand(storage):
    """What was stored without recall is found with it."""
    rows = [
        Message.user(text, id=f"m{number}", thread_id="old", resource_id="ann")
        for number, text in enumerate(("My cat is called Tom.", "It is a fine day."))
    ]
    await storage.save_messages(rows)
    assert await SemanticRecall(storage).reindex(resource_id="ann") == 2
    model = ScriptedModel(["Tom!"])
    await agent(storage, model).generate("How is my cat called?", thread_id="new", **ANN)
    assert "> My cat is called Tom." in told(model)[0][1]


async def test_a_hook_behind_the_memory_sees_no_quotation_at_the_end(storage):
    """It is context, not what was said."""
    seen: list[str] = []

    @processor
    def look(ctx: OutputResultContext) -> None:
        seen.extend(message.text for message in ctx.message_list.response)

    model = ScriptedModel(["Nice name.", "Tom!"])
    mine = agent(storage, model, look)
    await mine.generate("My cat is called Tom.", thread_id="t1", **ANN)
    await mine.generate("How is my cat called?", thread_id="t2", **ANN)
    assert seen == ["Nice name.", "Tom!"]
