"""`Restore`: replaces the tokens of `PIIDetector` by their values; and `Vault`, which stores the values of a run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import quote

from penstock.detection.deferred import deferred
from penstock.engine.text_guards.scope import choose_texts
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values.edits import Edit
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import regex

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.text_guards.scope import Phase


TOKEN = deferred(r"\[([A-Z][A-Z0-9_]{0,40})_([1-9][0-9]{0,8})\]")
"""What a token looks like: ``[EMAIL_1]``."""

LONGEST_TOKEN = 53
"""The length of the longest token in characters: brackets, name, underscore and number."""

_SCORE = r"(?:\\{0,2}_|%5[Ff])"
_WRITTEN = (
    rf"(?:\\{{0,2}}\[|%5[Bb])([A-Z](?:[A-Z0-9]|{_SCORE}){{0,40}}){_SCORE}([1-9][0-9]{{0,8}})(?:\\{{0,2}}\]|%5[Dd])"
)
_LONGEST_WRITTEN = 144

_NOT_IN_NAMES = deferred(r"[^A-Z0-9]+")
_LONGEST_NAME = 41


@dataclass(frozen=True, slots=True, repr=False)
class Vault:
    """The values of the tokens of one run. Its representation shows only how many there are.

    Attributes:
        values: the value of each token.
        tokens: the token of each value; the key is the type, a newline and the value.
    """

    values: Mapping[str, str] = EMPTY
    tokens: Mapping[str, str] = EMPTY

    def kept(self, type: str, value: str) -> tuple[Vault, str]:
        """Return a vault that also holds a value, and the value's token.

        It is the token that the vault already has for the value, or the next number of the type.
        """
        numbering = Numbering(self, ())
        token = numbering.token(type, value)
        return numbering.vault(), token

    def restored(self, text: str) -> str:
        """Return a text with this vault's tokens replaced by their values."""

        def value(found: regex.Match[str]) -> str:
            restored = _value(found, self.values)
            return found.group() if restored is None else restored

        return _written().sub(value, text)

    def __len__(self) -> int:
        """Return how many values it holds."""
        return len(self.values)

    def __repr__(self) -> str:
        """Show how many values it holds, and none of them."""
        return f"Vault({len(self)} values)"


class Numbering:
    """Gives out tokens for many values, and returns a vault of them at the end. Used within one call of a stage."""

    def __init__(self, vault: Vault, texts: Iterable[str]) -> None:
        """Start with what a vault holds.

        Args:
            vault: the vault of the run.
            texts: texts in which tokens may stand that are not of this vault; their numbers are not given out.
        """
        self._before = vault
        self._values = {**vault.values}
        self._tokens = {**vault.tokens}
        self._last: dict[str, int] = {}
        for text in (*vault.values, *texts):
            for found in _written().finditer(text) if _may_have(text) else ():
                name = _name(found)
                self._last[name] = max(int(found[2]), self._last.get(name, 0))

    def token(self, type: str, value: str) -> str:
        """Return the token of a value of a type: the one that it has, or the next number."""
        key = f"{type}\n{value}"
        if key not in self._tokens:
            name = token_name(type)
            self._last[name] = self._last.get(name, 0) + 1
            token = f"[{name}_{self._last[name]}]"
            self._values[token], self._tokens[key] = value, token
        return self._tokens[key]

    def vault(self) -> Vault:
        """Return the vault with all tokens; the vault it started with if there is no new one."""
        if len(self._tokens) == len(self._before.tokens):
            return self._before
        return Vault(freeze(self._values), freeze(self._tokens))


def token_name(type: str) -> str:
    """Return the name that the tokens of a type have: ``CREDIT_CARD``."""
    name = _NOT_IN_NAMES.sub("_", type.upper()).strip("_")[:_LONGEST_NAME]
    return name if name[:1].isalpha() else f"X{name}"[:_LONGEST_NAME]


VAULT: Key[Vault] = Key("vault")
"""The fact that holds the vault of a run."""


@cache
def _written() -> regex.Pattern[str]:
    """Return the pattern of tokens as models write them: as they are, or escaped as in Markdown or in links."""
    import regex  # loaded where texts are searched

    return regex.compile(_WRITTEN)


def _may_have(text: str) -> bool:
    return "[" in text or "%5" in text


def _name(found: regex.Match[str]) -> str:
    return found[1].replace("\\", "").replace("%5F", "_").replace("%5f", "_")


def _value(found: regex.Match[str], values: Mapping[str, str]) -> str | None:
    """Return the value of a token as it is to be written in its place; None if it is no token of these."""
    value = values.get(f"[{_name(found)}_{found[2]}]")
    if value is None or not found.group().startswith("%"):
        return value
    return quote(value, safe="@", errors="surrogatepass")


class Restore(TextGuard):
    r"""Replaces tokens such as ``[EMAIL_1]`` by their values, in answers and in tool arguments.

    It restores only values in the vault of the run, also where a token is escaped: ``\[EMAIL\_1\]`` in Markdown, and
    ``%5BEMAIL_1%5D`` in a link, where the value is escaped, too. It is a transform and protects nothing: place it after
    the guards that judge answers.

    Args:
        phase: what it reads: ``output`` (the default: answers and tool calls), ``input`` or ``all``.
        parts: the kinds of message parts to read; None (the default) for all that hold text.
        id: the name of the step in the graph.

    Raises:
        OptionError: an option is not allowed.
    """

    id = "restore"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    reach = _LONGEST_WRITTEN + 1
    lookback = _LONGEST_WRITTEN

    def __init__(
        self,
        *,
        phase: Phase = "output",
        parts: Iterable[str] | None = None,
        id: str | None = None,
    ) -> None:
        if id is not None:
            self.id = id
        choose_texts(self, phase, parts, system="none", usual="allow")
        self.edits = "spans"

    def find(self, text: str, ctx: AnyContext, *, final: bool) -> list[Edit]:
        """Return the edits that put values in place of tokens."""
        del final
        vault = ctx.get(VAULT)
        if not vault or not _may_have(text):
            return []
        return [
            Edit(*found.span(), value, "replace")
            for found in _written().finditer(text)
            if (value := _value(found, vault.values)) is not None
        ]

    def hold(self, text: str, start: int) -> int:
        """Return where a token may begin that is not complete yet."""
        found = _written().finditer(text, max(start, len(text) - _LONGEST_WRITTEN), partial=True)
        return next((begun.start() for begun in found if begun.partial), len(text))
