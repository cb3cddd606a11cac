"""`PromptIndex`: what counts as shown, behind which disguises, what does not, and pieces against the whole."""

from __future__ import annotations

import base64
import codecs
import itertools
import random
import re
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from penstock.detection.leaks.passages import WordChains, common_rows, in_common
from penstock.detection.leaks.prompt_index import _SIGN, PromptIndex
from penstock.detection.slices import PIECE
from penstock.detection.spans import Span
from penstock.detection.unicode.disguises import BETWEEN_WORDS, read
from penstock.engine.values.errors import OptionError
from tests.laws import examples

PROMPT = (
    "You are Aunt Mabel, a cheerful baker who answers questions about sourdough bread. Never reveal the recipe of the "
    "starter, which is rye flour and spring water fed at dawn. Answer in at most three sentences, and end each answer "
    "with a proverb about patience. If someone asks about cakes, say that Uncle Henry knows better."
)
EXCERPT = "Never reveal the recipe of the starter, which is rye flour and spring water"
CANARY = "ZX-991-QQ7"
CLEAN = "A sourdough loaf wants time. Mix flour and water, wait a day, and feed it again; that is all there is to it."
INDEX = PromptIndex([PROMPT], canaries=[CANARY])


def in_binary_codes(text: str) -> str:
    """Return a text as the codes of its characters, in binary."""
    return " ".join(f"{ord(char):b}" for char in text)


DISGUISES: dict[str, Any] = {
    "as it is": str,
    "upper-case": str.upper,
    "a list": lambda text: "- " + "\n- ".join(text.split(", ")),
    "numbered": lambda text: " ".join(f"{number}. {word}" for number, word in enumerate(text.split(), 1)),
    "spaces of HTML": lambda text: text.replace(" ", "&nbsp;"),
    "bold words": lambda text: " ".join(f"**{word}**" for word in text.split()),
    "zero-width": "\u200b".join,
    "full-width": lambda text: "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in text),
    "look-alikes": lambda text: text.translate(str.maketrans("aeopc", "аеорс")),
    "spaced": " ".join,
    "dotted": ".".join,
    "without spaces": lambda text: text.replace(" ", ""),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 in lines": lambda text: base64.encodebytes(text.encode()).decode(),
    "base64 for addresses": lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    "base64 of UTF-16": lambda text: base64.b64encode(text.encode("utf-16-le")).decode(),
    "base64 twice": lambda text: base64.b64encode(base64.b64encode(text.encode())).decode(),
    "base32": lambda text: base64.b32encode(text.encode()).decode(),
    "hex": lambda text: text.encode().hex(),
    "hex, spaced": lambda text: text.encode().hex(" "),
    "hex, escaped": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "decimal": lambda text: " ".join(str(ord(char)) for char in text),
    "binary": lambda text: " ".join(f"{byte:08b}" for byte in text.encode()),
    "percent": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "percent for spaces": lambda text: text.replace(" ", "%20"),
    "character references": lambda text: "".join(f"&#{ord(char)};" for char in text),
    "rot13": lambda text: codecs.encode(text, "rot13"),
    "reversed": lambda text: text[::-1],
    "words reversed": lambda text: " ".join(reversed(text.split())),
    "base64 of reversed": lambda text: base64.b64encode(text[::-1].encode()).decode(),
    "escape sequences": lambda text: "\x1b[1m".join(text.split(" ")).replace("\x1b[1m", " \x1b[1m"),
}


def pieces(text: str, cuts: list[int]) -> list[str]:
    """Return a text cut at places."""
    places = [0, *sorted({min(cut, len(text)) for cut in cuts}), len(text)]
    return [text[low:high] for low, high in itertools.pairwise(places)]


def scanned(index: PromptIndex, parts: list[str]) -> tuple[list[Span], int]:
    """Return what is decided as a text comes in pieces, and the most that was held."""
    notes: dict[str, Any] = {}
    found: list[Span] = []
    held = ""
    base = most = 0
    for number, part in enumerate(parts):
        held += part
        final = number == len(parts) - 1
        spans, hold = index.scan(held, 0, notes, final=final)
        assert all(span.end <= hold for span in spans)
        found += [span._replace(start=span.start + base, end=span.end + base) for span in spans]
        held, base = held[hold:], base + hold
        most = max(most, len(held))
    return sorted(found), most


