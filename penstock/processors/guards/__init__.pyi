from penstock.processors.guards.classifier import (
    Classification as Classification,
    ClassifierProcessor as ClassifierProcessor,
)
from penstock.processors.guards.detection import Detection as Detection
from penstock.processors.guards.language_detector import (
    ANSWER_LANGUAGE as ANSWER_LANGUAGE,
    LANGUAGE as LANGUAGE,
    LanguageDetector as LanguageDetector,
)
from penstock.processors.guards.moderation import ModerationProcessor as ModerationProcessor
from penstock.processors.guards.pii_detector import PIIDetector as PIIDetector
from penstock.processors.guards.pii_search import PIIType as PIIType
from penstock.processors.guards.prompt_injection import PromptInjectionDetector as PromptInjectionDetector
from penstock.processors.guards.question import Question as Question
from penstock.processors.guards.restore import VAULT as VAULT, Restore as Restore, Vault as Vault
from penstock.processors.guards.system_prompt_scrubber import SystemPromptScrubber as SystemPromptScrubber
from penstock.processors.guards.verdicts import (
    InjectionVerdict as InjectionVerdict,
    LeakVerdict as LeakVerdict,
    ModerationVerdict as ModerationVerdict,
)
