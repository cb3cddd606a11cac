"""Processors that decide what a model call is made with: a callback's word, a model by request. It knows no family."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.routing.decisions import MODEL_CHOICE, ModelChoice, ModelDecision
    from penstock.processors.routing.model_selection import ModelSelectionProcessor
    from penstock.processors.routing.prepare_step import PrepareStepProcessor
else:
    __getattr__, __dir__ = lazily(
        __name__,
        decisions=["MODEL_CHOICE", "ModelChoice", "ModelDecision"],
        model_selection=["ModelSelectionProcessor"],
        prepare_step=["PrepareStepProcessor"],
    )

__all__ = ["MODEL_CHOICE", "ModelChoice", "ModelDecision", "ModelSelectionProcessor", "PrepareStepProcessor"]
