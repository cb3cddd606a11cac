"""py3langid as it comes: every language it knows, nothing stripped from the text."""

from __future__ import annotations


class OpenPy3langid:
    """Its first guess."""

    def identify(self, text: str) -> str | None:
        """Return what it takes the text for; Bokmål and Nynorsk are Norwegian to the data."""
        from py3langid.langid import classify

        code = str(classify(text)[0])
        return "no" if code in {"nb", "nn"} else code


def make() -> OpenPy3langid:
    """Return it."""
    import py3langid.langid  # noqa: F401 - whether it is there is known now, not at the first text

    return OpenPy3langid()
