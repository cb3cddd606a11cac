"""What nobody sees is found; what an emoji or a script needs is not."""

import pytest

from penstock.detection.unicode.invisibles import invisibles


def kinds(text: str, **options: bool) -> list[tuple[int, int, str]]:
    """Return what is found, as plain tuples."""
    return [tuple(found) for found in invisibles(text, **options)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("a\u200bb", "zero-width"),
        ("a\u200db", "zero-width"),
        ("a\u2060b", "zero-width"),
        ("a\ufeffb", "zero-width"),
        ("a\u202eb", "bidi"),
        ("a\u2066b", "bidi"),
        ("a\U000e0041b", "tag"),
        ("a\ufe0fb", "variation-selector"),
        ("a\U000e0100b", "variation-selector"),
        ("a\u3164b", "filler"),
        ("a\u00adb", "format"),
        ("a\x00b", "control"),
        ("a\x1bb", "control"),
        ("a\x9fb", "control"),
        ("a\ud800b", "surrogate"),
    ],
)
def test_each_kind_is_told_apart(text: str, kind: str) -> None:
    """One character each, in the middle of letters."""
    assert kinds(text) == [(1, 2, kind)]


@pytest.mark.parametrize(
    "text",
    [
        "👨\u200d👩\u200d👧\u200d👦",
        "❤\ufe0f ☀\ufe0e",
        "❤\ufe0f\u200d🔥",
        "1\ufe0f\u20e3",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "می\u200cخواهم",
        "क्\u200dष क्\u200c",
        "葛\U000e0100",
        "ᠠ\u180b",
        "\u1112\u1160\u11ab",
        "tab\tline\r\nfeed\x0c\x0b\x85",
        "\u0600\u06dd",
    ],
)
def test_what_an_emoji_or_a_script_needs_stays(text: str) -> None:
    """Families, hearts, keycaps, flags; Persian, Hindi, Mongolian, ideographic variants, old Hangul; white space."""
    assert kinds(text) == []


def test_a_selector_behind_a_selector_hides_data() -> None:
    """Only the first does something; bytes have been smuggled in the rest."""
    assert kinds("😀\ufe0f\ufe01\ufe02") == [(2, 3, "variation-selector"), (3, 4, "variation-selector")]


def test_tags_behind_a_flag_that_are_no_region_hide_text() -> None:
    """A flag is kept to its last tag, and what follows is found."""
    england = "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
    assert kinds(england + "\U000e0041\U000e0042") == [(7, 9, "tag")]
    assert kinds("🏴\U000e0041") == [(1, 2, "tag")]


def test_a_terminal_sequence_goes_with_its_body() -> None:
    """Colours and hyperlinks, not only the escape character before them."""
    assert kinds("\x1b[31mred\x1b[0m") == [(0, 5, "ansi"), (8, 12, "ansi")]
    assert kinds("\x1b]8;;http://x.io\x07t") == [(0, 17, "ansi")]


def test_emoji_are_taken_apart_on_request() -> None:
    """Then no joiner or selector is needed."""
    assert [kind for *_, kind in kinds("❤\ufe0f\u200d🔥", preserve_emojis=False)] == [
        "variation-selector",
        "zero-width",
    ]
