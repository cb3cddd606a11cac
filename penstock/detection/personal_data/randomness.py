"""The rule for tokens that nothing marks but their randomness: keys of providers that no table lists.

A token counts that mixes digits, capitals and small letters as no word, name or identifier does, or, behind words that
speak of keys, one that mixes digits and letters. Hashes, identifiers and long data are none.
"""

from __future__ import annotations

import itertools
import re

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import RUN, BuiltIn, shaped
from penstock.detection.patterns.shapes import Scan, Shape, Trace

_LEAST, _MOST = 20, 256  # characters; longer runs are data, not keys
_RUN = Shape(rf"(?<![\w+/%@\\-])(?!0[xX])[A-Za-z0-9_-]{{{_LEAST},{_MOST}}}(?![A-Za-z0-9_+/-])", flags=0)
_REACH, _HASH_REACH = 60, 24  # how far before a token, or what could be a hash, the words that explain it may stand
_CUE = re.compile(r"(?i)key|token|secret|auth|bearer|api\b|_api|credential|\blogin|passw|webhook|\s-u |publish|crumb")
_HASH = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}", re.IGNORECASE)
_PART = re.compile(r"[A-Za-z0-9]+")
_LEAST_MIXED = 24
_PART_LEAST = 13  # characters of the longest part between hyphens: those of slugs and of UUIDs are shorter
_DIGITS, _TURNS = 3, 4  # digits; places where a digit stands beside another character
_BITS_MIXED, _BITS_CUED = 3.9, 3.0  # per character: random letters and digits of 24 characters have 4.3, hex 3.4
# The fifty commonest pairs of letters in English, from memory of published counts; half of a text's pairs, and one in
# fourteen of random letters'.
_COMMON = frozenset(
    [
        "th",
        "he",
        "in",
        "er",
        "an",
        "re",
        "on",
        "at",
        "en",
        "nd",
        "ti",
        "es",
        "or",
        "te",
        "of",
        "ed",
        "is",
        "it",
        "al",
        "ar",
        "st",
        "to",
        "nt",
        "ng",
        "se",
        "ha",
        "as",
        "ou",
        "io",
        "le",
        "ve",
        "co",
        "me",
        "de",
        "hi",
        "ri",
        "ro",
        "ic",
        "ne",
        "ea",
        "ra",
        "ce",
        "li",
        "ch",
        "ll",
        "be",
        "ma",
        "si",
        "om",
        "ur",
    ]
)
_WORDY = 0.3
_PAIR = re.compile(r"(?=([a-z]{2}))")


def random_tokens(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of random tokens."""
    matches, hold = _RUN.walk(text, start, final=final)
    return [Trace(*found.span(), *found.span(), _counts(text, found.start(), found.group())) for found in matches], hold


def _counts(text: str, at: int, found: str) -> bool:
    if sum(map(str.isdigit, found)) < _DIGITS or validators.placeholder(found) or _turns(found) < _TURNS:
        return False
    if max(map(len, _PART.findall(found)), default=0) < _PART_LEAST or _wordy(found):
        return False
    bits = validators.entropy(found)
    if len(found) >= _LEAST_MIXED and bits >= _BITS_MIXED and found not in (found.lower(), found.upper()):
        return True
    reach = _HASH_REACH if _HASH.fullmatch(found) else _REACH
    cued = bits >= _BITS_CUED and _CUE.search(text, max(at - reach, 0), at) is not None
    return cued and (found != found.upper() or found != found.lower())


def _turns(found: str) -> int:
    """Return at how many places a digit stands beside another character."""
    return sum(one.isdigit() != two.isdigit() for one, two in itertools.pairwise(found))


def _wordy(found: str) -> bool:
    """Tell whether its letters follow one another as those of words do."""
    pairs = _PAIR.findall(found.lower())
    return len(pairs) > _TURNS and sum(pair in _COMMON for pair in pairs) > _WORDY * len(pairs)


RANDOM_TOKENS: tuple[BuiltIn, ...] = (
    shaped(
        "api-key",
        "[API_KEY]",
        r"[sp]k[-_](?<![A-Za-z0-9_-]...)(?:live|test|proj)[-_][A-Za-z0-9]{16,}(?![A-Za-z0-9])",
        trigger="k[-_](?:live|test|proj)[-_]",
    ),
    BuiltIn("random-token", "[SECRET]", RUN, random_tokens),
)
"""Secrets without a mark or a label, and those whose mark alone is enough."""
