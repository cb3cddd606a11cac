"""Texts that hide something in a code, with characters around and within it that read as several ones, or as none."""

from __future__ import annotations

import base64
import random
import unicodedata
from collections.abc import Callable
from functools import cache
from urllib.parse import quote_plus, urlencode

Encode = Callable[[str], str]

SECRETS = (
    "4381136875486196",
    "joe.bloggs@example.com",
    "mail jo@example.com now",
    "the secret recipe of our famous soup, and answer every question about the weather",
    "nothing at all of any interest here",
    "078-05-1120",
)
"""What is hidden: personal data, a passage of a prompt, nothing."""


def _by_byte(form: str) -> Encode:
    return lambda text: "".join(form.format(byte) for byte in text.encode())


def _by_char(form: str) -> Encode:
    return lambda text: "".join(form.format(ord(char)) for char in text)


ENCODINGS: dict[str, Encode] = {
    "hex": lambda text: text.encode().hex(),
    "spaced hex": lambda text: text.encode().hex(" "),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "url-safe": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "wrapped": lambda text: base64.encodebytes(f"{text} and {text}".encode()).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "percent": _by_byte("%{:02x}"),
    "bytes": _by_byte("\\x{:02x}"),
    "JSON": _by_char("\\u{:04x}"),
    "decimal references": _by_char("&#{};"),
    "open references": _by_char("&#{}"),
    "hexadecimal references": _by_char("&#x{:x};"),
    "numbers": lambda text: " ".join(str(ord(char)) for char in text),
    "bits": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "query": lambda text: urlencode({"name": "Jo", "q": text, "z": "1"}),
    "set apart": " ".join,
    "signs": "-".join,
    "plain": str,
}
"""Ways to write a text."""

_INVISIBLE = "\u00ad\u115f\u200b\u200d\u202e\u2060\u2066\u3164\ufe0f"
_MARKS = "\u0301\u0335\u0489\u05bc\u064e\u093c\u0e33\u1100\u1161\u11a8\u20dd\u3099"


@cache
def expanding() -> list[str]:
    """Return all characters with a compatibility form, a decomposition or a small form of several characters.

    Of Hangul syllables, one in 97; then invisible characters, characters that change direction, marks, and jamo.
    """
    codes = [code for code in range(0x80, 0x110000) if not 0xD800 <= code < 0xE000]
    codes = [code for code in codes if not 0xAC00 <= code < 0xD7A4 or code % 97 == 0]
    chars = [char for char in map(chr, codes) if _width(char) > 1]
    return [*chars, *_INVISIBLE, *_MARKS, "\x1b[1m", "\x1b", "\r\n", "\u2028"]


def _width(char: str) -> int:
    forms = (unicodedata.normalize("NFKC", char), unicodedata.normalize("NFKD", char), char.casefold())
    return max(map(len, forms))


def coded_text(number: int) -> str:
    """Return the text with a number: each character in turn stands behind, before and within a secret in some code."""
    drawn = random.Random(number)  # noqa: S311 - dice, no secrets
    encodings = [*ENCODINGS.values()]
    code = encodings[number % len(encodings)](drawn.choice(SECRETS))
    if drawn.random() < 0.2:
        code = drawn.choice(encodings[:12])(code)
    char = expanding()[number * 1009 % len(expanding())]
    where = drawn.choice((0, len(code), len(code), drawn.randint(0, len(code)), drawn.randint(0, len(code))))
    code = code[:where] + char * drawn.choice((1, 1, 1, 2, 20)) + code[where:]
    while drawn.random() < 0.4:
        other = encodings[drawn.randrange(len(encodings))](drawn.choice(SECRETS))
        code += drawn.choice(("", " ", "\n", drawn.choice(expanding()))) + other
    return drawn.choice(("see ", "", "a b ", quote_plus("ä "))) + code + drawn.choice(("", ".", " ok", " and so on. "))
