r"""`read_shell`: the commands in a text for a POSIX shell, with quotes, variables, braces and substitutions resolved.

It reads as a shell does, as far as that needs no files and no environment: ``.e''nv``, ``$'\x2eenv'``, ``.{env,x}``
and ``X=.env; cat $X`` are all ``.env``, and the output of ``echo`` and ``base64 -d`` is known. A part that only the
running shell knows makes its word unknown.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_MOST_COMMANDS = 2_000
_MOST_WORDS = 64  # that braces make of one word
_DEEPEST = 20
LONGEST = 200_000
"""The longest text that is read, in characters."""


class UnreadableCommandError(ValueError):
    """The text is no shell command that can be read."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a command.

    Attributes:
        text: the word as the program gets it. Parts that only the running shell knows are left out.
        known: whether nothing was left out.
        is_pattern: whether the shell replaces it by the names of files (``*.pem``).
    """

    text: str
    known: bool = True
    is_pattern: bool = False


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One program with its arguments.

    Attributes:
        words: its name and its arguments; empty if there are only redirections.
        reads: the files that its input comes from.
        writes: the files that its output goes to.
        has_input: whether its input comes from a pipe or from the command itself.
        given: that input, if it is known.
    """

    words: tuple[Word, ...] = ()
    reads: tuple[Word, ...] = ()
    writes: tuple[Word, ...] = ()
    has_input: bool = False
    given: str | None = None


def read_shell(text: str, depth: int = 0) -> list[ShellCommand]:
    """Return all commands in a text, those within others included.

    Raises:
        UnreadableCommandError: quotes or brackets are open, or it is too long or nested too deeply.
    """
    if len(text) > LONGEST:
        raise UnreadableCommandError("it is too long")
    reader = _ShellReader(text, {}, depth)
    reader.read_all()
    return reader.found


