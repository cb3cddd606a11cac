"""Immutable values that flow through a workflow: messages, chunks, edits, facts, verdicts, records; and the ports."""
