"""Stores of what is remembered: threads, messages, working memories, vectors; they know no processor."""
