"""Presidio as a detector: any engine with its interface, and its own patterns where it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import pytest

from penstock import OptionError, PIIDetector, Workflow
from penstock.engine.values.errors import MissingExtraError
from penstock.models.detectors import PresidioSpans

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of spaCy's dependencies


class Result(NamedTuple):
    """What an engine returns."""

    start: int
    end: int
    entity_type: str
    score: float


class Engine:
    """An engine that finds one name; keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def get_supported_entities(self, language: str | None = None) -> list[str]:
        if language != "en":
            raise ValueError("No matching recognizers were found to serve the request.")
        return ["PERSON", "LOCATION", "US_PASSPORT", "URL"]

    def analyze(self, **asked: Any) -> Sequence[Result]:
        self.asked.append(asked)
        at = asked["text"].find("Jones")
        return [Result(at, at + 5, "PERSON", 0.85)] if at >= 0 else []


def test_any_engine_is_a_detector() -> None:
    """It is asked for the entities that the guard has types for."""
    engine = Engine()
    detector = PresidioSpans(engine)
    assert detector.types == ("name",)
    guard = PIIDetector(detector=detector, redaction_method="placeholder")
    assert Workflow("w").then(guard).check_sync("Ask Jones at jones@example.org").text == "Ask [NAME] at [EMAIL]"
    assert engine.asked[0] == {
        "text": "Ask Jones at jones@example.org",
        "language": "en",
        "entities": ["PERSON"],
        "score_threshold": 0.4,
    }


def test_entities_are_chosen_and_named() -> None:
    """A list names them as types are named, a mapping as it says."""
    assert PresidioSpans(Engine(), entities=["PERSON", "US_PASSPORT", "URL"]).types == ("name", "us-passport", "url")
    assert PresidioSpans(Engine(), entities={"LOCATION": "address"}, threshold=0.1).types == ("address",)


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: PresidioSpans(Engine(), entities=["CITY"]), "'LOCATION', 'PERSON', 'URL', 'US_PASSPORT'"),
        (lambda: PresidioSpans(Engine(), "de"), "option 'language' is 'de', but must be one that the engine supports"),
        (lambda: PresidioSpans(Engine(), threshold=2), "a number from 0 to 1"),
        (lambda: PresidioSpans("spacy"), "an AnalyzerEngine, or None"),
        (lambda: PresidioSpans(Engine), "an AnalyzerEngine, or None"),
    ],
)
def test_options_are_checked(make: Any, problem: str) -> None:
    """The error says what is allowed."""
    with pytest.raises(OptionError, match=problem):
        make()


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unless there is an engine."""
    monkeypatch.setattr("penstock.models.detectors.presidio.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"PresidioSpans needs the extra 'presidio'"):
        PresidioSpans()
    assert repr(PresidioSpans(Engine())) == "PresidioSpans(language='en', types=('name',))"


@pytest.mark.skipif(
    find_spec("presidio_analyzer") is None, reason="Presidio's patterns are not tested: the extra presidio is missing"
)
def test_patterns_of_presidio_need_no_model_and_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an engine, a blank spaCy model reads the texts; a call to the network would be an error here."""

    def refuse(*given: Any) -> None:
        raise AssertionError("the network is used")

    monkeypatch.setattr("socket.socket.connect", refuse)
    detector = PresidioSpans()
    assert {"email", "phone", "credit-card", "iban", "ip-address"} <= {*detector.types}
    text = "Zoë: ann@example.org, 4111 1111 1111 1111, call 212-555-1234."
    found = {(span.type, text[span.start : span.end]) for span in detector.find([text])[0]}
    assert found >= {("email", "ann@example.org"), ("credit-card", "4111 1111 1111 1111")}
    guard = PIIDetector(detector=detector, combine="confirm", redaction_method="placeholder")
    assert Workflow("w").then(guard).check_sync(text).text.startswith("Zoë: [EMAIL], [CREDIT-CARD], call ")
