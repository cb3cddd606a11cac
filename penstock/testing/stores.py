"""The store for tests, under its public name; it knows nothing else."""

from penstock.processors.storage.sqlite.storage import InMemoryStorage

__all__ = ["InMemoryStorage"]
