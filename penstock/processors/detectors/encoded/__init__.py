"""Looking behind codes: what base64, hexadecimal digits or letters set apart say. Pure; it judges nothing."""

from penstock.processors.detectors.encoded.encoded_spans import EncodedSpans
from penstock.processors.detectors.encoded.spoken import spoken

__all__ = ["EncodedSpans", "spoken"]
