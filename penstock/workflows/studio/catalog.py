"""The workflows and agents that a studio shows: loaded in processes of their own, and again when their files change."""

from __future__ import annotations

import contextlib
import inspect
import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Literal, cast

import anyio

from penstock.workflows.policies.files import is_policy_file
from penstock.workflows.presets import PRESETS
from penstock.workflows.studio.errors import StudioError
from penstock.workflows.studio.workers import Spares, Worker, WorkerError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Mapping

    from anyio.abc import TaskGroup

    from penstock.workflows.rows.orphans import OrphanWatcher
    from penstock.workflows.studio.protocol import Json
    from penstock.workflows.studio.settings import Settings

KEPT_VERSIONS = 5
_LOADING = 4  # how many are loaded at once
_POLL = 0.5  # seconds between two looks at the files

State = Literal["unloaded", "loading", "ready", "failed"]


@dataclass(frozen=True, slots=True)
class Version:
    """A version that could be loaded.

    Attributes:
        number: its number, from 1.
        loaded: when it was loaded, in seconds since 1970.
        sources: the sources it was loaded from, by path.
        about: its name, its kind and its description.
    """

    number: int
    loaded: float
    sources: Mapping[str, str] = field(repr=False)
    about: Json = field(repr=False)


class CatalogEntry:
    """One workflow or agent. Lives as long as the studio."""

    def __init__(self, id: str, reference: str, *, preset: bool) -> None:
        self.id = id
        self.reference = reference
        self.preset = preset
        self.state: State = "unloaded"
        self.versions: list[Version] = []
        self.problem: Json | None = None
        self.lock = anyio.Lock()
        self.watched: dict[str, tuple[int, int] | None] = {}
        self._file = _file_of(reference)

    @property
    def newest(self) -> Version | None:
        """The last version that could be loaded."""
        return self.versions[-1] if self.versions else None

    @property
    def key(self) -> tuple[str, int]:
        """The key of its newest version."""
        return (self.id, self.versions[-1].number)

    def version(self, number: int | None) -> Version:
        """Return a version; None: the newest.

        Raises:
            StudioError: it is not kept, or none could be loaded.
        """
        if number is None:
            if self.newest is None:
                raise StudioError("conflict", f"{self.reference} cannot be loaded", problem=self.problem)
            return self.newest
        for version in self.versions:
            if version.number == number:
                return version
        kept = ", ".join(str(each.number) for each in self.versions) or "none"
        raise StudioError("not_found", f"{self.reference} has no version {number}; kept are: {kept}")

    def summary(self) -> Json:
        """Return it as data."""
        newest = self.newest
        about: Json = {} if newest is None else newest.about
        kind = "preset" if self.preset else about.get("kind", "workflow")
        return {
            "id": self.id,
            "reference": self.reference,
            "name": about.get("name") or self.reference.rpartition(":")[2] or self.reference,
            "kind": kind,
            "doc": inspect.cleandoc(PRESETS[self.reference].__doc__ or "").split("\n", 1)[0]
            if self.preset
            else about.get("doc", ""),
            "file": self._file,
            "state": self.state,
            "version": None if newest is None else newest.number,
            "versions": [{"version": each.number, "loaded": each.loaded} for each in self.versions],
            "problem": self.problem,
        }

    def watch(self, read: Mapping[str, str]) -> None:
        """Watch files, and its own file. One that has changed since it was read counts as changed."""
        every = {*self.watched, *read, *([self._file] if self._file else [])}
        self.watched = {path: stamp(path) if read.get(path) in (None, _text(path)) else _OTHER for path in every}

    def changed(self) -> bool:
        """Return whether a watched file differs from when it was last looked at; note how it is now."""
        now = {path: stamp(path) for path in self.watched}
        found = now != self.watched
        self.watched = now
        return found


def _file_of(reference: str) -> str | None:
    source = reference.rpartition(":")[0] or reference
    for given in (reference, source):
        if given.endswith(".py") or is_policy_file(given):
            return os.path.realpath(given)
    return None


_OTHER = (-1, -1)  # the stamp of no file


def _text(path: str) -> str | None:
    try:
        return Path(path).read_bytes().decode("latin-1")
    except OSError:
        return None


