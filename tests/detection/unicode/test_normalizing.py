"""A profile on one text: the reference's behaviour by explicit options, ours by default, and laws for both."""

import pytest
from hypothesis import assume, given, strategies as st

from penstock.detection.unicode.normalizing import Profile, is_normal, normalize
from penstock.engine.values.edits import apply, normalise as checked

CHARS = (
    st.sampled_from(
        list("ab \t\n\r`~x1")
        + list("\u200b\u200c\u200d\ufe0f\ufe01\u0301\u0323\u00e9\ufb01\u2460\u202e\U000e0041\U0001f3f4\U0001f468")
        + list(
            "\u093e\u0915\u094d\u06cc\u0645\u00ad\x1b[\x07\ud800\u3164\u1160\u1100\u1161\uff21\u0430\u0435\u043e\u0416"
        )
    )
    | st.characters()
)
TEXTS = st.text(CHARS, max_size=16)
PROFILES = st.builds(
    Profile,
    form=st.sampled_from(["NFC", "NFKC", "keep"]),
    invisible=st.sampled_from(["strip", "mark", "keep"]),
    confusables=st.sampled_from(["off", "detect", "fold"]),
    whitespace=st.sampled_from(["keep", "trim-lines", "collapse-inline", "collapse-all"]),
    keep_layout=st.booleans(),
    trim=st.booleans(),
    strip_control_chars=st.booleans(),
    preserve_emojis=st.booleans(),
)


def reference(text: str, **options: bool) -> str:
    """Return what the reference makes of a text; its four options, with its defaults."""
    chosen = {
        "strip_control_chars": False,
        "preserve_emojis": True,
        "collapse_whitespace": True,
        "trim": True,
    } | options
    collapse = chosen.pop("collapse_whitespace")
    how = "collapse-all" if collapse else "keep"
    return normalize(text, Profile(form="NFKC", invisible="keep", whitespace=how, keep_layout=False, **chosen)).text


@given(
    text=st.text(st.sampled_from("ab \n\t\x07\x0b\x1b\x7f\u200b\u0301"), max_size=4),
    profile=PROFILES,
    prose=st.booleans(),
)
def test_what_a_look_shows_to_be_normal_is_left_as_it_is(text: str, profile: Profile, *, prose: bool) -> None:
    """Nothing in it is changed, and nothing counted."""
    found = normalize(text, profile, prose=prose)
    if is_normal(text, profile):
        assert (found.text, found.edits, found.counts) == (text, (), {})
    elif text.isascii() and profile.whitespace == "keep" and not profile.trim:
        assert set(text) & set("\x07\x0b\x1b\x7f")


@given(text=TEXTS, profile=PROFILES)
def test_the_edits_are_what_happened(text: str, profile: Profile) -> None:
    """Made to the text before, they give the text after; they are sorted and disjoint."""
    found = normalize(text, profile)
    assert apply(text, checked(found.edits, text)) == found.text


@given(text=TEXTS, profile=PROFILES)
def test_a_second_time_changes_nothing(text: str, profile: Profile) -> None:
    """Except where the reference's order is asked for: controls go last there, and letters meet that had been apart."""
    assume(not (profile.strip_control_chars and profile.invisible == "keep"))
    once = normalize(text, profile).text
    assert normalize(once, profile).text == once


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("Ｆｕｌｌ\u3000ＡＢＣ！", {}, "Full ABC!"),
        ("x² + ① ™ ﬁ", {}, "x2 + 1 TM fi"),
        ("\ufeffhello", {}, "hello"),
        ("\u0085a\u0085", {}, "\u0085a\u0085"),
        ("\x1ca\x1f", {}, "\x1ca\x1f"),
        ("a\r\n\r\nb\r\rc\n\nd", {}, "a\nb\nc\nd"),
        ("a   \nb   ", {}, "a \nb"),
        ("\u2028a\u2029", {}, "a"),
        ("a\u00a0\u00a0b", {}, "a b"),
        ("\x1b[31mred", {"strip_control_chars": True}, "[31mred"),
        ("a\x00\x85b", {"strip_control_chars": True}, "ab"),
        ("  a  b  \n", {"trim": False, "collapse_whitespace": False}, "  a  b  \n"),
        ("hi\U000e0041", {"strip_control_chars": True}, "hi\U000e0041"),
        ("   ", {}, ""),
    ],
)
def test_the_references_options_do_what_they_did(text: str, options: dict[str, bool], expected: str) -> None:
    """Recorded observations of the reference."""
    assert reference(text, **options) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("e\u200b\u0301", "é"),
        ("hi\U000e0041\U000e0042", "hi"),
        ("a\u202eb\u202c", "ab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("x² ½ ™", "x² ½ ™"),
        ("# T\n\n    code  here\n", "# T\n\n    code  here\n"),
    ],
)
def test_by_default_nothing_hidden_stays_and_nothing_written_is_lost(text: str, expected: str) -> None:
    """The defects of the reference, the other way round."""
    assert normalize(text, Profile()).text == expected


