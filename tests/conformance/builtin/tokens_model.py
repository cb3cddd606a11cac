"""What the reference counts, and what a budget is to keep, written a second time for the rules; no processor is known.

Counting follows spec/builtins.md §7.1.1 and §7.1.2, with its oddities; keeping what docs/differences.md says.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import tiktoken
from tiktoken_ext import openai_public

from tests.conformance.builtin.frame import Fields

VOCABULARY = Path(__file__).parents[3] / "penstock/models/tokens/vocabulary/o200k_base.tiktoken"
SIGNS = r"[.,!?;(){}\[\]<>:/\\|@#$%^&*+=`~_-]+"
BLANK = r"[\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+"
WIDE = (
    "[\u1100-\u11ff\u2e80-\u2eff\u3000-\u303f\u30a0-\u30ff\u3130-\u318f\u31c0-\u4dbf\u4e00-\u9fff\ua960-\ua97f"
    "\uac00-\ud7ff\uff00-\uffef]"
)
ACCENTS = (("[äöüß]", 3), ("[éèêëàâîïôûùÿçœæáíóúñ]", 3), ("[ąćęłńśźżěščřžýůďťň]", 3.5))


@cache
def encoding() -> tiktoken.Encoding:
    """Return o200k_base as tiktoken itself defines it, from the file that ships."""
    lines = [line.split() for line in VOCABULARY.read_bytes().splitlines()]
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    with patch.object(openai_public, "load_tiktoken_bpe", lambda *_, **__: ranks):
        return tiktoken.Encoding(**openai_public.o200k_base())


def count(options: Fields, text: str) -> int:
    """Return the tokens of a text."""
    if options["counter"] != "heuristic":
        return len(encoding().encode(text, disallowed_special=()))
    return sum(segment(one) for one in re.split(f"({BLANK}|{SIGNS})", text) if one)


def segment(text: str) -> int:
    """Return what the character heuristic takes a piece of a text for."""
    if re.fullmatch(BLANK, text):
        return 0
    if re.search(WIDE, text):
        return len(text)
    units = len(text.encode("utf-16-le")) // 2
    if re.fullmatch("[0-9]+", text) or units <= 3:
        return 1
    if re.fullmatch(SIGNS, text):
        return math.ceil(units / 2)
    return math.ceil(units / next((size for accents, size in ACCENTS if re.search(accents, text.lower())), 6))


def compact(value: object) -> str:
    """Return a value as JavaScript writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def written(value: object) -> tuple[str, float]:
    """Return a value as text, and what is taken off for its being JSON."""
    return (value, 0.0) if isinstance(value, str) else (compact(value), -12.0)


