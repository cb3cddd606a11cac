from penstock.processors.caching.response_cache import (
    CacheRequest as CacheRequest,
    ResponseCache as ResponseCache,
    by_resource as by_resource,
)
from penstock.stores.memory_cache import MemoryCache as MemoryCache
