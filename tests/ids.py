"""Names of test cases that are the same in each process: pytest-xdist compares those of its workers."""

import re


def without_address(value: object) -> str:
    """Return a value as text, without the address that functions and objects show."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))
