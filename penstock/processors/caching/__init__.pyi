"""Processors that spare model calls whose answer is known. It knows no other family."""

from penstock.processors.caching.memory_cache import MemoryCache as MemoryCache
from penstock.processors.caching.requests import CacheRequest as CacheRequest
from penstock.processors.caching.requests import by_resource as by_resource
from penstock.processors.caching.response_cache import ResponseCache as ResponseCache
