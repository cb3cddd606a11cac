"""`Memory`: the memory of an agent, as processors that are placed around its own."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from penstock.engine.processor.processor import is_processor
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY, is_items, is_mapping
from penstock.engine.workflow import Workflow
from penstock.processors.memory._options import checked_storage
from penstock.processors.memory._storing import WORKING_MEMORY_TOOLS
from penstock.processors.memory.memory_input_filter import MemoryInputFilter
from penstock.processors.memory.message_history import MessageHistory
from penstock.processors.memory.semantic_recall import SemanticRecall
from penstock.processors.memory.working_memory import WorkingMemory
from penstock.workflows.agent.processor_lists import MemoryPlacement

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.engine.processor.processor import AnyProcessor, ErrorPolicy
    from penstock.engine.values.frozen import Values
    from penstock.engine.values.protocols import Embedder, Storage, TokenCounter, VectorStore
    from penstock.engine.workflow import Item
    from penstock.processors.memory._options import KeepInput, ReadOnly
    from penstock.processors.memory.message_history import LastMessages, Title

P = TypeVar("P")


class Memory:
    """Remembers conversations: ``Agent(model, memory=Memory(SQLiteStorage("chat.db")))``.

    A request with a ``thread_id`` (and the ``resource_id`` of its owner) begins with the last messages of the thread.
    What its guards leave of the request is stored.

    `Memory` adds no processor that the agent already has, also when it stands inside a workflow. If only one half of a
    pair is there, the other half is added.

    Args:
        storage: holds the threads.
        last_messages: how many messages are loaded, 0 or more; None: all. ``auto`` (default): 10; with ``max_tokens``,
            as many as fit.
        max_tokens: how many tokens the loaded messages may have together, 0 or more. None: any number.
        token_counter: counts tokens, as in `TokenLimiterProcessor`. None: the encoding ``o200k_base``.
        keep_input: ``accepted`` (default): the input is stored as soon as it has passed its guards; ``answered``:
            only together with an accepted answer.
        title: makes a title for a thread without one, from the messages of its first request; may be async.
        history: further options of `MessageHistory`, by name. They override those above.
        read_only: whether nothing is stored: a bool, or a function from the request context to a bool.
        semantic_recall: whether similar earlier messages are recalled: True, a mapping of options of `SemanticRecall`,
            or such a processor. Default False.
        embedder: makes the vectors for semantic recall. None: see `SemanticRecall`.
        vectors: holds the vectors. None: ``storage``, if it stores vectors.
        working_memory: whether the model keeps notes about the user: True, a mapping of options of `WorkingMemory`, or
            such a processor. Default False.
        retain_full_input: whether the input is used as it is, even if the client sends stored messages again. Default
            False.
        processors: processors and workflows for what was loaded, such as a `ToolCallFilter`: they run behind the
            memory's loaders, before the agent's own processors, and see the whole conversation.
        on_error: what happens if the store fails: ``raise``, ``block``, or ``allow`` (the request continues without
            memory). None: the default of each processor: ``raise``, and ``allow`` for semantic recall.

    Attributes:
        storage: holds the threads.
        input_filter: the `MemoryInputFilter`.
        history: the `MessageHistory`.
        recall: the `SemanticRecall`, or None.
        notes: the `WorkingMemory`, or None.

    Raises:
        OptionError: a value is not allowed, or a mapping has an unknown option.
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
        processors: Sequence[Item] = (),
        on_error: ErrorPolicy | None = None,
    ) -> None:
        self.processors = _checked_items(processors)
        self.storage = checked_storage("Memory", storage)
        shared: dict[str, Any] = {"read_only": read_only, **({} if on_error is None else {"on_error": on_error})}
        self.notes = self._working_memory(working_memory, shared)
        self.recall = self._semantic_recall(semantic_recall, embedder, vectors, {**shared, "keep_input": keep_input})
        self._halves = None if self.recall is None else (self.recall.loader, self.recall.saver)
        options: dict[str, Any] = {
            "last_messages": last_messages,
            "max_tokens": max_tokens,
            "token_counter": token_counter,
            "keep_input": keep_input,
            "title": title,
            "skip_tools": WORKING_MEMORY_TOOLS if self.notes is None else (*WORKING_MEMORY_TOOLS, self.notes.tool_name),
            **shared,
        }
        self.history = MessageHistory(storage, **{**options, **_checked_options("history", history, MessageHistory)})
        self.input_filter = MemoryInputFilter(
            storage, retain_full_input=retain_full_input, on_error=self.history.on_error
        )

    def around(self, processors: Sequence[AnyProcessor]) -> MemoryPlacement:
        """Return the processors to place around others: those that load before them, those that store after them.

        Args:
            processors: the processors of the agent, with those inside workflows.
        """
        before: list[Item] = []
        after: list[AnyProcessor] = []
        if not any(isinstance(one, MemoryInputFilter) for one in processors):
            before.append(self.input_filter)
        if self.notes is not None and not any(isinstance(one, WorkingMemory) for one in processors):
            before.append(self.notes)
        if not any(isinstance(one, MessageHistory) and one.loads for one in processors):
            before.append(self.history.loader)
        if self._halves is not None and not any(isinstance(one, SemanticRecall) and one.loads for one in processors):
            before.append(self._halves[0])
        before.extend(self.processors)
        if not any(isinstance(one, MessageHistory) and one.saves for one in processors):
            after.append(self.history.saver)
        if self._halves is not None and not any(isinstance(one, SemanticRecall) and one.saves for one in processors):
            after.append(self._halves[1])  # after the history: only stored messages are indexed
        return MemoryPlacement(tuple(before), tuple(after))

    def _working_memory(self, given: object, shared: Values) -> WorkingMemory | None:
        options = _options_or_processor("working_memory", given, WorkingMemory)
        if options is None or isinstance(options, WorkingMemory):
            return options
        return WorkingMemory(self.storage, **{**shared, **options})

    def _semantic_recall(
        self,
        given: object,
        embedder: Embedder | None,
        vectors: VectorStore | None,
        shared: Values,
    ) -> SemanticRecall | None:
        options = _options_or_processor("semantic_recall", given, SemanticRecall)
        if options is None or isinstance(options, SemanticRecall):
            return options
        return SemanticRecall(self.storage, embedder, vectors, **{**shared, **options})

    def __repr__(self) -> str:
        """Show the processors."""
        made = [one for one in (self.history, self.recall, self.notes) if one is not None]
        return f"Memory({', '.join(map(repr, made))})"


