"""Which language a text is in: what is read of it, what is told apart, and how languages are named."""

from __future__ import annotations

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock import OptionError
from penstock.detection.language import (
    DEFAULT_LANGUAGES,
    LanguageGuess,
    LanguageIdentifier,
    language_code,
    language_name,
    same_language,
)
from penstock.detection.language.common_words import CommonWords, WordEvidence, distinct_words, pack, unpack
from penstock.detection.language.identifier import KNOWN, LEAST, LEAST_SHORT, only_language, prose
from penstock.detection.language.romanised import is_romanised
from penstock.engine import MissingExtraError

LONG = {
    "en": "All human beings are born free and equal in dignity and rights.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах.",
    "uk": "Всі люди народжуються вільними і рівними у своїй гідності та правах.",
    "ar": "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق.",
    "zh": "人人生而自由,在尊严和权利上一律平等。",
    "hi": "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है।",
}


@pytest.fixture(scope="module")
def identifier() -> LanguageIdentifier:
    """An identifier with its defaults; the model is loaded once for all tests."""
    return LanguageIdentifier()


@pytest.mark.parametrize(("code", "text"), LONG.items())
def test_a_sentence_is_told_with_certainty(identifier: LanguageIdentifier, code: str, text: str) -> None:
    """The first article of the Universal Declaration of Human Rights, language by language."""
    guess = identifier.identify(text)

    assert guess.code == code
    assert guess.confidence > 0.9


@pytest.mark.parametrize(
    "text",
    [
        "", " \n", "12345", "👍", "!!!", "ok", "print('hello')", "https://example.com/a/b?c=d", "user@example.com",
        "```python\nfor x in y: pass\n```", "`git push`", "x = {'a': 1};", "SELECT a, b FROM t WHERE c = 3;",
        "<div class='a'></div>", "foo_bar camelCase v1.2.3", "\u200b\u2060", "\ud800", "/usr/local/bin C:\\temp\\x",
    ],
)  # fmt: skip
def test_what_is_no_language_is_unknown(identifier: LanguageIdentifier, text: str) -> None:
    """Code, addresses, numbers, emoji, and what is too short."""
    assert identifier.identify(text).code is None


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Voir https://a.example/été et écrire à a@b.example !", "Voir été et écrire à !"),
        ("Das ist `x = 1` und\n```\nthe code is here\n```\nmehr nicht", "Das ist und mehr nicht"),
        ("<p>Guten&nbsp;Tag</p>", "Guten Tag"),
        ("Ｈｅｌｌｏ\u200b world 👍👍", "Hello world"),
        ("我在2010年出生，用gpt_4写字", "我在 年出生,用 写字"),
        ("run the --dry-run of foo.bar() now\nreturn (a + b);\nplease", "run the of now please"),
        ("Τι ώρα είναι;", "Τι ώρα είναι;"),
        ("**Hinweis** zu [dieser Seite]", "Hinweis zu dieser Seite"),
        ("An unclosed ```fence is code", "An unclosed"),
    ],
)
def test_only_the_words_are_read(text: str, left: str) -> None:
    """Code, addresses, markup, numbers and emoji are left out; what stands around them is not."""
    assert prose(text) == left


def test_prompts_about_code_are_told_by_their_words(identifier: LanguageIdentifier) -> None:
    """An English question about French or Python names stays English; a German one German."""
    code = "\n```python\ndef ma_fonction(valeur_initiale): return valeur_initiale\n```"

    assert identifier.identify("Please explain what this function does." + code).code == "en"
    assert identifier.identify("Bitte erkläre mir, was diese Funktion macht." + code).code == "de"


def test_prose_that_is_marked_as_code_is_no_way_around(identifier: LanguageIdentifier) -> None:
    """Where nothing else is left, it is read; code is still none."""
    for text in (f"```\n{LONG['fr']}\n```", f"`{LONG['fr']}`", f"~~~text\n{LONG['fr']}"):
        assert identifier.identify(text).code == "fr"
    assert identifier.identify("```python\nfor x in range(3):\n    total += x\nprint(total)\n```").code is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("el", "Γεια σου"), ("th", "สวัสดี"), ("he", "שלום"), ("ja", "こんにちは"), ("ja", "今日は"), ("ko", "안녕"),
        ("ka", "გამარჯობა"), ("hy", "բարեւ"), ("ta", "வணக்கம்"),
    ],
)  # fmt: skip
def test_a_script_of_one_language_says_which(identifier: LanguageIdentifier, code: str, text: str) -> None:
    """A word is enough where no other language is written so."""
    assert identifier.identify(text) == (code, 1.0)


