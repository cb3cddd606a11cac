"""Tells attempts to take over a model from ordinary requests: a linear model, and rules that name what it saw."""

from __future__ import annotations

from penstock.detection.injection.scorer import WEIGHTS, InjectionScorer

__all__ = ["WEIGHTS", "InjectionScorer"]
