"""The presets that judge by guards: ``injection``, ``moderation``, ``privacy``, and all of them in ``safety``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from penstock.engine.graph.nodes import Policy
from penstock.engine.processor.processor import flag
from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import EMPTY
from penstock.engine.workflow import Workflow
from penstock.processors.guards import (
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    Restore,
    SystemPromptScrubber,
)
from penstock.workflows.presets.hygiene import ExplainPlaceholders, SomethingHidden, plain_letters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.detection.places.owner import Allowed, Fields
    from penstock.engine.graph.builder import PolicyOptions
    from penstock.engine.text_guards.scope import SystemMessages, Unscanned
    from penstock.engine.values.protocols import JudgeSource, Model
    from penstock.processors.guards import LanguageDetector

Strategy = Literal["block", "warn", "filter"]
Hiding = Literal["redact", "block", "warn", "filter"]

JUDGE_TIMEOUT = 60.0
"""How many seconds a step that asks a model may take by default, with all of its attempts and waiting."""


def time_limit(model: object, timeout: float | None) -> PolicyOptions:
    """Return the policy of steps that ask a model; an empty one if there is no model, so that sync steps stay quick.

    Raises:
        OptionError: it is not a number of seconds above 0, or None.
    """
    limit = Policy(timeout=timeout)
    return {} if model is None else {"timeout": limit.timeout}


def injection(
    model: Model | str | JudgeSource | None = None,
    *,
    strategy: Strategy = "block",
    leaks: Hiding = "redact",
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Detect injected instructions in messages and tool results, and the system prompt in answers and tool calls.

    Most attacks want the system prompt, so finding it in an answer also shows that an attack was missed.

    Args:
        model: asked where the embedded detector is not sure. None: the embedded detector only.
        strategy: what to do with an attack: ``block``, ``warn`` or ``filter``.
        leaks: what to do with passages of the system prompt: ``redact``, ``block``, ``warn`` or ``filter``.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed.
    """
    detector = PromptInjectionDetector(model, strategy=strategy, system=system, unscanned=unscanned)
    scrubber = SystemPromptScrubber(strategy=leaks, redaction_method="placeholder", unscanned=unscanned)
    return Workflow("injection").then(plain_letters(system)).parallel(detector, scrubber, **time_limit(model, timeout))


