"""Presidio's analyzer in pattern mode: its predefined recognisers, and a blank spaCy model, which finds no names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.detection.spans import Span

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine

TYPES: Mapping[str, str] = {
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "CREDIT_CARD": "credit-card",
    "US_SSN": "ssn",
    "IP_ADDRESS": "ip-address",
    "URL": "url",
    "CRYPTO": "crypto-wallet",
    "IBAN_CODE": "iban",
    "MAC_ADDRESS": "mac",
}
"""Its entities, and what we call them."""


class Presidio:
    """The analyzer, asked for the entities that have a type of ours."""

    def __init__(self, analyzer: AnalyzerEngine) -> None:
        self._analyzer = analyzer
        known = set(analyzer.get_supported_entities(language="en"))
        self._entities = [entity for entity in TYPES if entity in known]

    def find(self, text: str) -> list[Span]:
        """Return what it finds, at its default threshold; of what overlaps, the surer and then the longer."""
        found = self._analyzer.analyze(text=text, language="en", entities=self._entities)
        spans = [Span(each.start, each.end, TYPES[each.entity_type], each.score) for each in found]
        kept: list[Span] = []
        for span in sorted(spans, key=lambda each: (-each.score, each.start - each.end, each.start)):
            if all(span.end <= other.start or other.end <= span.start for other in kept):
                kept.append(span)
        return kept


def make() -> Presidio:
    """Return it with a blank English model, so that nothing is downloaded."""
    import logging

    import spacy
    import tldextract.tldextract
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine

    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)
    # It would ask the network for top-level domains first, and then take the list it brings along: take that at once.
    tldextract.tldextract.TLD_EXTRACTOR = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)
    engine = SpacyNlpEngine(
        models=[{"lang_code": "en", "model_name": "blank"}], ner_model_configuration=NerModelConfiguration()
    )
    engine.nlp = {"en": spacy.blank("en")}
    return Presidio(AnalyzerEngine(nlp_engine=engine, supported_languages=["en"]))
