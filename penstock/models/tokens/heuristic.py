"""`HeuristicCounter`: the reference's estimate of tokens from characters, for who wants its figures; no vocabulary.

A text is taken apart into runs of white space, runs of punctuation, and the rest. Ranges and divisors were taken from
the reference's behaviour. Against o200k_base it says 1.2 times as much for English, but 0.7 for Arabic, 0.45 for Thai,
0.25 for base64 and emoji, 0.1 for long numbers: a budget kept by it may be overrun by as much.
"""

from __future__ import annotations

import re
from math import ceil

_SPACE = r"\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_SIGNS = r".,!?;(){}\[\]<>:/\\|@#$%^&*+=`~_\-"
_RUNS = re.compile(rf"(?P<space>[{_SPACE}]+)|(?P<signs>[{_SIGNS}]+)|[^{_SPACE}{_SIGNS}]+")

_WIDE = re.compile(
    "[\u1100-\u11ff\u2e80-\u2eff\u3000-\u303f\u30a0-\u30ff\u3130-\u318f\u31c0-\u31ef\u3200-\u33ff\u3400-\u4dbf"
    "\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7af\ud7b0-\ud7ff\uff00-\uffef]"
)
_DIGITS = re.compile(r"[0-9]+")
_DENSITIES = (
    (re.compile("[äöüßẞÄÖÜ]"), 3.0),
    (re.compile("[éèêëàâîïôûùüÿçœæáíóúñ]", re.IGNORECASE), 3.0),
    (re.compile("[ąćęłńóśźżěščřžýůúďťň]", re.IGNORECASE), 3.5),
)
_SHORT = 3  # so few UTF-16 units are one token
_USUAL = 6.0  # characters of a token, where no letter says otherwise


class HeuristicCounter:
    """Estimates tokens from characters. All are equal."""

    name = "heuristic"
    additive = True
    monotone = True
    densest = 1

    def count(self, text: str) -> int:
        """Return the estimate."""
        return sum(map(_tokens, _RUNS.finditer(text)))

    def __eq__(self, other: object) -> bool:
        """Tell whether both estimate so."""
        return isinstance(other, HeuristicCounter)

    def __hash__(self) -> int:
        """Hash by the class."""
        return hash(HeuristicCounter)

    def __repr__(self) -> str:
        """Show the name."""
        return "HeuristicCounter()"


def _tokens(run: re.Match[str]) -> int:
    if run.lastgroup == "space":
        return 0
    text = run.group()
    if _WIDE.search(text):
        return len(text)
    if _DIGITS.fullmatch(text):
        return 1
    units = len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
    if units <= _SHORT:
        return 1
    if run.lastgroup == "signs":
        return ceil(units / 2)
    return ceil(units / _density(text))


def _density(text: str) -> float:
    if text.isascii():
        return _USUAL
    return next((density for letters, density in _DENSITIES if letters.search(text)), _USUAL)
