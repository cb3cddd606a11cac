"""Conformance with what the reference was observed to do (`oracle/`); see DESIGN §12 for how it counts."""
