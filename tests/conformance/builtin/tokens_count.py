"""The vectors of token counts: of texts, and of stored messages as the reference counts them."""

from __future__ import annotations

from penstock.models.tokens.counters import counting
from penstock.models.tokens.message_costs import prices
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import read
from tests.conformance.builtin.tokens_rules import COUNTS


def run(given: Given) -> Fields:
    """Count a text, or a message in the reference's way."""
    heuristic = given.options["counter"] == "heuristic"
    counts = counting("conformance", "heuristic" if heuristic else None, given.options["encoding"])
    if given.method == "count_tokens":
        return {"tokens": counts.count(given.input["text"])}
    [message] = read([given.input["message"]])
    return {"tokens": prices(counts, "reference" if heuristic else "reference-1.0").kept(message)}


def projection(fields: Fields) -> Fields:
    """Numbers, to the sixth place; of errors that there is one."""
    if "error" in fields:
        fields["error"] = True
    if "tokens" in fields:
        fields["tokens"] = round(fields["tokens"], 6)
    return fields


FAMILY = Family(
    files=("token_count", "token_count_message"),
    run=run,
    projections={"count_tokens": projection, "count_message": projection},
    rules=COUNTS,
    defaults={"counter": "tiktoken", "encoding": "o200k_base"},
)
