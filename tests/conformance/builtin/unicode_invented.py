"""Rows for the normaliser as others may have been recorded: the reference's four steps, told after its spec.

They show that ours does the same on other texts and under other options. No processor is known here.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator

from tests.conformance.builtin.frame import Fields, Given, Row

TRIMMED = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
TEXTS = (
    "",
    " ",
    "plain text, nothing else",
    "  two  spaces \t and\ttabs  ",
    "a\r\n\r\nb\rc\n \nd\n\n\n",
    "def f():\n    return 1\n\n\nprint(f())\n",
    "```\n  code   here\n```\n\ntext",
    "\u00bd \u00b2 \u2167 \u2026 \ufe4f \u3392 \u00aa",
    "\u202eabc\u202c \u200bx\u200c\u200d \u00ad\u2060",
    "\u2126 \u212b \ufb03 \uff76\uff9e \u1e9b\u0323",
    "\ud55c\uae00 \u1112\u1161\u11ab \u0e33",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f \U0001f1eb\U0001f1f7 1\ufe0f\u20e3",
    "\x00\x01\t\n\x0b\x0c\r\x1b[0m\x7f\x80\x85\x9f\xa0",
    "\x1ca\x1f \x85b\x85",
    "\ufeff\u2028 edges \u3000\u2029",
    "\u0430\u0440\u0440\u04cf\u0435 \u03bf\u03c1\u03b5n",
    "z\u0335a\u0301\u0327l\u0334g\u0322o\u0321",
    "\U000e0041\U000e0042 tags \U000e0100",
    "na\u00efve cafe\u0301 \u00c5ngstro\u0308m",
    "\u2003\u2009thin\u202fspaces\u205f",
)
NAMES = ("strip_control_chars", "preserve_emojis", "collapse_whitespace", "trim")


def rows() -> Iterator[Row]:
    """Yield each text under all options."""
    for text, flags in itertools.product(TEXTS, itertools.product((False, True), repeat=len(NAMES))):
        options = dict(zip(NAMES, flags, strict=True))
        told: Fields = {"method": "process_input", "text": text}
        yield Row("unicode_normalizer", f"{flags} {text!a}", Given(options, told), {"text": normal(options, text)})


def normal(options: Fields, text: str) -> str:
    """Return what the reference leaves of a text."""
    text = unicodedata.normalize("NFKC", text)
    if options["strip_control_chars"]:
        text = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]", "", text)
    if options["collapse_whitespace"]:
        text = re.sub("[ \t]+", " ", re.sub("\n+", "\n", re.sub("\r\n?", "\n", text)))
    return re.sub(f"^[{TRIMMED}]+|[{TRIMMED}]+\\Z", "", text) if options["trim"] else text
