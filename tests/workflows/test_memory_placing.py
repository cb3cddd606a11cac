"""What a `Memory` places around an agent's processors, its options, and what it means that its store fails."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Agent, InputContext, Memory, MessageHistory, OptionError, Processor, SemanticRecall, Workflow
from penstock.engine import StepFailedError
from penstock.processors.memory import MemoryInputFilter
from penstock.processors.memory.working_memory import WorkingMemory
from penstock.testing import ScriptedModel
from penstock.workflows.agent.processor_lists import MemoryPlacement
from tests.processors.memory.noted_storage import NotedStorage
from tests.workflows.remembering import asked, said

pytestmark = pytest.mark.anyio


def ids(*items: Any) -> list[str]:
    """Return the ids of processors."""
    return [one.id for one in items]


async def test_processors_that_are_there_already_are_not_placed_twice() -> None:
    """Even within a workflow."""
    storage = NotedStorage()
    history = MessageHistory(storage, last_messages=1)
    loading = Workflow("mine").then(MemoryInputFilter(storage)).then(history.loader)
    agent = Agent(ScriptedModel(["one", "two"]), input_processors=[loading], memory=Memory(storage))
    assert agent.draw().count("message-history-saver") == 1  # behind the model
    await asked(agent, "first")
    result = await asked(agent, "second")
    assert said(result.messages) == ["assistant:one", "user:second", "assistant:two"]
    assert storage.of() == ["user:first", "assistant:one", "user:second", "assistant:two"]
    assert Memory(storage).around([history, MemoryInputFilter(storage)]) == MemoryPlacement()


async def test_processors_of_a_memory_run_behind_its_loaders_and_before_the_agents_own() -> None:
    """They see what was loaded; nothing that they leave out is lost from the store."""
    storage, order = NotedStorage(), list[str]()

    class Notes(Processor[Any]):
        def __init__(self, id: str) -> None:
            self.id = id

        def process_input(self, ctx: InputContext) -> Any:
            order.append(f"{self.id}:{len(ctx.message_list.conversation)}")
            remembered = ctx.message_list.of("memory")
            return ctx.message_list.remove(*[one.id for one in remembered]) if self.id == "drops" else None

    model = ScriptedModel(["one", "two"])
    memory = Memory(storage, processors=[Workflow("w").then(Notes("drops"))])
    agent = Agent(model, processors=[Notes("own")], memory=memory)
    await asked(agent, "first")
    await asked(agent, "second")
    assert order == ["drops:1", "own:1", "drops:3", "own:1"]
    assert [message.text for message in model.requests[1].messages] == ["second"]
    assert storage.of() == ["user:first", "assistant:one", "user:second", "assistant:two"]
    with pytest.raises(OptionError, match="processors"):
        Memory(storage, processors=Notes("own"))  # type: ignore[arg-type]


def test_all_that_is_asked_for_is_placed() -> None:
    """Before the user's processors what loads, behind them what keeps; what is indexed is stored before."""
    storage = NotedStorage()
    memory = Memory(storage, semantic_recall={"top_k": 2}, vectors=Vectors(), working_memory=True)
    around = memory.around([])
    assert ids(*around.before) == [
        "memory-input-filter",
        "working-memory",
        "message-history",
        "semantic-recall",
    ]
    assert ids(*around.after) == ["message-history-saver", "semantic-recall-saver"]
    assert memory.recall is not None
    assert memory.recall.top_k == 2
    own = memory.around([memory.recall, WorkingMemory(storage)])
    assert ids(*own.before, *own.after) == [
        "memory-input-filter",
        "message-history",
        "message-history-saver",
    ]
    given = Memory(storage, semantic_recall=memory.recall, working_memory=memory.notes or False)
    assert given.recall is memory.recall
    assert given.notes is memory.notes
    assert Memory(storage).recall is None
    assert Memory(storage, history={"last_messages": 3}, last_messages=2).history.last_messages == 3
    assert repr(Memory(storage)).startswith("Memory(MessageHistory(")
    assert isinstance(memory.recall, SemanticRecall)


class Vectors:
    """A store of vectors that holds none."""

    async def upsert_vectors(self, index: str, entries: Any) -> None:
        """Forget them."""

    async def query_vectors(self, index: str, vector: Any, *, limit: int, **_: Any) -> tuple[()]:
        """Find nothing."""
        return ()

    async def delete_vectors(self, index: str, message_ids: Any) -> int:
        """Have none."""
        return 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"storage": "chat.db"}, "storage"),
        ({"last_messages": -1}, "last_messages"),
        ({"keep_input": "always"}, "keep_input"),
        ({"semantic_recall": "yes"}, "semantic_recall"),
        ({"working_memory": 3}, "working_memory"),
        ({"on_error": "ignore"}, "on_error"),
        ({"retain_full_input": 1}, "retain_full_input"),
        ({"read_only": "no"}, "read_only"),
        ({"title": "Chat"}, "title"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"history": 10}, "history"),
        ({"history": {"last": 10}}, "history"),
        ({"semantic_recall": {"topk": 2}}, "semantic_recall"),
        ({"history": {"counting": "exact"}}, "counting"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options: dict[str, Any], named: str) -> None:
    """By name."""
    with pytest.raises(OptionError) as caught:
        Memory(**{"storage": NotedStorage(), **options})
    assert caught.value.option == named


# When the store fails


@pytest.mark.parametrize("method", ["messages", "save_messages"])
async def test_a_store_that_fails_fails_the_request(method: str) -> None:
    """By default: an agent that forgets in silence would be worse."""
    storage = NotedStorage()
    agent = Agent(ScriptedModel(["one"], repeat_last=True), memory=Memory(storage))
    await asked(agent, "first")
    storage.failing = {method}
    with pytest.raises(StepFailedError, match="StorageError"):
        await asked(agent, "second")
    with pytest.raises(StepFailedError):
        await asked(agent, "second", streamed=True)


async def test_a_store_that_fails_may_block_or_be_done_without(caplog: pytest.LogCaptureFixture) -> None:
    """As ``on_error`` says; what goes on without says so in the log."""
    blocked = Agent(ScriptedModel(["one"]), memory=Memory(NotedStorage(failing=["thread"]), on_error="block"))
    assert (await asked(blocked, "Hi")).status == "blocked"
    storage = NotedStorage(failing=["thread", "save_messages"])
    agent = Agent(ScriptedModel(["one", "two"]), memory=Memory(storage, on_error="allow"))
    assert (await asked(agent, "Hi")).text == "one"
    assert "message-history" in caplog.text
    storage.failing = set()
    assert (await asked(agent, "Hi again")).text == "two"
    assert storage.of() == ["user:Hi again", "assistant:two"]
