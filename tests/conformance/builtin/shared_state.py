"""The vectors of chains in which a class may stand twice: what one instance holds is no other's."""

from __future__ import annotations

from typing import Any

from penstock import RegexFilterProcessor, Workflow
from penstock.processors.budgets import TokenLimiterProcessor
from penstock.processors.streaming import BatchPartsProcessor
from tests.conformance.builtin.batch_parts import DEFAULTS as BATCH
from tests.conformance.builtin.frame import Family, Fields, Given, Row
from tests.conformance.builtin.regex_filter import DEFAULTS as REGEX
from tests.conformance.builtin.regex_whole import applied, matches, united
from tests.conformance.builtin.shapes import spelt_as, streamed
from tests.conformance.builtin.streaming import streamed_through

LIMIT: Fields = {"strategy": "truncate", "count_mode": "cumulative", "trim_mode": "best-fit"}
COUNTED = {"token_counter": "heuristic", "counting": "reference"}
DEFAULTS = {"RegexFilterProcessor": REGEX, "BatchPartsProcessor": BATCH, "TokenLimiterProcessor": LIMIT}
MAKE: dict[str, Any] = {
    "RegexFilterProcessor": RegexFilterProcessor,
    "BatchPartsProcessor": BatchPartsProcessor,
    "TokenLimiterProcessor": lambda **options: TokenLimiterProcessor(**options, **COUNTED),
}
BYTES = 4  # to a token, as the reference estimates


def complete(options: Fields) -> Fields:
    """Return the options with the defaults of each processor of the chain."""
    chain = [{**one, "options": {**DEFAULTS[one["type"]], **one["options"]}} for one in options["chain"]]
    return {**options, "chain": chain}


def run(given: Given) -> Fields:
    """Run the stream stage with the chain."""
    workflow = Workflow("w")
    for one in given.options["chain"]:
        workflow = workflow.then(MAKE[one["type"]](**one["options"]))
    return streamed_through(workflow, given.input["chunks"])


def projection(fields: Fields) -> Fields:
    """The joined text of each block, and the other chunks in their order."""
    if "emitted" in fields:
        fields["emitted"] = streamed(fields["emitted"])
    return fields


def each_instance_has_its_own_state(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Two of a class do what each does alone, one after the other."""
    kinds = [one["type"] for one in options["chain"]]
    deltas = [row for row in given["chunks"] if row["type"] == "text-delta"]
    if len(set(kinds)) == len(kinds) or not deltas:
        return None
    text = "".join(row["payload"]["text"] for row in deltas)
    for one in options["chain"]:
        if one["type"] == "RegexFilterProcessor":
            text = applied(text, united(one["options"], matches(one["options"], text)))
        if one["type"] == "TokenLimiterProcessor":
            text = text.encode()[: one["options"]["limit"] * BYTES].decode(errors="ignore")
    whole = {**deltas[0], "payload": {**deltas[0]["payload"], "text": text}}
    others = [row for row in given["chunks"] if row["type"] != "text-delta"]
    return {**expected, "emitted": [whole, *others], "text": text}


CHAINS: tuple[tuple[tuple[str, Fields], ...], ...] = (
    (
        ("RegexFilterProcessor", {"presets": ["pii"], "strategy": "redact", "stream_carryover_size": 4}),
        ("RegexFilterProcessor", {"presets": ["urls"], "strategy": "redact", "stream_carryover_size": 4}),
    ),
    (
        ("RegexFilterProcessor", {"presets": ["pii"], "strategy": "redact"}),
        ("RegexFilterProcessor", {"presets": ["urls"], "strategy": "redact"}),
    ),
    (("BatchPartsProcessor", {}), ("BatchPartsProcessor", {"batch_size": 3}), ("BatchPartsProcessor", {})),
    (
        ("BatchPartsProcessor", {"batch_size": 2}),
        ("RegexFilterProcessor", {"presets": ["pii", "urls"], "strategy": "redact"}),
        ("BatchPartsProcessor", {"batch_size": 4}),
    ),
)


def invented() -> list[Row]:
    """Return other chains over the recorded text, cut in two and letter by letter; the reference's answer is any."""
    text = "mail bob@acme.com or see https://a.example now"
    finish = {"type": "finish", "payload": {"finishReason": "stop"}}
    rows = []
    for chain in CHAINS:
        for pieces in ([text[:20], text[20:]], list(text)):
            deltas = [{"type": "text-delta", "payload": {"id": "t1", "text": piece}} for piece in pieces]
            given = {"method": "stream_through_runner", "chunks": [*deltas, finish]}
            options = complete({"chain": [{"type": kind, "options": more} for kind, more in chain]})
            name = f"{' '.join(kind for kind, _ in chain)} {len(pieces)} pieces"
            rows.append(Row("shared_state", name, Given(options, given), {"emitted": [], "text": ""}))
    return rows


FAMILY = Family(
    files=("shared_state",),
    run=run,
    projections={"stream_through_runner": projection},
    rules=(each_instance_has_its_own_state,),
    defaults=complete,
    invented=invented,
    spelling=spelt_as("stream_through_runner"),
)
