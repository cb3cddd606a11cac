"""What a filter by patterns does with a whole text, told once more and in short: the ground on which its rules stand.

The presets' shapes are the simple ones of the reference (spec/builtins.md, 5.2), so that what it does with whole texts
can be said of texts that it saw in pieces, or not at all. It knows no processor.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tests.conformance.builtin.frame import Fields

PRESETS = {
    "pii": (
        ("email", r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}", "[EMAIL]"),
        ("phone", r"(?:\+?1[-. ]?)?\(?\d{3}\)?[-. ]?\d{3}[-. ]?\d{4}", "[PHONE]"),
        ("ssn", r"\b\d{3}-\d{2}-\d{4}\b", "[SSN]"),
        ("credit-card", r"\b(?:\d{4}[- ]?){3}\d{1,4}\b", "[CREDIT_CARD]"),
    ),
    "secrets": (
        ("api-key", r"(?i)\b(?:api|secret|access)[_-]?(?:key|token)\s*[:=]\s*[\"']?[\w.-]{20,}", "[API_KEY]"),
        ("bearer-token", r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]+=*", "[BEARER_TOKEN]"),
        ("aws-key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", "[AWS_KEY]"),
    ),
    "urls": (("url", r"https?://[^\s\"'<>\[\]{}|\\^`]+", "[URL]"),),
}
PHASES = {
    "process_input": "processInput",
    "process_output_result": "processOutputResult",
    "stream_through_runner": "processOutputStream",
}
REDACTED = "[REDACTED]"


class Match(NamedTuple):
    """One match, or several united: ``names`` are those of all rules that had a part in it."""

    start: int
    end: int
    rule: str
    replacement: str
    names: tuple[str, ...] = ()


class Segment(NamedTuple):
    """A text, with its message's id, its part's index, and the path to it in the message's content."""

    id: str
    part: int
    path: tuple[Any, ...]
    text: str

    @property
    def key(self) -> tuple[Any, ...]:
        """Where it is."""
        return self[:3]

    @property
    def unread(self) -> bool:
        """Whether the reference does not read it: all but text parts."""
        return self.path[-1:] not in ((), ("text",))


Found = dict[Segment, list[Match]]
Change = Callable[[Fields, str, list[Match]], list[Match]]


def matches(options: Fields, text: str) -> list[Match]:
    """Return every match of every rule, in the order of the rules."""
    presets = [rule for name in options["presets"] for rule in PRESETS.get(name, ())]
    found = [Match(*one.span(), name, told) for name, pattern, told in presets for one in re.finditer(pattern, text)]
    for rule in options["rules"]:
        letters = rule.get("flags", "")
        flags = re.IGNORECASE * ("i" in letters) | re.MULTILINE * ("m" in letters) | re.DOTALL * ("s" in letters)
        every = [one for one in re.finditer(rule["pattern"], text, flags) if one.group()]
        for one in every if "g" in letters else every[:1]:
            alone = re.fullmatch(rule["pattern"], one.group(), flags)
            found.append(Match(*one.span(), rule["name"], filled(rule.get("replacement", REDACTED), alone)))
    return found


def filled(replacement: str, match: re.Match[str] | None) -> str:
    """Return the replacement with its groups, where the pattern finds the match by itself."""
    if match is None:
        return replacement
    return re.sub(r"\$([&\d])", lambda one: match.group(0 if one[1] == "&" else int(one[1])) or "", replacement)


def united(options: Fields, found: Iterable[Match]) -> list[Match]:
    """Return overlapping matches as one: the longest owns it, of equally long ones the first; sorted."""
    literal = {rule["name"]: rule.get("replacement", REDACTED) for rule in options["rules"]}
    regions: list[Match] = []
    longest = 0
    for one in sorted(found, key=lambda match: (match.start, match.start - match.end)):
        size = one.end - one.start
        if not regions or one.start >= regions[-1].end:
            regions.append(one._replace(names=one.names or (one.rule,)))
            longest = size
            continue
        last = regions.pop()
        owner = one if size > longest else last
        names = tuple(dict.fromkeys((*last.names, *(one.names or (one.rule,)))))
        as_written = literal.get(owner.rule, owner.replacement)
        regions.append(Match(last.start, max(last.end, one.end), owner.rule, as_written, names))
        longest = max(longest, size)
    return regions


