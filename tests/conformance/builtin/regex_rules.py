"""Where `RegexFilterProcessor` differs from the reference on purpose; the reasons are in docs/differences.md.

Each rule adds to what was recorded, or takes from it, what is right by a shape of its own; it sees nothing of ours.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Callable, Iterable

from tests.conformance.builtin.frame import Fields
from tests.conformance.builtin.regex_whole import (
    PRESETS,
    Match,
    judged,
    matches,
    recorded,
    rules_logged,
    segments,
    shown,
    side_of,
)

PHONE = re.compile(
    r"(?<![\w@#$%])(?<!\d[-.,/:])"
    r"(?:(?:\+?1[-. ]?)?(?:\(\d{3}\)[-. ]?|\d{3}[-. ])\d{3}[-. ]\d{4}|(?<![=/&?])1?[2-9]\d{9})"
    r"(?![\w%]|[-.,/:]\d)"
)
PHONE_WORD = re.compile(r"(?i)phone|\btel|\bmobile|\bcell|\bfax|\bcall|\bdial|\bhotline")
OTHER_WORD = re.compile(
    r"(?i)\b(?:account|order|invoice|tracking|ticket|ref|reference|serial|timestamp|case)\b.{0,14}$"
)
ABROAD = re.compile(r"(?<![\w@#$%])\+\(?[2-9](?:[-. /()]{0,3}\d){7,14}(?![\w%])")
CARD = re.compile(r"(?<![\w.+])(?:\d{12,19}|\d{4}([ -])\d{4}\1\d{4}\1\d{1,7}|\d{4}([ -])\d{6}\2\d{4,5})(?!\w)")
ISSUER = re.compile(r"3[047]|36|38|35|4|5[0-8]|2[2-7]|6")
SSN = re.compile(r"(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}")
SSN_WORD = re.compile(r"(?i)\bssns?\b|social.{0,3}sec")
IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d\d(?: ?[A-Z0-9]){11,30}(?![A-Za-z0-9])")
IP = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)")
VERSION = re.compile(r"(?i)(?:\bv|version|release|build)[ .:]{0,3}$")
KEYS = (
    ("anthropic-key", "[API_KEY]", r"\bsk-ant-[\w-]{16,}"),
    ("openai-key", "[API_KEY]", r"\bsk-(?!ant-)[\w-]{20,}"),
    ("google-key", "[API_KEY]", r"\bAIza[\w-]{35}"),
    ("stripe-key", "[API_KEY]", r"\b[sr]k_(?:live|test)_[A-Za-z0-9]{10,}"),
    ("github-token", "[GITHUB_TOKEN]", r"\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{22,}"),
    ("slack-token", "[SLACK_TOKEN]", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("jwt", "[JWT]", r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}(?:\.[\w-]*)?"),
    (
        "private-key",
        "[PRIVATE_KEY]",
        r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[^-]*-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----",
    ),
)
LINK = re.compile(r"\b(?!https?:)[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>\[\]{}|\\^`]+|\bwww\.[^\s\"'<>\[\]{}|\\^`]+")


def preset(name: str, change: Callable[[str, list[Match]], list[Match]]) -> Callable[..., list[Match]]:
    """Return a change that is made only where a preset is on."""
    return lambda options, text, found: change(text, found) if name in options["presets"] else found


def put(found: Iterable[Match], added: Iterable[Match]) -> list[Match]:
    """Return what was found with more: what lies inside of something found is part of it; what overlaps gives way."""
    kept = list(found)
    for one in added:
        if not any(other.start <= one.start and one.end <= other.end for other in kept):
            kept = [other for other in kept if other.end <= one.start or one.end <= other.start] + [one]
    return kept


def the_whole_text_decides(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """However a text was cut into chunks, and with whatever chunks between, what leaves is as if it were in one."""
    if "emitted" not in expected or "error" in expected:
        return None
    reads = options["phase"] in ("all", "output")
    found = {segment: matches(options, segment.text) if reads else [] for segment in segments(given)}
    return shown(options, given, expected, found)


def every_text_is_read(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Reasoning, what tools were given and gave back, and a flattened text that says something else, are texts too."""
    return judged(options, given, expected, lambda options, text, _: matches(options, text), unread=True)


