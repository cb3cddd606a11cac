"""Processors that spare model calls whose answer is known. It knows no other family."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.caching.memory_cache import MemoryCache
    from penstock.processors.caching.requests import CacheRequest, by_resource
    from penstock.processors.caching.response_cache import ResponseCache
else:
    __getattr__, __dir__ = lazily(
        __name__,
        memory_cache=["MemoryCache"],
        requests=["CacheRequest", "by_resource"],
        response_cache=["ResponseCache"],
    )

__all__ = ["CacheRequest", "MemoryCache", "ResponseCache", "by_resource"]
