"""`Vault`: which token stands for which value in a run, as an immutable value; it knows no guard."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from penstock.engine.facts import Key
from penstock.engine.frozen import EMPTY, freeze

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

TOKEN = re.compile(r"\[([A-Z][A-Z0-9_]{0,40})_([1-9][0-9]{0,8})\]")
"""What a token looks like: ``[EMAIL_1]``."""

LONGEST_TOKEN = 53
"""Characters of the longest token: the brackets, the name, and the number with its underscore."""

_NOT_IN_NAMES = re.compile(r"[^A-Z0-9]+")
_LONGEST_NAME = 41


@dataclass(frozen=True, slots=True, repr=False)
class Vault:
    """The values that tokens stand for. Shown anywhere, it says how many, and none of them.

    Attributes:
        values: the value of each token.
    """

    values: Mapping[str, str] = EMPTY
    _tokens: Mapping[str, str] = field(default=EMPTY)

    def token(self, type: str, value: str) -> str | None:
        """Return the token that stands for a value of that type, if one does."""
        return self._tokens.get(f"{type}\n{value}")

    def kept(self, type: str, value: str, texts: Iterable[str] = ()) -> tuple[Vault, str]:
        """Return a vault that holds a value, too, and its token: the one it has, or the next number of its type.

        Args:
            type: the value's type, which names the token.
            value: the value.
            texts: where tokens may stand already that are not of this vault; their numbers are not given out.
        """
        known = self.token(type, value)
        if known is not None:
            return self, known
        name = token_name(type)
        number = 1 + max(_numbers(name, [*self.values, *texts]), default=0)
        token = f"[{name}_{number}]"
        values: Mapping[str, str] = freeze({**self.values, token: value})
        tokens: Mapping[str, str] = freeze({**self._tokens, f"{type}\n{value}": token})
        return Vault(values, tokens), token

    def restored(self, text: str) -> str:
        """Return a text with the values in place of this vault's tokens."""
        return TOKEN.sub(lambda found: self.values.get(found.group(), found.group()), text)

    def __len__(self) -> int:
        """Return how many values it holds."""
        return len(self.values)

    def __repr__(self) -> str:
        """Say how many values it holds, and none of them."""
        return f"Vault({len(self)} values)"


def token_name(type: str) -> str:
    """Return the name that a type's tokens bear: ``CREDIT_CARD``."""
    name = _NOT_IN_NAMES.sub("_", type.upper()).strip("_")[:_LONGEST_NAME]
    return name if name[:1].isalpha() else f"X{name}"[:_LONGEST_NAME]


def _numbers(name: str, texts: Iterable[str]) -> Iterable[int]:
    for text in texts:
        if "[" in text:
            yield from (int(found.group(2)) for found in TOKEN.finditer(text) if found.group(1) == name)


VAULT: Key[Vault] = Key("vault")
"""The fact under which a run's vault is kept."""
