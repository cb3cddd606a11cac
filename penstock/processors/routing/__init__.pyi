"""Processors that decide what a model call is made with: a callback's word, a model by request. It knows no family."""

from penstock.processors.routing.decisions import MODEL_CHOICE as MODEL_CHOICE
from penstock.processors.routing.decisions import ModelChoice as ModelChoice
from penstock.processors.routing.decisions import ModelDecision as ModelDecision
from penstock.processors.routing.model_selection import ModelSelectionProcessor as ModelSelectionProcessor
from penstock.processors.routing.prepare_step import PrepareStepProcessor as PrepareStepProcessor
