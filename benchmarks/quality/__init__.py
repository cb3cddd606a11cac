"""How well the embedded detectors find what they are for, on labelled texts; nothing here is part of the package."""
