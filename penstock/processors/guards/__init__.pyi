from penstock.processors.guards.classifications import Classification as Classification
from penstock.processors.guards.classifier import ClassifierProcessor as ClassifierProcessor
from penstock.processors.guards.detections import Detection as Detection
from penstock.processors.guards.language_detector import (
    ANSWER_LANGUAGE as ANSWER_LANGUAGE,
    LANGUAGE as LANGUAGE,
    LanguageDetector as LanguageDetector,
)
from penstock.processors.guards.leak_verdicts import LeakVerdict as LeakVerdict
from penstock.processors.guards.moderation import (
    ModerationProcessor as ModerationProcessor,
    ModerationVerdict as ModerationVerdict,
)
from penstock.processors.guards.pii_detector import PIIDetector as PIIDetector
from penstock.processors.guards.pii_types import PIIType as PIIType
from penstock.processors.guards.prompt_injection import (
    InjectionVerdict as InjectionVerdict,
    PromptInjectionDetector as PromptInjectionDetector,
)
from penstock.processors.guards.questions import Question as Question
from penstock.processors.guards.restore import Restore as Restore
from penstock.processors.guards.system_prompt_scrubber import SystemPromptScrubber as SystemPromptScrubber
from penstock.processors.guards.vault import VAULT as VAULT, Vault as Vault
