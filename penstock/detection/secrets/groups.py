"""Secrets of several parts: seed phrases of wallets, and the values of Kubernetes' secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.patterns.built_in import BuiltInRule
from penstock.detection.patterns.open_matches import StreamPattern, Trace
from penstock.detection.secrets import values

if TYPE_CHECKING:
    from penstock.detection.patterns.open_matches import Scan

# A phrase of BIP-39 has 12 to 24 words of three to eight letters from a list that has none of the commonest words.
_WORDS = r"(?:\d{1,2}[.):]?\s?)?[a-z]{3,8}(?![A-Za-z])"
_PHRASE = StreamPattern(
    r"(?:(?:[Ss](?i:ecret)|[Rr](?i:ecovery)|[Bb](?i:ackup)|[Ww](?i:allet))[ _-]?(?i:recovery |backup )?"
    r"(?i:phrase|words?|mnemonic|seed|sentence)"
    r"|(?:[Ss](?i:eed)|[Bb](?i:ip-?39)|[Mm](?i:nemonic))[ _-]?(?i:phrase|words?|mnemonic|seed|sentence)?)"
    r"(?: \([^)\n]{1,24}\))?(?: (?:for|of|to) [\w' ]{1,24}?)?"
    r"""["'`]?\s{0,3}(?:[:=]|=>|\sis|\sare|\sist|\sest|\ses)?[:\s"'`\[(]{1,6}"""
    rf"(?P<secret>{_WORDS}(?:[\s,\"']{{1,4}}{_WORDS}){{11,23}})"
)
_WORD = deferred(r"[a-z]{3,8}")
_COMMON = deferred(
    "the|and|for|with|you|your|are|not|from|was|have|has|its|our|but|they|their|been|which|would|could|should|them|were"
    "|these|those|then|than|what|when|where|who|how|why|can|may|his|her|him|she|also|into|onto"
)
_LENGTHS = (24, 21, 18, 15, 12)


def _phrases(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _PHRASE.walk(text, start, final=final)
    traces: list[Trace] = []
    for found in matches:
        low, high = found.span("secret")
        words = [*_WORD.finditer(text, low, high)]
        alone = next((at for at, word in enumerate(words) if _COMMON.fullmatch(word.group())), len(words))
        length = next((length for length in _LENGTHS if length <= alone), 0)
        end = words[length - 1].end() if length else high
        traces.append(Trace(*found.span(), low, end, length > 0))
    return traces, hold


_DATA = StreamPattern(
    r"data:[ \t]{0,4}\r?\n(?:[ \t]{1,8}[\w.-]{1,64}:[ \t]{1,4}[\"']?(?P<secret>[A-Za-z0-9+/]{4,2400}={0,2})[\"']?"
    r"[ \t]{0,4}(?:\r?\n|\Z)){1,24}"
)
_TOO_SHORT = 8  # characters: words of so few letters may be base64 by chance


def _manifests(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _DATA.walk(text, start, final=final)
    traces: list[Trace] = []
    for found in matches:
        given = found.captures("secret")
        counts = all(map(values.encoded, given)) and max(map(len, given)) >= _TOO_SHORT
        traces += [Trace(*found.span(), *span, counts) for span in found.spans("secret")]
    return traces, hold


GROUPS: tuple[BuiltInRule, ...] = (
    BuiltInRule(
        "seed-phrase",
        "[SECRET]",
        r"[Ss](?i:eed|ecret)|[Rr](?i:ecovery)|[Bb](?i:ackup|ip)|[Ww](?i:allet)|[Mm](?i:nemonic)",
        _phrases,
    ),
    BuiltInRule("kubernetes-secret", "[SECRET]", r"data:(?!\S)", _manifests),
)
"""Seed phrases behind a word for one, and the values under ``data:`` in a manifest, all in base64."""
