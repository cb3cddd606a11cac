"""docs/gateway-coverage.md: every field of each protocol, and who reads it; made of the tables of the gateway.

Run ``python -m tests.workflows.gateway.coverage_page`` to write the page anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.workflows.gateway.endpoints.registry import ENDPOINTS
from penstock.workflows.gateway.tables import TableRow, rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.workflows.gateway.endpoints.endpoint import Endpoint

PAGE = Path(__file__).parents[3] / "docs" / "gateway-coverage.md"

KINDS = {
    "text": "guards, as a text with the pieces around it",
    "reasoning": "guards, as reasoning with the pieces around it",
    "repeat": "follows the text that it repeats; one that says something else is read by guards",
    "offset": "shifts with the text that it points into",
    "call_id": "guards, with the call",
    "call_name": "guards, with the call",
    "arguments": "guards, as the whole value",
    "value": "guards, as a value: all texts and keys in it",
    "term": "nobody, if it has the form of an id, a word or a number; else guards. In requests, they read numbers of 12"
    " digits or more",
    "sealed": "nobody: it is encrypted or encoded. Guards read it if it has another form",
    "seal": "a signature: it is replaced where its text was changed. Guards read it if it has another form",
    "tokens": "dropped, unless they spell the unchanged text beside them",
    "echo": "the client gets its own field back",
    "message": "guards, as messages; see [formats](formats-coverage.md)",
    "refused": "refused",
}

HEAD = """\
# Who reads what in the gateway

The gateway knows every field of each protocol by these tables. A field or an event that is not here is refused.
In a request, so is an unknown field with a number or `true`; null, `false` and empty ones pass. In an answer, unknown
numbers of fewer than 12 digits and booleans pass: providers add counters all the time.
With `unknown: read`, guards read it as a value instead. The header `x-penstock-coverage` of each answer names the
protocol and says which of the two it was.

This page is made of the tables. A test compares both.
"""


def page() -> str:
    """Return the page."""
    endpoints = list(dict.fromkeys(ENDPOINTS.values()))
    return "\n".join([HEAD, *(line for endpoint in endpoints for line in _endpoint(endpoint))]).rstrip() + "\n"


def _endpoint(endpoint: Endpoint) -> Iterator[str]:
    yield f"## {endpoint.name}\n"
    yield f"At {', '.join(f'`{path}`' for path in endpoint.paths)}.\n"
    yield from _table("Request", rows(endpoint.request))
    if endpoint.has_answer:
        yield from _table("Answer", rows(endpoint.answer))
    kinds: dict[int, list[str]] = {}
    for kind, spec in endpoint.events.items():
        kinds.setdefault(id(spec), []).append(kind)
    for same in kinds.values():
        title = "Events" if same == [""] else f"Event{'s' * (len(same) > 1)} {', '.join(f'`{kind}`' for kind in same)}"
        yield from _table(title, rows(endpoint.events[same[0]]))


def _table(title: str, found: Iterable[TableRow]) -> Iterator[str]:
    yield f"### {title}\n"
    yield "| field | who reads it |"
    yield "|---|---|"
    merged: dict[str, list[str]] = {}
    for row in found:
        merged.setdefault(
            f"{KINDS[row.kind]}{f'. It {row.note}' if row.kind == 'refused' and row.note else ''}", []
        ).append(row.name)
    for said, names in merged.items():
        yield f"| {', '.join(f'`{name}`' for name in names if name)} | {said} |"
    yield ""


if __name__ == "__main__":
    PAGE.write_text(page())
