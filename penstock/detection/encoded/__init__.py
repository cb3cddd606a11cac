"""Looking behind codes: what base64, hexadecimal digits or letters set apart say. Pure; it judges nothing."""

from penstock.detection.encoded.encoded_spans import EncodedSpans
from penstock.detection.encoded.spoken import spoken

__all__ = ["EncodedSpans", "spoken"]
