"""What turns texts into vectors, and which text of a message is turned: embedders, a cache for any, one text function.

All families may use this room; it knows no store and no processor.
"""

from penstock.processors.embedders.cached import CachedEmbedder as CachedEmbedder
from penstock.processors.embedders.hashing import HashingEmbedder as HashingEmbedder
from penstock.processors.embedders.indexes import index_name as index_name
from penstock.processors.embedders.sentences import SentenceEmbedder as SentenceEmbedder
from penstock.processors.embedders.texts import Piece as Piece
from penstock.processors.embedders.texts import memory_text as memory_text
from penstock.processors.embedders.texts import pieces as pieces
