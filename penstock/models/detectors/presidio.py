"""`PresidioSpans`: Microsoft Presidio's analyzer as a detector of spans."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol, cast

from penstock.detection.spans import Span
from penstock.engine.values.errors import MissingExtraError, OptionError
from penstock.models.detectors.calls import BATCH_SECONDS, BATCH_SIZE
from penstock.models.detectors.labels import checked_threshold, renamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NAMES: Mapping[str, str] = {
    "PERSON": "name",
    "EMAIL_ADDRESS": "email",
    "PHONE_NUMBER": "phone",
    "CREDIT_CARD": "credit-card",
    "US_SSN": "ssn",
    "IP_ADDRESS": "ip-address",
    "CRYPTO": "crypto-wallet",
    "IBAN_CODE": "iban",
    "MAC_ADDRESS": "mac",
    "URL": "url",
}
"""Entities of Presidio, and the types that `PIIDetector` knows them by."""

_NOT_BY_DEFAULT = ("URL",)  # it takes names in code for links
_THRESHOLD = 0.4


class _Result(Protocol):
    start: int
    end: int
    entity_type: str
    score: float


class PresidioSpans:
    """Finds personal data with Presidio: with its patterns, and with the language model of its engine, if it has one.

    Args:
        engine: an ``AnalyzerEngine``, with any NLP engine (spaCy, Stanza, Transformers); None (the default) for one
            with Presidio's patterns and a blank spaCy model, which needs no download and finds no names.
        language: the language of the texts, one that the engine supports.
        entities: the entities that count: a list, or a mapping to the names that the guard knows, such as
            ``{"LOCATION": "address"}``; None (the default) for those that `PIIDetector` has types for, except ``URL``.
            In a list, other entities are named as types are: ``US_PASSPORT`` becomes ``us-passport``.
        threshold: the score from which a finding counts, 0 to 1.
        batch_size: the most texts of a call.
        batch_seconds: how long a text waits for others of concurrent requests.

    Attributes:
        name: its name, for errors.
        types: the types of spans.

    Raises:
        OptionError: the engine is none, or does not find one of the entities.
        MissingExtraError: there is no ``engine``, and the extra ``presidio`` is not installed.
    """

    name = "presidio"

    def __init__(
        self,
        engine: object = None,
        language: str = "en",
        entities: Mapping[str, str] | Iterable[str] | None = None,
        *,
        threshold: float = _THRESHOLD,
        batch_size: int = BATCH_SIZE,
        batch_seconds: float = BATCH_SECONDS,
    ) -> None:
        used = _pattern_engine(language) if engine is None else engine
        if not isinstance(used, type) and callable(getattr(used, "analyze", None)):
            self._engine = cast("_Engine", used)
        else:
            raise OptionError("PresidioSpans", "engine", engine, "an AnalyzerEngine, or None")
        try:
            known = sorted(self._engine.get_supported_entities(language=language))
        except ValueError as error:
            raise OptionError("PresidioSpans", "language", language, "one that the engine supports") from error
        if entities is None:
            entities = [entity for entity in NAMES if entity in known and entity not in _NOT_BY_DEFAULT]
        named = isinstance(entities, Mapping)
        chosen = renamed("PresidioSpans", "entities", entities, known)
        self._names = {entity: name if named else _type_of(entity) for entity, name in chosen.items()}
        self._language = language
        self._threshold = checked_threshold("PresidioSpans", threshold)
        self.batch_size, self.batch_seconds = batch_size, batch_seconds
        self.types = tuple(dict.fromkeys(self._names.values()))

    def find(self, texts: Sequence[str]) -> list[list[Span]]:
        """Return the spans of each text; they may overlap."""
        return [
            [Span(each.start, each.end, self._names[each.entity_type], each.score) for each in self._found(text)]
            for text in texts
        ]

    def _found(self, text: str) -> Sequence[_Result]:
        return self._engine.analyze(
            text=text, language=self._language, entities=[*self._names], score_threshold=self._threshold
        )

    def __repr__(self) -> str:
        """Show the language and the types."""
        return f"PresidioSpans(language={self._language!r}, types={self.types!r})"


def _type_of(entity: str) -> str:
    return NAMES.get(entity, entity.lower().replace("_", "-"))


class _Engine(Protocol):
    """The used methods of an ``AnalyzerEngine``."""

    def get_supported_entities(self, language: str | None = None) -> list[str]: ...

    def analyze(
        self, text: str, language: str, entities: list[str] | None = None, *, score_threshold: float | None = None
    ) -> Sequence[_Result]: ...


def _pattern_engine(language: str) -> object:
    """Return an engine with Presidio's patterns alone. Nothing is read from the network.

    Raises:
        MissingExtraError: Presidio is not installed.
    """
    if find_spec("presidio_analyzer") is None:
        raise MissingExtraError("PresidioSpans", "presidio")
    spacy = import_module("spacy")
    presidio = import_module("presidio_analyzer")
    providers = import_module("presidio_analyzer.nlp_engine")
    domains = import_module("tldextract.tldextract")
    # It would ask the network for top-level domains first, and then take the list that it brings along.
    vars(domains)["TLD_EXTRACTOR"] = domains.TLDExtract(suffix_list_urls=(), cache_dir=None)
    models = [{"lang_code": language, "model_name": "blank"}]
    nlp = providers.SpacyNlpEngine(models=models, ner_model_configuration=providers.NerModelConfiguration())
    nlp.nlp = {language: spacy.blank(language)}
    engine: object = presidio.AnalyzerEngine(nlp_engine=nlp, supported_languages=[language])
    return engine