def a_phone_number_looks_like_one(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Groups of digits are a phone number by their shape, or by a word before them; not after one that denies it."""

    def change(text: str, found: list[Match]) -> list[Match]:
        shaped = [Match(*one.span(), "phone", "[PHONE]") for one in PHONE.finditer(text)]
        words = [(one, text[: one.start][-40:], text[one.start : one.end].isdigit()) for one in shaped]
        meant = [
            one
            for one, before, alone in words
            if (PHONE_WORD.search(before) if alone else not OTHER_WORD.search(before))
        ]
        told = [one for one in found if one.rule == "phone" and PHONE_WORD.search(text[: one.start][-40:])]
        others = [one for one in found if one.rule != "phone"]
        return [*others, *put(meant, told)]

    return judged(options, given, expected, preset("pii", change))


def phones_of_other_countries_are_found(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A number with a country's code is one, whole."""

    def change(text: str, found: list[Match]) -> list[Match]:
        abroad = [Match(*one.span(), "phone", "[PHONE]") for one in ABROAD.finditer(text)]
        return put([one for one in found if not any(within(one, other) for other in abroad)], abroad)

    return judged(options, given, expected, preset("pii", change))


def within(one: Match, other: Match) -> bool:
    """Tell whether a match lies in another."""
    return other.start <= one.start and one.end <= other.end


def a_card_is_a_card(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A card number has a known issuer and the right check digit, whatever its length; and it is nothing else."""

    def checked(text: str) -> bool:
        digits = [int(one) for one in re.sub(r"\D", "", text)][::-1]
        doubled = [one if place % 2 == 0 else sum(divmod(2 * one, 10)) for place, one in enumerate(digits)]
        return sum(doubled) % 10 == 0 and bool(ISSUER.match(re.sub(r"\D", "", text)))

    def change(text: str, found: list[Match]) -> list[Match]:
        cards = [Match(*one.span(), "credit-card", "[CREDIT_CARD]") for one in CARD.finditer(text)]
        cards = [one for one in cards if checked(text[one.start : one.end])]
        others = [one for one in found if not any(one.start < card.end and card.start < one.end for card in cards)]
        return [*cards, *(one for one in others if one.rule != "credit-card")]

    return judged(options, given, expected, preset("pii", change))


def a_social_security_number_was_given_out(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Areas, groups and serials that do not exist are no number, save where a word says that it is one."""

    def change(text: str, found: list[Match]) -> list[Match]:
        return [
            one
            for one in found
            if one.rule != "ssn"
            or SSN.fullmatch(text[one.start : one.end])
            or (SSN_WORD.search(text[: one.start][-40:]) and len(set(text[one.start : one.end])) > 3)
        ]

    return judged(options, given, expected, preset("pii", change))


def accounts_and_addresses_are_personal(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """IBANs with the right check digits, and public IP addresses that are no version, belong to somebody."""

    def is_iban(text: str) -> bool:
        plain = text.replace(" ", "")
        return int("".join(str(int(one, 36)) for one in plain[4:] + plain[:4])) % 97 == 1

    def is_address(text: str, match: re.Match[str]) -> bool:
        if any(int(one) > 255 for one in match.group().split(".")) or VERSION.search(text[: match.start()]):
            return False
        return ipaddress.ip_address(match.group()).is_global

    def change(text: str, found: list[Match]) -> list[Match]:
        accounts = [Match(*one.span(), "iban", "[IBAN]") for one in IBAN.finditer(text) if is_iban(one.group())]
        addresses = [one for one in IP.finditer(text) if is_address(text, one)]
        added = [*accounts, *(Match(*one.span(), "ip-address", "[IP_ADDRESS]") for one in addresses)]
        return put([one for one in found if not any(within(one, other) for other in added)], added)

    return judged(options, given, expected, preset("pii", change))


def a_bearer_has_a_token(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What follows the word is a token if it has a digit or a capital within, or 20 characters."""

    def is_one(shown: str) -> bool:
        token = shown.rsplit(maxsplit=1)[-1]
        return bool(re.search(r"\d|(?<=.)[A-Z]", token)) or len(token) >= 20

    def change(text: str, found: list[Match]) -> list[Match]:
        return [one for one in found if one.rule != "bearer-token" or is_one(text[one.start : one.end])]

    return judged(options, given, expected, preset("secrets", change))


def documented_examples_are_no_keys(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The keys in Amazon's documentation end with a word that says so."""

    def change(text: str, found: list[Match]) -> list[Match]:
        return [one for one in found if not text[one.start : one.end].endswith("EXAMPLE")]

    return judged(options, given, expected, preset("secrets", change))


def keys_of_providers_are_found(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A key with a provider's mark is a secret, be there a label before it or not."""

    def change(text: str, found: list[Match]) -> list[Match]:
        keys = [Match(*one.span(), name, told) for name, told, shape in KEYS for one in re.finditer(shape, text)]
        random = [one for one in keys if re.search(r"\d", text[one.start : one.end]) or one.rule == "private-key"]
        return put(found, random)

    return judged(options, given, expected, preset("secrets", change))


def a_key_stands_between_its_quotes(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The label of a key in quotes stays, so that JSON stays JSON."""

    def change(text: str, found: list[Match]) -> list[Match]:
        labels = {one: re.match(r".*[:=]\s*[\"']", text[one.start : one.end]) for one in found if one.rule == "api-key"}
        return [one._replace(start=one.start + label.end()) if (label := labels.get(one)) else one for one in found]

    return judged(options, given, expected, preset("secrets", change))


def links_of_every_kind_are_found(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Other schemes are links, and so is what begins with www."""

    def change(text: str, found: list[Match]) -> list[Match]:
        return put(found, [Match(*one.span(), "url", "[URL]") for one in LINK.finditer(text)])

    return judged(options, given, expected, preset("urls", change))


def a_link_ends_before_the_punctuation(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """It is the sentence's."""

    def change(text: str, found: list[Match]) -> list[Match]:
        ends = {one: one.start + len(text[one.start : one.end].rstrip(".,;:!?*_~…")) for one in found}
        return [one._replace(end=ends[one]) if one.rule == "url" else one for one in found]

    return judged(options, given, expected, preset("urls", change))


def neighbours_are_read_as_one(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What shows only where two parts of a message are read as one is found; what each shows by itself stands."""
    if "messages" not in given or "error" in expected or options["phase"] not in ("all", side_of(given)):
        return None
    found = {one: list(recorded(options, expected, one)) for one in segments(given)}
    parted = False
    for one, other in itertools.pairwise([segment for segment in found if not segment.unread]):
        border = len(one.text)
        for match in matches(options, one.text + other.text):
            known = any(own.end > match.start for own in found[one])
            known |= any(own.start < match.end - border for own in found[other])
            if (other.id, other.part) == (one.id, one.part + 1) and match.start < border < match.end and not known:
                found[one].append(match)
                found[other].append(Match(0, match.end - border, "", ""))
                parted = True
    return shown(options, given, expected, found) if parted else None


def an_unknown_preset_is_refused(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """Nobody should believe to be guarded who is not."""
    return None if set(options["presets"]) <= set(PRESETS) else {"error": "presets"}


def every_strategy_reports(options: Fields, _given: Fields, expected: Fields) -> Fields | None:
    """The callback is told of what was blocked or only warned of, too."""
    told = expected.get("tripwire", {}).get("metadata", {}).get("matches", ())
    names = [one["rule"] for one in told] or rules_logged(expected.get("logs", ()))
    if options["strategy"] == "redact" or not names:
        return None
    redactions = [{"rule": name} for name in names]
    return {**expected, "violations": [{"detail": {"strategy": options["strategy"], "redactions": redactions}}]}


RULES = (
    the_whole_text_decides,
    every_text_is_read,
    a_phone_number_looks_like_one,
    phones_of_other_countries_are_found,
    a_card_is_a_card,
    a_social_security_number_was_given_out,
    accounts_and_addresses_are_personal,
    a_bearer_has_a_token,
    documented_examples_are_no_keys,
    keys_of_providers_are_found,
    a_key_stands_between_its_quotes,
    links_of_every_kind_are_found,
    a_link_ends_before_the_punctuation,
    neighbours_are_read_as_one,
    an_unknown_preset_is_refused,
    every_strategy_reports,
)
