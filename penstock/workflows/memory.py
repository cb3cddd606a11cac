"""`Memory`: what an agent remembers, as processors around its own. It knows the processors of a memory, no store."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_mapping
from penstock.processors.memory._filing import WORKING_MEMORY_TOOLS
from penstock.processors.memory._options import checked_storage
from penstock.processors.memory.memory_input_filter import MemoryInputFilter
from penstock.processors.memory.message_history import MessageHistory
from penstock.processors.memory.semantic_recall import SemanticRecall
from penstock.processors.memory.working_memory import WorkingMemory
from penstock.workflows.agent.arrays import Around

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.processor.processor import AnyProcessor, ErrorPolicy
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.ports import Embedder, Storage, TokenCounter, VectorStore
    from penstock.processors.memory._window import LastMessages
    from penstock.processors.memory.message_history import KeepInput, ReadOnly, Title

P = TypeVar("P")


class Memory:
    """Remembers conversations: ``Agent(model, memory=Memory(SQLiteStorage("chat.db")))``.

    A request that names a thread (``thread_id=``, and whose it is, ``resource_id=``) begins with the thread's last
    messages, and what its guards leave of it is kept. Processors of these kinds that the agent has already, within
    workflows too, are not placed again.

    Args:
        storage: where threads are kept.
        last_messages: see `MessageHistory`.
        max_tokens: see there.
        token_counter: see there.
        keep_input: see there.
        title: see there.
        history: its other options, by name; they count before those here.
        read_only: nothing is kept; a bool, or a function of the request context.
        semantic_recall: whether older messages are found by what they say: True, the options of a `SemanticRecall`, or
            one.
        embedder: makes the vectors for that.
        vectors: where they are kept; None: in the storage, if it can.
        working_memory: whether the model keeps notes about the user: True, the options of a `WorkingMemory`, or one.
        retain_full_input: see `MemoryInputFilter`.
        on_error: what it means that the store fails: ``raise``, ``block``, or ``allow`` (the request goes on without);
            None: as each of its processors has it: ``raise``, and ``allow`` for the recall.

    Attributes:
        storage: where threads are kept.
        input_filter: takes out of the input what is stored.
        history: loads and keeps messages.
        recall: finds old messages, if it was asked for.
        notes: the working memory, if it was asked for.
    """

    def __init__(
        self,
        storage: Storage,
        *,
        last_messages: LastMessages = "auto",
        max_tokens: int | None = None,
        token_counter: TokenCounter | Callable[[str], int] | str | None = None,
        keep_input: KeepInput = "accepted",
        title: Title | None = None,
        history: Values = EMPTY,
        read_only: ReadOnly = False,
        semantic_recall: bool | Values | SemanticRecall = False,
        embedder: Embedder | None = None,
        vectors: VectorStore | None = None,
        working_memory: bool | Values | WorkingMemory = False,
        retain_full_input: bool = False,
        on_error: ErrorPolicy | None = None,
    ) -> None:
        """Check the options, and make the processors.

        Raises:
            OptionError: an option that is not allowed.
        """
        self.storage = checked_storage("Memory", storage)
        both: dict[str, Any] = {"read_only": read_only, **({} if on_error is None else {"on_error": on_error})}
        self.notes = self._working_memory(working_memory, both)
        self.recall = self._recalling(semantic_recall, embedder, vectors, {**both, "keep_input": keep_input})
        self._halves = None if self.recall is None else (self.recall.loader, self.recall.saver)
        options: dict[str, Any] = {
            "last_messages": last_messages,
            "max_tokens": max_tokens,
            "token_counter": token_counter,
            "keep_input": keep_input,
            "title": title,
            "skip_tools": WORKING_MEMORY_TOOLS if self.notes is None else (*WORKING_MEMORY_TOOLS, self.notes.tool_name),
            **both,
        }
        self.history = MessageHistory(storage, **{**options, **_named("history", history, MessageHistory)})
        self.input_filter = MemoryInputFilter(
            storage, retain_full_input=retain_full_input, on_error=self.history.on_error
        )

    def around(self, placed: Sequence[AnyProcessor]) -> Around:
        """Return what to place around processors: before them what loads, behind them what keeps.

        Args:
            placed: the agent's own processors, those within workflows included.
        """
        before: list[AnyProcessor] = []
        after: list[AnyProcessor] = []
        if not any(isinstance(one, MemoryInputFilter) for one in placed):
            before.append(self.input_filter)
        if self.notes is not None and not any(isinstance(one, WorkingMemory) for one in placed):
            before.append(self.notes)
        if not any(isinstance(one, MessageHistory) and one.loads for one in placed):
            before.append(self.history.loader)
        if self._halves is not None and not any(isinstance(one, SemanticRecall) and one.loads for one in placed):
            before.append(self._halves[0])
        if not any(isinstance(one, MessageHistory) and one.saves for one in placed):
            after.append(self.history.saver)
        if self._halves is not None and not any(isinstance(one, SemanticRecall) and one.saves for one in placed):
            after.append(self._halves[1])  # behind the history: nothing is indexed that is not stored
        return Around(tuple(before), tuple(after))

    def _working_memory(self, given: object, both: Values) -> WorkingMemory | None:
        options = _options("working_memory", given, WorkingMemory)
        if options is None or isinstance(options, WorkingMemory):
            return options
        return WorkingMemory(self.storage, **{**both, **options})

    def _recalling(
        self,
        given: object,
        embedder: Embedder | None,
        vectors: VectorStore | None,
        both: Values,
    ) -> SemanticRecall | None:
        options = _options("semantic_recall", given, SemanticRecall)
        if options is None or isinstance(options, SemanticRecall):
            return options
        return SemanticRecall(self.storage, embedder, vectors, **{**both, **options})

    def __repr__(self) -> str:
        """Show what it is made of."""
        made = [one for one in (self.history, self.recall, self.notes) if one is not None]
        return f"Memory({', '.join(map(repr, made))})"


def _options(option: str, given: object, kind: type[P]) -> dict[str, Any] | P | None:
    """Return the options of a processor that is to be made, the processor, or None.

    Raises:
        OptionError: it is neither.
    """
    if given is False:
        return None
    if isinstance(given, kind):
        return given
    if given is True:
        return {}
    return _named(option, given, kind, f"True, False, a mapping of options, or a {kind.__name__}")


def _named(option: str, given: object, kind: type, allowed: str = "a mapping of options") -> dict[str, Any]:
    """Return options by name.

    Raises:
        OptionError: they are no mapping, or the kind of processor has no such option.
    """
    if not is_mapping(given):
        raise OptionError("Memory", option, type(given).__name__, allowed)
    known = [name for name, one in inspect.signature(kind).parameters.items() if one.kind is one.KEYWORD_ONLY]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise OptionError("Memory", option, unknown, f"options of {kind.__name__}: {', '.join(known)}")
    return dict(given)
