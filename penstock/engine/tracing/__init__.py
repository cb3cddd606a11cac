"""Traces of runs: the log that a run writes, its observers, spans, events and records, and their JSON."""
