"""The floor for personal data and keys: one plain regular expression a type, without check sums, as the reference has.

The shapes are facts of spec/builtins.md §4.3; the expressions are ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from penstock.detection.spans import Span

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
PATTERNS: Mapping[str, re.Pattern[str]] = {
    "email": re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}"),
    "phone": re.compile(r"(?:\+?\d{1,3}[-. ]?)?\(?\d{3}\)?[-. ]?\d{3}[-. ]?\d{4}"),
    "credit-card": re.compile(r"\b(?:\d{4}[-\s]?){3}\d{4}\b"),
    "ssn": re.compile(r"\b\d{3}-\d{2}-\d{4}\b"),
    "api-key": re.compile(
        r"\b[sp]k[-_](?:live|test|proj)[-_][a-z0-9]{16,}|\bapi[-_]?(?:key|secret)\s*[:=]\s*['\"]?[\w-]{20,}",
        re.IGNORECASE,
    ),
    "ip-address": re.compile(rf"\b(?:{_OCTET}\.){{3}}{_OCTET}\b"),
    "url": re.compile(r"https?://[^\s<>\"']+"),
    "uuid": re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE),
    "crypto-wallet": re.compile(
        r"\b(?:0x[0-9a-fA-F]{40}|[13][1-9A-HJ-NP-Za-km-z]{25,34}|bc1[0-9a-z]{39,59})\b",
    ),
    "iban": re.compile(r"\b[A-Z]{2}\d{2}[A-Z0-9]{4}\d{7}[A-Z0-9]{0,16}\b"),
}


class PlainPatterns:
    """Each pattern by itself; what overlaps is reported twice."""

    def find(self, text: str) -> list[Span]:
        """Return every match of every pattern."""
        return [
            Span(match.start(), match.end(), kind)
            for kind, pattern in PATTERNS.items()
            for match in pattern.finditer(text)
        ]


def make() -> PlainPatterns:
    """Return the floor."""
    return PlainPatterns()
