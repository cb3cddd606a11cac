"""`NotServedError`: a request that the gateway does not serve, with its status, code and words for the client."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.workflows.gateway.http import Headers


class NotServedError(Exception):
    """The gateway refuses a request before any guard reads it.

    Attributes:
        status: the HTTP status.
        code: a word for clients, logs and metrics.
        message: the words for the client; they quote nothing of the request.
        headers: headers of the reply.
    """

    def __init__(self, status: int, code: str, message: str, *, retry_after: float | None = None) -> None:
        self.status = status
        self.code = code
        self.message = message
        seconds = None if retry_after is None else str(max(1, math.ceil(retry_after)))
        self.headers: Headers = () if seconds is None else (("retry-after", seconds),)
        super().__init__(message)
