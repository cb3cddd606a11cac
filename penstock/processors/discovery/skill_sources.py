"""Where a processor's skills come from: values, folders (read off the event loop), or a function. It knows no tools."""

from __future__ import annotations

import inspect
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

from anyio import to_thread

from penstock.engine.values.errors import DefinitionError, OptionError
from penstock.processors.discovery.skill import FILE, Skill

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.frozen import Value


Place: TypeAlias = "str | os.PathLike[str]"
"""A folder with a `FILE`, or one whose folders have one each."""

SkillsFor: TypeAlias = "Callable[[dict[str, Value]], Iterable[Skill] | Awaitable[Iterable[Skill]]]"
"""A function from the request context to the skills of a request; it is asked once a request."""

SkillsGiven: TypeAlias = "Place | Iterable[Skill | Place] | SkillsFor"
"""Skills, as a processor's option takes them."""

_LOG = logging.getLogger("penstock")


def read_skills(folder: Place) -> tuple[Skill, ...]:
    """Return the skills of a folder: its own, or those of its folders, by name. This reads the disk.

    Raises:
        DefinitionError: a file is no skill; the message names it and says what is wrong.
    """
    return by_name(Skill.read(file) for file in _files(Path(folder)))


def by_name(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Return skills sorted by name; of those that stand in one place the first."""
    first: dict[str, Skill] = {}
    for skill in skills:
        first.setdefault(skill.key, skill)
    return tuple(sorted(first.values(), key=lambda skill: skill.name))


class HoldsSkills(Protocol):
    """The state of a request: its skills, once they are known."""

    skills: tuple[Skill, ...] | None


S = TypeVar("S", bound=HoldsSkills)


class SkillSource:
    """The skills of a processor. Lives as long as it; the folders are looked at again once a request.

    With ``blocking_refresh`` a request waits for that look; else it takes what was there, and the look is taken at its
    end, so that changes show in the next one. The skills of one request do not change from step to step.
    """

    def __init__(self, owner: str, given: SkillsGiven, *, blocking_refresh: bool) -> None:
        """Check what was given; ``owner`` is the class that an error names.

        Raises:
            OptionError: something else than skills.
        """
        self._ask: SkillsFor | None = None
        self._folders: tuple[Folder, ...] = ()
        self._skills: tuple[Skill, ...] = ()
        self._blocking = blocking_refresh
        if callable(given):
            self._ask = given
            return
        items = _items(owner, given)
        self._folders = tuple(Folder(item) for item in items if not isinstance(item, Skill))
        self._skills = tuple(item for item in items if isinstance(item, Skill))

    async def of(self, ctx: InputStepContext[S]) -> tuple[Skill, ...]:
        """Return the skills of a request by name."""
        state = ctx.state
        if state.skills is None:
            state.skills = by_name(await self._found(ctx))
        return state.skills

    async def _found(self, ctx: InputStepContext[S]) -> Iterable[Skill]:
        if self._ask is not None:
            asked = self._ask(ctx.request_context)
            return _checked(await asked if inspect.isawaitable(asked) else asked)
        waiting = [folder for folder in self._folders if self._blocking or folder.skills is None]
        for folder in waiting:
            await to_thread.run_sync(folder.look, abandon_on_cancel=True)
        if self._folders and not waiting:
            ctx.on_end(self._look_later)
        return (*self._skills, *(skill for folder in self._folders for skill in folder.skills or ()))

    async def _look_later(self, _ended: RunEnd) -> None:
        for folder in self._folders:
            await to_thread.run_sync(folder.look, abandon_on_cancel=True)


class Folder:
    """A folder of skills, and what was found there. A file that is no skill is left out, and the log says so once.

    Attributes:
        skills: what was there at the last look; None before the first.
    """

    __slots__ = ("_path", "_read", "skills")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: dict[Path, tuple[Stamp, Skill | None]] = {}
        self.skills: tuple[Skill, ...] | None = None

    def look(self) -> None:
        """Read what is new or has changed. This reads the disk."""
        read: dict[Path, tuple[Stamp, Skill | None]] = {}
        for file in _files(self._path):
            stamp, (before, skill) = _stamp(file), self._read.get(file, (None, None))
            read[file] = (stamp, skill if stamp == before else _read_or_left_out(file))
        if not read and (self._read or self.skills is None):
            _LOG.warning("there are no skills in %s", self._path)
        self._read = read
        self.skills = tuple(skill for _, skill in read.values() if skill is not None)


Stamp: TypeAlias = "tuple[int, int]"
"""What tells that a file has changed: when it was written, in nanoseconds, and its size."""

_ALLOWED = "skills and paths of folders, or a function from the request context to skills"


def _items(owner: str, given: Place | Iterable[Skill | Place]) -> tuple[Skill | Path, ...]:
    if isinstance(given, (str, os.PathLike)):
        return (Path(given),)
    try:
        return tuple(_item(owner, item) for item in given)
    except TypeError:
        raise OptionError(owner, "skills", type(given).__name__, _ALLOWED) from None


def _item(owner: str, item: object) -> Skill | Path:
    if isinstance(item, Skill):
        return item
    if isinstance(item, str):
        return Path(item)
    if isinstance(item, os.PathLike):
        return Path(os.fsdecode(cast("os.PathLike[str]", item)))
    raise OptionError(owner, "skills", type(item).__name__, _ALLOWED)


def _checked(asked: Iterable[object]) -> tuple[Skill, ...]:
    skills = tuple(asked)
    for skill in skills:
        if not isinstance(skill, Skill):
            raise TypeError(f"the function of skills gave a {type(skill).__name__} among them; it gives skills")
    return cast("tuple[Skill, ...]", skills)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of skills: the folder's own, or those of the folders in it."""
    if (folder / FILE).is_file():
        yield folder / FILE
    elif folder.is_dir():
        yield from (inner / FILE for inner in sorted(folder.iterdir()) if (inner / FILE).is_file())


def _stamp(file: Path) -> Stamp:
    try:
        found = file.stat()
    except OSError:  # it went while we looked
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _read_or_left_out(file: Path) -> Skill | None:
    try:
        return Skill.read(file)
    except DefinitionError as error:
        _LOG.warning("a skill is left out: %s", error)
        return None
