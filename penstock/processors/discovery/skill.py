"""`Skill`: a skill, its file with front matter, and the sources of skills: values, folders or a function.

Front matter is parsed by hand, since only one line or block of text is needed per key: files in practice are often not
valid YAML (``description: Use when: …``), and the other values that YAML can express are not used here.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar, cast

from anyio import to_thread

from penstock.detection.deferred import deferred
from penstock.detection.unicode.normalizing import Profile, normalize
from penstock.engine.tracing.display import visible
from penstock.engine.values.errors import DefinitionError, OptionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
    from os import PathLike

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.state import RunEnd
    from penstock.engine.values.frozen import Value


FILE = "SKILL.md"
"""The name of a skill's file, in a folder of its own (agentskills.io)."""

LONGEST_NAME = 64
"""The longest name of a skill, in characters (agentskills.io)."""

LONGEST_PATH = 4096
"""The longest path, in characters (the limit of Linux)."""

LARGEST_FILE = 256 * 1024
"""The largest file, in bytes: instructions go into a prompt, so a larger file is probably no skill."""

_UNSEEN = Profile(form="keep")  # removes characters that a reader of the file cannot see


@dataclass(frozen=True, slots=True)
class Skill:
    """Instructions for a kind of task that a model can ask for.

    Attributes:
        name: one line of 1 to 64 characters.
        description: the purpose of the skill and when to use it, not blank; the model chooses by it.
        instructions: the text that the model gets when it has chosen the skill.
        path: the folder of its file; None: it has no file.
        source: a word for where it comes from: ``local``, ``managed`` …; one line of 1 to 64 characters.

    Raises:
        OptionError: a field has a value that is not allowed.
    """

    name: str
    description: str
    instructions: str = field(default="", repr=False)
    path: str | None = None
    source: str = "local"

    def __post_init__(self) -> None:
        """Check the fields."""
        _check_line("name", self.name, LONGEST_NAME)
        _check_line("source", self.source, LONGEST_NAME)
        _check_text("description", self.description, least=1)
        _check_text("instructions", self.instructions, least=0)
        if self.path is not None:
            _check_line("path", self.path, LONGEST_PATH)

    @property
    def location(self) -> str | None:
        """The path of its file; None if it has none."""
        return None if self.path is None else f"{self.path.rstrip('/')}/{FILE}"

    @property
    def key(self) -> str:
        """Identifies the skill: its folder, or its name if it has no file."""
        return self.path if self.path is not None else self.name

    @classmethod
    def read(cls, path: str | PathLike[str], *, source: str = "local") -> Skill:
        """Read a skill from its file: front matter with ``name`` and ``description``, then Markdown.

        Invisible characters are removed. This reads the disk: do not call it on the event loop.

        Args:
            path: the folder, or its ``SKILL.md``.
            source: the ``source`` of the skill.

        Raises:
            DefinitionError: the file cannot be read or is not a skill. The message names the file and the fault.
        """
        file = Path(path)
        file = file / FILE if file.name != FILE else file
        try:
            return _parsed(file, _content(file), source)
        except (OSError, UnicodeDecodeError) as error:
            raise DefinitionError(f"{visible(str(file))}: cannot be read: {type(error).__name__}") from error
        except (FrontMatterError, OptionError) as error:
            raise DefinitionError(f"{visible(str(file))}: {error}") from error


def _check_line(option: str, given: object, longest: int) -> None:
    if not isinstance(given, str) or not given.strip() or len(given) > longest or not given.isprintable():
        raise OptionError("Skill", option, given, f"one line of 1 to {longest} characters")


def _check_text(option: str, given: object, *, least: int) -> None:
    if not isinstance(given, str) or len(given.strip()) < least:
        raise OptionError("Skill", option, type(given).__name__, "a str" if not least else "a str that is not blank")


def _content(file: Path) -> str:
    with file.open("rb") as opened:
        content = opened.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise FrontMatterError(f"it is larger than {LARGEST_FILE} bytes; move the details to files of their own")
    return content.decode("utf-8")


def _parsed(file: Path, text: str, source: str) -> Skill:
    keys, body = front_matter(normalize(text, _UNSEEN).text, ("name", "description"))
    for key in ("name", "description"):
        if not keys.get(key):
            raise FrontMatterError(f"its front matter has no {key!r}")
    return Skill(keys["name"], keys["description"], body, file.parent.as_posix(), source)


