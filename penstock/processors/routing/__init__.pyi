from penstock.processors.routing.model_selection import (
    MODEL_CHOICE as MODEL_CHOICE,
    ModelChoice as ModelChoice,
    ModelDecision as ModelDecision,
    ModelSelectionProcessor as ModelSelectionProcessor,
)
from penstock.processors.routing.prepare_step import PrepareStepProcessor as PrepareStepProcessor
