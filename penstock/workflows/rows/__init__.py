"""Rows: how they are read from files, and their results as JSON."""
