"""The HTML report of a run over rows: `RunReport` collects the results, and writes one file."""
