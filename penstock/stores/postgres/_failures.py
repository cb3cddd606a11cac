"""What an error of a server or of its driver means: whether to try again, and what to say; it knows no driver.

Errors are told apart by SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html), which the driver's
have as ``sqlstate``.
"""

from __future__ import annotations

AGAIN = frozenset(
    {
        "25P03",  # the session was idle in a transaction for too long: this process was held up
        "40001",  # a transaction could not be serialised
        "40P01",  # a deadlock was found
        "53300",  # the server has too many connections
        "57P01",  # the server is being stopped
        "57P02",  # the server crashed
        "57P03",  # the server is starting, or cannot take connections now
        "57P05",  # the session was idle for too long
    }
)
"""What passes: the same work is tried again on another connection. All of class 08, connection errors, is beside it."""

_SAID = {
    "28000": "it does not let this user in; see its pg_hba.conf",
    "28P01": "it refuses the user or the password",
    "3D000": "there is no such database; create it first",
    "3F000": "the schema is gone; close the store, and it is made anew",
    "42501": "the user may not do what is needed here (tables are made at first use: CREATE on the database, or on a "
    "schema made before, and CREATE EXTENSION vector for vectors)",
    "42P01": "a table is gone; close the store, and it is made anew",
    "53100": "its disk is full",
    "53200": "it is out of memory",
    "53300": "it has too many connections; lower max_connections of the stores, or raise the server's",
    "54000": "an id is longer than an index can hold (about 2,700 bytes)",
    "25006": "it is read-only: a standby, or a database that is not to be written to",
}

_KEPT_NOTHING = "an id or a name holds what PostgreSQL cannot keep (a NUL character, or half a surrogate pair)"
_CLASSES = {
    "08": "it cannot be reached, or the connection broke",
    "22": _KEPT_NOTHING,
    "40": "others were in the way, again and again",
    "57": "it is not taking connections now",
}
_WITH_DATA = frozenset({"22", "23"})


def state(error: BaseException) -> str:
    """Return the SQLSTATE of an error, or an empty text."""
    found: object = getattr(error, "sqlstate", None)
    return found if isinstance(found, str) else ""


def passes(error: BaseException) -> bool:
    """Tell whether the same work may succeed later: the server was not there, or others were in the way."""
    code = state(error)
    if code:
        return code in AGAIN or code.startswith("08")
    return isinstance(error, (OSError, EOFError)) and not isinstance(error, TimeoutError)


def quotes_data(error: BaseException) -> bool:
    """Tell whether an error's text may quote what was to be stored: it is not to be anybody's ``__cause__``.

    So do those of classes 22 (data) and 23 (constraints), and the driver's own of values that it cannot send.
    """
    code = state(error)
    return code[:2] in _WITH_DATA or (not code and isinstance(error, ValueError))


def problem(error: BaseException, timeout: float) -> str:
    """Return what went wrong, in words that quote nothing; ``timeout``: the seconds that a statement may take."""
    code = state(error)
    if isinstance(error, TimeoutError) or code == "57014":
        return f"it took longer than {timeout:g} s (timeout=), or no connection was free (max_connections=)"
    if type(error).__name__ == "ClientConfigurationError":  # of the driver's; it never quotes a password
        return f"its URL, or an option of the driver, is wrong: {error}"
    if not code and isinstance(error, ValueError):
        return _KEPT_NOTHING
    said = _SAID.get(code) or _CLASSES.get(code[:2])
    if said is None:
        said = _CLASSES["08"] if isinstance(error, OSError) else "it failed"
    return f"{said} ({type(error).__name__}{f', SQLSTATE {code}' if code else ''})"