def moderation(
    model: Model | str | JudgeSource | None = None,
    *,
    strategy: Strategy | None = None,
    categories: Iterable[str] | None = None,
    threshold: float | Mapping[str, float] | None = None,
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Judge messages, answers, and arguments and results of tools by categories of harmful content.

    Args:
        model: the judge. None: the embedded detector, which makes mistakes, so that it only warns by default.
        strategy: ``block``, ``warn`` or ``filter``. None: ``block`` with a model, ``warn`` without.
        categories: the categories to look for. None: all.
        threshold: the score from which a category counts, 0 to 1: one number, or a mapping by category. None: the
            default of `ModerationProcessor`.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed.
    """
    judge = ModerationProcessor(
        model, strategy=strategy, categories=categories, threshold=threshold, system=system, unscanned=unscanned
    )
    return Workflow("moderation").then(plain_letters(system)).then(judge, **time_limit(model, timeout))


def privacy(
    model: Model | str | JudgeSource | None = None,
    *,
    strategy: Hiding = "redact",
    types: Iterable[str] | None = None,
    restore: bool = False,
    fields: Fields = EMPTY,
    allow: Iterable[Allowed] = (),
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Hide personal data and keys in messages, answers, and arguments and results of tools.

    If something was hidden in a message, a system message explains the placeholders to the model. With ``restore``, the
    model gets numbered tokens, and the client and the tools get the original values: the data is hidden from the
    model only.

    Args:
        model: asked for what has no fixed form: names, addresses, dates of birth. None: only what patterns and check
            digits find.
        strategy: ``redact``, ``block``, ``warn``, or ``filter``, which removes the whole message.
        types: the types to look for, with the names of `PIIDetector`. None: all that can be found, except links
            and UUIDs.
        restore: whether to put the values back in answers and in calls to tools; needs ``redact``.
        fields: types of personal data by the paths of values in JSON and structured answers, or None for values that
            hold none, as in ``{"customer.phone": "phone", "*.cursor": None}``; see `PIIDetector`.
        allow: values, patterns, functions, domains and kinds that are no personal data; see `PIIDetector`.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed, a type needs a model and there is none, or ``restore`` is combined with
            a strategy other than ``redact``.
    """
    if flag("privacy", "restore", restore) and strategy != "redact":
        raise OptionError(
            "privacy", "strategy", strategy, "'redact' with restore=True, because other strategies keep no values"
        )
    detector = PIIDetector(
        model,
        detection_types=types,
        strategy=strategy,
        redaction_method="token" if restore else "placeholder",
        phase="input" if restore else "all",
        history=restore,  # else the next model call of an agent reads what was put back into the last answer
        fields=fields,
        allow=allow,
        system=system,
        unscanned=unscanned,
        id="personal-data",
    )
    workflow = Workflow("privacy").then(plain_letters(system)).then(detector, **time_limit(model, timeout))
    if strategy == "redact":
        workflow = workflow.branch((SomethingHidden((detector.found,)), ExplainPlaceholders()))
    return workflow.then(Restore()) if restore else workflow


def safety(
    model: Model | str | JudgeSource | None = None,
    *,
    personal: Hiding = "redact",
    harm: Strategy | None = None,
    attacks: Strategy = "block",
    leaks: Hiding = "redact",
    languages: Iterable[str] | None = None,
    fields: Fields = EMPTY,
    allow: Iterable[Allowed] = (),
    system: SystemMessages = "client",
    unscanned: Unscanned | None = None,
    timeout: float | None = JUDGE_TIMEOUT,
) -> Workflow:
    """Hide personal data, judge content, detect injected instructions, and keep the system prompt out of answers.

    All guards run in parallel. The first that blocks stops the others. What several of them hide is hidden once.

    Args:
        model: asked about what depends on context, and where the embedded detectors are not sure. None: the embedded
            detectors only.
        personal: what to do with personal data and keys: ``redact``, ``block``, ``warn`` or ``filter``.
        harm: what to do with harmful content: ``block``, ``warn`` or ``filter``. None: ``block`` with a model,
            ``warn`` without.
        attacks: what to do with injected instructions: ``block``, ``warn`` or ``filter``.
        leaks: what to do with passages of the system prompt in answers: ``redact``, ``block``, ``warn`` or ``filter``.
        languages: the languages in which users may write, as codes or names; others are blocked. None: any language,
            without a check.
        fields: types of personal data by the paths of values in JSON and structured answers, or None for values that
            hold none, as in ``{"customer.phone": "phone", "*.cursor": None}``; see `PIIDetector`.
        allow: values, patterns, functions, domains and kinds that are no personal data; see `PIIDetector`.
        system: which system messages to check: those that a ``client`` sent (the default), ``all`` or ``none``.
        unscanned: what to do with bodies that no guard can read, such as pictures: ``block``, ``flag`` or ``allow``.
            None: ``block``, except in guards that only warn.
        timeout: how many seconds each step that asks the model may take, with all of its attempts; None: no limit. One
            that takes longer has failed, which blocks.

    Raises:
        OptionError: an option is not allowed.
        MissingExtraError: ``languages`` is given, and the extra ``language`` is not installed.
    """
    guards = (
        PIIDetector(
            model,
            strategy=personal,
            redaction_method="placeholder",
            fields=fields,
            allow=allow,
            system=system,
            unscanned=unscanned,
            id="personal-data",
        ),
        ModerationProcessor(model, strategy=harm, system=system, unscanned=unscanned),
        PromptInjectionDetector(model, strategy=attacks, system=system, unscanned=unscanned),
        SystemPromptScrubber(strategy=leaks, redaction_method="placeholder", unscanned=unscanned),
    )
    limit = time_limit(model, timeout)
    return Workflow("safety").then(plain_letters(system)).parallel(*guards, *_language_guard(languages), **limit)


def _language_guard(languages: Iterable[str] | None) -> tuple[LanguageDetector, ...]:
    if languages is None:
        return ()
    from penstock.processors.guards import LanguageDetector  # its tables take time to load

    return (LanguageDetector(target_languages=languages, strategy="block"),)