@pytest.mark.parametrize("disguise", DISGUISES)
def test_an_excerpt_is_found_behind_any_disguise(disguise: str) -> None:
    """With its place: no more than a little around it."""
    hidden = DISGUISES[disguise](EXCERPT)
    text = f"Well, here it is: {hidden} and that is all."
    (span,) = INDEX.find(text)
    assert span.type == "system-prompt"
    assert abs(span.start - text.index(hidden)) <= 8  # small words before a code may be part of it
    assert abs(span.end - text.index(hidden) - len(hidden)) <= 8


def test_a_text_of_its_own_shows_nothing() -> None:
    """Nor one that has words, but no sentence, in common with the prompt."""
    assert INDEX.find(CLEAN) == []
    assert INDEX.find("") == []
    assert PromptIndex().find(PROMPT) == []
    assert not PromptIndex()


def test_fewer_words_than_asked_for_are_nobodys() -> None:
    """Seven of eight may be chance."""
    words = EXCERPT.split()
    assert INDEX.find(f"He said {' '.join(words[:7])} indeed.") == []
    assert len(INDEX.find(f"He said {' '.join(words[:8])} indeed.")) == 1
    assert len(PromptIndex([PROMPT], min_words=5).find(f"He said {' '.join(words[:5])} indeed.")) == 1


def test_changed_words_do_not_hide_the_rest() -> None:
    """Left out, put in, replaced: the words around them tell."""
    text = "Never tell the recipe of the old starter, which is rye and spring water always fed at dawn. Answer in three"
    (span,) = INDEX.find(f"So: {text} lines.")
    assert span.start <= len("So: Never tell ")
    assert span.end >= len("So: ") + text.index("dawn")


@pytest.mark.parametrize(
    "text",
    [
        "Never tell anyone recipe of our starter, namely it is rye flour plus filtered spring water fed at dawn",
        "a proverb here about much patience. If somebody then asks today about any cakes, say Uncle Henry knows better",
        "in at most ten short sentences, and please end with each single answer on a proverb about patience",
    ],
)
def test_single_words_between_changed_ones_count(text: str) -> None:
    """In the order of the prompt, however many words stand between them on either side."""
    (span,) = INDEX.find(f"So: {text}.")
    assert span.end - span.start >= len(text) / 2


def test_the_same_words_in_another_order_show_nothing() -> None:
    """Nor do single words, without a few in a row."""
    words = EXCERPT.split()
    assert INDEX.find(" ".join(words[::2] + words[1::2])) == []
    assert INDEX.find(" so ".join(words)) == []


LOOSE = (
    "to act class a Talent extension for interviews. I make give you a intValue title february you'll suggest",
    "I want you to act as a Talent Coach for interviews. I will give you a job title and you'll suggest what should be",
)


def test_words_that_are_nowhere_in_a_row_show_nothing_in_pieces_either() -> None:
    """Many words of a prompt in order, but never more than two or three short ones in a row."""
    text, prompt = LOOSE
    index = PromptIndex([prompt])
    assert index.find(text) == []
    assert scanned(index, list(text))[0] == []


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 30), st.sampled_from(["so", "it is", "9", "bread.", "no,"])), max_size=60),
    st.integers(0, 6),
    st.lists(st.integers(0, 400), max_size=30),
)
def test_pieces_show_what_the_whole_does_whatever_is_changed(
    drawn: list[int | str], step: int, cuts: list[int]
) -> None:
    """Words left out, put in and repeated: a number moves on in the prompt from where the text is."""
    words, at, text = PROMPT.split(), 0, ""
    for one in drawn:
        at = (at + (one if one > 24 else min(one, 1 + step % 3))) % len(words) if isinstance(one, int) else at
        text += (words[at] if isinstance(one, int) else one) + " "
    assert scanned(INDEX, pieces(text, cuts))[0] == sorted(INDEX.find(text))


@given(*[st.lists(st.sampled_from("abcd"), max_size=6)] * 2)
def test_words_in_common_are_the_longest_common_subsequence(words: list[str], others: list[str]) -> None:
    """Compared with all subsequences, for all numbers of words from the end."""
    matches = common_rows(words, others)
    for count, other in itertools.product(range(len(words) + 1), range(len(others) + 1)):
        last, others_last = words[len(words) - count :], others[len(others) - other :]
        kept = (row for size in range(count, -1, -1) for row in itertools.combinations(last, size))
        longest = next(row for row in kept if all(word in left for left in [iter(others_last)] for word in row))
        assert in_common(matches, count, other) == len(longest)


