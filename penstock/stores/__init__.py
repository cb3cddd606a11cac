"""Stores of what is remembered: threads, messages, working memories, vectors; they know no processor.

`sqlite` holds the embedded ones, in a file or in memory, `postgres` the one in a server. The modules beside them are
what any store needs: `checks` of what callers give, `cursors` for pages, `bodies` (messages as JSON text), `blobs`
(vectors as bytes), `matrices` (to search vectors).
"""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
