"""A file that does not load."""

from penstock import Workflow

flow = Workflow("broken").then(PIDetector())  # noqa: F821  that is what is wrong with it
