"""What turns texts into vectors, and which text of a message is turned: embedders, a cache for any, one text function.

All families may use this room; it knows no store and no processor.
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
