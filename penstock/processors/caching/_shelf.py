"""What stands between the processor and a cache that may hang, break or forget: times, versions of tags. No answers.

A tag has a version, itself kept in the cache. An entry names the versions of its tags as they were when its model was
asked, and counts while they are the current ones. A version that the cache has forgotten counts as changed.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.frozen import EMPTY
from penstock.processors.caching._entries import Entry, read
from penstock.processors.caching._hashing import digest

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Mapping

    from penstock.engine.values.ports import Cache, Ids

_LOG = logging.getLogger("penstock")
_TAGS = "penstock:response-tag:"
_GONE = ""  # what stands for an answer that is not to be given any more: a `Cache` cannot delete
_GONE_FOR = 1.0


class Shelf:
    """A cache, asked with patience of so many seconds. Lives as long as its processor; what goes wrong is logged."""

    __slots__ = ("_cache", "_ids", "_patience")

    def __init__(self, cache: Cache, patience: float, ids: Ids) -> None:
        self._cache = cache
        self._patience = patience
        self._ids = ids

    async def versions(self, tags: Collection[str]) -> dict[str, str] | None:
        """Return the versions of tags as they are now; None if the cache fails."""
        versions: dict[str, str] = {}
        if not tags:
            return versions
        with self._reading() as failed:
            for tag in tags:
                versions[tag] = await self._version(tag)
        return None if failed else versions

    async def look(self, key: str, versions: dict[str, str]) -> tuple[Entry | None, bool]:
        """Return the answer under a key, if there is one, and whether the cache could be read.

        ``versions``: of the tags of which they are known.
        """
        entry = None
        with self._reading() as failed:
            found = read(await self._cache.get(key))
            entry = found if found is None or await self._are_current(found.tags, versions) else None
        return entry, not failed

    async def put(self, key: str, text: str, ttl: float | None, versions: Mapping[str, str] = EMPTY) -> None:
        """Keep an answer, unless its tags have other versions by now: there may be a fresh one in its place."""
        try:
            with anyio.fail_after(self._patience):
                if await self._are_current(versions, {}):
                    await self._cache.set(key, text, ttl=ttl)
        except Exception as error:  # noqa: BLE001 - see `_reading`
            _LOG.warning("the cache of answers could not be written: %s", type(error).__name__)

    async def forget(self, key: str) -> None:
        """Give an answer no more."""
        await self.put(key, _GONE, _GONE_FOR)

    async def invalidate(self, tags: Iterable[str]) -> None:
        """Let no answer that has one of the tags count any more. What the cache raises comes out."""
        with anyio.fail_after(self._patience):
            for tag in tags:
                await self._cache.set(_place(tag), self._ids.next())

    @contextmanager
    def _reading(self) -> Generator[list[str]]:
        """Give the cache its time; what is given is empty unless it fails."""
        failed: list[str] = []
        try:
            with anyio.fail_after(self._patience):
                yield failed
        except Exception as error:  # noqa: BLE001 - a cache that fails costs a call, not the request
            failed.append(type(error).__name__)
            _LOG.warning("the cache of answers could not be read: %s", *failed)

    async def _are_current(self, versions: Mapping[str, str], known: Mapping[str, str]) -> bool:
        for tag, version in versions.items():
            current = known[tag] if tag in known else await self._cache.get(_TAGS + tag)
            if current != version:
                return False
        return True

    async def _version(self, tag: str) -> str:
        place = _TAGS + tag
        version = await self._cache.get(place)
        if not version:
            version = self._ids.next()
            await self._cache.set(place, version)
        return version


def _place(tag: str) -> str:
    return _TAGS + hashed(tag)


def hashed(tag: str) -> str:
    """Return what stands for a tag in the cache: nobody learns its name from there."""
    return digest(["tag", tag])
