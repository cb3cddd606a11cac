"""Attacks on guards that once worked: where what is hidden could still be read, or got past."""

from __future__ import annotations

import base64

import pytest

from penstock import PIIDetector, Workflow


@pytest.mark.parametrize("value", ["+49 170 1234567", "4532 0151 1283 0366", "DE89370400440532013000"])
def test_a_mask_leaves_no_letters_of_a_code(value: str) -> None:
    """A mask that keeps the form of a number leaves letters, which say the number where it is encoded."""
    code = base64.b64encode(f"call {value} now please".encode()).decode()
    text = Workflow("w").then(PIIDetector()).check_sync(f"code: {code} ok").text
    assert text == "code: ******** ok"
