"""The types of labelled spans: their names in other data sets."""

from __future__ import annotations

ALIASES = {
    "aadhaar": "national-id",
    "card": "credit-card",
    "creditcard": "credit-card",
    "credit-card-number": "credit-card",
    "crypto": "crypto-wallet",
    "date-time": "date",
    "dob": "date-of-birth",
    "email-address": "email",
    "iban-code": "iban",
    "ip": "ip-address",
    "ipv4": "ip-address",
    "ipv6": "ip-address",
    "mac-address": "mac",
    "organisation": "organization",
    "per": "person",
    "phone-number": "phone",
    "phonenumber": "phone",
    "social-security-number": "ssn",
    "telephone": "phone",
    "us-ssn": "ssn",
}
"""Our name for a type by its name elsewhere, in lower case and with hyphens."""


def own_type(name: str) -> str:
    """Return our name for a type: in lower case, with hyphens, ``email`` for ``EMAIL_ADDRESS``."""
    plain = name.strip().lower().replace("_", "-").replace(" ", "-")
    return ALIASES.get(plain, plain)