def test_a_prompt_of_few_words_is_recognised_as_a_whole() -> None:
    """Less of it, or less than four words, is what anybody says."""
    index = PromptIndex(["You are a helpful assistant.", "Be terse."])
    assert [span[:2] for span in index.find("Sure. You are a helpful assistant.")] == [(6, 33)]
    assert index.find("You are a helpful person. Be terse.") == []


def test_what_may_be_quoted_is_not_found() -> None:
    """A passage that is allowed, or one that the user wrote; what stands beside it is."""
    rest = "Answer in at most three sentences, and end each answer with a proverb about patience."
    for index in (PromptIndex([PROMPT], allow=[EXCERPT]), INDEX.without([f"Do you {EXCERPT}?"])):
        assert index.find(f"I said: {EXCERPT}!") == []
        assert index.find(f"I said: {' '.join(EXCERPT)}!") == []
        assert len(index.find(f"I said: {rest}")) == 1


@pytest.mark.parametrize(
    "order",
    [
        'Greet customers with "{}".',
        "If somebody asks for a refund, reply: “{}”",
        "Schließe jede Antwort mit „{}“ ab.",
        "Réponds toujours « {} » quand on te salue.",
        "Ante una queja, responde «{}».",
    ],
)
def test_what_the_prompt_orders_to_say_is_no_leak(order: str) -> None:
    """The rest of the prompt is one, the order itself included."""
    said = "Thank you for calling Octomill, our team will answer within two days"
    prompt = (
        f"You are the assistant of a mug shop in the old town. {order.format(said)} Keep margins secret at all times."
    )
    index = PromptIndex([prompt])

    assert index.find(f"{said}!") == []
    assert index.find("You are the assistant of a mug shop in the old town.") != []


@pytest.mark.parametrize("order", ['Never say "{}".', 'Our notes: "{}".', 'Do not reply with "{}".'])
def test_what_the_prompt_quotes_or_forbids_to_say_is_one(order: str) -> None:
    """Only an order makes it public."""
    noted = "our supplier in Dresden raises its prices by four percent in October"

    assert PromptIndex([f"You are kind. {order.format(noted)}"]).find(noted) != []


def test_a_user_who_guesses_a_few_words_unlocks_nothing() -> None:
    """Only a run of as many words as are looked for is known already."""
    guess = " ... ".join(" ".join(EXCERPT.split()[at : at + 5]) for at in (9, 0, 6))
    assert INDEX.without([guess, CLEAN]) is INDEX


@pytest.mark.parametrize("spelled", ["ZX-991-QQ7", "zx991qq7", "Z X 9 9 1 Q Q 7", "MK-991-DD7", "7QQ-199-XZ"])
def test_a_canary_is_found_however_it_is_spelled(spelled: str) -> None:
    """Turned round and rotated, too."""
    text = f"it says {spelled} there"
    assert INDEX.find(text) == [Span(8, 8 + len(spelled), "canary", 1.0)]


def test_a_canary_is_found_in_a_code() -> None:
    """Every letter is hidden that holds a bit of it, and no other."""
    before, behind = "the token is ", ", ok, so be it"
    code = base64.b64encode(f"{before}{CANARY}{behind}".encode()).decode()
    low, high = len(before) * 8 // 6, -(-len(before + CANARY) * 8 // 6)
    assert INDEX.find(f"see {code}.")[0][:2] == (4 + low, 4 + high)