def media(mime: str, data: str | None) -> float:
    """Return the estimate for a file."""
    if mime.startswith("image/"):
        return 765
    if data is None or re.match("https?://", data):
        return 258
    body = re.sub("^data:[^,]*,", "", data).rstrip("=")
    return max(1, math.ceil(len(body) * 3 // 4 / 4))


def stored_part(options: Fields, part: Fields) -> tuple[str, float]:
    """Return what a part of a stored message adds to the text, and to the count."""
    if part["type"] == "text":
        return part["text"], 0
    if part["type"] == "file" and options["counter"] == "heuristic":
        return "", media(part.get("mimeType", part.get("mediaType", "")), part.get("data", part.get("url")))
    if part["type"] != "tool-invocation":
        return compact(part), 0
    call = part["toolInvocation"]
    if call["state"] != "result":
        text, more = written(call["args"])
        return call["toolName"] + text, more
    text, more = written(call["result"]) if "result" in call else ("", 0)
    return text, more + 3.8


def stored(options: Fields, message: Fields) -> float:
    """Return the count of a stored message."""
    content = message["content"]
    parts = [stored_part(options, part) for part in content.get("parts", ())]
    text = "".join(text for text, _ in parts) if parts else content.get("content", "")
    return count(options, message["role"] + text) + 3.8 + sum(more for _, more in parts)


def prompt_part(part: Fields) -> tuple[str, float]:
    """Return what a part of a prompt's message adds to the text, and to the count."""
    if part["type"] in ("text", "reasoning"):
        return part["text"], 0
    if part["type"] == "file":
        return "", media(part.get("mediaType", ""), part.get("data"))
    if part["type"] == "tool-call":
        text, more = written(part["input"])
        return part["toolName"] + text, more
    return written(part["output"]["value"])


def prompt(options: Fields, message: Fields) -> float:
    """Return the count of a message of a prompt."""
    content = message["content"]
    parts = [(content, 0.0)] if isinstance(content, str) else [prompt_part(part) for part in content]
    text = message["role"] + "".join(text for text, _ in parts)
    return count(options, text) + 3.8 + sum(more for _, more in parts)


def links(message: Fields) -> set[str]:
    """Return the ids of the tool calls that a message makes or answers."""
    content = message["content"]
    parts = content.get("parts", ()) if isinstance(content, dict) else content
    found = [part.get("toolInvocation", part) for part in parts if isinstance(part, dict)]
    return {part["toolCallId"] for part in found if "toolCallId" in part}


def grouped(messages: list[Fields]) -> list[list[int]]:
    """Return the places of messages that tools' calls bind together."""
    groups: list[list[int]] = []
    for place, message in enumerate(messages):
        bound = [group for group in groups if any(links(messages[at]) & links(message) for at in group)]
        groups = [group for group in groups if group not in bound]
        groups.append(sorted([*(at for group in bound for at in group), place]))
    return groups


def question(messages: list[Fields], group: list[int]) -> set[int]:
    """Return the place of the user message that a group answers; nothing for a user message itself."""
    if messages[group[0]]["role"] == "user":
        return set()
    return set([place for place in range(group[0]) if messages[place]["role"] == "user"][-1:])


def newest(messages: list[Fields]) -> int:
    """Return the place of the newest question; of a conversation without any, its end."""
    return max([at for at, one in enumerate(messages) if one["role"] == "user"], default=len(messages))


def loop(messages: list[Fields]) -> list[list[int]]:
    """Return the tool exchanges behind the newest question that may go, the newest first: all but the last."""
    groups = [group for group in grouped(messages) if any(links(messages[at]) for at in group)]
    groups = sorted([group for group in groups if group[-1] > newest(messages)], key=max, reverse=True)
    return [group for group in groups[1:] if group[0] > newest(messages) and answered(messages, group)]


def answered(messages: list[Fields], group: list[int]) -> bool:
    """Tell whether the calls of a group have results."""
    found: dict[str, bool] = {}
    for at in group:
        content = messages[at]["content"]
        for part in content.get("parts", ()) if isinstance(content, dict) else content:
            one = part.get("toolInvocation", part) if isinstance(part, dict) else {}
            if "toolCallId" in one:
                ends = one.get("state") in ("result", "output-error") or one.get("type") == "tool-result"
                found[one["toolCallId"]] = found.get(one["toolCallId"], False) or ends
    return all(found.values())


def needed(messages: list[Fields]) -> set[int]:
    """Return the places of what must stay: all behind the newest question but the tool exchanges that may go."""
    free = {at for group in loop(messages) for at in group}
    asked = newest(messages) < len(messages) or not messages or not links(messages[-1])
    start = newest(messages) if asked else len(messages) - 1  # tools may have the last word where nobody asked
    return {at for group in grouped(messages) if group[-1] >= start for at in group} - free


def gap(messages: list[Fields], stays: set[int]) -> bool:
    """Tell whether a newer tool exchange went before an older one."""
    there = [set(group) <= stays for group in loop(messages)]
    return there != sorted(there, reverse=True)


def turns(messages: list[Fields]) -> list[list[int]]:
    """Return the turns before the newest question, the newest first; those that tool calls bind together are one."""
    starts = [at for at in range(newest(messages)) if messages[at]["role"] == "user"]
    edges = [*starts, newest(messages)]
    made = [list(range(start, end)) for start, end in pairwise(edges)]
    loose = [group for group in grouped(messages) if group[-1] < edges[0]]
    for group in grouped(messages):
        mine = [turn for turn in made if set(turn) & set(group)]
        if len(mine) > 1:
            made = [turn for turn in made if turn not in mine] + [list(range(mine[0][0], mine[-1][-1] + 1))]
            made.sort()
    return sorted([*made, *loose], key=max, reverse=True)


def base(messages: list[Fields], turn: list[int]) -> set[int]:
    """Return the places of what a turn cannot do without: its question, its texts and its end."""
    if messages[turn[0]]["role"] != "user" or any(messages[at]["role"] == "user" for at in turn[1:]):
        return set(turn)
    ends = next(set(group) for group in grouped(messages) if turn[-1] in group)
    return {at for at in turn if not links(messages[at])} | (ends & set(turn))


def whole(messages: list[Fields], turn: list[int], stays: set[int]) -> bool:
    """Tell whether a turn is gone, or as much of it there as it cannot do without."""
    return not stays & set(turn) or base(messages, turn) <= stays


def kept(messages: list[Fields], costs: list[float], budget: float, *, contiguous: bool) -> list[int] | None:
    """Return the places of what stays: what must, then tool exchanges of the run, then turns that fit; or None."""
    stays = needed(messages)

    def fits(more: Iterable[int]) -> bool:
        return sum(costs[at] for at in stays | set(more)) <= budget

    if not fits(()):
        return None
    for group in loop(messages):
        if not fits(group):
            if contiguous:
                return sorted(stays) or None
            break
        stays |= set(group)
    for turn in turns(messages):
        if contiguous and not fits(turn):
            break
        exchanges = [group for group in grouped(messages) if set(group) <= set(turn)]
        for more in (turn, base(messages, turn), *sorted(exchanges, key=max, reverse=True)):
            stays |= set(more) if fits(more) and whole(messages, turn, stays | set(more)) else set()
    return sorted(stays) or None