def stamp(path: str) -> tuple[int, int] | None:
    """Return what differs when a file has changed; None if it is not there."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return (status.st_mtime_ns, status.st_size)


class Catalog:
    """All entries of a studio, and the workers that have loaded them."""

    def __init__(
        self, settings: Settings, tasks: TaskGroup, orphans: OrphanWatcher, tell: Callable[[Json], None]
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._tell = tell
        self._spares = Spares()
        self._orphans = orphans
        self._loading = anyio.CapacityLimiter(_LOADING)
        self._refilling: dict[tuple[str, int], anyio.Event] = {}
        self.entries = {
            f"w{number}": CatalogEntry(f"w{number}", each, preset=each in PRESETS)
            for number, each in enumerate(dict.fromkeys((*settings.references, *PRESETS)), 1)
        }

    def start(self) -> None:
        """Load all entries, and watch their files."""
        for entry in self.entries.values():
            if not entry.preset:
                self._tasks.start_soon(self.ready, entry)
        self._tasks.start_soon(self._watch)

    async def stop(self) -> None:
        """Stop the workers that wait."""
        await self._spares.drop(lambda _: False)

    def entry(self, id: str) -> CatalogEntry:
        """Return an entry.

        Raises:
            StudioError: there is none.
        """
        found = self.entries.get(id)
        if found is None:
            raise StudioError("not_found", f"there is no workflow {id[:100]!r}")
        return found

    def agent(self, name: str) -> CatalogEntry | None:
        """Return the agent of a name that stores requests which wait for people; None if there is none here."""
        for entry in self.entries.values():
            about: Json = {} if entry.newest is None else entry.newest.about
            if about.get("reviews") and about.get("name") == name:
                return entry
        return None

    async def ready(self, entry: CatalogEntry, *, again: bool = False) -> None:
        """Load an entry if it was not loaded yet, or ``again``; wait if it is loaded at the moment.

        It is loaded from its files as they are now. A version that cannot be loaded leaves the last good one.
        """
        async with entry.lock:
            if again or entry.state == "unloaded":
                await self._load(entry)

    async def _load(self, entry: CatalogEntry) -> None:
        self._set(entry, "loading")
        entry.changed()
        try:
            worker = await self.start_worker({"reference": entry.reference})
        except WorkerError as error:
            problem = dict(error.problem)
            entry.watch(cast("dict[str, str]", problem.pop("sources", {})))
            entry.problem = problem
            self._set(entry, "failed")
        except BaseException:
            entry.state = "unloaded"
            raise
        else:
            await self._loaded(entry, worker)

    async def _loaded(self, entry: CatalogEntry, worker: Worker) -> None:
        sources = cast("dict[str, str]", worker.loaded.pop("sources"))
        entry.watched.clear()
        entry.watch(sources)
        entry.problem = None
        if entry.newest is None or entry.newest.sources != sources:
            number = 1 if entry.newest is None else entry.newest.number + 1
            entry.versions.append(Version(number, time(), sources, worker.loaded))
            del entry.versions[:-KEPT_VERSIONS]
            kept = {(entry.id, each.number) for each in entry.versions}
            await self._spares.drop(lambda key: cast("tuple[str, int]", key)[0] != entry.id or key in kept)
        await self._spares.put(entry.key, worker)
        self._set(entry, "ready")

    def _set(self, entry: CatalogEntry, state: State) -> None:
        entry.state = state
        self._tell(entry.summary())

    # Workers

    async def worker(self, entry: CatalogEntry, version: Version) -> Worker:
        """Return a worker with a version, for one run; the caller stops it.

        Raises:
            WorkerError: it cannot be loaded any more.
        """
        key = (entry.id, version.number)
        if key in self._refilling:
            await self._refilling[key].wait()
        waiting = await self._spares.take(key)
        if waiting is not None:
            return waiting
        return await self.start_worker(load_request(entry, version))

    async def start_worker(self, load: Json) -> Worker:
        """Start a worker.

        Raises:
            WorkerError: the workflow or agent cannot be loaded.
        """
        async with self._loading:
            return await Worker.start(load, self._tasks, self._orphans, self._settings.load_seconds)

    @contextlib.asynccontextmanager
    async def borrowed(self, entry: CatalogEntry, version: Version) -> AsyncGenerator[Worker]:
        """Yield a worker with a version, to ask it for what changes nothing; afterwards it waits for a run.

        Raises:
            WorkerError: it cannot be loaded any more.
        """
        key = (entry.id, version.number)
        worker = await self.worker(entry, version)
        try:
            yield worker
        finally:
            with anyio.CancelScope(shield=True):
                await self._spares.put(key, worker)

    def refill(self, entry: CatalogEntry, version: Version) -> None:
        """Load a version once more, so that the next run of it starts quickly."""
        key = (entry.id, version.number)
        if entry.newest is version and key not in self._refilling and not self._spares.has(key):
            self._refilling[key] = anyio.Event()
            self._tasks.start_soon(self._refill, entry, version, key)

    async def _refill(self, entry: CatalogEntry, version: Version, key: tuple[str, int]) -> None:
        try:
            with contextlib.suppress(WorkerError):
                await self._spares.put(key, await self.start_worker(load_request(entry, version)))
        finally:
            self._refilling.pop(key).set()

    # Files

    async def _watch(self) -> None:
        """Load entries again when a file of theirs changes. It waits until an editor has written all of it."""
        changing: set[str] = set()
        while True:
            await anyio.sleep(_POLL)
            for entry in self.entries.values():
                if entry.state == "loading" or not entry.watched:
                    continue
                if await anyio.to_thread.run_sync(entry.changed):
                    changing.add(entry.id)
                elif entry.id in changing:
                    changing.discard(entry.id)
                    self._tasks.start_soon(partial(self.ready, entry, again=True))


def load_request(entry: CatalogEntry, version: Version) -> Json:
    """Return the request that loads a version."""
    return {"reference": entry.reference, "sources": version.sources}
