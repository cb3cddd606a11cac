"""A memory as small as it can be, for scenarios that need one: a list a thread. It knows no agent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from penstock import Message
from penstock.workflows.agent.processor_lists import MemoryPlacement
from tests.conformance.runtime.driver import Hooks
from tests.conformance.runtime.lifecycle import LOOKS_ON


class Memory:
    """Remembers what was said in a thread.

    Args:
        working: whether it also has a working memory, which tells the model of itself in a system message.

    Attributes:
        saved: the messages of each thread.
        writes: every write, by whom: a processor's id, and what it wrote.
        called: its processors' ids, as the input and the output came to them.
    """

    def __init__(self, *, working: bool = False) -> None:
        self.working = working
        self.saved: dict[str, list[Message]] = defaultdict(list)
        self.writes: list[tuple[str, Sequence[Message]]] = []
        self.called: list[str] = []

    def around(self, placed: Any) -> MemoryPlacement:
        """Return what is placed around the user's processors."""
        del placed
        history = Hooks("message-history", process_input=self._remember, process_output_result=self._save)
        if not self.working:
            return MemoryPlacement((history,))
        filtering = Hooks("memory-input-filter", claims=LOOKS_ON, process_input=self._note("memory-input-filter"))
        return MemoryPlacement((filtering, Hooks("working-memory", process_input=self._tell), history))

    def _note(self, id: str) -> Any:
        return lambda _ctx: self.called.append(id)

    def _tell(self, ctx: Any) -> Any:
        self.called.append("working-memory")
        return ctx.message_list.add(Message.system("Working memory: empty."), tag="working-memory")

    def _remember(self, ctx: Any) -> Any:
        self.called.append("message-history")
        old = self.saved[ctx.thread_id]
        messages = ctx.message_list
        return messages.clear("input").add(old, source="memory").add(messages.input, source="input") if old else None

    def _save(self, ctx: Any) -> None:
        self.called.append("message-history")
        new = [*ctx.message_list.input, *ctx.message_list.response]
        self.writes.append(("message-history", new))
        self.saved[ctx.thread_id] += new
