"""How searches for tools are ranked: the reference's way, after its description, and what is better on purpose.

The ranking here is written for itself, from the figures of the reference; no processor is known. A rule covers a search
only where the ranking without it gives just what the row has: what it does not explain, it does not excuse.
"""

from __future__ import annotations

import math
import re
from collections import Counter

from tests.conformance.builtin.frame import Fields

PARTS = re.compile(r"[\s\-_.,;:!?()\[\]{}'\"]+")
CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
IDEOGRAPHS = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]{3,}")

Ways = frozenset[str]
"""What is better than the reference's way: ``signs``, ``camel``, ``said``, ``begun``, ``all``."""


def words(text: str, ways: Ways) -> list[str]:
    """Return the words of a text, as they are written."""
    if "signs" in ways:
        text = re.sub(r"[^\w+#]", " ", text)
        text = IDEOGRAPHS.sub(lambda run: " ".join(map("".join, zip(run[0], run[0][1:], strict=False))), text)
    return [word for word in PARTS.split(text) if len(word) > 1]


def parted(text: str, ways: Ways) -> list[str]:
    """Return the words of a text in lower case, those in camel case parted."""
    found = [part for word in words(text, ways) for part in (CAMEL.split(word) if "camel" in ways else [word])]
    return [part.lower() for part in found if len(part) > 1]


def terms(text: str, ways: Ways) -> list[str]:
    """Return what a name or a query is found by: words, and the parts of those in camel case beside them."""
    found: list[str] = []
    for word in words(text, ways):
        parts = parted(word, ways)
        found += [word.lower(), *(parts if len(parts) > 1 else [])]
    return found


def bm25(catalog: Fields, query: str, ways: Ways) -> dict[str, float]:
    """Return the score of each text, without what names add."""
    texts = {name: Counter([*terms(name, ways), *map(str.lower, words(text, ways))]) for name, text in catalog.items()}
    mean = sum(text.total() for text in texts.values()) / len(texts)
    scores = dict.fromkeys(texts, 0.0)
    for term in terms(query, ways):
        having = sum(term in text for text in texts.values())
        rarity = math.log(1 + (len(texts) - having + 0.5) / (having + 0.5))
        for name, text in texts.items():
            count = text[term]
            scores[name] += rarity * count * 2.5 / (count + 1.5 * (0.25 + 0.75 * text.total() / mean))
    return scores


def added(name: str, query: str, ways: Ways) -> float:
    """Return what a name adds to a score: 5 for each word that is the name, else 2 for each that it has in it."""
    asked, own = parted(query, ways), parted(name, ways)
    score = sum(5 if word == name.lower() else 2 if word in name.lower() else 0 for word in asked)
    if "said" in ways and len(own) > 1:
        score += 3 * sum(asked[at : at + len(own)] == own for at in range(len(asked)))
    return score


def begun(name: str, query: str, ways: Ways) -> bool:
    """Whether a word of the query begins one of the name."""
    asked = [word for word in parted(query, ways) if len(word) > 2]
    return "begun" in ways and any(own.startswith(word) for own in parted(name, ways) for word in asked)


def ranking(options: Fields, given: Fields, query: str, ways: Ways) -> list[Fields]:
    """Return the hits of a query."""
    own = (given.get("step_tools") or {}) if options["include_resolved_tools"] else {}
    catalog, search = {**given["catalog"], **own}, options["search"]
    plain = bm25(catalog, query, ways)
    found = [name for name in catalog if plain[name] or begun(name, query, ways)]
    found.sort(key=lambda name: -plain[name])
    denied = {one["tool"] for one in given.get("denied") or [] if "search" in one["phases"]}
    if not given.get("denied") and "all" not in ways:
        found = found[: 2 * search["top_k"]]
    scores = {name: plain[name] + added(name, query, ways) for name in found if name not in denied}
    best = sorted((name for name in scores if scores[name] > search["min_score"]), key=lambda name: -scores[name])
    shown = [{"name": name, "description": catalog[name], "score": round(scores[name], 2)} for name in best]
    return shown[: search["top_k"]]


def reranked(options: Fields, given: Fields, expected: Fields, before: Ways, after: Ways) -> Fields | None:
    """Return the row with the hits as they are after a rule, where they are just what they are before it."""
    steps, loaded = [dict(step) for step in expected.get("steps", [])], list[str]()
    for call, step in zip(given["calls"], steps, strict=True):
        if options["search"]["auto_load"]:
            step["visible_tools"] = [*steps[0]["visible_tools"], *loaded]
        if not call or "results" not in step.get("result", {}):
            continue
        told, query = step["result"], call["args"]["query"]
        if told["results"] == cut(ranking(options, given, query, before), told["results"]):
            step["result"] = {**told, "results": ranking(options, given, query, after)}
        new = [hit["name"] for hit in step["result"]["results"]] if options["search"]["auto_load"] else []
        loaded += [name for name in new if name not in loaded]
    return {"steps": steps} if steps != expected.get("steps") else None


def cut(hits: list[Fields], told: list[Fields]) -> list[Fields]:
    """Return hits with the descriptions of those told: how long they are shown is no matter of ranking."""
    texts = {hit["name"]: hit["description"] for hit in told}
    return [{**hit, "description": texts.get(hit["name"], hit["description"])} for hit in hits]


SIGNS = frozenset({"signs"})
CAMELS = SIGNS | {"camel"}
SAID = CAMELS | {"said"}
BEGUN = SAID | {"begun"}
ALL = BEGUN | {"all"}


def every_sign_parts_words(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What is no letter and no digit parts words (``/``, but not C++'s end); Chinese is found by pairs of signs."""
    return reranked(options, given, expected, frozenset(), SIGNS)


def names_in_camel_case_are_words(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A name is found by its words however they are joined."""
    return reranked(options, given, expected, SIGNS, CAMELS)


def a_name_said_whole_counts_more(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A query that says a name of several words gains what one gains that says a name of one: 3 beside 2 a word."""
    return reranked(options, given, expected, CAMELS, SAID)


def a_name_begun_is_found(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A word of three letters or more that begins a word of a name finds it: ``issue`` finds ``list_issues``."""
    return reranked(options, given, expected, SAID, BEGUN)


def names_count_before_hits_are_cut(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What a name adds counts before the best are chosen, not among the first 2·top_k only."""
    return reranked(options, given, expected, BEGUN, ALL)


def nothing_to_find_adds_nothing(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where there are no tools to be found, the model is given none to search by, and told nothing."""
    if given["catalog"] or (options["include_resolved_tools"] and given.get("step_tools")):
        return None
    seen = {"visible_tools": list(given.get("step_tools") or {}), "system_messages": 0}
    return {"steps": [seen for _ in expected["steps"]]}


RULES = (
    every_sign_parts_words,
    names_in_camel_case_are_words,
    a_name_said_whole_counts_more,
    a_name_begun_is_found,
    names_count_before_hits_are_cut,
    nothing_to_find_adds_nothing,
)