_FENCE = "---"
_KEY = deferred(r"(?P<key>[A-Za-z_][\w-]*)[ \t]*:(?:[ \t]+(?P<value>.*))?$")
_BLOCK = deferred(r"[|>][-+\d]{0,2}(?:\s+#.*)?$")
_COMMENT = deferred(r"(?:^|\s)#.*$")
_NO_TEXT = tuple("[{&*!%@`")


class FrontMatterError(ValueError):
    """Front matter cannot be parsed. The text names the fault, and never quotes a value."""


def front_matter(text: str, wanted: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the texts of the wanted keys that exist, and the text after the block.

    Raises:
        FrontMatterError: the block is missing or has no end, or the value of a wanted key is not a text.
    """
    lines = text.removeprefix("\ufeff").splitlines()
    if not lines or lines[0].rstrip() != _FENCE:
        raise FrontMatterError(f"it must begin with a line {_FENCE!r}, the keys below it, and another such line")
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() in (_FENCE, "...")), None)
    if end is None:
        raise FrontMatterError(f"the block that begins with {_FENCE!r} has no end: close it with another such line")
    entries = _entries(lines[1:end])
    return {key: _text(key, entries[key]) for key in wanted if key in entries}, "\n".join(lines[end + 1 :]).strip("\n")


def _entries(lines: Sequence[str]) -> dict[str, list[str]]:
    """Return the lines of each key: the rest of its own line, then the lines that belong to it."""
    entries: dict[str, list[str]] = {}
    current: list[str] | None = None
    for number, line in enumerate(lines, 2):
        found = _KEY.match(line)
        if found is not None:
            current = entries[found["key"]] = [found["value"] or ""]
        elif current is not None and (not line.strip() or line[0] in " \t-#"):
            current.append(line)
        elif line.strip() and not line.startswith("#"):
            raise FrontMatterError(f"line {number} is not 'key: text' and belongs to no key")
    return entries


def _text(key: str, lines: Sequence[str]) -> str:
    first, more = lines[0].strip(), lines[1:]
    if _BLOCK.match(first):
        return _block(more, folds=first[0] == ">")
    if first[:1] in ("'", '"'):
        return _quoted(key, _folded([first, *more]))
    first = _COMMENT.sub("", first)
    if first.startswith(_NO_TEXT) or (not first and any(line.lstrip().startswith("- ") for line in more)):
        raise FrontMatterError(f"{key!r} must be a text: put it in quotes")
    return _folded([first, *(_COMMENT.sub("", line) for line in more)])


def _folded(lines: Sequence[str]) -> str:
    """Join lines to one paragraph; a blank line becomes a line break."""
    text = "\n".join(line.strip() for line in lines).strip("\n")
    return re.sub(r"\n+", lambda found: " " if len(found[0]) == 1 else found[0][1:], text).strip()


def _block(lines: Sequence[str], *, folds: bool) -> str:
    filled = [line for line in lines if line.strip()]
    margin = min((len(line) - len(line.lstrip()) for line in filled), default=0)
    text = "\n".join(line[margin:].rstrip() for line in lines).strip("\n")
    return _folded(text.split("\n")) if folds else text


def _quoted(key: str, text: str) -> str:
    quote = text[0]
    closed = re.match(r"'((?:[^']|'')*)'" if quote == "'" else r'"((?:[^"\\]|\\.)*)"', text)
    if closed is None or _COMMENT.sub("", text[closed.end() :]).strip():
        raise FrontMatterError(f"the quotes of {key!r} do not match")
    if quote == "'":
        return closed[1].replace("''", "'")
    try:
        return str(json.loads(closed[0], strict=False))
    except ValueError:
        raise FrontMatterError(f"{key!r} has an unknown escape: put it in single quotes") from None


SkillPath: TypeAlias = "str | os.PathLike[str]"
"""A folder with a ``SKILL.md``, or a folder of such folders."""

SkillsFor: TypeAlias = "Callable[[dict[str, Value]], Iterable[Skill] | Awaitable[Iterable[Skill]]]"
"""A function (sync or async) from the request context to the skills of a request, called once per request."""

SkillsGiven: TypeAlias = "SkillPath | Iterable[Skill | SkillPath] | SkillsFor"
"""The option ``skills`` of processors."""

_LOG = logging.getLogger("penstock")


def read_skills(folder: SkillPath) -> tuple[Skill, ...]:
    """Return the skills of a folder, sorted by name: its own ``SKILL.md``, or those of the folders in it.

    This reads the disk: do not call it on the event loop.

    Raises:
        DefinitionError: a file cannot be read or is not a skill. The message names the file and the fault.
    """
    return by_name(Skill.read(file) for file in _files(Path(folder)))


def by_name(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Return skills sorted by name, without repetitions of the same `Skill.key`."""
    first: dict[str, Skill] = {}
    for skill in skills:
        first.setdefault(skill.key, skill)
    return tuple(sorted(first.values(), key=lambda skill: skill.name))


class HasSkills(Protocol):
    """The state of a request with its skills; None until they are known."""

    skills: tuple[Skill, ...] | None


S = TypeVar("S", bound=HasSkills)


class SkillSource:
    """The source of a processor's skills. Lives as long as the processor; folders are scanned again in each request.

    With ``blocking_refresh`` a request waits for the scan. Otherwise it uses the last scan, and the folders are scanned
    at its end. The skills of one request do not change from step to step.
    """

    def __init__(self, owner: str, given: SkillsGiven, *, blocking_refresh: bool) -> None:
        """Check the option ``skills``; errors name the class ``owner``.

        Raises:
            OptionError: the option has a value that is not allowed.
        """
        self._function: SkillsFor | None = None
        self._folders: tuple[SkillFolder, ...] = ()
        self._skills: tuple[Skill, ...] = ()
        self._blocking = blocking_refresh
        if callable(given):
            self._function = given
            return
        items = _items(owner, given)
        self._folders = tuple(SkillFolder(item) for item in items if not isinstance(item, Skill))
        self._skills = tuple(item for item in items if isinstance(item, Skill))

    async def of(self, ctx: InputStepContext[S]) -> tuple[Skill, ...]:
        """Return the skills of a request, sorted by name."""
        state = ctx.state
        if state.skills is None:
            state.skills = by_name(await self._found(ctx))
        return state.skills

    async def _found(self, ctx: InputStepContext[S]) -> Iterable[Skill]:
        if self._function is not None:
            asked = self._function(ctx.request_context)
            return _checked(await asked if inspect.isawaitable(asked) else asked)
        waiting = [folder for folder in self._folders if self._blocking or folder.skills is None]
        for folder in waiting:
            await to_thread.run_sync(folder.scan, abandon_on_cancel=True)
        if self._folders and not waiting:
            ctx.on_end(self._scan_later)
        return (*self._skills, *(skill for folder in self._folders for skill in folder.skills or ()))

    async def _scan_later(self, _ended: RunEnd) -> None:
        for folder in self._folders:
            await to_thread.run_sync(folder.scan, abandon_on_cancel=True)


class SkillFolder:
    """A folder of skills, and the result of its last scan. Files that are not skills are skipped with one warning.

    Attributes:
        skills: the skills of the last scan; None before the first.
    """

    __slots__ = ("_path", "_read", "skills")

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: dict[Path, tuple[FileStamp, Skill | None]] = {}
        self.skills: tuple[Skill, ...] | None = None

    def scan(self) -> None:
        """Read the files that are new or have changed. This reads the disk."""
        read: dict[Path, tuple[FileStamp, Skill | None]] = {}
        for file in _files(self._path):
            stamp, (before, skill) = _stamp(file), self._read.get(file, (None, None))
            read[file] = (stamp, skill if stamp == before else _read_or_skip(file))
        if not read and (self._read or self.skills is None):
            _LOG.warning("no skills were found in %s", visible(str(self._path)))
        self._read = read
        self.skills = tuple(skill for _, skill in read.values() if skill is not None)


FileStamp: TypeAlias = "tuple[int, int]"
"""The modification time of a file, in nanoseconds, and its size in bytes."""

_ALLOWED = "skills and paths of folders, or a function from the request context to skills"


def _items(owner: str, given: SkillPath | Iterable[Skill | SkillPath]) -> tuple[Skill | Path, ...]:
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
            raise TypeError(f"the function skills must return Skill objects, not {type(skill).__name__}")
    return cast("tuple[Skill, ...]", skills)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder: its own, or those of the folders in it."""
    if (folder / FILE).is_file():
        yield folder / FILE
    elif folder.is_dir():
        yield from (inner / FILE for inner in sorted(folder.iterdir()) if (inner / FILE).is_file())


def _stamp(file: Path) -> FileStamp:
    try:
        found = file.stat()
    except OSError:  # deleted in the meantime
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)


def _read_or_skip(file: Path) -> Skill | None:
    try:
        return Skill.read(file)
    except DefinitionError as error:
        _LOG.warning("a skill is skipped: %s", error)
        return None
