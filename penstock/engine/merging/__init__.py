"""Merging the edits of parallel branches into one payload."""
