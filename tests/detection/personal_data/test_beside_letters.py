"""Values that stand right beside letters of Chinese, Japanese, Korean and Thai, as people write them."""

from __future__ import annotations

import itertools

import pytest

from penstock import PIIDetector, Workflow

GUARD = Workflow("guard").then(PIIDetector(redaction_method="placeholder"))

AROUND = [("値は", "です"), ("值是", "的"), ("값은 ", "입니다"), ("값", "이에요"), ("ค่าคือ", "ครับ"), ("番号「", "」。")]
VALUES = {
    "CREDIT-CARD": ["4111 1111 1111 1111", "4111111111111111", "4111-1111-1111-1111"],
    "EMAIL": ["joe.miller@example.org"],
    "PHONE": ["090-1234-5678", "+81 90-1234-5678"],
    "IBAN": ["DE89 3704 0044 0532 0130 00", "DE89370400440532013000"],
    "IP-ADDRESS": ["81.169.145.12", "2a01:4f8:c17:3a2f::2"],
    "SSN": ["123-45-6789"],
    "API-KEY": ["glpat-Zk3v9XyQw7LmN2pRt5Ab"],
    "MAC": ["00:1B:44:11:3A:B7"],
}


def streamed(text: str, size: int) -> str:
    """Return a text as it leaves in pieces of a size."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    with GUARD.start_sync(records=False).process_output_stream(pieces) as chunks:
        return "".join(chunk.text for chunk in chunks)


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", VALUES)
def test_a_value_needs_no_blank_where_the_script_has_none(kind: str, around: tuple[str, str]) -> None:
    """Whole, and in any cut."""
    before, behind = around
    for value in VALUES[kind]:
        text = f"{before}{value}{behind}"
        wanted = f"{before}[{kind}]{behind}"
        assert GUARD.check_sync(text).text == wanted
        assert [streamed(text, size) for size in (1, 3, 100)] == [wanted] * 3


@pytest.mark.parametrize(
    "text",
    [
        "x4111111111111111",
        "4111111111111111a",
        "バージョンは81.169.145.12です",
        "版本81.169.145.12",
        "버전 81.169.145.12",
    ],
)
def test_part_of_a_word_and_a_version_are_no_value(text: str) -> None:
    """As before."""
    assert GUARD.check_sync(text).text == text


DATES = [
    "1985/03/12",
    "1985-03-12",
    "1985.03.12",
    "12/03/1985",
    "1985年3月12日",
    "1985/03/12 08:30",
    "１９８５／０３／１２",
]
LABELS = [
    "生年月日は{}です",
    "誕生日が{}の方",
    "出生日期是{}，",
    "我的生日是{}。",
    "出生于{}的人",
    "他生于{}，现居北京",
]
LABELS += [
    "생년월일은 {}입니다",
    "제 생일은 {}이에요",
    "{}に生まれました",
    "{}が生年月日です",
    "{}出生",
    "{}에 태어났습니다",
]
PLAIN = ["生年月日は{}です", "出生日期是{}，", "생년월일은 {}입니다"]


@pytest.mark.parametrize(
    "text",
    [
        *(label.format(date) for label, date in itertools.product(LABELS, DATES)),
        *(label.format("19850312") for label in PLAIN),
        "1985. 3. 12.에 태어났습니다",
    ],
)
def test_a_date_of_birth_is_found_right_beside_its_words(text: str) -> None:
    """With signs and with words for the year, in one piece behind its label, and in any cut."""
    whole = GUARD.check_sync(text).text
    assert "[DATE-OF-BIRTH]" in whole
    assert "85" not in whole
    assert [streamed(text, size) for size in (1, 3, 100)] == [whole] * 3


@pytest.mark.parametrize(
    "text",
    [
        "会議は1985/03/12です",
        "発売日は1985/03/12です",
        "会议日期是1985-03-12",
        "회의는 1985-03-12입니다",
        "发生于1985-03-12的事",
    ],
)
def test_other_dates_are_no_dates_of_birth(text: str) -> None:
    """They need a word for birth."""
    assert GUARD.check_sync(text).text == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "https://acme.example.org/pay?card=4111+1111+1111+1111&x=1",
            "https://acme.example.org/pay?card=[CREDIT-CARD]&x=1",
        ),
        ("card=3782+822463+10005", "card=[CREDIT-CARD]"),
        ("iban=DE89+3704+0044+0532+0130+00&x=1", "iban=[IBAN]&x=1"),
    ],
)
def test_blanks_may_be_plus_signs_as_forms_send_them(text: str, wanted: str) -> None:
    """Also where nothing else in the query is escaped."""
    assert GUARD.check_sync(text).text == wanted
    assert [streamed(text, size) for size in (1, 3, 100)] == [wanted] * 3


def test_a_sum_is_no_card() -> None:
    """Its check digit would have to be right, and its terms as long as the groups of a card."""
    text = "2024+2023+2022+2021 is 8090, and 4000+1500+2600+1200 is 9300"
    assert GUARD.check_sync(text).text == text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("パスワードはhunter2xY!です", "パスワードは[API-KEY]です"),
        ("パスワードは「hunter2xY!」です", "パスワードは「[API-KEY]」です"),
        ("密码是hunter2xY!，谢谢", "密码是[API-KEY]，谢谢"),
        ("비밀번호는 hunter2xY!입니다", "비밀번호는 [API-KEY]입니다"),
        ("パスワードはリセットされました", "パスワードはリセットされました"),
        ("パスワードは8文字以上です", "パスワードは8文字以上です"),
        ("パスワードはhttps://example.org/resetで再設定", "パスワードはhttps://example.org/resetで再設定"),
        ("密码是8-16位", "密码是8-16位"),
        ("비밀번호는 8자 이상이어야 합니다", "비밀번호는 8자 이상이어야 합니다"),
    ],
)
def test_a_password_is_found_behind_its_word_and_a_particle(text: str, wanted: str) -> None:
    """As in ``the password is …``; a sentence about passwords is none."""
    assert GUARD.check_sync(text).text == wanted
    assert [streamed(text, size) for size in (1, 3, 100)] == [wanted] * 3


@pytest.mark.parametrize("around", ["<b>{}</b>", '{{"v": "{}"}}', "({}).", "key={};", "値は{}です", "值是{}的"])
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("AKIAQ3EGTPLVX7YN2WKB", "API-KEY"),
        ("4111111111111111", "CREDIT-CARD"),
        ("joe.miller@acme-corp.org", "EMAIL"),
    ],
)
def test_letters_apart_may_touch_a_tag_or_a_sign(value: str, kind: str, around: str) -> None:
    """The first and the last one do."""
    text, wanted = around.format(" ".join(value)), around.format(f"[{kind}]")
    assert GUARD.check_sync(text).text == wanted
    assert [streamed(text, size) for size in (1, 3, 100)] == [wanted] * 3