def test_a_script_of_several_languages_says_nothing() -> None:
    """Latin, Cyrillic, Arabic, Devanagari, and Chinese characters alone; nor does a text of two scripts."""
    for text in ("hello", "привет", "سلام", "नमस्ते", "人人生而自由", "hello привет שלום", "", "1"):
        assert only_language(text) is None


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("hr", "Tko je uzeo mlijeko?"), ("sr", "Ko je uzeo mleko?"), ("da", "Hvad er det?"), ("no", "Hva er det?"),
        ("cs", "Kdo jsi?"), ("sk", "Kto si?"), ("mr", "तू कोण आहेस?"), ("hi", "तुम कौन हो?"),
    ],
)  # fmt: skip
def test_neighbours_are_told_by_words_that_one_of_them_has(
    identifier: LanguageIdentifier, code: str, text: str
) -> None:
    """Short texts, in which a word decides."""
    assert identifier.identify(text).code == code


def test_languages_that_are_compared_as_one_are_believed_together() -> None:
    """A sentence that is Croatian and Serbian alike is sure to be one of the two."""
    alone = LanguageIdentifier(["hr", "en"]).identify("Dobar dan, kako ste?")
    both = LanguageIdentifier(["hr", "sr", "en"]).identify("Dobar dan, kako ste?")

    assert both.confidence == pytest.approx(alone.confidence, abs=0.05)


@pytest.mark.parametrize(
    ("text", "languages"),
    [
        ("To je dobra ideja.", {"hr", "sr"}), ("Det er min bror.", {"da", "no"}),
        ("Jeg er her i dag.", {"da", "no"}), ("Tko je uzeo mlijeko?", {"hr"}), ("Hvad er det?", {"da"}),
        ("Kan du hjelpe meg med dette?", {"no"}), (LONG["de"], {"de"}),
    ],
)  # fmt: skip
def test_a_text_that_fits_several_languages_has_rivals(
    identifier: LanguageIdentifier, text: str, languages: set[str]
) -> None:
    """Croatian or Serbian, Danish or Norwegian; where the text shows which one it is, that one stands alone."""
    guess = identifier.identify(text)

    assert {guess.code, *guess.rivals} == languages
    assert guess.code not in guess.rivals


def test_a_guess_is_a_pair_with_rivals_beside_it() -> None:
    """Whoever unpacks or compares the code and the probability need not know of them; a copy keeps them."""
    guess = LanguageGuess("hr", 0.9, ("sr",))

    assert guess == ("hr", 0.9)
    assert tuple(guess) == ("hr", 0.9)
    assert repr(guess) == "LanguageGuess(code='hr', confidence=0.9, rivals=('sr',))"
    assert pickle.loads(pickle.dumps(guess)).rivals == ("sr",)  # noqa: S301 - our own


def test_a_short_text_needs_a_higher_probability(identifier: LanguageIdentifier) -> None:
    """Below 20 characters the language is unknown below `LEAST_SHORT`; a ``least`` of the caller's counts as it is."""
    texts = ["Saaa!", "Bon lo to", "Mi to na", "Oh la la", "Ze no mo", "Ka li pe ra", "Sa ve di lu"]
    guesses = [identifier.identify(text) for text in texts]

    assert all(guess.confidence >= LEAST_SHORT for guess in guesses if guess.code)
    assert any(guess.code is None and guess.confidence > LEAST for guess in guesses)
    assert all(LanguageIdentifier(least=0.0).identify(text).code for text in texts)


def test_common_words_count_only_against_languages_that_lack_them() -> None:
    """By their counts; a language without counts is spared, and one that counts as the same shares them."""
    words = WordEvidence(CommonWords(("da", "de", "hr"), {"og": {"da": 9}, "ja": {"da": 1, "de": 9, "hr": 9}}))
    factors = words.against("Ja og ja, qwe", ["da", "de", "hr", "bs", "cy"])

    assert factors["da"] > factors["cy"] > factors["de"] == factors["hr"] == factors["bs"] > 0
    assert words.against("nothing known", ["da", "de"]) == words.against("", ["da"]) == {}


def test_only_the_first_words_of_a_long_text_are_looked_up() -> None:
    """A long text needs no help, and would take long."""
    assert distinct_words("a b A " * 40 + "c") == ["a", "b"]


def test_a_file_of_common_words_is_read_as_it_was_written() -> None:
    """Words, counts and languages; a file of another format is refused."""
    words = CommonWords(("da", "de"), {"og": {"da": 9}, "ja": {"da": 1, "de": 9}})
    packed = pack(words, {"least": 2})

    assert unpack(packed) == words
    with pytest.raises(ValueError, match="format"):
        unpack(packed.replace(b'"format":1', b'"format":0'))


def test_fewer_languages_are_told_more_surely() -> None:
    """A short word is English where only English and Thai come into question."""
    assert LanguageIdentifier(["English", "th"]).identify("thanks a lot").code == "en"


def test_a_text_is_the_same_to_all_threads(identifier: LanguageIdentifier) -> None:
    """Identifiers are shared, and load their model once."""
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: LanguageIdentifier().identify(text).code, list(LONG.values()) * 5))

    assert found == list(LONG) * 5


def test_long_texts_are_read_to_a_limit(identifier: LanguageIdentifier) -> None:
    """What stands far behind changes nothing."""
    text = LONG["de"] * 300

    assert identifier.identify(text + LONG["fr"] * 3_000) == identifier.identify(text)


