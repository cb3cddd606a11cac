"""`ordered_lines`: the sentences that a system prompt orders the model to say. To say them is no leak."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEAST, _MOST = 8, 400  # characters of a sentence
_SPOKEN = (
    r"(?:say|tell|repl(?:y|ies)|respond|answer|greet|open|begin|start|end|close|finish|sign off|write|state|ask|add|use"
    r"|sag[et]?|antworte[nt]?|begrüße[nt]?|beginne[nt]?|beende[nt]?|schließen?|schreibe?[nt]?|frage?[nt]?"
    r"|di[st]?|dites|répond(?:s|ez|re)|écri(?:s|vez|re)|commence[zr]?|termine[zr]?|demande[zr]?|salue[zr]?"
    r"|diga|decir|responde[r]?|responda|contest[ae]|escrib[ae]|empieza|termina|saluda|pregunt[ae]"
    r"|diz|dizer|escreva|comece|termine|pergunte|rispond[ie]|rispondere|scriv[ie]|inizia|chied[ie])"
)
_FORBIDDEN = deferred(
    r"\b(?:never|not|don['’]t|avoid|without|nie|niemals|nicht|kein\w*|jamais|pas|nunca|no|não|mai|non)\b"
)
_ORDER = deferred(rf"\b{_SPOKEN}\b")
# The words before a quotation, from the beginning of their sentence; then what stands in the quotation marks.
_QUOTED = deferred(
    r"(?:\A|[.!?\n;])([^.!?\n;\"“”„«»]{2,160})"
    rf"(?:\"([^\"\n]{{{_LEAST},{_MOST}}})\"|“([^“”„\n]{{{_LEAST},{_MOST}}})”"
    rf"|„([^“”„\n]{{{_LEAST},{_MOST}}})(?:”|(?<!\s)“(?!\w))"
    rf"|«\s?([^«»\n]{{{_LEAST},{_MOST}}}?)\s?»)"
)


def ordered_lines(prompt: str) -> Iterator[str]:
    """Yield the quotations in a prompt before which the same sentence orders to say, ask or write them.

    A sentence that also forbids something (``never``, ``do not``) orders nothing. Straight quotation marks are read in
    pairs from the beginning of the line, and a line with one too many has no quotations: a name that an application
    puts into its prompt may bring such a mark, and the text behind it would be free to say.
    """
    for found in _QUOTED.finditer(prompt):
        before = found.group(1).lower()
        if _ORDER.search(before) and not _FORBIDDEN.search(before) and _opens_there(prompt, found.end(1)):
            yield next(filter(None, found.groups()[1:]))


def _opens_there(prompt: str, at: int) -> bool:
    """Return whether the mark at a place opens a quotation."""
    if prompt[at] != '"':
        return True  # marks that open look unlike those that close
    begin, end = prompt.rfind("\n", 0, at) + 1, prompt.find("\n", at)
    marks = prompt.count('"', begin, at), prompt.count('"', begin, None if end < 0 else end)
    return not any(count % 2 for count in marks)
