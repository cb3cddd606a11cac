"""What tests of recall start from: a shelf with some conversations, and a run. It knows nothing of what is tested."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from penstock import Message, MessageList, Outcome, Run, SemanticRecall, Workflow
from tests.processors.memory.shelf import KeywordEmbedder, Shelf

START = datetime(2026, 1, 1, tzinfo=UTC)


def said(id: str, text: str, thread: str = "t1", *, role: str = "user", owner: str = "r1", day: float = 0) -> Message:
    """Return a message as it is stored."""
    when = START + timedelta(days=day)
    return Message(role, text, id, when, thread, owner)  # type: ignore[arg-type]


async def indexed(shelf: Shelf, recall: SemanticRecall, *messages: Message) -> None:
    """Store messages, and index them."""
    shelf.put(*messages)
    for thread in dict.fromkeys(message.thread_id for message in messages):
        await recall.reindex(thread)
    shelf.upserts.clear()
    shelf.queries.clear()


def made(shelf: Shelf | None = None, embedder: Any = None, **options: Any) -> tuple[Shelf, SemanticRecall]:
    """Return a shelf, and a recall on it that raises what goes wrong."""
    shelf = Shelf() if shelf is None else shelf
    return shelf, SemanticRecall(shelf, embedder or KeywordEmbedder(), **{"on_error": "raise", **options})


def start(recall: Any, thread: str | None = "t1", resource: str | None = "r1", **options: Any) -> Run:
    """Return a run of a thread."""
    named = {"thread_id": thread, "resource_id": resource}
    context = {name: value for name, value in named.items() if value is not None}
    workflow = recall if isinstance(recall, Workflow) else Workflow("w").then(recall)
    return workflow.start(request_context=context, records=True, **options)


async def asked(recall: Any, question: Any, thread: str | None = "t1", resource: str | None = "r1") -> Outcome:
    """Run what comes before a model call, and return its outcome."""
    async with start(recall, thread, resource) as run:
        outcome = await run.process_input(question)
        return outcome if outcome.blocked else await run.process_input_step()


def recalled(messages: MessageList) -> list[str]:
    """Return the ids of what is remembered."""
    return [message.id for message in messages.remembered]


def quoted(messages: MessageList) -> str:
    """Return what is quoted of other threads; empty if nothing is."""
    return "\n".join(message.text for message in messages.of("context"))
