"""`AgentsMDInjector`: tells the model what instruction files say where its tools work. It knows no tool by name."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from anyio import to_thread

from penstock.engine.processor.processor import Processor
from penstock.engine.values.errors import OptionError
from penstock.models.tokens.counters import HEURISTIC, counting
from penstock.processors.discovery._instruction_files import Tree
from penstock.processors.discovery._reminders import (
    INTRODUCTION,
    excerpt,
    paths_of,
    position,
    reminded,
    reminder,
)
from penstock.processors.discovery.file_reader import FileReader
from penstock.processors.discovery.options import function

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from penstock.engine.processor.context import InputStepContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import TokenCounter

F = TypeVar("F")

Paths: TypeAlias = "Iterable[str | os.PathLike[str]]"
"""Paths, as a user gives them."""

NAMES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")
PATH_ARGUMENTS = (
    *("path", "file", "filePath", "target", "targetPath", "dest", "destination"),
    *("file_path", "target_path"),
)

_LEAST_READ = 65_536  # bytes; as much of a file is read at least, so that most are read whole and counted exactly
_BYTES = 32  # of a token: characters of up to 4 bytes, and words twice as long as usual


@dataclass
class Seen:
    """What is known of a request.

    Attributes:
        tree: the directories that may be looked into; None as long as nobody asked.
        closed: whether nothing may be read in this request.
        settled: for which paths, files told and files to ignore there was nothing left to tell.
    """

    tree: Tree | None = None
    closed: bool = False
    settled: tuple[tuple[str, ...], frozenset[str], tuple[str, ...]] | None = None


class AgentsMDInjector(Processor[Seen]):
    """Looks where completed tool calls worked, and tells the model what instruction files there say, once each.

    The nearest file of the latest call comes first, then those above it; one before each model call. Only directories
    that were allowed are looked into. A file's text is somebody else's: it is escaped, cleaned of what nobody sees, cut
    to size, and said to be a file's.

    It protects nothing, so its failure lets the call go on without.
    """

    id = "agents-md-injector"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"

    def __init__(
        self,
        *,
        roots: Paths | Callable[[InputStepContext[Seen]], Paths | Awaitable[Paths]],
        names: Iterable[str] = NAMES,
        path_arguments: Iterable[str] = PATH_ARGUMENTS,
        max_tokens: int = 1_000,
        token_counter: TokenCounter | Callable[[str], int] | str = HEURISTIC,
        reminder_text: str | None = None,
        introduction: str = INTRODUCTION,
        is_enabled: Callable[[InputStepContext[Seen]], bool | Awaitable[bool]] | None = None,
        get_ignored_instruction_paths: Callable[[InputStepContext[Seen]], Paths | Awaitable[Paths]] | None = None,
        get_reader: Callable[[InputStepContext[Seen]], FileReader | Awaitable[FileReader | None] | None] | None = None,
        path_exists: Callable[[str], bool | Awaitable[bool]] | None = None,
        is_directory: Callable[[str], bool | Awaitable[bool]] | None = None,
        read_file: Callable[[str], str | bytes | Awaitable[str | bytes | None] | None] | None = None,
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            roots: the directories that may be looked into, and all below them; or a function of the context that gives
                them, called once a request. Symbolic links that lead out of them are not followed.
            names: the names of instruction files, or paths below each directory; the first that a directory has counts.
            path_arguments: the names of the arguments of tools that hold a path.
            max_tokens: how much of a file is shown, from 1 on: as many tokens, and 4 characters for each, at the most;
                whole lines, and a note that says so.
            token_counter: what measures it: ``"heuristic"``, an encoding's name, a function from text to tokens, or an
                object with ``count(text)``.
            reminder_text: what is said where a file is empty or cannot be read; None: such a file is passed over.
            introduction: what is said before each file's text; empty for nothing.
            is_enabled: tells, before each model call, whether to look at all.
            get_ignored_instruction_paths: gives the files that are not to be told, such as those that stand in the
                system prompt already.
            get_reader: gives what reads the files of a request, called once; None reads none.
            path_exists: with the next two, what reads the files of all requests in place of the disk; see `FileReader`.
            is_directory: see ``path_exists``.
            read_file: see ``path_exists``.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        if id is not None:
            self.id = id
        self.roots = roots if callable(roots) else self._roots(roots)
        self.names = self._words("names", names)
        self.path_arguments = self._words("path_arguments", path_arguments)
        self.max_tokens = self._count("max_tokens", max_tokens)
        self.token_counter = counting(type(self).__name__, token_counter, "o200k_base")
        self.reminder_text = None if reminder_text is None else self._text("reminder_text", reminder_text)
        self.introduction = self._text("introduction", introduction)
        self.is_enabled = self._function("is_enabled", is_enabled)
        self.get_ignored_instruction_paths = self._function(
            "get_ignored_instruction_paths", get_ignored_instruction_paths
        )
        self.get_reader = self._function("get_reader", get_reader)
        self.reader = self._reader(path_exists, is_directory, read_file)

    def new_state(self) -> Seen:
        return Seen()

    # Options

    def _wrong(self, option: str, given: object, allowed: str) -> OptionError:
        return OptionError(type(self).__name__, option, given, allowed)

    def _roots(self, given: Value) -> tuple[str, ...]:
        """Return the roots as absolute paths: what they are relative to must not change later."""
        allowed = "the directories that may be looked into, one or more, or a function that gives them"
        if isinstance(given, str):
            raise self._wrong("roots", given, f"{allowed}: [{given!r}]")
        try:
            roots = tuple([os.path.abspath(os.fsdecode(root)) for root in cast("Paths", given)])  # noqa: PTH100
        except TypeError:
            raise self._wrong("roots", given, allowed) from None
        if not roots:
            raise self._wrong("roots", given, allowed)
        return roots

    def _count(self, option: str, given: object) -> int:
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise self._wrong(option, given, "a whole number from 1 on")
        return given

    def _text(self, option: str, given: object) -> str:
        if not isinstance(given, str):
            raise self._wrong(option, given, "a text")
        return given

    def _function(self, option: str, given: F) -> F:
        return cast("F", function(type(self).__name__, option, given))

    def _words(self, option: str, given: Iterable[str]) -> tuple[str, ...]:
        words = () if isinstance(given, str) or not isinstance(cast("object", given), Iterable) else tuple(given)
        if not words or not all(isinstance(cast("object", word), str) and word for word in words):
            raise self._wrong(option, given, "names, one or more")
        return words

    def _reader(self, path_exists: Value, is_directory: Value, read_file: Value) -> FileReader | None:
        given = {"path_exists": path_exists, "is_directory": is_directory, "read_file": read_file}
        missing = [name for name, call in given.items() if function(type(self).__name__, name, call) is None]
        if len(missing) == len(given):
            return None
        if missing:
            others = " and ".join(name for name in given if name not in missing)
            raise self._wrong(missing[0], None, f"a function beside {others}: what is not on disk is not half on disk")
        if self.get_reader is not None:
            raise self._wrong("get_reader", self.get_reader, "None beside path_exists, is_directory and read_file")
        return FileReader(path_exists, is_directory, read_file)

    # The stage

    async def process_input_step(self, ctx: InputStepContext[Seen]) -> list[Message] | None:
        """Put one reminder before what the model is to answer, if there is a file that it was not told of."""
        messages, seen = ctx.messages, ctx.state
        paths = paths_of(messages, self.path_arguments)
        if not paths or seen.closed or not (self.is_enabled is None or await _given(self.is_enabled(ctx))):
            return None
        told, ignored = frozenset(reminded(messages)), await self._ignored(ctx)
        if seen.settled == (paths, told, ignored):
            return None
        tree = seen.tree = seen.tree or await self._tree(ctx)
        if tree is None:
            seen.closed = True
            return None
        found = await to_thread.run_sync(self._found, tree, paths, told, ignored, abandon_on_cancel=True)
        if found is None:
            seen.settled = (paths, told, ignored)
            return None
        ctx.note(reminded=True)
        place = position(messages)
        return [*messages[:place], found, *messages[place:]]

    async def _ignored(self, ctx: InputStepContext[Seen]) -> tuple[str, ...]:
        if self.get_ignored_instruction_paths is None:
            return ()
        return tuple(map(os.fspath, await _given(self.get_ignored_instruction_paths(ctx))))

    async def _tree(self, ctx: InputStepContext[Seen]) -> Tree | None:
        """Return what may be looked into; None for nothing."""
        reader = self.reader
        if self.get_reader is not None and (reader := await _given(self.get_reader(ctx))) is None:
            return None
        roots = self._roots(await _given(self.roots(ctx))) if callable(self.roots) else self.roots
        return Tree(roots, self.names, reader)

    def _found(self, tree: Tree, paths: Iterable[str], told: frozenset[str], ignored: Iterable[str]) -> Message | None:
        """Return the reminder of the first file that has something to tell; called in a worker thread."""
        known = told.union(map(tree.normal, ignored))
        most = max(_LEAST_READ, _BYTES * self.max_tokens)
        for path in paths:
            for file in tree.files(path):
                if file in known:
                    continue
                text = excerpt(tree.read(file, most), self.max_tokens, self.token_counter) or self.reminder_text
                if text:
                    return reminder(file, text, self.introduction)
        return None


async def _given(value: Value) -> Value:
    """Return what a function of the user's gave, awaited if it is to be."""
    return await value if inspect.isawaitable(value) else value