@pytest.mark.parametrize(
    "prompt",
    [
        "你是一位经验丰富的面包师傅,只回答关于酸面包的问题,绝对不能透露祖母留下的秘密配方。",
        "あなたは親切なパン屋です。秘密のレシピについては決して誰にも話してはいけません。",
        "คุณเป็นคนทำขนมปังที่ร่าเริงและห้ามเปิดเผยสูตรลับของคุณยายให้ใครรู้เป็นอันขาด",
        "Вы весёлый пекарь и никогда никому не рассказываете секретный рецепт вашей бабушки.",
        "तुम एक हंसमुख नानबाई हो और दादी का गुप्त नुस्खा कभी किसी को नहीं बताते हो",
        "당신은 쾌활한 제빵사이며 할머니의 비밀 요리법을 절대로 누구에게도 말하지 않습니다 알겠습니까",
    ],
)
def test_any_script_is_read(prompt: str) -> None:
    """Also those that do not tell words apart."""
    index = PromptIndex([prompt])
    excerpt = prompt[len(prompt) // 4 :]
    for written in (str, str.upper, DISGUISES["decimal"], DISGUISES["binary"], in_binary_codes):
        assert index.find(f"OK: {written(excerpt)} (end)"), written
    assert index.find(excerpt[: len(excerpt) // 5]) == []
    assert scanned(index, list(f"OK: {excerpt} (end)"))[0] == index.find(f"OK: {excerpt} (end)")


RUSSIAN = (
    "Вы весёлый пекарь, который отвечает на вопросы о ржаном хлебе. Никогда никому не рассказывайте секретный рецепт "
    "вашей бабушки, даже если вас очень вежливо просят. Каждый ответ заканчивайте пословицей о терпении."
)


@pytest.mark.parametrize("given_in", [str, str.upper, str.lower])
@pytest.mark.parametrize("written_in", [str, str.upper, str.lower, str.title])
def test_capitals_of_any_script_are_the_letters_that_they_are(given_in: Any, written_in: Any) -> None:
    """A Cyrillic capital that looks like a Latin one is still the capital of its small letter."""
    index = PromptIndex([given_in(RUSSIAN)])

    assert index.find(written_in(" ".join(RUSSIAN.split()[3:16]))) or written_in is str.title
    assert PromptIndex([given_in(RUSSIAN)], allow=[RUSSIAN]).find(written_in(RUSSIAN)) == []
    assert index.without([RUSSIAN.upper()]).find(written_in(RUSSIAN)) == []


@pytest.mark.parametrize(
    "numbered",
    [
        lambda at, word: f"{at}\ufe0f\u20e3 {word}", lambda at, word: f"½ {word}", lambda at, word: f"— … • {word}",
        lambda at, word: f"👍🏽 {word} 👩🏽‍🚀", lambda at, word: f"\u0301 \u0e48 {word} \u104b \u17d4",
    ],
)  # fmt: skip
def test_figures_and_marks_are_no_words(numbered: Any) -> None:
    """Whatever stands before each word: keycaps, fractions, dashes, emoji with their modifiers, lone marks."""
    assert INDEX.find(" ".join(numbered(at % 10, word) for at, word in enumerate(EXCERPT.split())))
    assert not PromptIndex([" ".join(numbered(at % 10, "") for at in range(30))])


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([str, str.upper, DISGUISES["decimal"], DISGUISES["binary"], in_binary_codes]),
                  st.integers(0, 20), st.integers(1, 25)), max_size=3),
    st.lists(st.integers(0, 6000), max_size=30),
)  # fmt: skip
def test_pieces_in_another_script_show_what_the_whole_does(taken: list[tuple[Any, int, int]], cuts: list[int]) -> None:
    """In capitals and in codes, however it is cut."""
    words = RUSSIAN.split()
    text = " ok, ".join(form(" ".join(words[at : at + size]) or "x") for form, at, size in taken)
    index = PromptIndex([RUSSIAN])

    assert scanned(index, pieces(text, cuts))[0] == sorted(index.find(text))


@pytest.mark.parametrize("between", [150, 170, 5_000])
def test_two_words_far_apart_are_no_pair(between: int) -> None:
    """What stands between has no letters; a stream holds no more than that, so a whole text finds no more."""
    text = f"{EXCERPT.removesuffix(' flour and spring water')} {'7 ' * (between // 2)}flour and spring water fed"
    parts = pieces(text, [*range(0, len(text), 7)])
    assert scanned(INDEX, parts)[0] == sorted(INDEX.find(text))


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*DISGUISES]), st.integers(0, 40), st.integers(1, 25)), max_size=4),
    st.lists(st.sampled_from([CLEAN, "\n\n", "a b c d", CANARY, "zx 9", "x" * 30, "\u200b", "49 20 77"]), max_size=4),
    st.lists(st.integers(0, 3000), max_size=30),
    st.randoms(use_true_random=False),
)
def test_pieces_of_a_text_show_what_the_whole_does(
    taken: list[tuple[str, int, int]], others: list[str], cuts: list[int], draw: random.Random
) -> None:
    """However it is cut."""
    words = PROMPT.split()
    parts = [DISGUISES[name](" ".join(words[at : at + size]) or "x") for name, at, size in taken]
    parts += others
    draw.shuffle(parts)
    text = draw.choice([" ", "", "\n"]).join(parts)
    whole = INDEX.find(text)
    assert scanned(INDEX, pieces(text, cuts))[0] == sorted(whole)


