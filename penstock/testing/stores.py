"""The store for tests, under its public name; it knows nothing else."""

from penstock.stores.sqlite.storage import InMemoryStorage

__all__ = ["InMemoryStorage"]