# Quoted special characters stand in the private area, so that all braces, patterns and blanks left are unquoted.
_SPECIAL = "{},*?[]!~^ \t\n"
_HIDE = {ord(char): 0xE000 + ord(char) for char in _SPECIAL}
_HIDE_BRACES = {ord(char): 0xE000 + ord(char) for char in "{},~"}
_SHOW = {hidden: plain for plain, hidden in _HIDE.items()}
_UNKNOWN = "\ue0ff"
_RESERVED = frozenset(
    [
        "if",
        "then",
        "else",
        "elif",
        "fi",
        "while",
        "until",
        "do",
        "done",
        "esac",
        "{",
        "}",
        "!",
        "function",
        "time",
        "coproc",
    ]
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(\[[^]]*\])?\+?=", re.ASCII)
_REDIRECT = re.compile(r"\d*(?:<<<|<<-|<<|<>|<&|<|>>|>\||>&|>|&>>|&>)")
_OPERATOR = re.compile(r"&&|\|\||\|&|;;&|;;|;&|[;&|\n]")
_BLANKS = re.compile(r"[ \t\n]+")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_ESCAPED = re.compile(r"\\(U[0-9A-Fa-f]{1,8}|u[0-9A-Fa-f]{1,4}|x[0-9A-Fa-f]{1,2}|0?[0-7]{1,3}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "v": "\v"}
_CODED = re.compile(r"x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})")


class _ShellReader:
    """Reads a text from the start to its end, or to the bracket that closes it."""

    def __init__(self, text: str, variables: dict[str, str | None], depth: int, at: int = 0) -> None:
        if depth > _DEEPEST:
            raise UnreadableCommandError("it is nested too deeply")
        self.text = text
        self.at = at
        self.found: list[ShellCommand] = []
        self._variables = variables
        self._depth = depth
        self._documents: list[tuple[str, bool, int]] = []  # here documents that begin at the next line

    def read_all(self) -> None:
        """Read to the end.

        Raises:
            UnreadableCommandError: a bracket is closed that was not opened, or the like.
        """
        self.read_list(closed_by="")
        if self.at < len(self.text):
            raise UnreadableCommandError("a bracket is closed that was not opened")

    def read_list(self, closed_by: str) -> str | None:
        """Read commands up to a closing bracket; return the output of the last pipeline, if it is known."""
        piped, output = False, None
        while True:
            command, opened = self._command(piped=piped, given=output if piped else None)
            output = None if opened else output_of(command)
            if len(self.found) > _MOST_COMMANDS:
                raise UnreadableCommandError("it has too many commands")
            if self._ends(closed_by):
                return output
            if self.text[self.at] == ")":
                self.at += 1
                if command.words:
                    self.found.remove(command)  # it was the pattern of an arm of `case`
            else:
                piped = self._operator() in ("|", "|&")

    def _ends(self, closed_by: str) -> bool:
        """Return whether a list ends here."""
        if self.at >= len(self.text):
            if closed_by:
                raise UnreadableCommandError("a bracket is open")
            return True
        if self.text[self.at] != ")":
            return False
        return closed_by == ")" or " case " not in f" {self.text[: self.at]} "

    def _operator(self) -> str:
        operator = _OPERATOR.match(self.text, self.at)
        if operator is None:
            raise UnreadableCommandError("an operator is unknown")
        self.at = operator.end()
        if operator.group() == "\n":
            self._skip_documents()
        return operator.group()

    def _command(self, *, piped: bool, given: str | None) -> tuple[ShellCommand, bool]:
        """Read one command; return it, and whether it is a list in brackets, whose output is not known."""
        words: list[Word] = []
        reads: list[Word] = []
        writes: list[Word] = []
        made = ShellCommand(has_input=piped, given=given)
        opened = False
        while self._to_word():
            char = self.text[self.at]
            if char == "(":
                self._bracket(words)
                opened = True
            elif self._is_process(char):
                words += self._word()
            elif redirect := _REDIRECT.match(self.text, self.at):
                self.at = redirect.end()
                made = self._redirected(redirect.group().lstrip("0123456789"), made, reads, writes)
            elif _OPERATOR.match(self.text, self.at) or char == ")":
                break
            else:
                words += self._word()
        words = self._assigned(words)
        while words and words[0].known and words[0].text in _RESERVED:
            words = self._assigned(words[1:])
        made = replace(made, words=tuple(words), reads=tuple(reads), writes=tuple(writes))
        if words or reads or writes:
            self.found.append(made)
        return made, opened

    def _bracket(self, words: list[Word]) -> None:
        """Read a list in brackets, those of a function's definition and of an array's assignment, too."""
        self.at += 1
        if words and words[-1].text.endswith("="):
            while self._to_word(newlines=True) and self.text[self.at] != ")":
                self._word()
        else:
            inner = _ShellReader(self.text, dict(self._variables), self._depth + 1, self.at)
            inner.read_list(")")
            self.found += inner.found
            self.at = inner.at
            words.clear()
        if self.at >= len(self.text):
            raise UnreadableCommandError("a bracket is open")
        self.at += 1

    def _to_word(self, *, newlines: bool = False) -> bool:
        """Go to the next word or operator; return whether there is one."""
        text = self.text
        while self.at < len(text):
            if text[self.at] in " \t\r" or (newlines and text[self.at] == "\n"):
                self.at += 1
            elif text.startswith("\\\n", self.at):
                self.at += 2
            elif text[self.at] == "#":
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                return True
        return False

    def _assigned(self, words: list[Word]) -> list[Word]:
        """Return the words without assignments before them; those that stand alone are noted."""
        count = 0
        while count < len(words) and _ASSIGNED.match(words[count].text):
            count += 1
        rest = words[count:]
        exported = rest[:1] and rest[0].text in ("export", "declare", "typeset", "local", "readonly")
        for word in [*words[:count], *(rest[1:] if exported else ())]:
            found = _ASSIGNED.match(word.text)
            if found is not None:
                self._variables[found[1]] = word.text[found.end() :] if word.known else None
        return rest

    def _redirected(self, sign: str, made: ShellCommand, reads: list[Word], writes: list[Word]) -> ShellCommand:
        if not self._to_word():
            raise UnreadableCommandError("a redirection has no file")
        if sign in ("<<", "<<-"):
            begin = self.at
            mark = self._word()
            quoted = any(char in self.text[begin : self.at] for char in "'\"\\")
            self._documents.append((mark[0].text, quoted, len(self.found)))
            return replace(made, has_input=True, given=self._document(mark[0].text, tabs=sign == "<<-"))
        target = self._word()
        if sign == "<<<":
            known = all(word.known for word in target)
            return replace(made, has_input=True, given=" ".join(word.text for word in target) if known else None)
        if sign in ("<", "<>"):
            reads += target
            return replace(made, has_input=True, given=None)
        if sign not in ("<&", ">&") or not target[0].text.isdigit():
            writes += target
        return made

    def _document(self, mark: str, *, tabs: bool) -> str:
        """Return the lines of a here document, which begin on the next line."""
        begin = self.text.find("\n", self.at)
        lines: list[str] = []
        for line in self.text[begin + 1 :].split("\n") if begin >= 0 else ():
            if (line.lstrip("\t") if tabs else line).rstrip("\r") == mark:
                break
            lines.append(line)
        return "\n".join(lines)

    def _skip_documents(self) -> None:
        """Go past the here documents that the line before has begun, and read the commands in them."""
        for mark, quoted, _ in self._documents:
            begin = self.at
            end = begin
            for line in self.text[begin:].split("\n"):
                end += len(line) + 1
                if line.lstrip("\t").rstrip("\r") == mark:
                    break
            body = self.text[begin:end]
            if not quoted:
                self._substituted(body)
            self.at = min(end, len(self.text))
        self._documents.clear()

    def _substituted(self, body: str) -> None:
        """Read the commands that are substituted in a text as within double quotes."""
        inner = _ShellReader(f'"{body.replace(chr(34), "")}"', dict(self._variables), self._depth + 1)
        inner._word()
        self.found += inner.found

    # Words

    def _word(self) -> list[Word]:
        """Read a word; braces and blanks in variables make several of it."""
        parts: list[str] = []
        text, begin = self.text, self.at
        while self.at < len(text):
            char = text[self.at]
            if char in " \t\r\n;&|()" or (char in "<>" and not self._is_process(char)):
                break
            parts.append(self._part(char))
        if self.at == begin:
            raise UnreadableCommandError("a word is missing")
        return list(_words_of("".join(parts)))

    def _parts_to_end(self) -> str:
        """Read the rest of the text as parts of one word, with its blanks."""
        parts: list[str] = []
        while self.at < len(self.text):
            parts.append(self._part(self.text[self.at]))
        return "".join(parts)

    def _is_process(self, char: str) -> bool:
        return char in "<>" and self.text.startswith(f"{char}(", self.at)

    def _part(self, char: str) -> str:
        """Read the next part of a word, with its quoted characters hidden from braces, patterns and blanks."""
        text = self.text
        if char == "\\":
            self.at += 2
            quoted = text[self.at - 1 : self.at]
            return "" if quoted == "\n" else quoted.translate(_HIDE)
        if char == "'":
            end = text.find("'", self.at + 1)
            if end < 0:
                raise UnreadableCommandError("a quote is open")
            value, self.at = text[self.at + 1 : end], end + 1
            return value.translate(_HIDE)
        if char == '"':
            return self._double_quoted()
        if char in "<>":
            self.at += 1
            self._in_brackets()
            return _UNKNOWN
        if char == "`":
            return self._backticks().translate(_HIDE_BRACES)
        if char == "$":
            return self._dollar(quoted=False).translate(_HIDE_BRACES)
        self.at += 1
        return char

    def _double_quoted(self) -> str:
        self.at += 1
        parts: list[str] = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return "".join(parts)
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ("$", "`", '"', "\\", "\n"):
                parts.append(self.text[self.at + 1].replace("\n", "").translate(_HIDE))
                self.at += 2
            elif char == "`":
                parts.append(self._backticks().translate(_HIDE))
            elif char == "$":
                parts.append(self._dollar(quoted=True).translate(_HIDE))
            else:
                parts.append(char.translate(_HIDE))
                self.at += 1
        raise UnreadableCommandError("a quote is open")

    def _backticks(self) -> str:
        found = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise UnreadableCommandError("a backtick is open")
        self.at = found.end()
        inner = _ShellReader(re.sub(r"\\([`\\$])", r"\1", found[1]), dict(self._variables), self._depth + 1)
        output = inner.read_list("")
        self.found += inner.found
        return _UNKNOWN if output is None else output

    def _dollar(self, *, quoted: bool) -> str:
        text = self.text
        following = text[self.at + 1 : self.at + 2]
        if following == "(":
            if text.startswith("$((", self.at):
                return self._arithmetic()
            self.at += 1
            output = self._in_brackets()
            return _UNKNOWN if output is None else output
        if following == "{":
            return self._parameter()
        if following == "'" and not quoted:
            return self._ansi_quoted()
        if following == '"' and not quoted:
            self.at += 1
            return self._double_quoted()
        name = _NAME.match(text, self.at + 1)
        if name is not None:
            self.at = name.end()
            return self._value(name.group())
        if following and following in "0123456789@*#?$!-_":
            self.at += 2
            return _UNKNOWN if following not in "@*" else ""
        self.at += 1
        return "$"

    def _arithmetic(self) -> str:
        level = 0
        while self.at < len(self.text):
            level += (self.text[self.at] == "(") - (self.text[self.at] == ")")
            self.at += 1
            if self.text[self.at - 1] == ")" and level == 0:
                return _UNKNOWN
        raise UnreadableCommandError("a bracket is open")

    def _in_brackets(self) -> str | None:
        """Read a substitution from its bracket on; return its output, if it is known."""
        inner = _ShellReader(self.text, dict(self._variables), self._depth + 1, self.at + 1)
        output = inner.read_list(")")
        self.found += inner.found
        self.at = inner.at + 1
        return output

    def _parameter(self) -> str:
        """Read ``${…}``: a variable, or its default."""
        end, level = self.at + 2, 1
        while end < len(self.text) and level:
            level += (self.text[end] == "{") - (self.text[end] == "}")
            end += 1
        if level:
            raise UnreadableCommandError("a bracket is open")
        inside, self.at = self.text[self.at + 2 : end - 1], end
        name = _NAME.match(inside)
        if name is None:
            return _UNKNOWN
        rest = inside[name.end() :]
        value = self._value(name.group())
        if not rest:
            return value
        default = re.match(r":?[-=]", rest)
        if default is not None and value == _UNKNOWN:
            inner = _ShellReader(rest[default.end() :], self._variables, self._depth + 1)
            made = inner._parts_to_end()
            self.found += inner.found
            return made
        if "$(" in rest or "`" in rest:
            self._substituted(rest)
        return value if default is not None else _UNKNOWN

    def _value(self, name: str) -> str:
        if name == "IFS" and name not in self._variables:
            return " "
        value = self._variables.get(name)
        return _UNKNOWN if value is None else value

    def _ansi_quoted(self) -> str:
        found = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.text, self.at)
        if found is None:
            raise UnreadableCommandError("a quote is open")
        self.at = found.end()
        return unescaped(found[1]).translate(_HIDE)


