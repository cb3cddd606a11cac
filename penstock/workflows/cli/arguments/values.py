"""Functions that read the value of an argument: numbers, parts, seconds, addresses, JSON."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any, cast

_LAST_PORT = 65535


def natural(given: str) -> int:
    """Read a whole number from 0."""
    if not given.isdecimal():
        raise argparse.ArgumentTypeError(f"{given!r} is not a whole number")
    return int(given)


def positive(given: str) -> int:
    """Read a whole number from 1."""
    number = natural(given)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{given} is less than 1")
    return number


def seconds(given: str) -> float:
    """Read a finite number of seconds above 0."""
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of seconds above 0")
    return number


def above_zero(given: str) -> float:
    """Read a finite number above 0."""
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{given!r} is not a number above 0")
    return number


def part(given: str) -> float:
    """Read a part between 0 and 1, also in per cent."""
    try:
        number = float(given.removesuffix("%")) / (100 if given.endswith("%") else 1)
    except ValueError:
        number = math.nan
    if not 0 < number < 1:
        raise argparse.ArgumentTypeError(f"{given!r} is not a part between 0 and 1, such as 0.001 or 0.1%")
    return number


def address(given: str) -> tuple[str, int]:
    """Read ``HOST:PORT``; without a host, that of this machine."""
    host, _, port = given.rpartition(":")
    if not port.isdecimal() or int(port) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, for example 127.0.0.1:8000, not {given!r}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def json_object(given: str) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value: Any = json.loads(given)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError("""expected a JSON object, for example '{"tenant": "a"}'""")
    return cast("dict[str, Any]", value)