@pytest.mark.parametrize("text", ["-" * 16_000, "a" * 16_000, "a." * 8_000, "<a" * 8_000, "`" * 16_000, "a_" * 8_000,
                                  "@a" * 8_000, "/a" * 8_000, "a" + "A" * 16_000, "a(" * 8_000])  # fmt: skip
@pytest.mark.rest
def test_hostile_text_takes_no_longer(identifier: LanguageIdentifier, text: str) -> None:
    """The fuse of the test run would blow on a pattern that is quadratic."""
    guesses = {identifier.identify(text) for _ in range(20)}

    assert len(guesses) == 1


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ("en", "en"), ("EN", "en"), ("en-US", "en"), ("pt_BR", "pt"), ("zh-Hant-TW", "zh"), ("eng", "en"),
        ("German", "de"), ("deutsch", "de"), ("ger", "de"), (" Français ", "fr"), ("日本語", "ja"), ("iw", "he"),
        ("Chinese (Simplified)", "zh"), ("Norwegian Bokmål", "nb"), ("cmn", "zh"), ("Klingon", None), ("", None),
    ],
)  # fmt: skip
def test_languages_go_by_codes_tags_and_names(given: str, code: str | None) -> None:
    """Two letters, three letters, regions, English names and names of their own, in any case."""
    assert language_code(given) == code


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("en", "en-US", True), ("English", "en_GB", True), ("zh-CN", "zh-TW", True), ("hr", "sr", True),
        ("Bosnian", "hr-HR", True), ("id", "ms", True), ("nb", "no", True), ("nn-NO", "Norwegian", True),
        ("da", "no", False), ("en", "de", False), ("Klingon", "klingon", True), ("tlh-x-a", "tlh", True),
        ("Klingon", "en", False), ("yue", "zh", True),
    ],
)  # fmt: skip
def test_languages_are_compared_by_what_no_detector_can_tell_apart(one: str, other: str, same: bool) -> None:
    """Regions are one language, and so are those that differ less than a short text shows."""
    assert same_language(one, other) is same
    assert same_language(other, one) is same


def test_names_are_told_in_english() -> None:
    """What is unknown goes by its own tag."""
    assert [language_name(tag) for tag in ("fr", "zh-cn", "zh", "en-US", "tlh")] == [
        "French", "Chinese (Simplified)", "Chinese", "English", "tlh",
    ]  # fmt: skip


@pytest.mark.parametrize("given", [[], ["en"], ["en", "en-US"], ["en", "Klingon"], "en", ["en", 3]])
def test_languages_that_cannot_be_chosen_from_are_refused(given: object) -> None:
    """Two languages at least, of those that the model knows, by name."""
    with pytest.raises(OptionError, match="languages"):
        LanguageIdentifier(given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [-0.1, 1.1, "0.5", True, float("nan")])
def test_a_least_probability_that_is_none_is_refused(given: object) -> None:
    """A number from 0 to 1."""
    with pytest.raises(OptionError, match="least"):
        LanguageIdentifier(least=given)  # type: ignore[arg-type]


def test_the_model_knows_what_we_say_it_does() -> None:
    """The list that options are checked by is py3langid's own, and the defaults are on it."""
    from penstock.detection.language.identifier import _model

    assert {*_model().labels} >= KNOWN
    assert {*DEFAULT_LANGUAGES} <= KNOWN


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever builds an identifier learns at once what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with pytest.raises(MissingExtraError, match=r"penstock\[language\]"):
        LanguageIdentifier()


def test_nothing_is_loaded_before_it_is_needed() -> None:
    """Neither numpy nor the model by an import or a constructor."""
    code = (
        "import sys, penstock.detection.language as m; m.LanguageIdentifier();"
        "assert not {'numpy', 'py3langid'} & set(sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "text",
    [
        "watashi wa gakusei desu",
        "sumimasen, eki wa doko desu ka",
        "ashita no kaigi wa nanji kara desu ka",
        "kya aap mujhe bata sakte hain ki office kab khulta hai",
        "mera phone kharab ho gaya hai, kya karu",
        "Bhai meeting ka time change ho gaya hai, check your mail",
    ],
)
def test_romanised_japanese_and_mixed_hindi_are_unknown(text: str) -> None:
    """The model would call them Swahili or English."""
    assert is_romanised(text)
    assert LanguageIdentifier().identify(text).code is None


@pytest.mark.parametrize(
    "text",
    [
        "Habari yako, ninafurahi kukuona leo",
        "Hai visto il mio telefono? No, non ho idea di dove sia.",
        "Hai con meo ngoi ben cua so",
        "What time does the meeting start tomorrow?",
        "Hai, apa kabar? Gaya rambutmu bagus.",
    ],
)
def test_languages_with_words_of_these_are_not_taken_for_them(text: str) -> None:
    """One word that they share is not enough."""
    assert not is_romanised(text)
