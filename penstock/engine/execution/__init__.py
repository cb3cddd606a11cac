"""Run a compiled plan over one payload, up to its outcome."""