def _checked_items(given: object) -> tuple[Item, ...]:
    """Return a list of processors and workflows.

    Raises:
        OptionError: it is something else.
    """
    items = cast("tuple[object, ...]", tuple(given)) if is_items(given) else ()
    if not is_items(given) or not all(is_processor(one) or isinstance(one, Workflow) for one in items):
        raise OptionError("Memory", "processors", type(given).__name__, "a list of processors and workflows")
    return cast("tuple[Item, ...]", items)


def _options_or_processor(option: str, given: object, kind: type[P]) -> dict[str, Any] | P | None:
    """Return the options for a processor, the processor itself, or None.

    Raises:
        OptionError: the option is something else.
    """
    if given is False:
        return None
    if isinstance(given, kind):
        return given
    if given is True:
        return {}
    return _checked_options(option, given, kind, f"True, False, a mapping of options, or a {kind.__name__}")


def _checked_options(option: str, given: object, kind: type, allowed: str = "a mapping of options") -> dict[str, Any]:
    """Return a mapping of options.

    Raises:
        OptionError: it is not a mapping, or the processor has no such option.
    """
    if not is_mapping(given):
        raise OptionError("Memory", option, type(given).__name__, allowed)
    known = [name for name, one in inspect.signature(kind).parameters.items() if one.kind is one.KEYWORD_ONLY]
    unknown = [name for name in given if name not in known]
    if unknown:
        raise OptionError("Memory", option, unknown, f"options of {kind.__name__}: {', '.join(known)}")
    return dict(given)
