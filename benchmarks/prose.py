"""Counts headless *what* clauses ("what is told", "what a guard finds") in docs and docstrings, per 100 sentences.

Such a clause hides the noun that a reader needs: *the reported findings*, *the guard's findings*.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

_VERBS = (
    "is was are were has have had stands? comes? came left leaves? runs? ran needs? may can must follows? went goes "
    "did does"
)
_SUBJECTS = "a an it they nobody one no some each you users? he all only others? somebody any that this such of the"
_WHAT = re.compile(rf"\bwhat (?:{'|'.join(f'{_VERBS} {_SUBJECTS}'.split())})\b", re.IGNORECASE)
_NOT_PROSE = [
    (re.compile(r"```.*?```", re.DOTALL), ""),
    (re.compile(r"^\|.*$", re.MULTILINE), ""),
    (re.compile(r"`[^`]*`"), "X"),
    (re.compile(r"\[([^\]]*)\]\([^)]*\)"), r"\1"),
]
_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*X])")
_SHORTEST = 4  # words of a sentence

Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class Prose(NamedTuple):
    """How many *what* clauses stand in how many sentences (or first lines)."""

    clauses: int
    of: int

    @property
    def rate(self) -> float:
        """Clauses per 100."""
        return 100 * self.clauses / max(1, self.of)


def plain(text: str) -> str:
    """Return a text without code, tables and the addresses of links."""
    for pattern, instead in _NOT_PROSE:
        text = pattern.sub(instead, text)
    return text


def sentences(text: str) -> list[str]:
    """Return the sentences of plain text, without very short ones."""
    return [one for one in _END.split(" ".join(text.split())) if len(one.split()) >= _SHORTEST]


def counted(texts: Iterable[str]) -> Prose:
    """Return the clauses in the sentences of texts."""
    found = sentences("\n".join(map(plain, texts)))
    return Prose(sum(len(_WHAT.findall(one)) for one in found), len(found))


def of_pages(folder: Path) -> Prose:
    """Return the clauses in the Markdown pages below a folder."""
    return counted(path.read_text("utf-8") for path in sorted(folder.rglob("*.md")))


def docstrings(trees: Iterable[ast.Module]) -> list[str]:
    """Return the docstrings of modules, classes and functions."""
    nodes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, Documented))
    return [text for node in nodes if (text := ast.get_docstring(node))]


def of_first_lines(texts: Iterable[str]) -> Prose:
    """Return how many docstrings have a clause in their first line."""
    lines = [plain(text.split("\n", 1)[0]) for text in texts]
    return Prose(sum(bool(_WHAT.search(one)) for one in lines), len(lines))
