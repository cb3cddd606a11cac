"""Guards: personal data, moderation, prompt injection, language, system-prompt leaks. Names are loaded when used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_HOME_OF = {
    "ANSWER_LANGUAGE": "language_detector",
    "Classification": "classifications",
    "ClassifierProcessor": "classifier",
    "Detection": "detections",
    "InjectionVerdict": "prompt_injection",
    "LANGUAGE": "language_detector",
    "LanguageDetector": "language_detector",
    "LeakVerdict": "leak_verdicts",
    "ModerationProcessor": "moderation",
    "ModerationVerdict": "moderation",
    "PIIDetector": "pii_detector",
    "PIIType": "pii_types",
    "PromptInjectionDetector": "prompt_injection",
    "Question": "questions",
    "Restore": "restore",
    "SystemPromptScrubber": "system_prompt_scrubber",
    "VAULT": "vault",
    "Vault": "vault",
}

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


def __getattr__(name: str) -> Any:
    """Load a public name from its module (PEP 562)."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"{__name__} has no {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
