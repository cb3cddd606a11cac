"""`CommandPolicy`: asks about destructive shell commands, and keeps files with secrets from being read."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

from penstock.detection.commands import (
    CommandFinding,
    FilePatterns,
    FindingKind,
    find_in_code,
    find_in_command,
    find_in_patch,
    find_in_path,
)
from penstock.engine.processor.payload import Answer
from penstock.engine.processor.processor import Processor, one_of
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_items, is_mapping

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.engine.processor.context import ToolCallContext
    from penstock.engine.processor.processor import EditsClaim
    from penstock.engine.values.frozen import Value

Denial: TypeAlias = Literal["refuse", "block", "warn"]


class CommandPolicy(Processor):
    """Decides about calls of tools that run commands or touch files: allowed, denied, or asked about.

    It reads commands as a shell does: quotes, variables, braces, substitutions, ``base64 -d | sh``, and programs that
    run others (``sudo``, ``xargs``, ``bash -c``, ``find -exec``). It finds four kinds:

    - ``destructive``: what cannot be brought back, such as ``rm -rf``, ``git push --force``, ``DROP TABLE``,
      ``terraform destroy``.
    - ``secret-file``: a file with secrets is read, such as ``.env``, ``id_rsa``, ``~/.aws/credentials``; by a command,
      or by a tool for files.
    - ``agent-settings``: the settings of a coding agent are written, where it could take out its own guards.
    - ``unreadable``: a command that cannot be told before it runs, such as ``curl … | sh``, or with open quotes.

    A program that a command starts is not read: this replaces no sandbox.

    Args:
        ask: the kinds that a person is asked about. Where nobody can be asked, the call does not run and the model is
            told so.
        deny: the kinds that are denied.
        files: patterns of further files with secrets, of their names (``*.secret``) or ends of paths
            (``config/prod/*``).
        harmless: patterns of files that hold none.
        tools: the tools whose calls are read, as patterns in which ``*`` stands for any characters. None: all.
        strategy: the effect of a denial. ``refuse``: the call does not run, and the model reads the reason as its
            result; ``block``: the request ends; ``warn``: it is only noted.
        id: the name of the step; None: ``command-policy``.

    Raises:
        OptionError: an option is not allowed, or a kind is both asked about and denied.
    """

    id = "command-policy"
    edits: EditsClaim | None = "anything"
    on_error = "block"
    suspends = False  # it asks about calls by its answer
    finds = ("calls",)
    reads = ("tool_call",)

    def __init__(
        self,
        *,
        ask: Iterable[FindingKind] = ("destructive", "agent-settings", "unreadable"),
        deny: Iterable[FindingKind] = ("secret-file",),
        files: Iterable[str] = (),
        harmless: Iterable[str] = (),
        tools: Iterable[str] | None = None,
        strategy: Denial = "refuse",
        id: str | None = None,
    ) -> None:
        name = type(self).__name__
        self.ask = _kinds(name, "ask", ask)
        self.deny = _kinds(name, "deny", deny)
        self.files = _texts(name, "files", files)
        self.harmless = _texts(name, "harmless", harmless)
        self.tools = None if tools is None else _texts(name, "tools", tools)
        self.strategy = one_of(name, "strategy", strategy, get_args(Denial))
        if id is not None:
            self.id = id
        both = set(self.ask) & set(self.deny)
        if both or not (self.ask or self.deny):
            raise OptionError(name, "deny", self.deny, "kinds that are not in ask=, and one at least in either")
        self._patterns = FilePatterns(self.files, self.harmless)
        self.asks = bool(self.ask)
        if not self.asks and self.strategy != "refuse":
            self.edits = "nothing"
            self.role = "observer" if self.strategy == "warn" else "guard"

    def process_tool_call(self, ctx: ToolCallContext) -> Answer | None:
        """Decide about a call."""
        if self.tools is not None and not any(fnmatchcase(ctx.tool_name, one) for one in self.tools):
            return None
        found = list(dict.fromkeys(self._found(ctx.tool_name, ctx.arguments)))
        denied = [one for one in found if one.kind in self.deny]
        asked = [one for one in found if one.kind in self.ask]
        if found:
            ctx.note(**{one.kind.replace("-", "_"): one.reason for one in found})
        if denied:
            reason = _reasons(denied)
            if self.strategy == "block":
                ctx.abort(reason, metadata={"kinds": [one.kind for one in denied]})
            if self.strategy == "refuse":
                return Answer(f"The call was not run: {reason}.")
            ctx.flag(*[one.kind for one in denied])
        if asked:
            return Answer(f"The call was not run: {_reasons(asked)}; a person must approve it.", asks=True)
        return None

    def _found(self, tool: str, arguments: Value) -> Iterator[CommandFinding]:
        """Yield the findings in the arguments of a call."""
        name = tool.rpartition("__")[2].casefold()
        if is_mapping(arguments):
            yield from self._in_mapping(name, arguments)
        else:
            yield from self._in_value(name, "", arguments)

    def _in_mapping(self, tool: str, value: Value) -> Iterator[CommandFinding]:
        for key, item in value.items():
            yield from self._in_value(tool, str(key), item)

    def _in_value(self, tool: str, key: str, value: Value) -> Iterator[CommandFinding]:
        if isinstance(value, str):
            yield from self._in_text(tool, key, value)
        elif is_mapping(value):
            yield from self._in_mapping(tool, value)
        elif is_items(value):
            words = [item for item in value if isinstance(item, str)]
            if len(words) == len(value) and _is_command(tool, key):
                yield from find_in_command(shlex.join(words), self._patterns)
            for item in value:
                yield from self._in_value(tool, key, item)

    def _in_text(self, tool: str, key: str, text: str) -> Iterator[CommandFinding]:
        word = key.casefold().replace("-", "_")
        if text.lstrip().startswith("*** Begin Patch"):
            yield from find_in_patch(text, self._patterns)
        elif _is_command(tool, word):
            yield from find_in_command(text, self._patterns)
        elif word in _CODE_KEYS and tool not in _EDITORS:
            yield from find_in_code(text, self._patterns)
        elif word not in _NO_PATHS and len(text) < _LONGEST_PATH and "\n" not in text:
            reads, writes = tool not in _NOT_READING, tool not in _READERS
            yield from find_in_path(text.strip(), self._patterns, reads=reads, writes=writes)


_LONGEST_PATH = 4_096
_COMMAND_KEYS = frozenset({"command", "commands", "cmd", "script", "shell", "shell_command", "bash", "command_line"})
_SHELL_TOOLS = frozenset(
    {"bash", "shell", "exec_command", "local_shell", "powershell", "terminal", "run_command", "exec"}
)
_SHELL_EXTRA = frozenset({"input", "args", "arguments", "argv", "chars", "code", ""})
_CODE_KEYS = frozenset({"code", "source_code", "python", "javascript", "expression"})
_EDITORS = frozenset(
    {"write", "edit", "multiedit", "notebookedit", "create_file", "write_file", "edit_file", "apply_patch"}
)
_NOT_READING = frozenset({"write", "create_file", "write_file", "glob", "ls", "list_directory", "list_files"})
_READERS = frozenset({"read", "grep", "glob", "ls", "read_file", "view_image", "notebookread", "list_directory"})
_NO_PATHS = frozenset(
    {
        "content",
        "new_string",
        "old_string",
        "new_source",
        "prompt",
        "query",
        "description",
        "pattern",
        "text",
        "message",
        "explanation",
        "justification",
        "title",
        "body",
        "question",
        "label",
        "header",
        "active_form",
        "activeform",
        "subject",
    }
)


def _is_command(tool: str, key: str) -> bool:
    if tool in _EDITORS:
        return False
    return key in _COMMAND_KEYS or (tool in _SHELL_TOOLS and key in _SHELL_EXTRA)


def _reasons(found: Iterable[CommandFinding]) -> str:
    return "; ".join(dict.fromkeys(one.reason for one in found))


def _kinds(owner: str, option: str, given: object) -> tuple[FindingKind, ...]:
    listed = _texts(owner, option, given)
    for one in listed:
        one_of(owner, option, one, get_args(FindingKind))
    return cast("tuple[FindingKind, ...]", listed)


def _texts(owner: str, option: str, given: object) -> tuple[str, ...]:
    listed = (given,) if isinstance(given, str) else given
    found: list[object] = [*cast("Iterable[object]", listed)] if isinstance(listed, Iterable) else [None]
    if not all(isinstance(one, str) and one for one in found):
        raise OptionError(owner, option, given, "a list of texts")
    return tuple(cast("list[str]", found))
