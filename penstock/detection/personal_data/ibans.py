"""The rule for what stands behind the word IBAN and looks like one, though a digit of it is wrong.

A number that was mistyped is somebody's all the same; without the word, only the right check digits tell.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import BuiltIn
from penstock.detection.patterns.shapes import Scan, Shape, Trace

if TYPE_CHECKING:
    import regex

_SHAPE = Shape(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}[A-Z0-9]{11,30}(?![A-Za-z0-9])")
_READ = 36
_REACH = 40  # how far before it the word may stand
_CUE = re.compile(r"(?i)\biban|\bbank account|\baccount n(?:umber|o\b)|\bkontonummer")
_DIGITS = 8  # no country's has fewer


def _cued(text: str, start: int, *, final: bool) -> Scan:
    matches, hold = _SHAPE.walk(text, start, final=final, longest=_READ)
    return [Trace(*found.span(), *found.span(), _counts(text, found)) for found in matches], hold


def _counts(text: str, found: regex.Match[str]) -> bool:
    plain = found.group()
    shaped = validators.iban_length(plain[:2]) > 0 and sum(map(str.isdigit, plain)) >= _DIGITS
    return shaped and _CUE.search(text, max(found.start() - _REACH, 0), found.start()) is not None


CUED_IBANS: tuple[BuiltIn, ...] = (BuiltIn("iban", "[IBAN]", "[0-9]{2}(?<=[A-Z]{2}..)[A-Z0-9]{11}", _cued),)
"""In one piece, in capitals, of a country that has IBANs."""
