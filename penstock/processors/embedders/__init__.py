"""What turns texts into vectors, and which text of a message is turned: embedders, a cache for any, one text function.

All families may use this room; it knows no store and no processor.
"""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.embedders.cached import CachedEmbedder
    from penstock.processors.embedders.hashing import HashingEmbedder
    from penstock.processors.embedders.indexes import index_name
    from penstock.processors.embedders.sentences import SentenceEmbedder
    from penstock.processors.embedders.texts import Piece, memory_text, pieces
else:
    __getattr__, __dir__ = lazily(
        __name__,
        cached=["CachedEmbedder"],
        hashing=["HashingEmbedder"],
        indexes=["index_name"],
        sentences=["SentenceEmbedder"],
        texts=["Piece", "memory_text", "pieces"],
    )

__all__ = [
    "CachedEmbedder",
    "HashingEmbedder",
    "Piece",
    "SentenceEmbedder",
    "index_name",
    "memory_text",
    "pieces",
]
