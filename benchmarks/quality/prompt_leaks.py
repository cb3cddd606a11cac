"""Leaks of system prompts: excerpts of prompts hidden in clean answers in several forms, and clean answers flagged."""

from __future__ import annotations

from benchmarks.quality.rows import Data
from benchmarks.quality.tables import Section


def measure(data: Data, *, peers: bool) -> Section:
    """Return the figures over the rows that are prompts or answers; there is nothing like it to compare with."""
    del peers
    section = Section("leaks")
    if not data.where(lambda row: "leak" in row.labels or "system_prompt" in row.labels):
        section.notes.append("No row is a system prompt or an answer: leaks are not measured.")
        return section
    section.notes.append("Not measured yet.")
    return section
