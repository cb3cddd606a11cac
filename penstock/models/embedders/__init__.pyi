from penstock.models.embedders.cached import CachedEmbedder as CachedEmbedder
from penstock.models.embedders.hashing import HashingEmbedder as HashingEmbedder
from penstock.models.embedders.sentences import SentenceEmbedder as SentenceEmbedder
from penstock.models.embedders.texts import (
    TextPiece as TextPiece,
    index_name as index_name,
    memory_text as memory_text,
    pieces as pieces,
)
