"""Your own workflow on the command line.

``penstock run examples/guards.py:guard --input FILE``
"""

from penstock import RegexFilterProcessor, UnicodeNormalizer, Workflow

guard = (
    Workflow("guard")
    .then(UnicodeNormalizer())
    .parallel(
        RegexFilterProcessor(presets=["pii"], strategy="redact", id="pii"),
        RegexFilterProcessor(presets=["secrets"], strategy="block", id="secrets"),
    )
)
