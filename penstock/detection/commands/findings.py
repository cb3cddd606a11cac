"""Find destructive programs and files with secrets in a command, in code, in a path and in a patch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from penstock.detection.commands.destructive import (
    destroys,
    destructive_code,
    destructive_sql,
    words_of,
    writes_device,
)
from penstock.detection.commands.files import is_agent_settings, is_secret_file, names_secret_files
from penstock.detection.commands.shell import ShellCommand, UnreadableCommandError, Word, read_shell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FindingKind = Literal["destructive", "secret-file", "agent-settings", "unreadable"]


@dataclass(frozen=True, slots=True)
class CommandFinding:
    """Something in a command that a policy decides about.

    Attributes:
        kind: ``destructive``: it destroys what cannot be brought back; ``secret-file``: it reads a file with secrets;
            ``agent-settings``: it writes the settings of a coding agent; ``unreadable``: it cannot be told.
        reason: a phrase for people, which quotes nothing of the command.
    """

    kind: FindingKind
    reason: str


@dataclass(frozen=True, slots=True)
class FilePatterns:
    """Patterns of an owner, beside those that are known.

    Attributes:
        secret: files with secrets.
        harmless: files that are none.
    """

    secret: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


NO_PATTERNS = FilePatterns()

_SHELLS = frozenset(["sh", "bash", "zsh", "dash", "ksh", "mksh", "ash", "fish", "rbash"])
_INTERPRETERS = words_of(
    """
    python python2 python3 perl ruby node nodejs deno bun php lua osascript pwsh powershell
    """
)
_AWK = frozenset({"awk", "gawk", "mawk", "nawk"})
_CODE_FLAGS = frozenset(
    {"-c", "-e", "-E", "-r", "-p", "-pe", "-ne", "--eval", "--print", "-Command", "-command", "eval"}
)
_WRAPPERS = words_of(
    """
    sudo doas cmd env command builtin exec nohup time nice ionice timeout stdbuf setsid xargs busybox toybox watch
    parallel chroot unshare script caffeinate chronic then do else
    """
)
_WITH_VALUE = {
    "sudo": frozenset({"-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "--user", "--group"}),
    "doas": frozenset({"-u", "-C"}),
    "env": frozenset({"-u", "-C"}),
    "nice": frozenset({"-n"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "timeout": frozenset({"-k", "-s"}),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "xargs": frozenset({"-I", "-n", "-P", "-L", "-d", "-s", "-a", "-E"}),
    "parallel": frozenset({"-j", "-n", "-I", "-a"}),
    "watch": frozenset({"-n"}),
    "time": frozenset({"-f", "-o"}),
    "exec": frozenset({"-a"}),
}
"""The options of programs that run another one, which take the next word."""

_NOT_SHOWN = words_of(
    """
    ls test [ [[ stat touch chmod chown rm unlink echo printf mkdir which type dirname basename realpath
    readlink file source . export cd du true false shred
    """
)
"""Programs that show nothing of the files in their arguments; `rm` and others are found elsewhere."""

_COPIES = frozenset({"cp", "mv", "ln", "install"})
_ENV_FILE = re.compile(r"--?env-?file(?:=|$)")
_PATH_IN_CODE = re.compile(r"[\w.~/*?-]*[\w.~*?-]")
_QUIET_GIT = frozenset({"check-ignore", "rm", "ls-files", "status", "log", "update-index"})


def find_in_command(text: str, patterns: FilePatterns = NO_PATTERNS) -> list[CommandFinding]:
    """Return the findings in a shell command.

    Args:
        text: the command.
        patterns: the owner's patterns of files.
    """
    return list(dict.fromkeys(_Search(patterns).command(text, 0)))


def find_in_path(
    path: str, patterns: FilePatterns = NO_PATTERNS, *, reads: bool = True, writes: bool = False
) -> list[CommandFinding]:
    """Return the findings in the path of a file.

    Args:
        path: the path, or a pattern of paths.
        patterns: the owner's patterns of files.
        reads: whether the file is read.
        writes: whether it is written.
    """
    found: list[CommandFinding] = []
    secret = names_secret_files(path, patterns.secret, patterns.harmless)
    if reads and secret:
        found.append(_SECRET)
    if writes and is_agent_settings(path):
        found.append(_SETTINGS)
    return found


def find_in_patch(text: str, patterns: FilePatterns = NO_PATTERNS) -> list[CommandFinding]:
    """Return the findings in a patch of Codex, in the lines that name its files."""
    named = re.findall(r"^\*\*\* (Add|Update|Delete|Move to)(?: File)?: (.+)$", text, re.MULTILINE)
    return [
        finding
        for kind, path in named
        for finding in find_in_path(path.strip(), patterns, reads=kind == "Update", writes=True)
    ]


def find_in_code(text: str, patterns: FilePatterns = NO_PATTERNS) -> list[CommandFinding]:
    """Return the findings in code for an interpreter such as Python's.

    Args:
        text: the code.
        patterns: the owner's patterns of files.
    """
    return list(dict.fromkeys(_Search(patterns).code(text)))


_SECRET = CommandFinding("secret-file", "it reads a file that holds secrets")
_SETTINGS = CommandFinding("agent-settings", "it changes the settings of the agent itself")
_UNREADABLE = CommandFinding("unreadable", "it cannot be read")
_COMPUTED = CommandFinding("unreadable", "the program that it runs is only known when it runs")
_PIPED = CommandFinding("unreadable", "it runs code that it gets from elsewhere")


class _Search:
    def __init__(self, patterns: FilePatterns) -> None:
        self._patterns = patterns

    def command(self, text: str, depth: int) -> Iterator[CommandFinding]:
        """Yield the findings in a text for a shell."""
        try:
            commands = read_shell(text, depth)
        except UnreadableCommandError:
            yield _UNREADABLE
            yield from self.code(text)
            return
        if re.search(r"(?:^|[;&\s])[\w:]+\s*\(\)\s*\{[^}]*\|[^}]*&\s*\}", text):
            yield CommandFinding("destructive", "a function that calls itself without end")
        for command in commands:
            yield from self._one(command, list(command.words), depth)
            yield from self._redirections(command)

    def _redirections(self, command: ShellCommand) -> Iterator[CommandFinding]:
        if any(self._is_secret(word) for word in command.reads):
            yield _SECRET
        for word in command.writes:
            if writes_device(word.text):
                yield CommandFinding("destructive", "a write to a disk")
            if is_agent_settings(word.text):
                yield _SETTINGS

    def _one(self, command: ShellCommand, words: list[Word], depth: int) -> Iterator[CommandFinding]:
        words = _unwrapped(words)
        if not words:
            return
        if not words[0].known or (words[0].is_pattern and words[0].text not in ("[", "[[")):
            yield _COMPUTED
            yield from self._files("", words)
            return
        name = words[0].text.replace("\\", "/").rpartition("/")[2].removesuffix(".exe")
        arguments = [word.text for word in words[1:]]
        lowered = name.casefold()
        reason = destroys(lowered, arguments)
        if reason:
            yield CommandFinding("destructive", reason)
        yield from self._within(lowered, command, words, depth)
        yield from self._files(lowered, words)

    def _within(self, name: str, command: ShellCommand, words: list[Word], depth: int) -> Iterator[CommandFinding]:
        """Yield the findings in commands and code that a program is given."""
        if name in ("source", ".") and command.given is not None:
            yield from self.command(command.given, depth + 1)
        elif name in _SHELLS or name in ("eval", "su", "ssh", "trap", "alias", "iex", "invoke-expression"):
            yield from self._shell(name, command, words, depth)
        elif name == "apply_patch":
            yield from find_in_patch(
                "\n".join([command.given or "", *(word.text for word in words[1:])]), self._patterns
            )
        elif name in _AWK:
            yield from self.code(" ".join(word.text for word in words[1:]))
        elif _interpreter(name):
            yield from self._interpreter(command, words)
        elif name in ("find", "fd", "docker", "podman", "kubectl", "xargs", "parallel", "watch", "npx", "uvx"):
            yield from self._inner(command, words, depth)
        elif name in ("psql", "mysql", "mariadb", "sqlite3") and command.given is not None:
            reason = destructive_sql(command.given)
            if reason:
                yield CommandFinding("destructive", reason)

    def _shell(self, name: str, command: ShellCommand, words: list[Word], depth: int) -> Iterator[CommandFinding]:
        """Yield the findings in the text that another shell is given."""
        rest = words[1:]
        if name in _SHELLS or name == "su":
            at = next((i for i, word in enumerate(rest) if re.fullmatch(r"-[A-Za-z]*c|--command", word.text)), None)
            if at is None:
                yield from self._script(command, rest, depth)
                return
            rest = rest[at + 1 : at + 2]
        elif name == "ssh":
            rest = _after_host(rest)
        elif name == "alias":
            rest = [Word(word.text.partition("=")[2], word.known) for word in rest]
        elif name == "trap":
            rest = rest[:1]
        text = " ".join(word.text for word in rest)
        if not all(word.known for word in rest):
            yield _COMPUTED
        if text:
            yield from self.command(text, depth + 1)

    def _script(self, command: ShellCommand, rest: Sequence[Word], depth: int) -> Iterator[CommandFinding]:
        """Yield the findings about a shell that reads a file, or its input."""
        script = next((word for word in rest if not word.text.startswith("-") or not word.known), None)
        if script is not None and script.text in ("/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"):
            script = None
        if script is not None and not script.known and not script.text:
            yield _PIPED  # as in bash <(curl …)
        elif script is None and command.has_input:
            if command.given is None:
                yield _PIPED
            else:
                yield from self.command(command.given, depth + 1)

    def _interpreter(self, command: ShellCommand, words: list[Word]) -> Iterator[CommandFinding]:
        """Yield the findings in code for another interpreter."""
        rest = words[1:]
        for place, word in enumerate(rest):
            if word.text in _CODE_FLAGS or re.fullmatch(r"-[A-Za-z]*[ce]", word.text):
                for code in rest[place + 1 : place + 2]:
                    if not code.known and not code.text.strip():
                        yield _COMPUTED
                    yield from self.code(code.text)
                return
        script = next((word for word in rest if not word.text.startswith("-")), None)
        if script is None and command.has_input:
            if command.given is None:
                yield _PIPED
            else:
                yield from self.code(command.given)
        elif script is not None and not script.known and not script.text:
            yield _PIPED
        elif script is not None:
            reason = destroys(script.text.rpartition("/")[2], [word.text for word in rest[rest.index(script) + 1 :]])
            if reason:
                yield CommandFinding("destructive", reason)

    def code(self, code: str) -> Iterator[CommandFinding]:
        """Yield the findings in code for another interpreter."""
        reason = destructive_code(code)
        if reason:
            yield CommandFinding("destructive", reason)
        if any(self._is_secret(Word(name, is_pattern="*" in name)) for name in _PATH_IN_CODE.findall(code)):
            yield _SECRET

    def _inner(self, command: ShellCommand, words: list[Word], depth: int) -> Iterator[CommandFinding]:
        """Yield the findings in a command among the arguments: ``find -exec …``, ``docker exec box …``."""
        texts = [word.text for word in words]
        starts = [
            place + 1 for place, text in enumerate(texts) if text in ("-exec", "-execdir", "-ok", "-x", "-X", "--exec")
        ]
        if texts[0] in ("docker", "podman", "kubectl", "npx", "uvx"):
            starts += [place for place, text in enumerate(texts) if place and text.rpartition("/")[2] in _RUN_INSIDE]
        for start in starts:
            yield from self._one(command, [word for word in words[start:] if word.text not in (";", "+", "{}")], depth)

    def _files(self, name: str, words: Sequence[Word]) -> Iterator[CommandFinding]:
        """Yield the findings in the files that arguments name."""
        rest = list(words[1:])
        if name not in _NOT_SHOWN and any(is_agent_settings(one) for word in rest for one in _paths(word.text)):
            yield _SETTINGS
        if name == "git" and any(word.text in _QUIET_GIT for word in rest[:3]):
            return
        if name in _NOT_SHOWN:
            return
        if name in _COPIES:
            rest = rest[:-1]
        before = ""
        for word in rest:
            if self._is_secret(word) and not _ENV_FILE.match(before) and not _ENV_FILE.match(word.text):
                yield _SECRET
            before = word.text

    def _is_secret(self, word: Word) -> bool:
        if not word.text:
            return False
        if " " in word.text and not word.is_pattern:
            return False
        check = names_secret_files if word.is_pattern else is_secret_file
        return any(check(path, self._patterns.secret, self._patterns.harmless) for path in _paths(word.text))


_RUN_INSIDE = _SHELLS | frozenset(
    {"rm", "shred", "dd", "psql", "mysql", "cat", "env", "printenv", "python", "python3", "node"}
)


def _paths(text: str) -> Iterable[str]:
    """Return the paths that an argument may name: itself, and its part behind ``=``, ``@`` or ``:``."""
    return dict.fromkeys((text, *(text.rpartition(sign)[2] for sign in "=@:" if sign in text)))


def _interpreter(name: str) -> bool:
    return name in _INTERPRETERS or re.fullmatch(r"python3?\.\d+|ruby\d.*|perl5.*|node\d+", name) is not None


def _unwrapped(words: list[Word]) -> list[Word]:
    """Return a command without programs that only run another one: ``sudo -u x``, ``env A=b``, ``timeout 5``."""
    rest = words
    while rest and rest[0].known and rest[0].text.rpartition("/")[2] in _WRAPPERS:
        wrapper = rest[0].text.rpartition("/")[2]
        inner = rest[1:]
        while inner and (
            inner[0].text.startswith("-") or inner[0].text in ("/c", "/C") or re.match(r"[A-Za-z_]\w*=", inner[0].text)
        ):
            takes = inner[0].text in _WITH_VALUE.get(wrapper, ())
            if wrapper == "env" and inner[0].text in ("-S", "--split-string"):
                split = [Word(one) for word in inner[1:] for one in word.text.split()]
                return _unwrapped(split)
            inner = inner[2:] if takes and len(inner) > 1 else inner[1:]
        if wrapper in ("timeout", "chroot") and inner:
            inner = inner[1:]
        if not inner:
            return rest if wrapper in ("env", "time") else []
        rest = inner
    return rest


def _after_host(words: Sequence[Word]) -> list[Word]:
    """Return the command that ssh runs on the other machine."""
    rest = list(words)
    while rest and rest[0].text.startswith("-"):
        rest = rest[2:] if len(rest[0].text) == len("-p") else rest[1:]
    return rest[1:]