def applied(text: str, regions: Iterable[Match]) -> str:
    """Return the text with the replacements in place."""
    for one in sorted(regions, reverse=True):
        text = text[: one.start] + one.replacement + text[one.end :]
    return text


def segments(given: Fields) -> Iterator[Segment]:
    """Yield every text of the messages: of text, reasoning and tools, and the flattened copy beside them."""
    if "text" in given:
        yield Segment("m1", 0, (), given["text"])
    for block, text in blocks(given).items():
        yield Segment(block, 0, (), text)
    for message in given.get("messages", ()):
        content = message["content"]
        if isinstance(content, str):
            yield Segment(message["id"], 0, (), content)
        elif content:
            parts = content.get("parts") or []
            for index, part in enumerate(parts):
                for path, text in part_texts(part):
                    yield Segment(message["id"], index, ("parts", index, *path), text)
            if content.get("content") and not is_copy(content):
                yield Segment(message["id"], len(parts), ("content",), content["content"])


def blocks(given: Fields) -> dict[str, str]:
    """Return the whole texts of a stream, by block."""
    texts: dict[str, str] = {}
    for row in given.get("chunks", ()):
        if row.get("type") == "text-delta":
            id = row["payload"].get("id", "")
            texts[id] = texts.get(id, "") + row["payload"]["text"]
    return texts


def part_texts(part: Fields) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the texts of a part with the path to each."""
    if part.get("type") == "text":
        yield ("text",), part["text"]
    if part.get("type") == "reasoning":
        yield ("reasoning",), part["reasoning"]
    if part.get("type") == "tool-invocation":
        for name in ("args", "result"):
            yield from leaves(part["toolInvocation"].get(name), ("toolInvocation", name))


def leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield the strings of a JSON value."""
    if isinstance(value, str):
        yield path, value
    for key, item in value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ()):
        yield from leaves(item, (*path, key))


def is_copy(content: Fields) -> bool:
    """Tell whether the flattened text says what the parts say."""
    parts = [part["text"] for part in content.get("parts") or () if part.get("type") == "text"]
    return bool(parts) and "".join(content["content"].split()) == "".join("".join(parts).split())


def judged(options: Fields, given: Fields, expected: Fields, change: Change, *, unread: bool = False) -> Fields | None:
    """Return what is to be expected if what was found in each text is changed; None if nothing changes.

    With ``unread`` the change is that texts which the reference does not read are searched.
    """
    if options["phase"] not in ("all", side_of(given)) or "error" in expected:
        return None
    before = {segment: ordered(options, recorded(options, expected, segment)) for segment in segments(given)}
    chosen = {segment: found for segment, found in before.items() if segment.unread or not unread}
    changed = {segment: change(options, segment.text, found) for segment, found in chosen.items()}
    after = {segment: ordered(options, changed.get(segment, found)) for segment, found in before.items()}
    return None if before == after and not (unread and has_copies(given)) else shown(options, given, expected, after)


def side_of(given: Fields) -> str:
    """Return the phase that a method is of."""
    return "input" if given["method"] == "process_input" else "output"


def has_copies(given: Fields) -> bool:
    """Tell whether a message has a flattened copy of its parts' texts."""
    contents = [message["content"] for message in given.get("messages", ())]
    return any(isinstance(one, dict) and one.get("content") and is_copy(one) for one in contents)


def ordered(options: Fields, found: Iterable[Match]) -> list[Match]:
    """Return matches in the order of their rules: those of presets, those that the reference has not, one's own."""
    presets = [rule[0] for name in options["presets"] for rule in PRESETS.get(name, ())]
    own = [rule["name"] for rule in options["rules"]]
    rank = {name: index for index, name in enumerate([*presets, "", *own])}
    return sorted(found, key=lambda one: (rank.get(one.rule, rank[""]), one.start))


