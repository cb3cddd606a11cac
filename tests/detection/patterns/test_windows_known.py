"""Built-in rules on a text that comes in pieces: they find what they find in the whole, and hold little of it."""

import pytest
from hypothesis import given, settings, strategies as st

from penstock.detection.patterns.matching import Finder, FinderState
from penstock.processors.text.regex_filter import PRESETS, preset
from tests.detection.patterns.windows import cut, in_order, streamed
from tests.laws import examples

A = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
HEX = "0123456789abcdef"
EVERY = Finder([rule for name in PRESETS for rule in preset(name)])
FINDERS = [EVERY, *(Finder(preset(name)) for name in PRESETS)]
PHRASES = [
    *("write jörg.müller+x@sub.münchen.de.", "请联系我a@b.io谢谢", "a@b.ioa@b.io", "a@b.io@c.io", "x ａ＠ｂ．ｉｏ y"),
    *("id 15551234567 end", "+49 (0)30 1234567, +33 1 42 68 53 00", "001-846-853-9089x92556", "order 5551234567"),
    *("call me: 329 7730, or 28-81-33-70 home", "手机 13812345678", "tel +1 555-123-4567 x12", "329 7730 (office)"),
    *("123-45-6789", "123–45–6789-1", "ssn 123456789", "½123-45-6789", "social security no 123.45.6789"),
    *("card 4111-1111-1111-1111 exp", "amex 3782 822463 10005", "4111 1111 1111 1111 123", "0.4111111111111111"),
    *("GB82 WEST 1234 5698 7654 32!", "de89370400440532013000", "AT61 1904 3002 3457 3201", "GB82 WEST 1234"),
    *("from 8.8.8.8:53 and 2001:db8::1, ::ffff:1.2.3.4", "version 1.2.3.4", "1.2.3.4.5", "std::vector<int> a::b"),
    *("AKIA" + "IOSFODNN7QWERTYU", "sk-" + "proj-" + A, "sk-" + "ant-api03-" + A, "xoxe." + "xoxb-" + A, "sk-learn"),
    *("SK" + HEX * 2, "SG." + A[:22] + "." + A + A[:11], HEX * 2 + "-us12", "hvs." + A, "dp.st.dev." + A + A[:8]),
    *("ghp_" + A + "abcd", "M" + A[:23] + "." + A[:6] + "." + A[:27], "eyJ" + A + ".eyJ" + A + "." + A, "8-" + A * 2),
    *(
        "123456789:AA" + A + "b",
        "okta 00" + A + A[:8],
        "SSWS  00" + A + A[:8],
        "figma 1234-12345678-1234-1234-1234-123456789012",
    ),
    *("-----BEGIN RSA PRIVATE KEY-----\n" + A + "\n-----END RSA PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"),
    *("bearer eyJhbGciOi.J9-x_y.z", "the bearer of bad news", "Basic dXNlcjpwYXNzd29yZA==", "_authToken = " + A),
    *(
        "API-Key: abcdefghijklmnopqrst",
        'api key id "=> " ' + A,
        "client_secret = " + A,
        "access to the key",
        "api_key=" + A,
        "(my_api_key) != " + A,
    ),
    *(
        "password: hunter2!",
        '"db_password" => "correct horse"',
        'password: "open',
        "pwd == x1y2z3!(",
        "ENCRYPTION_KEY=" + A,
    ),
    *(
        "postgres://bob:s3cr3t@db/x",
        "AccountKey=" + A + "+/a==;x",
        "https://hooks.slack.com/services/" + A,
        "/api/v1/" + HEX + HEX,
    ),
    *("see https://a.example/x?y=1#z, or", "(<https://a.example>)", "www.a.example", "awww.cute.example"),
    *(
        "а@b.io",
        "p\u200bassword=\u00adhunter2!",
        "s\x1b[0mk-" + A,
        "\x1b]8;;x\x07",
        "tel \x1b[1m555-1234",
        "jose\u0301@b.io",
        "\x1b",
    ),
    *(
        "\u200b" * 9,
        "\n\n",
        "   ",
        "x" * 70,
        "1" * 25,
        "Привет, мир",
        "今天天气很好",
        "12 (555) 123-4567",
        "1 2 3 4 5 6 7 8 9 10",
    ),
]
GLUE = ["", "", " ", "\n", ".", ",", '"', "=", ": ", "-", "/", "1", "a", "\u200b", "а", "é"]


def differing(finder: Finder, text: str, *cuts: list[str]) -> list[list[str]]:
    """Return those cuts of a text whose pieces do not give what the whole does."""
    whole = finder.find(text)
    return [pieces for pieces in cuts if in_order(streamed(finder, pieces).matches) != whole]


