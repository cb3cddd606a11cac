"""`ClientKeys`: the keys of clients, of which the gateway knows only hashes."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from penstock.workflows.policies.problems import FilePlace

if TYPE_CHECKING:
    from penstock.workflows.policies.problems import Problems

LEAST_LENGTH = 24
"""How long a key must be at least, in characters. A hash of a short one could be guessed."""

_NAME = r"[A-Za-z0-9._-]+"
_LINE = re.compile(rf"(?P<name>{_NAME})\s+sha256:(?P<hash>[0-9a-f]{{64}})(?:\s+until=(?P<until>\d{{4}}-\d\d-\d\d))?")


@dataclass(frozen=True, slots=True)
class ClientKey:
    """The hash of a client's key.

    Attributes:
        name: the name of the client, for routes and logs.
        digest: the SHA-256 of the key.
        until: the last day on which it is taken, in UTC; None: it does not end.
    """

    name: str
    digest: bytes = field(repr=False)
    until: date | None = None


@dataclass(frozen=True, slots=True)
class ClientKeys:
    """The keys of clients.

    Attributes:
        keys: the keys.
    """

    keys: tuple[ClientKey, ...]

    def name_of(self, key: str | None, today: date | None = None) -> str | None:
        """Return the name of the client with a key; None if nobody has it, or its time is over.

        All hashes are compared, each in constant time, so that the time does not tell which one was nearly right.

        Args:
            key: the key; None: the client sent none.
            today: the date in UTC; None: that of the system.
        """
        if key is None:
            return None
        digest = hashlib.sha256(key.encode(errors="surrogateescape")).digest()
        found = None
        for one in self.keys:
            if hmac.compare_digest(one.digest, digest):
                found = one
        if found is None or (found.until is not None and (today or datetime.now(UTC).date()) > found.until):
            return None
        return found.name


def read_keys(text: str, file: str, problems: Problems) -> ClientKeys:
    """Return the keys of a file of hashes.

    Each line is ``NAME sha256:HASH``, with ``until=2027-01-31`` behind it if the key ends. Blank lines, and lines that
    begin with ``#``, are left out. No fault quotes a line: somebody may have written a key there.

    Args:
        text: the text of the file.
        file: its name, for faults.
        problems: takes the faults.
    """
    found: list[ClientKey] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        until = None if match is None else _day(match["until"])
        if match is None or (match["until"] and until is None):
            message = "this line is no hash of a key: `penstock serve --new-key NAME` writes one"
            problems.add(FilePlace(file, number), message)
            continue
        digest = bytes.fromhex(match["hash"])
        if any(one.digest == digest for one in found):
            problems.add(FilePlace(file, number), "this key stands in the file twice; remove one of the lines")
        found.append(ClientKey(match["name"], digest, until))
    return ClientKeys(tuple(found))


def new_key() -> str:
    """Return a new key: 256 random bits, with a prefix by which scanners of repositories find it."""
    return f"psk-{secrets.token_urlsafe(32)}"


def line_of_key(name: str, key: str) -> str:
    """Return the line of a key for the file of hashes.

    Args:
        name: the name of the client: letters, digits, '.', '_' and '-'.
        key: the key.

    Raises:
        ValueError: the name has other characters, or the key is shorter than `LEAST_LENGTH`.
    """
    if re.fullmatch(_NAME, name) is None:
        raise ValueError("the name of a client has letters, digits, '.', '_' and '-' only")
    if len(key) < LEAST_LENGTH:
        raise ValueError(f"a key must have at least {LEAST_LENGTH} characters; --new-key makes one")
    return f"{name} sha256:{hashlib.sha256(key.encode()).hexdigest()}"


def _day(given: str | None) -> date | None:
    try:
        return None if given is None else date.fromisoformat(given)
    except ValueError:
        return None
