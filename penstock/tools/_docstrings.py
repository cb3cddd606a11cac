"""Reading docstrings: what a function is for, and its parameters, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

from typing import NamedTuple


class Described(NamedTuple):
    """A docstring, read: its text without its sections, and what it says of parameters, by name."""

    text: str
    parameters: dict[str, str]


def described(docstring: str) -> Described:
    """Return what a docstring says, whatever its style; one that cannot be read is all text."""
    if not docstring:
        return Described("", {})
    from docstring_parser import ParseError, parse

    try:
        read = parse(docstring)
    except ParseError:
        return Described(docstring.strip(), {})
    gap = "\n\n" if read.blank_after_short_description else "\n"
    text = gap.join(part.strip() for part in (read.short_description, read.long_description) if part)
    said = {param.arg_name: " ".join((param.description or "").split()) for param in read.params}
    texts = {name: description for names, description in said.items() for name in _names(names)}
    return Described(text, texts)


def _names(given: str) -> list[str]:
    """Return the names of parameters that share a description, as NumPy's style lets them: ``x, y``."""
    return [name.strip() for name in given.split(",")]
