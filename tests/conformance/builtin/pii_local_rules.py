"""Where what patterns find differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.conformance.builtin.frame import Fields
from tests.conformance.builtin.pii_rules import formatted, hidden, is_one, united

FORMS = {
    "credit-card": r"(?<!\d)3[47]\d{2}[ -]?\d{6}[ -]?\d{5}(?!\d)|(?<!\d)6011[ -]?(?:\d{4}[ -]?){2}\d{4}(?!\d)",
    "phone": r"(?<![\w+])\+[1-9]\d{0,2}(?:[ .-]?\d{2,4}){2,4}(?!\w)|(?i:\b(?:phone|tel|call)\W{1,3})(\d{3}-\d{4})\b",
    "ssn": r"(?i:\bssn\W{1,3})(\d{9})\b",
    "iban": r"\b[A-Za-z]{2}\d{2}(?: ?[A-Za-z0-9]{4}){3,7}(?: ?[A-Za-z0-9]{1,3})?\b",
    "ip-address": (
        r"(?<![\w:.])(?:(?:[0-9a-fA-F]{1,4}:){7}|(?=[0-9a-fA-F:]*::))"
        r"[0-9a-fA-F:]*[0-9a-fA-F](?:%\w+)?(?![\w:.])"
    ),
    "url": r"(?<![\w@./-])(?:www\.)?[a-z0-9-]+\.(?:com|net|org|io|co\.uk)(?:/[^\s\"'<>]*[\w/])?(?![\w@-])",
    "api-key": (
        r"\b(?:A[KS]IA(?![0-9A-Z]*EXAMPLE)[0-9A-Z]{16}|gh[posu]_[A-Za-z0-9]{36}|xox[abp]-[\w-]{20,})\b"
        r"|(?i:\bpassword\s*[:=]\s*)([\w!$-]{6,})"
    ),
}
"""What the reference's patterns do not know: other countries' numbers, other ways to write them, other services."""


def anew(options: Fields, text: str, kept: Sequence[Mapping[str, Any]]) -> Fields:
    """Return what is found in a text, and the text with it hidden."""
    spans = [(one["start"], one["end"], one["type"]) for one in kept]
    rows = [
        {"type": type, "value": text[low:high], "start": low, "end": high,
         "redacted_value": formatted(options, type, text[low:high])}
        for low, high, type in sorted(spans)
    ]  # fmt: skip
    return {"detections": rows, "redacted": hidden(options, text, spans) if rows else None}


def what_overlaps_is_one(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The digits of an account are no phone number."""
    if given["method"] != "detect_local":
        return None
    spans = united([(one["start"], one["end"], one["type"]) for one in expected["detections"]])
    kept = [{"start": start, "end": end, "type": type} for start, end, type in spans]
    return {**expected, **anew(options, given["text"], kept)}


def a_number_must_be_one(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Check sums, areas and lengths tell."""
    if given["method"] != "detect_local":
        return None
    kept = [one for one in expected["detections"] if is_one(one["type"], one["value"])]
    return {**expected, **anew(options, given["text"], kept)}


def a_key_stands_between_its_quotes(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The quotes belong to what is around it, and so does the label before them."""
    if given["method"] != "detect_local":
        return None
    kept = []
    for one in expected["detections"]:
        label = re.match(r".*[:=]\s*[\"']", one["value"]) if one["type"] == "api-key" else None
        start = one["start"] + (label.end() if label else 0)
        kept.append({**one, "start": start, "end": one["end"] - (one["value"][-1:] in "\"'")})
    return {**expected, **anew(options, given["text"], kept)}


def a_link_ends_before_the_full_stop(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """It is the sentence's."""
    if given["method"] != "detect_local":
        return None
    links = [(one, one["value"].rstrip(".,;:!?")) for one in expected["detections"]]
    kept = [{**one, "end": one["start"] + len(value)} if one["type"] == "url" else one for one, value in links]
    return {**expected, **anew(options, given["text"], kept)}


def a_version_is_no_address(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The word before it tells."""
    if given["method"] != "detect_local":
        return None
    before = re.compile(r"(?i)(?:\bv|\bver|version|release|build)[ .:]{0,3}$")
    kept = [
        one
        for one in expected["detections"]
        if one["type"] != "ip-address" or not before.search(given["text"][: one["start"]])
    ]
    return {**expected, **anew(options, given["text"], kept)}


def a_private_address_is_nobodys(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Private, loopback, link-local and documentation addresses are many machines'."""
    if given["method"] != "detect_local":
        return None
    kept = [one for one in expected["detections"] if one["type"] != "ip-address" or is_public(one["value"])]
    return {**expected, **anew(options, given["text"], kept)}


def is_public(value: str) -> bool:
    """Return whether an address can be one person's; True for what is no address at all."""
    try:
        return ipaddress.ip_address(value.partition("%")[0]).is_global
    except ValueError:
        return True


def a_birthday_has_its_words(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A date behind a word for birth is somebody's."""
    if given["method"] != "detect_local":
        return None
    dates = re.finditer(r"(?i)(?:\bborn|birth|\bdob)\D{0,40}(\d{4}-\d\d-\d\d|\d\d/\d\d/\d{4})", given["text"])
    rows = [{"type": "date-of-birth", "start": one.start(1), "end": one.end(1)} for one in dates]
    return {**expected, **anew(options, given["text"], [*expected["detections"], *rows])}


def what_has_another_form_is_found(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Other countries' numbers, version 6, bare domains, and keys of other services are what they are."""
    if given["method"] != "detect_local":
        return None
    text, kept = given["text"], [(one["start"], one["end"], one["type"]) for one in expected["detections"]]
    for type, pattern in FORMS.items():
        for found in re.finditer(pattern, text):
            group = 1 if found.re.groups and found[1] else 0
            if (
                is_one(type, found[group])
                and is_public(found[group])
                and not (type == "iban" and not found[group][:2].isalpha())
            ):
                kept.append((*found.span(group), type))
    rows = [{"start": start, "end": end, "type": type} for start, end, type in united(kept)]
    return {**expected, **anew(options, text, rows)} if len(kept) > len(expected["detections"]) else None


def a_number_of_something_else_is_no_phone(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The word before it tells; so do decimals. Digits without any groups need a word for a phone."""
    if given["method"] != "detect_local":
        return None
    before = re.compile(r"(?i)\b(?:order|invoice|account|ticket|tracking|ref)\W{1,3}$|\d\.$")
    word = re.compile(r"(?i)phone|\btel|\bmobile|\bcell|\bcall")
    text = given["text"]
    kept = [
        one
        for one in expected["detections"]
        if one["type"] != "phone"
        or not (
            before.search(text[: one["start"]])
            or re.match(r"\d\.\d", one["value"])
            or (one["value"].isdigit() and not word.search(text[: one["start"]]))
        )
    ]
    return {**expected, **anew(options, text, kept)}


RULES = (
    what_overlaps_is_one,
    a_number_must_be_one,
    a_key_stands_between_its_quotes,
    a_link_ends_before_the_full_stop,
    a_version_is_no_address,
    a_private_address_is_nobodys,
    a_birthday_has_its_words,
    what_has_another_form_is_found,
    a_number_of_something_else_is_no_phone,
)
