"""alt-profanity-check: a linear model on tf-idf, trained on the Davidson tweets (so that set flatters it)."""

from __future__ import annotations

from collections.abc import Mapping


class AltProfanityCheck:
    """Its probability that a text is profane."""

    thresholds: Mapping[str, float] = {"any": 0.5}

    def scores(self, text: str) -> dict[str, float]:
        """Return it."""
        from profanity_check import predict_prob

        return {"any": float(predict_prob([text])[0])}


def make() -> AltProfanityCheck:
    """Return it."""
    import profanity_check  # noqa: F401 - whether it is there is known now, not at the first text

    return AltProfanityCheck()