def unescaped(text: str) -> str:
    r"""Return a text with its escapes resolved, ``\x2e`` and the like, as by ``$'…'``, ``echo -e`` and ``printf``."""

    def plain(found: re.Match[str]) -> str:
        coded = _CODED.match(found[1])
        if coded is None:
            return _ESCAPES.get(found[1][0], found[1][0]) + found[1][1:]
        digits, base = (coded[4], 8) if coded[4] else (coded[1] or coded[2] or coded[3], 16)
        value = int(digits, base)
        return (chr(value) if value < 0x110000 else "") + found[1][coded.end() :]  # noqa: PLR2004 - the end of Unicode

    return _ESCAPED.sub(plain, text)


def _words_of(raw: str) -> Iterator[Word]:
    """Yield the words that braces and unquoted blanks make of one; an empty one stays, since it was quoted."""
    made = [piece for word in _braced([raw]) for piece in (_BLANKS.split(word) if _BLANKS.search(word) else [word])]
    for one in made:
        if one or not raw:
            shown = one.replace(_UNKNOWN, "")
            yield Word(shown.translate(_SHOW), _UNKNOWN not in one, any(char in shown for char in "*?["))


def _braced(words: list[str]) -> list[str]:
    """Return the words that braces with commas make, innermost first."""
    while len(words) <= _MOST_WORDS:
        index = next((place for place, word in enumerate(words) if _BRACES.search(word)), None)
        if index is None:
            return words
        word = words[index]
        found = _BRACES.search(word)
        parts = found[1].split(",") if found else []
        span = found.span() if found else (0, 0)
        words[index : index + 1] = [word[: span[0]] + part + word[span[1] :] for part in parts]
    raise UnreadableCommandError("braces make too many words")


