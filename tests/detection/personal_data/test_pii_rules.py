"""The preset ``pii``: what is found, and what only looks like it."""

import pytest

from penstock.detection.patterns.matching import Finder
from penstock.processors.text.regex_filter import preset

FINDER = Finder(preset("pii"))


def redacted(text: str, finder: Finder = FINDER) -> str:
    """Return the text with what is found replaced."""
    made, at = "", 0
    for region in finder.unite(text, finder.find(text)):
        made, at = made + text[at : region.start] + region.replacement, region.end
    return made + text[at:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a@b.io, c@d.io", "[EMAIL], [EMAIL]"),
        ("write jörg.müller+x@sub.münchen.de.", "write [EMAIL]."),
        ("请联系我a@b.io谢谢", "请联系我[EMAIL]谢谢"),
        ("a@b.ioa@b.io", "[EMAIL]"),
        ("tel 5551234567 end", "tel [PHONE] end"),
        ("mobile=15551234567 end", "mobile=[PHONE] end"),
        ("(555) 123-4567 or 555.123.4567 or +1 555-123-4567 x12", "[PHONE] or [PHONE] or [PHONE]"),
        ("+49 (0)30 1234567, +33 1 42 68 53 00, 001-846-853-9089x92556", "[PHONE], [PHONE], [PHONE]"),
        ("079 7602 9803 and (08) 8747 6301", "[PHONE] and [PHONE]"),
        ("call me: 329 7730, or 28-81-33-70 home", "call me: [PHONE], or [PHONE] home"),
        ("手机 13812345678", "手机 [PHONE]"),
        ("123-45-6789", "[SSN]"),
        ("123–45–6789", "[SSN]"),
        ("ssn 123456789", "ssn [SSN]"),
        ("SSN 987-65-4321", "SSN [SSN]"),
        ("card 4111-1111-1111-1111 exp", "card [CREDIT_CARD] exp"),
        ("amex 378282246310005", "amex [CREDIT_CARD]"),
        ("amex 3782 822463 10005", "amex [CREDIT_CARD]"),
        ("1 2 3 4 4111 1111 1111 1111 123", "1 2 3 4 [CREDIT_CARD] 123"),
        ("GB82 WEST 1234 5698 7654 32!", "[IBAN]!"),
        ("de89370400440532013000", "[IBAN]"),
        ("from 8.8.8.8:53 and 2a02:db8::1, ::ffff:1.2.3.4", "from [IP_ADDRESS]:53 and [IP_ADDRESS], [IP_ADDRESS]"),
    ],
)
def test_what_is_personal_is_found(text: str, expected: str) -> None:
    """Shapes, check sums, words nearby."""
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "ts=1700000000",
        "at 1700000000 and 1700000000123",
        "order 5551234567",
        "invoice no. 212-555-0100",
        "2024-01-02 10:30:45",
        "01-02-2023 10 30",
        "(1998) 1999-2004",
        "pages 2010-2014",
        "version 1.2.3.4",
        "v10.20.30.40",
        "1.2.3.4.5",
        "localhost 127.0.0.1, 0.0.0.0, ::1",
        "std::vector<int> a::b",
        "12:30:45",
        "4111 1111 1111 1112",
        "1234-5678-9012-3456",
        "0.4111111111111111",
        "id3f41111111111111111",
        "000-12-3456",
        "550e8400-e29b-41d4-a716-446655440000",
        "GB82 WEST 1234 5698 7654 33",
        "user@host, @decorator, a@b",
        "1,000,000,000.50 and 3.14159265358979",
        "1 2 3 4 5 6 7 8 9 10 11 12",
    ],
)
def test_what_only_looks_like_it_is_not(text: str) -> None:
    """Time stamps, dates, versions, code, numbers that fail their check."""
    assert redacted(text) == text
