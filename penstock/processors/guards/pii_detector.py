"""`PIIDetector`: finds personal data, and redacts or removes it, logs it, or stops the run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Unpack, get_args

from penstock.detection.places.owner import owner_words
from penstock.engine.processor.option_checks import check_count, check_score, check_strategies, widest_strategy
from penstock.engine.processor.processor import flag
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values.frozen import EMPTY, FrozenDict
from penstock.processors.guards.detector_options import use_span_detector
from penstock.processors.guards.guard_options import set_up
from penstock.processors.guards.pii_action import PIIAction, Redaction, check_hash_key, check_methods
from penstock.processors.guards.pii_search import PIISearch, check_countries, looked_for, pii_question
from penstock.processors.guards.restore import VAULT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.detection.places.owner import Allowed, Fields
    from penstock.engine.values.protocols import Judge, JudgeSource, Model, SpanDetector
    from penstock.processors.guards.detector_options import Combine
    from penstock.processors.guards.guard_options import GuardOptions
    from penstock.processors.guards.pii_action import Method
    from penstock.processors.guards.pii_search import PIIType
    from penstock.processors.guards.verdicts import PIIVerdict

Strategy = Literal["redact", "block", "warn", "filter"]

_BY_TYPE = ("redact", "block", "warn")  # the strategies that a type may have, the widest first


class PIIDetector(TextGuard):
    """Finds personal data in all kinds of texts, and in tool arguments and results.

    Patterns and check digits always search first. A model, if there is one, finds data without a fixed form: names,
    addresses, types of your own. The guard then searches the text for the values that the model names.

    Attributes:
        found: the fact with the number of findings of the run by type: ``{"email": 2}``.

    Args:
        model: a `Model` or a `Judge` that is asked about names, addresses, dates of birth and types of your own without
            a pattern, and about nothing else; None (the default) for patterns alone.
        detection_types: names of types, or `PIIType` for types of your own; None (the default) for all that can be
            found, except links and UUIDs (``url``, ``uuid``).
        threshold: how sure the model and the ``detector`` must be, 0 to 1; None (the default): 0.6 for the model, and
            all that the detector returns. Matches of patterns always count.
        strategy: ``redact`` (the default) replaces findings, ``block`` stops the run, ``warn`` only reports, ``filter``
            removes the message, or in an answer the sentence. One for all types, or a mapping by type, with ``*`` for
            the others (``redact`` by default) and without ``filter``.
        redaction_method: how a finding is replaced. ``mask`` (the default): stars; ``hash``: a keyed hash; ``remove``:
            nothing; ``placeholder``: the name of the type; ``token``: a numbered token that `Restore` turns back
            (``[EMAIL_1]``). One for all types, or a mapping by type, with ``*`` for the others.
        preserve_format: whether a mask leaves part of a value readable: the last digits of a number, the ends of a
            name; True by default.
        hash_key: the key of hashes, bytes or text; None (the default) for a random key of the process.
        hash_length: the number of hexadecimal digits of a hash, 4 to 64; 16 by default.
        include_detections: whether the reason of a tripwire has the number of findings; False by default.
        buffer_size: the largest piece of a text that the model is shown at once, in characters, 80 or more; 600 by
            default.
        fields: types of values by their paths in JSON values and JSON text, or by the headers of their columns in
            tables, which overrule the detectors: the whole value is a finding of the type; with None, nothing in it is
            one, whoever wrote the key. None by default. In a path, such as
            ``customer.phone`` or ``*.cursor``, ``*`` stands for any number of steps, indexes of lists are left out, and
            an entry for an object holds for everything in it.
        allow: values that are no findings: texts, compiled patterns or ``"/patterns/"`` that match the whole value,
            functions of the value, domains of e-mail addresses and links (with the domains below them), and kinds, such
            as ``"uuid"`` and ``"example-domain"``; none by default. The record counts them.
        countries: codes of countries (``"de"``, ``"fr"``) whose national numbers are found without a label, too, if
            their check digits are right; none by default.
        spoken: whether data is also found that is written as it is spoken, such as ``jane dot doe at example dot com``
            and numbers in words, in some twelve European languages; False by default.
        detector: a `SpanDetector` of your own, as for names and addresses; None (the default) for patterns alone. Its
            types are among those looked for by default.
        combine: how both become one. ``max`` (the default): what either finds counts; ``replace``: only yours is asked;
            ``confirm``: what patterns find counts if a finding of yours of that type overlaps it.
        options: see `GuardOptions`.

    Raises:
        OptionError: an option is not allowed, or a type needs a model and there is none.
    """

    id = "pii-detector"
    judges_alone = True

    def __init__(
        self,
        model: Model | str | Judge[PIIVerdict] | JudgeSource | None = None,
        *,
        detection_types: Iterable[str | PIIType] | None = None,
        threshold: float | None = None,
        strategy: Strategy | Mapping[str, Strategy] = "redact",
        redaction_method: Method | Mapping[str, Method] = "mask",
        preserve_format: bool = True,
        hash_key: bytes | str | None = None,
        hash_length: int = 16,
        include_detections: bool = False,
        buffer_size: int = 600,
        fields: Fields = EMPTY,
        allow: Iterable[Allowed] = (),
        countries: Iterable[str] = (),
        spoken: bool = False,
        detector: SpanDetector | None = None,
        combine: Combine = "max",
        **options: Unpack[GuardOptions],
    ) -> None:
        name = type(self).__name__
        embedded = flag(name, "embedded", options.get("embedded", True))
        owner = owner_words(name, fields, allow)
        self.fields, self.allow = FrozenDict(owner.fields), owner.allow
        self.countries = check_countries(name, countries)
        own = use_span_detector(self, detector, combine, embedded=embedded)
        looked = looked_for(
            name,
            detection_types,
            detector,
            domains=owner.domains,
            countries=self.countries,
            model=model is not None,
            embedded=embedded,
            combine=combine,
        )
        self.detection_types = None if detection_types is None else looked.given
        self.threshold = None if threshold is None else check_score(name, "threshold", threshold)
        types = (*looked.types, *owner.types)
        self.redaction_method, methods = redaction_method, check_methods(name, redaction_method, types)
        self.preserve_format = flag(name, "preserve_format", preserve_format)
        self.hash_length = check_count(name, "hash_length", hash_length, "a number of digits, 4 to 64", 4, 64)
        self.include_detections = flag(name, "include_detections", include_detections)
        self.buffer_size = check_count(name, "buffer_size", buffer_size, "a number of characters, 80 or more", 80)
        self.numbers = "text" if "token" in methods.values() else "null"
        actions = check_strategies(name, strategy, types, _BY_TYPE, _BY_TYPE[0])
        widest = widest_strategy(strategy, actions, _BY_TYPE, _BY_TYPE[0])
        question, fact, asks = pii_question(looked), ("found", *looked.types), bool(looked.judged)
        setup = set_up(
            self, model, widest, get_args(Strategy), _verdict, question, options, detector=own, asks=asks, fact=fact
        )
        self.strategy, self.finds = actions or setup.strategy, _kinds(types, actions)
        redaction = Redaction(methods, self.preserve_format, check_hash_key(name, hash_key), self.hash_length)
        self.spoken = flag(name, "spoken", spoken)
        search = PIISearch(setup, looked, actions, self.threshold, self.buffer_size, owner, spoken=self.spoken)
        search.install(self, PIIAction(search, actions, redaction, counts=self.include_detections))
        self.found = search.found
        if setup.strategy == "redact" and "token" in methods.values():
            self.provides = (self.found, VAULT)


def _kinds(types: Iterable[str], actions: Mapping[str, str]) -> tuple[str, ...]:
    """Return the kinds of content that a guard looks for; types that it only reports count if it reports them all."""
    acted = [type for type in types if actions.get(type, actions.get("*")) != "warn"] or list(types)
    return tuple(dict.fromkeys("secrets" if type == "api-key" else "personal" for type in acted))


def _verdict() -> type[PIIVerdict]:
    from penstock.processors.guards.verdicts import PIIVerdict

    return PIIVerdict
