"""Detectors that search text without a model, a key or a download; they know no processor and no stage."""
