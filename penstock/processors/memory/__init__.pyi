from penstock.processors.memory._storing import VAULT as VAULT, vault_redactor as vault_redactor, vaults_of as vaults_of
from penstock.processors.memory.drop_messages import DropMessages as DropMessages, DropParts as DropParts
from penstock.processors.memory.legacy import (
    LegacyMemory as LegacyMemory,
    LegacyMemoryProcessor as LegacyMemoryProcessor,
    MemoryTokenLimiter as MemoryTokenLimiter,
    MemoryToolCallFilter as MemoryToolCallFilter,
)
from penstock.processors.memory.memory_input_filter import MemoryInputFilter as MemoryInputFilter
from penstock.processors.memory.message_history import MessageHistory as MessageHistory
from penstock.processors.memory.recall_index import RecallRanking as RecallRanking
from penstock.processors.memory.semantic_recall import SemanticRecall as SemanticRecall
from penstock.processors.memory.working_memory import WorkingMemory as WorkingMemory
from penstock.processors.memory.working_memory_update import working_memory_tool as working_memory_tool
