"""The gateway in operation: an ASGI application, its server, routes, limits, cache, metrics, log and reload."""
