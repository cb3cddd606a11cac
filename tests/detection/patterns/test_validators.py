"""Check sums, ranges and lengths."""

import pytest

from penstock.detection.patterns import validators

GOOD = {
    "card": ["4111 1111 1111 1111", "378282246310005", "5555-5555-5555-4444", "2223003122003222", "6011111111111117"],
    "iban": ["GB82 WEST 1234 5698 7654 32", "de89370400440532013000", "NO9386011117947"],
    "ssn": ["123-45-6789", "899-99-9999"],
    "ip-address": ["8.8.8.8", "2001:db8::1", "::ffff:1.2.3.4"],
    "luhn": [
        "79927398713",
        "7992-7398 713",
        "\u0667\u0669\u0669\u0662\u0667\u0663\u0669\u0668\u0667\u0661\u0663",
    ],  # in Arabic digits, too
    "token": ["a8f5f167f44f4964", "HgikpUzur6WkE4ol7r2yk"],
    "password": ["hunter2!", "correct horse", "myPassword9"],
}
BAD = {
    "card": ["4111 1111 1111 1112", "1234567890123456", "0000000000000000", "41111"],
    "iban": ["GB82 WEST 1234 5698 7654 33", "XX89370400440532013000", "DE8937040044053201300", ""],
    "ssn": ["000-45-6789", "666-45-6789", "900-45-6789", "123-00-6789", "123-45-0000", "12-345-678"],
    "ip-address": ["127.0.0.1", "::", "::1", "0.0.0.1.2", "256.1.1.1", "1.2.3"],
    "luhn": ["79927398710", "0000000000", "\u0667\u0669\u0669\u0662\u0667\u0663\u0669\u0668\u0667\u0661\u0660", ""],
    "token": ["documentation", "your_token_123", "${TOKEN_1}", "https://x.io/a1b2c3d4", "aaaaaaaa"],
    "password": ["your_password", "${PASSWORD}", "********", "<password>", "/etc/passwd1", "https://x.io"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in GOOD.items() for text in texts])
def test_what_can_be_is_let_through(name: str, text: str) -> None:
    """Examples that issuers publish."""
    assert validators.VALIDATORS[name](text)


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in BAD.items() for text in texts])
def test_what_cannot_be_is_not(name: str, text: str) -> None:
    """One digit off, numbers that nobody was given, placeholders."""
    assert not validators.VALIDATORS[name](text)


def test_entropy_is_in_bits_a_character() -> None:
    """One for two symbols in equal parts, none for one or for nothing."""
    assert [validators.entropy(text) for text in ("abab", "aaaa", "", "abcdabcd")] == [1.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("Basic dXNlcjpwYXNzd29yZA==", True), ("basic dXNlcjpwYXNzd29yZA", True), ("basic training", False)],
)
def test_basic_credentials_are_a_name_and_a_password(text: str, is_one: bool) -> None:
    """In base64."""
    assert validators.basic_credentials(text) is is_one