# The output of commands that only write what they are told


def output_of(command: ShellCommand) -> str | None:
    """Return the output of a command, if it follows from its words and its input alone."""
    words = [word.text for word in command.words]
    if not words or not all(word.known for word in command.words) or command.writes:
        return None
    name, arguments = words[0].rpartition("/")[2], words[1:]
    if name == "echo":
        return _echoed(arguments)
    if name == "printf":
        return _printed(arguments)
    if name == "cat" and not arguments:
        return command.given
    if command.given is None:
        return None
    if name in ("base64", "openssl") and any(one in ("-d", "-D", "--decode", "-di") for one in arguments):
        return _decoded(command.given)
    if name == "xxd" and "-r" in arguments:
        return _from_hex(command.given)
    return command.given.strip("\n")[::-1] if name == "rev" else None


def _echoed(arguments: Sequence[str]) -> str:
    rest = list(arguments)
    escapes = False
    while rest and re.fullmatch(r"-[neE]+", rest[0]):
        escapes = "e" in rest.pop(0)
    said = " ".join(rest)
    return unescaped(said) if escapes else said


def _printed(arguments: Iterable[str]) -> str | None:
    form, *rest = [one for one in arguments if one != "--"] or [""]
    given = iter(rest)
    said = re.sub(r"%[sb]", lambda _: next(given, "").replace("\\", "\\\\"), unescaped(form).replace("%%", "\0"))
    return None if "%" in said else said.replace("\0", "%")


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(re.sub(r"\s", "", text) + "==").decode("utf-8", "replace")
    except (ValueError, binascii.Error):
        return None


def _from_hex(text: str) -> str | None:
    try:
        return bytes.fromhex(text).decode("utf-8", "replace")
    except ValueError:
        return None
