"""The first processors on real messages, a request each, against `unicodedata` and `re` by hand; no target is set."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path

from harness import Contest, Timed

from penstock import Workflow
from penstock.processors.text import UnicodeNormalizer

MESSAGES = Path(__file__).parents[2] / "examples" / "data" / "messages.jsonl"

CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
LINE_ENDS = re.compile(r"[\r\n]+")
BLANKS = re.compile(r"[ \t]+")
TRIMMED = "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
TRIMMED += "\u2028\u2029\u202f\u205f\u3000\ufeff"


async def contests() -> list[Contest]:
    """Return the contests, each over all messages."""
    texts = [json.loads(line)["text"] for line in MESSAGES.read_text(encoding="utf-8").splitlines()]
    normalizer = UnicodeNormalizer(
        form="NFKC", invisible="keep", strip_control_chars=True, collapse_whitespace=True, trim=True
    )
    return [
        _over(texts, "UnicodeNormalizer", normalizer, "unicodedata.normalize and three times re.sub", normalised),
    ]


def _over(
    texts: list[str],
    what: str,
    step: UnicodeNormalizer,
    floor_is: str,
    by_hand: Callable[[str], str],
) -> Contest:
    workflow = Workflow("text").then(step)

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
    name = f"{what}, check_sync of a message ({len(texts)} real ones, {mean} characters on average)"
    return Contest(name, floor_is, ours, floor, per=len(texts))


def normalised(text: str) -> str:
    """Return the text in NFKC, without controls, each run of blanks one space, each run of line ends one, trimmed."""
    text = CONTROLS.sub("", unicodedata.normalize("NFKC", text))
    text = LINE_ENDS.sub("\n", text)
    return BLANKS.sub(" ", text).strip(TRIMMED)


SCENARIO = Timed("processors", contests)
