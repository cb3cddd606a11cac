"""Streams of other texts than English prose through `safety()`, in chunks of 5 characters: languages, emoji, code.

By hand the same detectors are called once on each complete sentence, as in `stream_built_in`. The texts in
``data/texts.json`` were written for this, and hold nothing that a guard looks for; each is repeated.
"""

from __future__ import annotations

import json
from pathlib import Path

from harness import Contest, Timed
from scenarios.stream_built_in import FLOOR_IS, GUARDS, answered, by_sentences
from streaming import pieces

TEXTS = Path(__file__).parents[1] / "data" / "texts.json"
COUNT, SIZE = 500, 5


async def contests() -> list[Contest]:
    """Return a contest for each kind of text."""
    return [_contest(kind, text) for kind, text in json.loads(TEXTS.read_text(encoding="utf-8")).items()]


def _contest(kind: str, text: str) -> Contest:
    build, finds = GUARDS["safety()"]
    chunks = pieces(COUNT, SIZE, f"{text} ")
    ours, floor = answered(build(), chunks), by_sentences(finds, chunks)
    return Contest(f"stream, a chunk of {SIZE} of {kind} through safety()", FLOOR_IS, ours, floor, per=COUNT)


SCENARIO = Timed("stream_texts", contests)
