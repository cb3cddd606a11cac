"""Reports of a run over rows: `RunReport` is an HTML page with every trace, `ShortReport` Markdown or JSON."""

SAMPLES = 3
"""How many samples of each verdict and step a short report has by default."""