def recorded(options: Fields, expected: Fields, segment: Segment) -> list[Match]:
    """Return what was found in a text, as far as the row tells it; lengths and places it leaves out are looked up."""
    found = matches(options, segment.text)
    if "emitted" in expected:  # what the reference found in pieces says little about the whole
        return expected.get("found", {}).get(segment, found)
    if options["strategy"] == "redact":
        details = [violation["detail"] for violation in expected.get("violations", ())]
        mine = [one for one in details if is_about(one, segment)]
        return [match for one in mine for told in one["redactions"] for match in apart(told, found)]
    if options["strategy"] == "warn":
        logs = expected.get("logs", ())
        if any("matches" in log for log in logs):
            return [Match(*one) for log in logs for key, *one in log["matches"] if tuple(key) == segment.key]
        return [one for one in found if one.rule in rules_logged(logs) and not segment.unread]
    told = expected.get("tripwire", {}).get("metadata", {}).get("matches", ())
    if any("place" in one for one in told):
        return [Match(*one["place"][1]) for one in told if tuple(one["place"][0]) == segment.key]
    if segment.unread:
        return []
    sizes = {(one.rule, one.start): one.end - one.start for one in found}
    ends = [one["index"] + sizes[one["rule"], one["index"]] for one in told if (one["rule"], one["index"]) in sizes]
    here = [one for one in told if (one["rule"], one["index"]) in sizes]
    return [Match(one["index"], end, one["rule"], "") for one, end in zip(here, ends, strict=True)]


def is_about(detail: Fields, segment: Segment) -> bool:
    """Tell whether a report is about a text; the reference's name the part only."""
    here = (detail.get("messageId"), detail.get("partIndex")) == segment[:2]
    return here and (tuple(detail["path"]) == segment.path if "path" in detail else not segment.unread)


def apart(told: Fields, found: Iterable[Match]) -> list[Match]:
    """Return the matches of a redaction; those that were united are looked up."""
    start, end = told["index"], told["index"] + told["length"]
    names = told.get("overlappingRules", ())
    inside = [one for one in found if one.rule in names and start <= one.start and one.end <= end]
    return inside or [Match(start, end, told["rule"], told["replacement"], tuple(names))]


def rules_logged(logs: Iterable[Fields]) -> list[str]:
    """Return the rules that warnings name."""
    return [name for log in logs for name in log["text"].rpartition(": ")[2].split(", ")]


def shown(options: Fields, given: Fields, expected: Fields, found: Found) -> Fields:
    """Return the expectation that says what was found, by the strategy; a match of no rule is another's rest."""
    names = list(dict.fromkeys(one.rule for ones in found.values() for one in ones if one.rule))
    given_back = {name: copy.deepcopy(given[name]) for name in ("text", "messages") if name in given}
    if "chunks" in given:
        return left(options, given, found)
    told: list[Any] = [(segment.key, *one) for segment, ones in found.items() for one in ones if one.rule]
    if options["strategy"] == "warn":
        logs = [{"level": "warn", "text": f"matched: {', '.join(names)}", "matches": told}] if names else []
        return {**given_back, "violations": [], "logs": logs}
    if options["strategy"] == "block":
        matched = [{"rule": one[2], "index": one[0], "place": (key, one)} for key, *one in told]
        tripwire = {"reason": f"blocked: {', '.join(names)}", "metadata": {"strategy": "block", "matches": matched}}
        return {**({"tripwire": tripwire} if names else given_back), "violations": [], "logs": []}
    regions = {segment: united(options, ones) for segment, ones in found.items()}
    named = {segment: [one for one in ones if one.rule] for segment, ones in regions.items()}
    reported = [violation(options, given, *one) for one in named.items() if one[1]]
    for segment, ones in regions.items():
        rewrite(given_back, segment, applied(segment.text, ones))
    return {**given_back, "violations": reported, "logs": expected.get("logs", [])}