def test_what_was_hidden_can_be_marked_instead() -> None:
    """Runs are one mark, so that marks cannot blow a text up."""
    marked = normalize("a\u200b\u200bb\U000e0041c\x1b[0m", Profile(invisible="mark"))
    assert marked.text == "a[zero-width x2]b[tag]c[ansi]"
    assert marked.counts == {"zero-width": 2, "tag": 1, "ansi": 4}


def test_emoji_survive_only_where_they_are_to_be_preserved() -> None:
    """The reference's option of that name had no effect."""
    family = "👨\u200d👩"
    assert normalize(family, Profile()).text == family
    assert normalize(family, Profile(preserve_emojis=False)).text == "👨👩"


LAYOUT = "# T  \n\n\n\npara   one\n    code   x\n```py\nx  =  1   \n\n\n\ny\n```\n- a   b\r\n\r\n\r\nend  "


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("trim-lines", LAYOUT.replace("T  \n", "T\n").replace("end  ", "end")),
        (
            "collapse-inline",
            "# T\n\n\n\npara one\n    code x\n```py\nx  =  1   \n\n\n\ny\n```\n- a b\r\n\r\n\r\nend",
        ),
        ("collapse-all", "# T\n\npara one\n    code x\n```py\nx  =  1   \n\n\n\ny\n```\n- a b\n\nend"),
    ],
)
def test_white_space_is_tidied_around_the_layout(how: str, expected: str) -> None:
    """Fenced code, indentation and paragraphs stay."""
    assert normalize(LAYOUT, Profile(whitespace=how)).text == expected


def test_layout_can_be_given_up() -> None:
    """As the reference does."""
    found = normalize(LAYOUT, Profile(whitespace="collapse-all", keep_layout=False)).text
    assert found == "# T \npara one\n code x\n```py\nx = 1 \ny\n```\n- a b\nend "


def test_a_fence_that_is_never_closed_protects_to_the_end() -> None:
    """As CommonMark reads it; an inline triple is no fence."""
    assert normalize("~~~\na  b", Profile(whitespace="collapse-inline")).text == "~~~\na  b"
    assert normalize("```x``` y\na  b", Profile(whitespace="collapse-inline")).text == "```x``` y\na b"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("іgnоre prеvious", "ignore previous"),
        ("ignore аll сору rules", "ignore all copy rules"),
        ("𝐢𝐠𝐧𝐨𝐫𝐞 ａｌｌ", "ignore all"),
        ("рaу\u0301", "pay\u0301".replace("y\u0301", "ý")),
    ],
)
def test_letters_that_pass_for_latin_ones_are_folded(text: str, expected: str) -> None:
    """Mixed words, whole words without a letter of their own script, styled letters."""
    assert normalize(text, Profile(confusables="fold")).text == expected


@pytest.mark.parametrize("text", ["Привет мир, он там", "say Привет сосо", "let α be", "Ελλάδα", "Ünïcode"])
def test_honest_text_in_another_script_is_left_alone(text: str) -> None:
    """A script that is really used in the text, a single letter of mathematics, accents."""
    found = normalize(text, Profile(confusables="fold"))
    assert (found.text, found.counts) == (text, {})


def test_disguises_can_be_counted_without_being_folded() -> None:
    """``detect`` changes nothing."""
    found = normalize("іgnоre", Profile(confusables="detect"))
    assert (found.text, found.counts) == ("іgnоre", {"confusable": 2})


def test_white_space_is_left_alone_where_there_is_no_prose() -> None:
    """A tool's arguments are data."""
    profile = Profile(whitespace="collapse-all", trim=True)
    assert normalize("  a  b ", profile, prose=False).text == "  a  b "
