"""Evaluation: how often a workflow and each of its steps are right on labelled rows, and false alarms a day."""

from penstock.lazy import lazily

__getattr__, __dir__, __all__ = lazily(__name__, __file__)
