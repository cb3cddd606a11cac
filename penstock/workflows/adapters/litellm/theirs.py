"""LiteLLM itself. It is imported by name, since the tools that check our types run where it is not installed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from penstock.engine.values.errors import MissingExtraError

try:
    litellm: Any = import_module("litellm")
except ImportError as error:
    raise MissingExtraError("penstock.workflows.adapters.litellm", "litellm") from error

types: Any = import_module("litellm.types.utils")
"""The classes of its answers: `ModelResponse`, `ModelResponseStream` …"""