@pytest.mark.parametrize("phrase", PHRASES, ids=ascii)
def test_a_phrase_may_be_cut_anywhere(phrase: str) -> None:
    """In two at every place, and into characters; the presets apart and together."""
    text = f"We say {phrase} here."
    assert differing(EVERY, text, *(cut(text, place) for place in range(1, len(text)))) == []
    assert [finder for finder in FINDERS if differing(finder, text, list(text))] == []


def test_most_phrases_hold_something_to_find() -> None:
    """So that a cut has something to cut; the others begin like something."""
    assert sum(bool(EVERY.find(f"We say {phrase} here.")) for phrase in PHRASES) >= 60


@pytest.mark.rest
@settings(max_examples=examples(200))
@given(
    pieces=st.lists(st.sampled_from([*PHRASES, *GLUE, *GLUE]), min_size=1, max_size=12),
    places=st.lists(st.integers(0, 300), max_size=8),
    finder=st.sampled_from(FINDERS),
)
def test_phrases_put_together_may_be_cut_anywhere(pieces: list[str], places: list[int], finder: Finder) -> None:
    """They glue to one another, and one explains the next."""
    text = "".join(pieces)
    inside = [place for place in places if place < len(text)]
    assert differing(finder, text, list(text), cut(text, *inside), *(cut(text, place) for place in inside)) == []


@settings(max_examples=examples(100))
@given(
    phrases=st.lists(st.sampled_from(PHRASES), min_size=1, max_size=3),
    damage=st.lists(st.tuples(st.integers(0, 200), st.integers(0, 2), st.sampled_from(GLUE)), max_size=6),
    finder=st.sampled_from(FINDERS),
)
def test_damaged_phrases_may_be_cut_anywhere(
    phrases: list[str], damage: list[tuple[int, int, str]], finder: Finder
) -> None:
    """With characters lost, and others put between."""
    chars = list(" ".join(phrases))
    for at, count, other in damage:
        chars[at : at + count] = other
    text = "".join(chars)
    assert differing(finder, text, list(text), *(cut(text, at) for at, _, _ in damage if at < len(text))) == []


PROSE = (
    "Everyone has the right to freedom of thought, conscience and religion; this right includes freedom to change his "
    "religion or belief. In 1948, on 10 December, the text was adopted by 48 votes to none: eight countries abstained. "
    "Note: access to the archive is free, and the key is at the desk (room 12).\n"
)


def test_of_prose_about_the_last_word_is_held() -> None:
    """A number, a colon or a word that begins a label holds a little more, for a moment."""
    held = sorted(streamed(EVERY, list(PROSE * 3), grown=8).held)
    assert sum(held) / len(held) < 5
    assert held[-1] < 30


@pytest.mark.parametrize(
    "piece",
    [
        *("x", "1", "a.b.c.", "Zm9vYmFy+/", HEX, "a@", "é", "а", "=", ":", "-", "_", "/", "1 ", "12-", "+1(", "(0) "),
        *(
            "api key ",
            "bearer",
            "\u200b",
            "\u0301",
            "://",
            "-----",
            "1.2.",
            "a:b:",
            "DE44 ",
            "ssn ",
            "=x",
            "AT11",
        ),
    ],
    ids=ascii,
)
def test_a_text_without_a_space_is_held_in_part(piece: str) -> None:
    """No match is open in it, so a bound is kept; and what is looked at again is in proportion to the text."""
    text = (piece * 6000)[:6000]
    held = streamed(EVERY, text, grown=8).held
    assert max(held) <= 128
    assert sum(held) <= 20 * len(text)


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("call 555 123 45", "555 123 45"),
        ("my card is 4111 1111", "4111 1111"),
        ("the password: hunter", ": hunter"),
        ("an api key: abc", "api key: abc"),
        ("access to ", ""),
        ("client sec", "client sec"),
        ("bearer ", "bearer "),
        ("-----BEGIN PRIVATE ", "-----BEGIN PRIVATE "),
        ("mail a@b.io", "a@b.io"),
        ("mail a@b.io ", ""),
        ("see https://a.b/c", "https://a.b/c"),
        ("IBAN GB82 WEST 12", "GB82 WEST 12"),
        ("see \x1b[3", "\x1b[3"),
    ],
)
def test_what_may_become_a_match_is_held(text: str, held: str) -> None:
    """From its beginning, white space in it included."""
    _, hold = EVERY.scan(text, 0, FinderState())
    assert text[hold:] == held
