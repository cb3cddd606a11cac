from penstock.processors.caching.requests import CacheRequest as CacheRequest, by_resource as by_resource
from penstock.processors.caching.response_cache import ResponseCache as ResponseCache
from penstock.stores.memory_cache import MemoryCache as MemoryCache
