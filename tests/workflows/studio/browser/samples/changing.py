"""A workflow that the tests edit while the studio shows it."""

from penstock import UnicodeNormalizer, Workflow

flow = Workflow("changing").then(UnicodeNormalizer(id="first"))
