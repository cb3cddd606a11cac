"""Rows for the language detector as others may have been recorded; what the reference does is after its spec."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields, Given, Row

DEFAULTS: Fields = {
    "target_languages": ["English", "en"],
    "threshold": 0.7,
    "strategy": "detect",
    "preserve_original": True,
    "min_text_length": 10,
    "include_detection_details": False,
    "last_message_only": False,
    "error_strategy": "warn",
}
TEXT = "Bonjour tout le monde"
ASSUMED: Fields = {
    "detected_language": "English",
    "iso_code": "en",
    "confidence": 0.95,
    "is_target_language": True,
    "target_languages": ["English", "en"],
}


def user(*texts: str, id: str = "u1", metadata: Fields | None = None) -> Fields:
    """Return a stored message, with what the reference's detector wrote if need be."""
    parts = [{"type": "text", "text": text} for text in texts]
    told = {} if metadata is None else {"metadata": {"language_detection": metadata}}
    return {"id": id, "role": "user", "content": {"format": 2, "parts": parts, **told}}


def row(name: str, options: Fields, sent: list[Fields], script: list[Fields], **expected: Any) -> Row:
    """Return a row of the input stage."""
    given = {"method": "process_input", "messages": sent, "model_script": script}
    return Row("language_detector", name, Given({**DEFAULTS, **options}, given), expected)


def says(code: str | None, confidence: float | None, **more: Any) -> Fields:
    """Return a judge's verdict."""
    return {"object": {"iso_code": code, "confidence": confidence, **more}}


def rows() -> Sequence[Row]:
    """Return them all."""
    reason = "Non-target language detected: Language detected: {} with confidence {}"
    two = [user(TEXT), user("Guten Tag zusammen", id="u2")]
    return [
        row("equal texts", {}, [user(TEXT), user(TEXT, id="u2")], [says("fr", 0.1)],
            messages=[user(TEXT), user(TEXT, id="u2")], llm_calls=2, analyzed=[TEXT, TEXT], logs=[]),
        row("below the threshold nothing is told", {}, [user(TEXT)], [says("fr", 0.69)],
            messages=[user(TEXT)], llm_calls=1, analyzed=[TEXT], logs=[]),
        row("no confidence at all is a target", {}, [user(TEXT)], [says("fr", 0)],
            messages=[user(TEXT, metadata=ASSUMED)], llm_calls=1, analyzed=[TEXT], logs=[]),
        row("a failed call is a target", {}, [user(TEXT)], [{"error": "boom"}],
            messages=[user(TEXT, metadata=ASSUMED)], llm_calls=1, analyzed=[TEXT], logs=[]),
        row("a verdict of nothing", {}, [user(TEXT)], [says(None, None)],
            messages=[user(TEXT, metadata=ASSUMED)], llm_calls=1, analyzed=[TEXT], logs=[]),
        row("a verdict of nothing is fatal", {"error_strategy": "strict"}, [user(TEXT)], [says(None, None)],
            messages=[user(TEXT, metadata=ASSUMED)], llm_calls=1, analyzed=[TEXT], logs=[]),
        row("a region blocks", {"strategy": "block"}, [user(TEXT)], [says("en-GB", 0.9)],
            tripwire={"reason": reason.format("en-GB (en-GB)", "0.90")}, llm_calls=1, analyzed=[TEXT]),
        row("the first of two blocks", {"strategy": "block"}, two, [says("fr", 0.95), says("de", 0.95)],
            tripwire={"reason": reason.format("French (fr)", "0.95")}, llm_calls=1, analyzed=[TEXT]),
        row("a broken object is fatal", {"error_strategy": "strict"}, [user(TEXT)], [{"object": {}}],
            tripwire={"reason": "Language detection failed"}, llm_calls=1, analyzed=[TEXT]),
        row("a translation is as good as a confidence", {"strategy": "translate", "preserve_original": False},
            [user(TEXT)], [says("fr", None, translated_text="Hello")],
            messages=[user("Hello", metadata={
                "detected_language": "French", "iso_code": "fr", "confidence": 0.95, "is_target_language": False,
                "target_languages": ["English", "en"],
                "translation": {"original_language": "French", "target_language": "English",
                                "translation_confidence": 0.95},
            })], llm_calls=1, analyzed=[TEXT], logs=[{"level": "info", "text": "(fr)"}]),
        row("a warning", {"strategy": "warn"}, [user(TEXT)], [says("fr", 0.9)],
            messages=[user(TEXT, metadata={**ASSUMED, "detected_language": "French", "iso_code": "fr",
                                           "confidence": 0.9, "is_target_language": False})],
            llm_calls=1, analyzed=[TEXT], logs=[{"level": "warn", "text": "(fr)"}]),
    ]  # fmt: skip
