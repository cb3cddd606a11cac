"""How often judges are asked, where that differs from the reference on purpose; see docs/differences.md."""

from __future__ import annotations

from tests.conformance.builtin.frame import Fields


def equal_texts_are_asked_about_once(_options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Of equal texts in one stage, one is shown to the judge, and its verdict counts for all."""
    texts: list[str] = expected.get("analyzed") or []
    once = list(dict.fromkeys(texts))
    if "messages" not in given or len(once) == len(texts):
        return None
    return {**expected, "analyzed": once, "llm_calls": len(once)}
