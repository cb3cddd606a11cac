"""The command ``penstock``: run, draw, validate and list workflows from a shell; `main` is its entry point."""

from __future__ import annotations

from penstock.workflows.cli.app import main

__all__ = ["main"]
