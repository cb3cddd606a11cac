"""`StudioError`: an error that the studio answers a request with, as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.errors import PenstockError
from penstock.workflows.studio.settings import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

STATUS: Mapping[str, int] = {
    "bad_request": 400,
    "token": 401,
    "origin": 403,
    "host": 403,
    "not_found": 404,
    "method": 405,
    "conflict": 409,
    "too_large": 413,
    "content_type": 415,
    "options": 422,
    "busy": 429,
    "internal": 500,
}
"""The kinds of errors, with the status of their answer."""


class StudioError(PenstockError):
    """A request that the studio refuses.

    Attributes:
        kind: one of the names in `STATUS`.
        message: the problem, and its cure.
        more: further fields of the answer, as JSON values.
    """

    def __init__(self, kind: str, message: str, **more: object) -> None:
        self.kind = kind
        self.message = message
        self.more = more
        super().__init__(message)

    @classmethod
    def too_large(cls, limit: int, what: str, option: str) -> StudioError:
        """Return the error for more bytes than a limit, which an option of the command can raise."""
        message = f"{what} is larger than {limit // MIB} MiB; start the studio with {option} MIB to allow more"
        return cls("too_large", message, limit=limit)

    @property
    def status(self) -> int:
        """The HTTP status of the answer."""
        return STATUS[self.kind]

    def to_json(self) -> dict[str, object]:
        """Return the body of the answer."""
        return {"error": {"kind": self.kind, "message": self.message, **self.more}}
