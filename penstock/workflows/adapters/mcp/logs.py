"""`logs_without_texts`: the loggers of the MCP library say what failed and where, but quote no message."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from penstock.engine.values.errors import without_text

if TYPE_CHECKING:
    from collections.abc import Generator

_LOGGERS = (
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.client.sse",
    "mcp.server.stdio",
    "mcp.server.streamable_http",
)


@contextmanager
def logs_without_texts() -> Generator[None]:
    """Keep texts of messages out of the logs of the library's transports, except out of those for debugging."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    quiet = _WithoutTexts()
    for logger in loggers:
        logger.addFilter(quiet)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(quiet)


class _WithoutTexts(logging.Filter):
    """Replaces the text of a record, which may quote a message, by its place in the library and the error's type."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Change the record, and let it pass."""
        if record.levelno > logging.DEBUG:
            error = record.exc_info[1] if record.exc_info else None
            failed = "" if error is None else f": {without_text(error)}"
            record.msg, record.args = "mcp: the transport reported line %s%s", (record.lineno, failed)
            record.exc_info = record.exc_text = None
        return True
