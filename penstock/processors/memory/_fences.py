"""How remembered text is shown to a model as data: in an element of its own that it cannot close. Pure."""

from __future__ import annotations

import re

from penstock.detection.unicode.normalizing import Profile, normalize

# What opens a tag, full-width forms included, which normalising makes one. An ampersand stays: what a model was shown
# and writes back does not grow, however often it goes round.
_OPENING = re.compile(r"[<＜﹤]")
_UNSEEN = Profile(form="keep")  # what nobody sees goes, the rest stays as it is written


def escaped(text: str, *, json: bool = False) -> str:
    """Return a text with no ``<`` in it, and nothing that nobody sees; ``json``: by JSON's own escapes."""
    return _OPENING.sub("\\\\u003c" if json else "&lt;", normalize(text, _UNSEEN).text)


def fenced(element: str, text: str, *, json: bool = False) -> str:
    """Return a text as the content of an element, on lines of its own."""
    return f"<{element}>\n{escaped(text, json=json)}\n</{element}>"
