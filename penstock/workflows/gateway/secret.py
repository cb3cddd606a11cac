"""`Secret`: a key that no log, error, `repr` or pickle shows."""

from __future__ import annotations

from typing import NoReturn


class Secret:
    """A key of a provider, or another text that must not be seen.

    Args:
        value: the text.
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text, to send it."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __eq__(self, other: object) -> bool:
        """Compare the texts."""
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        """Hash the text."""
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied into a file.

        Raises:
            TypeError: always.
        """
        raise TypeError("a Secret cannot be pickled")
