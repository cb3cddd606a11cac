"""What of a text every store has a place for. Pure."""


def storable(text: str) -> str:
    """Return a text without NUL characters, and with question marks for halves of surrogate pairs."""
    return text.replace("\x00", "").encode(errors="replace").decode()
