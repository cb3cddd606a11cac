"""The command ``penstock``: run, draw, compare, check and list workflows, and manage stored conversations."""

from __future__ import annotations

from penstock.workflows.cli.app import main

__all__ = ["main"]