def left(options: Fields, given: Fields, found: Found) -> Fields:
    """Return what leaves a stream: as the whole text of each block would, the other chunks where they stood in it."""
    regions = {segment.id: united(options, ones) for segment, ones in found.items()}
    texts, emitted = blocks(given), list[Any]()
    at = dict.fromkeys(texts, 0)
    for row in [row for row in given["chunks"] if "type" in row]:
        if row["type"] != "text-delta":
            emitted.append(row)
            continue
        id = row["payload"].get("id", "")
        start, at[id] = at[id], at[id] + len(row["payload"]["text"])
        hit = next((one for one in regions[id] if one.start < at[id]), None)
        stops = options["strategy"] == "block" and hit is not None
        known = regions[id] if options["strategy"] == "redact" else []
        end = hit.start if stops and hit is not None else at[id]
        text = upto(texts[id], known, end)[len(upto(texts[id], known, start)) :]
        emitted.append({**row, "payload": {**row["payload"], "text": text}})
        if stops:
            return {"emitted": emitted, "text": joined(emitted), **verdict_on(hit), "logs": [], "found": found}
    return {"emitted": emitted, "text": joined(emitted), **told_of(options, given, regions), "found": found}


def upto(text: str, regions: Iterable[Match], place: int) -> str:
    """Return the text up to a place with the replacements in; one that reaches beyond it is whole."""
    inside = [one for one in regions if one.start < place]
    return applied(text[: max([place, *(one.end for one in inside)])], inside)


def joined(rows: Iterable[Fields]) -> str:
    """Return the text of a stream."""
    return "".join(row["payload"]["text"] for row in rows if row["type"] == "text-delta")


def verdict_on(hit: Match | None) -> Fields:
    """Return the verdict on what is found first."""
    assert hit is not None
    told = [{"rule": name, "index": hit.start} for name in hit.names]
    return {"tripwire": {"reason": f"blocked: {hit.rule}", "metadata": {"strategy": "block", "matches": told}}}


def told_of(options: Fields, given: Fields, regions: dict[str, list[Match]]) -> Fields:
    """Return what is reported and logged of a stream that goes on to its end."""
    names = [one.rule for ones in regions.values() for one in ones]
    if options["strategy"] != "redact":
        logs = [{"level": "warn", "text": f"matched: {', '.join(names)}"}] if names else []
        return {"violations": [], "logs": logs}
    texts = blocks(given)
    segments = [Segment(id, 0, (), text) for id, text in texts.items() if regions[id]]
    return {"violations": [violation(options, given, one, regions[one.id]) for one in segments], "logs": []}


def violation(options: Fields, given: Fields, segment: Segment, regions: Iterable[Match]) -> Fields:
    """Return what is reported of the redactions in one text."""
    phase = PHASES[given["method"]]
    told = []
    for one in regions:
        redaction = {"rule": one.rule, "index": one.start, "length": one.end - one.start}
        value = {"value": segment.text[one.start : one.end]} if options["include_redacted_values"] else {}
        overlapping = {"overlappingRules": list(one.names)} if len(one.names) > 1 else {}
        told.append({**redaction, "replacement": one.replacement, **overlapping, **value})
    place = {"phase": phase, "messageId": segment.id, "partIndex": segment.part, "path": segment.path}
    return {"detail": {"strategy": options["strategy"], **place, "redactions": told}}


def rewrite(given_back: Fields, segment: Segment, text: str) -> None:
    """Put another text where one was, and in the copy of it."""
    if "text" in given_back:
        given_back["text"] = text
        return
    [message] = [one for one in given_back["messages"] if one["id"] == segment.id]
    content = message["content"]
    if isinstance(content, dict) and content.get("content") and segment.path[-1:] == ("text",) and is_copy(content):
        content["content"] = content["content"].replace(segment.text, text, 1)
    holder, name = message, "content"
    for step in segment.path:
        holder, name = holder[name], step
    holder[name] = text
    if name == "reasoning" and len(holder.get("details", ())) == 1:
        holder["details"][0]["text"] = text