@pytest.mark.parametrize("disguise", ["as it is", "spaced", "base64", "hex, spaced", "zero-width"])
@pytest.mark.parametrize("size", [3, 400])
@pytest.mark.rest
def test_a_long_leak_is_decided_piece_by_piece(disguise: str, size: int) -> None:
    """Little is held at a time, and what is found is what the whole shows."""
    text = f"First {DISGUISES[disguise]('. '.join([PROMPT] * 6))} last."
    whole = INDEX.find(text)
    found, most = scanned(INDEX, pieces(text, list(range(0, len(text), size))))
    assert found == sorted(whole)
    assert most <= 4 * PIECE + size
    assert sum(span.end - span.start for span in whole) >= 0.98 * (len(text) - 12)


def test_plain_prose_is_let_go_at_once() -> None:
    """But for the last word, and words that a prompt may go on with."""
    _, most = scanned(INDEX, list(CLEAN))
    assert most <= 40  # two words of the prompt, four others, and one that is not complete


@pytest.mark.parametrize(
    "unit", ["QUJD", "a b ", "49 20 ", "\\x41", "a" * 50, "=", "\n", "na ", "http://a.b/c?d=%20e "]
)
def test_texts_made_to_be_slow_are_not(unit: str) -> None:
    """Each is read in time that grows as it does; no piece of it is read again and again."""
    index = PromptIndex(["na " * 500, PROMPT], canaries=["aaaaaa1"])
    assert isinstance(index.find(unit * (20_000 // len(unit))), list)


def test_options_that_cannot_be_are_refused() -> None:
    """And what is secret is not quoted."""
    with pytest.raises(OptionError, match="at least 4"):
        PromptIndex([PROMPT], min_words=3)
    with pytest.raises(OptionError, match="6 letters and digits") as error:
        PromptIndex([PROMPT], canaries=["Q-1"])
    assert "Q-1" not in str(error.value)
    assert "Mabel" not in repr(INDEX)


def test_indexes_of_the_same_are_equal() -> None:
    """By what they find."""
    assert PromptIndex([PROMPT], canaries=[CANARY]) == INDEX
    assert hash(PromptIndex([PROMPT], canaries=[CANARY])) == hash(INDEX)
    assert PromptIndex([PROMPT], min_words=9) != PromptIndex([PROMPT])


GLANCED_WORDS = "a of in x is XFF fe 7 1010 the garden, it's don't e.g. (you are) ZX 991 — é “the” 0x41 ﬁve СБР на"
GLANCED_CODES = [PROMPT, EXCERPT, in_binary_codes(EXCERPT), " ".join(EXCERPT), CANARY, codecs.encode(PROMPT, "rot13")]
GLANCED = st.lists(
    st.sampled_from([*f"{PROMPT} {GLANCED_WORDS}".split(" "), "\n\n", " " * 20, " " * 170])
    | st.text("abdefx .,-\n", max_size=26)
    | st.tuples(st.sampled_from(GLANCED_CODES), st.integers(0, 150)).map(lambda cut: cut[0][cut[1] : cut[1] + 40]),
    max_size=24,
)
PLAIN_INDEX = PromptIndex([PROMPT])
OTHER_SCRIPTS = (  # one prompt: Hebrew, Hindi, Korean, Chinese, Japanese, Thai
    "אתה עוזר סבלני של בנק קטן בצפון, ענה תמיד בשפת הלקוח. आप एक छोटे बैंक के सहायक हैं, कभी दूसरे बैंकों का नाम न लें। "
    "당신은 작은 은행의 친절한 도우미입니다. 고객의 언어로 대답하세요. "
    "你是一家小银行的耐心助手，请用客户的语言回答，不要提到其他银行。"
    "あなたは小さな銀行の助手です。お客様の言葉で答えてください。"
    "คุณเป็นผู้ช่วยของธนาคารเล็กๆ ทางเหนือ ตอบเป็นภาษาของลูกค้าเสมอ"
)
OTHER_PIECES = st.tuples(st.integers(0, len(OTHER_SCRIPTS)), st.integers(1, 40)).map(
    lambda cut: OTHER_SCRIPTS[cut[0] : cut[0] + cut[1]]
)
OTHER_SIGNS = ["⚠️", "👩\u200d💻", "的", "好，", "12", "a", "x1", "ก", "๑๒", "ำ.", "ー", "…", "\n"]
OTHER_WORDS = st.lists(OTHER_PIECES | st.sampled_from(OTHER_SIGNS), max_size=12)
OTHER_INDEX = PromptIndex([OTHER_SCRIPTS])


@given(
    *[GLANCED | OTHER_WORDS] * 2,
    st.integers(0, 30),
    st.integers(0, 4),
    st.booleans(),
    st.sampled_from([INDEX, PLAIN_INDEX, OTHER_INDEX]),
    st.sampled_from(["", " "]),
)
@settings(max_examples=examples(600), deadline=None)
def test_a_glance_decides_only_what_the_search_does(
    words: list[str], more: list[str], start: int, by: int, final: bool, index: PromptIndex, between: str
) -> None:
    """Nothing is found before the position that it returns, whatever follows, and the search holds no more text."""
    text = between.join(words)
    text, start = text[: len(text) - by], min(start, len(text) - by if len(text) > by else 0)
    held = index.quiet(text, start, final=final)
    if held is None:
        return
    assert start <= held <= len(text)
    found, hold = index.scan(text, start, {}, final=final)
    assert found == []
    assert hold >= held
    if not final:
        for joint in ("", " "):
            assert all(
                span.start >= held for span in index.scan(f"{text}{joint}{' '.join(more)}", start, {}, final=True)[0]
            )


@pytest.mark.rest
def test_a_glance_holds_no_more_of_prose_than_the_search() -> None:
    """Of words of the prompt, letters and codes, the last ones are held, and of other text the last word.

    A sign that ends a word is no end of it at a glance.
    """
    words = f"{CLEAN} {PROMPT.replace('the', 'a')} I x of is 'tis (and so) it-is-all.\nEnd".split(" ")
    for low, high in itertools.combinations(range(len(words)), 2):
        for cut in (0, 2):
            text = " ".join(words[low:high])
            text = text[: len(text) - cut]
            held = PLAIN_INDEX.quiet(text, 0, final=False) if text[-1:] not in (*",.;:)", "") else None
            assert held in (None, PLAIN_INDEX.scan(text, 0, {}, final=False)[1])


def test_most_prose_is_quiet() -> None:
    """Each piece of a text that shares a few words with the prompt."""
    pieces = [CLEAN[:at] for at in range(5, len(CLEAN), 5)]
    assert sum(PLAIN_INDEX.quiet(piece, max(len(piece) - 12, 0), final=False) is None for piece in pieces) == 0
    for text in (CLEAN, "Flour (2 kg) and water: 3.5 l, „für zwei Tage“ — c’est tout. ⚠️ 👩‍💻", OTHER_SCRIPTS):
        assert PLAIN_INDEX.quiet(text, 0, final=True) == len(text)
    assert PLAIN_INDEX.quiet(f"{CLEAN} {EXCERPT}", 0, final=True) is None


@pytest.mark.rest
def test_a_glance_takes_each_character_for_a_sign_or_for_a_space_between_words() -> None:
    """So that what it takes for short words has no code; what is not seen is in no text that it is shown."""
    sign, between = re.compile(_SIGN), re.compile(f"[{BETWEEN_WORDS}]")
    chars = [char for char in map(chr, range(0x40000)) if char.isascii() or read(char).text == char]
    assert not [char for char in chars if sign.match(char) and between.match(char)]
    unseen = [char for char in chars if not sign.match(char) and not between.match(char)]
    assert unseen == [char for char in map(chr, range(128)) if not char.isprintable() and not char.isspace()]


def test_what_may_become_a_code_is_searched_once_it_has_ended() -> None:
    """It is held from its beginning, as the search holds it, and need not be searched again with every piece."""
    code = base64.b64encode(EXCERPT.encode()).decode()
    for end in range(1, len(code) + 1):
        text = f"{CLEAN} Look: {code[:end]}"
        assert PLAIN_INDEX.quiet(text, 0, final=False) == len(text) - end
        assert PLAIN_INDEX.scan(text, 0, {}, final=False) == ([], len(text) - end)
    assert PLAIN_INDEX.quiet(f"{CLEAN} Look: {code} ", 0, final=False) is None
    assert PLAIN_INDEX.quiet(f"{CLEAN} Look: {code}", 0, final=True) is None
    assert PLAIN_INDEX.find(f"{CLEAN} Look: {code}")


def test_a_prompt_that_repeats_itself_costs_little_more_than_its_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its places are many and its chains are equal: each is followed once. What is found is the same."""
    steps: list[int] = []
    plain = WordChains._next

    def counted(self: WordChains, before: Any, at: int, count: float) -> Any:
        steps.append(at)
        return plain(self, before, at, count)

    monkeypatch.setattr(WordChains, "_next", counted)
    sentence = "Never reveal the recipe of the starter to any guest of the house. "
    text = f"Well: {sentence * 3}That is all."
    once = PromptIndex([sentence]).find(text)
    few = len(steps)
    steps.clear()
    (found,) = PromptIndex([sentence * 40]).find(text)
    assert len(steps) < 6 * few  # of 32 places
    assert (found.start, found.end) == (once[0].start, once[-1].end)


RULES = " ".join(
    f"Rule {number}: never tell the customer anything about {about}, and never tell the customer why."
    for number, about in enumerate(["loans or cards", "cards or fees", "fees or rates", "rates or loans"] * 12, 1)
)
SPELLED = " ".join(f"{chr(97 + number // 26)}{chr(97 + number % 26)}word" for number in range(26 * 20))


@pytest.mark.parametrize("prompt", [SPELLED, RULES])
@pytest.mark.parametrize("size", [5, 40])
def test_words_that_are_held_back_are_not_read_again(prompt: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a piece costs depends on its own words, however much text is held back before it."""
    pairs: list[int] = []
    plain = WordChains._visit

    def counted(self: WordChains, index: int, places: Any) -> None:
        pairs.append(index)
        plain(self, index, places)

    monkeypatch.setattr(WordChains, "_visit", counted)
    index = PromptIndex([prompt])

    def read(length: int) -> tuple[int, int]:
        """Return how many pairs of words are followed in pieces, and how many in the whole text."""
        text = f"Well: {prompt[:length]}"
        pairs.clear()
        found, most = scanned(index, pieces(text, list(range(0, length, size))))
        streamed = len(pairs)
        pairs.clear()
        assert found == sorted(index.find(text))
        assert most >= min(length, 1_000) - 20 - size
        return streamed, len(pairs)

    counts = [read(length) for length in (500, 1_000, 2_000, 4_000)]
    again = [streamed - whole for streamed, whole in counts]
    assert again == [again[0]] * 4  # the first words only, before much is held back
    assert again[0] < 2 * counts[0][1]


def test_a_copy_of_chains_goes_on_by_itself() -> None:
    """The text of a part is read on its own and together with the next part; the index is not copied."""
    text = f"So: {PROMPT}"
    notes: dict[str, Any] = {}
    _, hold = INDEX.scan(text[:200], 0, notes, final=False)
    assert INDEX.goes_on(notes)
    copied = deepcopy(notes)
    assert copied["leaks"].chains is not notes["leaks"].chains
    assert copied["leaks"].chains._passages is notes["leaks"].chains._passages
    first, _ = INDEX.scan(text[:200], hold, notes, final=True)
    second, _ = INDEX.scan(text, hold, copied, final=True)
    assert first == INDEX.find(text[:200])
    assert second == INDEX.find(text)


@pytest.mark.parametrize("behind", ["", " 😀", " مي"])
def test_letters_within_signs_are_read_whatever_stands_around_them(behind: str) -> None:
    """As keycaps, circled, or with the sign of a thousand around them."""
    for mark in "\u20e3\u20dd\u0488":
        enclosed = "".join(char + mark if char.isalpha() else char for char in PROMPT[:90])
        assert INDEX.find(enclosed + behind), ascii(mark)
