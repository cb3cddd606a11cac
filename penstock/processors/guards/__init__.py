"""Guards: personal data, moderation, prompt injection, language, system-prompt leaks. Names are loaded when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.guards.classifications import Classification
    from penstock.processors.guards.classifier import ClassifierProcessor
    from penstock.processors.guards.detections import Detection
    from penstock.processors.guards.language_detector import ANSWER_LANGUAGE, LANGUAGE, LanguageDetector
    from penstock.processors.guards.leak_verdicts import LeakVerdict
    from penstock.processors.guards.moderation import ModerationProcessor, ModerationVerdict
    from penstock.processors.guards.pii_detector import PIIDetector
    from penstock.processors.guards.pii_types import PIIType
    from penstock.processors.guards.prompt_injection import InjectionVerdict, PromptInjectionDetector
    from penstock.processors.guards.questions import Question
    from penstock.processors.guards.restore import Restore
    from penstock.processors.guards.system_prompt_scrubber import SystemPromptScrubber
    from penstock.processors.guards.vault import VAULT, Vault
else:
    __getattr__, __dir__ = lazily(
        __name__,
        classifications=["Classification"],
        classifier=["ClassifierProcessor"],
        detections=["Detection"],
        language_detector=["ANSWER_LANGUAGE", "LANGUAGE", "LanguageDetector"],
        leak_verdicts=["LeakVerdict"],
        moderation=["ModerationProcessor", "ModerationVerdict"],
        pii_detector=["PIIDetector"],
        pii_types=["PIIType"],
        prompt_injection=["InjectionVerdict", "PromptInjectionDetector"],
        questions=["Question"],
        restore=["Restore"],
        system_prompt_scrubber=["SystemPromptScrubber"],
        vault=["VAULT", "Vault"],
    )

__all__ = [
    "ANSWER_LANGUAGE",
    "LANGUAGE",
    "VAULT",
    "Classification",
    "ClassifierProcessor",
    "Detection",
    "InjectionVerdict",
    "LanguageDetector",
    "LeakVerdict",
    "ModerationProcessor",
    "ModerationVerdict",
    "PIIDetector",
    "PIIType",
    "PromptInjectionDetector",
    "Question",
    "Restore",
    "SystemPromptScrubber",
    "Vault",
]
