"""Processors for what is remembered: histories, recall, the older memory processors, droppers of parts and messages."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.memory.drop_messages import DropMessages
    from penstock.processors.memory.drop_parts import DropParts
    from penstock.processors.memory.legacy import LegacyMemory, LegacyMemoryProcessor
    from penstock.processors.memory.memory_input_filter import MemoryInputFilter
    from penstock.processors.memory.message_history import MessageHistory
    from penstock.processors.memory.ranking import RecallRanking
    from penstock.processors.memory.semantic_recall import SemanticRecall
    from penstock.processors.memory.token_limiter import MemoryTokenLimiter
    from penstock.processors.memory.tool_call_filter import MemoryToolCallFilter
    from penstock.processors.memory.working_memory import WorkingMemory
    from penstock.processors.memory.working_memory_update import working_memory_tool
else:
    __getattr__, __dir__ = lazily(
        __name__,
        drop_messages=["DropMessages"],
        drop_parts=["DropParts"],
        legacy=["LegacyMemory", "LegacyMemoryProcessor"],
        memory_input_filter=["MemoryInputFilter"],
        message_history=["MessageHistory"],
        ranking=["RecallRanking"],
        semantic_recall=["SemanticRecall"],
        token_limiter=["MemoryTokenLimiter"],
        tool_call_filter=["MemoryToolCallFilter"],
        working_memory=["WorkingMemory"],
        working_memory_update=["working_memory_tool"],
    )

__all__ = [
    "DropMessages",
    "DropParts",
    "LegacyMemory",
    "LegacyMemoryProcessor",
    "MemoryInputFilter",
    "MemoryTokenLimiter",
    "MemoryToolCallFilter",
    "MessageHistory",
    "RecallRanking",
    "SemanticRecall",
    "WorkingMemory",
    "working_memory_tool",
]
