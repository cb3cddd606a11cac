"""Processors on whole texts, a request each, against `unicodedata` and `re` by hand; no target is set."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from harness import Contest, Timed
from streaming import english, guard_of

from penstock import Workflow
from penstock.processors.text import UnicodeNormalizer

MESSAGES = Path(__file__).parents[2] / "examples" / "data" / "messages.jsonl"

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
LINE_ENDS = re.compile(r"[\r\n]+")
BLANKS = re.compile(r"[ \t]+")
TRIMMED = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
TRIMMED += "\u2028\u2029\u202f\u205f\u3000\ufeff"
SIZE = 190
SHAPES = [
    re.compile(shape)
    for shape in (
        r"[\w.%+-]+@[\w-]+(?:\.[\w-]+)+",
        r"(?:\+?\d{1,3}[-. ]?)?\(?\d{3}\)?[-. ]?\d{3}[-. ]?\d{4}",
        r"\b(?:\d{4}[- ]?){3}\d{4}\b",
        r"\b\d{3}-\d{2}-\d{4}\b",
        r"\b(?:\d{1,3}\.){3}\d{1,3}\b",
        r"\b(?:sk|pk|ghp|xox[bp])[-_][\w-]{16,}",
    )
]


async def contests() -> list[Contest]:
    """Return the contests, each over all messages."""
    texts = [json.loads(line)["text"] for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    normalizer = UnicodeNormalizer(
        form="NFKC", invisible="keep", strip_control_chars=True, collapse_whitespace=True, trim=True
    )
    return [
        _over(texts, "UnicodeNormalizer", Workflow("text").then(normalizer), "three times re.sub", normalised),
        _over(_pieces(), "a normalizer and two regex guards", _guarded(), "six times re.sub", hidden),
    ]


def _guarded() -> Workflow:
    return Workflow("guarded").then(UnicodeNormalizer()).then(guard_of(("pii",))).then(guard_of(("secrets",)))


def _pieces() -> list[str]:
    """Return texts in which nothing is found, all of one length."""
    text = normalised(english().replace("\n", " "))
    pieces = [text[at : at + SIZE].strip() for at in range(0, len(text) - SIZE, SIZE)]
    return [piece for piece in pieces if hidden(piece) == piece]


def hidden(text: str) -> str:
    """Return the text in NFKC, without what has the shape of an address, a number or a key."""
    text = unicodedata.normalize("NFKC", text)
    for shape in SHAPES:
        text = shape.sub("[X]", text)
    return text


def _over(texts: list[str], what: str, workflow: Workflow, searches: str, by_hand: Callable[[str], str]) -> Contest:
    async def ours(times: int) -> list[str]:
        found: list[str] = []
        for _ in range(times):
            found = [workflow.check_sync(text, records=False).text for text in texts]
        return found

    async def floor(times: int) -> list[str]:
        found: list[str] = []
        for _ in range(times):
            found = [by_hand(text) for text in texts]
        return found

    mean = sum(map(len, texts)) // len(texts)
    name = f"{what}, check_sync of a message ({len(texts)}, {mean} characters on average)"
    return Contest(name, f"unicodedata.normalize and {searches}", ours, floor, per=len(texts))


def normalised(text: str) -> str:
    """Return the text in NFKC, without controls, each run of blanks one space, each run of line ends one, trimmed."""
    text = CONTROLS.sub("", unicodedata.normalize("NFKC", text))
    text = LINE_ENDS.sub("\n", text)
    return BLANKS.sub(" ", text).strip(TRIMMED)


SCENARIO = Timed("processors", contests)
