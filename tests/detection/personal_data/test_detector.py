"""`PersonalData`: each type's shapes and check sums, what is none, overlaps, and texts that come in pieces."""

from __future__ import annotations

from time import process_time

import pytest
from hypothesis import given, settings, strategies as st

from penstock.detection.patterns.rules import RegexRule, checked
from penstock.detection.personal_data.detector import CONTEXTUAL, EMBEDDED, PersonalData
from penstock.detection.spans import Span
from tests.laws import examples

EVERY = PersonalData()
UUID = "123e4567-e89b-12d3-a456-426614174000"
BITCOIN = "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa"
SEGWIT = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"
TAPROOT = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0"
ETHEREUM = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"  # of EIP-55's own examples


def found(text: str, detector: PersonalData = EVERY, key: str = "") -> list[tuple[str, str]]:
    """Return types and texts of what is found."""
    return [(span.type, text[span.start : span.end]) for span in detector.find(text, key)]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("email", "jo.e+x@mail.example.co.uk"),
        ("phone", "+49 30 1234567"),
        ("credit-card", "4111 1111 1111 1111"),
        ("ssn", "123-45-6789"),
        ("api-key", "sk_live_qdyFazIVmace52bThiOzbEVT"),
        ("ip-address", "84.16.10.254"),
        ("ip-address", "2a02:80::1/64"),
        ("url", "https://a.example/u?id=1"),
        ("url", "www.example.org/x"),
        ("url", "example.co.uk"),
        ("url", "docs.rust-lang.org/std"),
        ("uuid", UUID),
        ("crypto-wallet", BITCOIN),
        ("crypto-wallet", SEGWIT),
        ("crypto-wallet", TAPROOT),
        ("crypto-wallet", ETHEREUM),
        ("crypto-wallet", ETHEREUM.lower()),
        ("iban", "GB82 WEST 1234 5698 7654 32"),
        ("mac", "00:1A:2B:3C:4D:5E"),
        ("mac", "0012.3456.789a"),
    ],
)
def test_a_value_is_found_as_it_stands(kind: str, value: str) -> None:
    """Within a sentence, without the punctuation behind it; alone if only its type is looked for."""
    assert found(f"We got {value}, today.") == [(kind, value)]
    assert found(f"({value})", PersonalData([kind])) == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "born 31 January 1990",
        "né le 12/04/1985",
        "d.ob 1990-01-31",
        "Date of birth: 1990-01-31",
        "DOB 1/31/1990",
        "date of birth. It's 3/23/1940",
        "geboren am 3. März 1975",
        "née le 4 février 1962",
        "Birthday: January 31st, 1990",
        "出生于1990年1月31日",
        "dob: 1985-03-04T00:00:00Z",
        "Geb. 04.03.1985 00:00",
        '"birthDate": "19850304"',
        "geburtsdatum=19850304",
        "nasc. 04/03/1985",
        "ur. 4 marca 1985",
        "né(e) le 4 mars 1985",
        "जन्म तिथि: 4 मार्च 1985",
        "ngày sinh: 4 tháng 3 năm 1985",
        "tanggal lahir: 4 Maret 1985",
        "született 1985. március 4.",
        "syntynyt 4. maaliskuuta 1985",
        "תאריך לידה: 4 במרץ 1985",
        "تاريخ الميلاد: 4 مارس 1985",
        "생년월일 1985년 3월 4일",
        "วันเกิด: 4 มีนาคม 2528",
        "дата рождения: 4 марта 1985",
        "Doğum tarihi: 4 Mart 1985",
        "fecha_nac: 04-03-1985",
        "geboren op 4 mei 1985",
        "nació el 8 de enero de 1975",
        "nato a Bari il 17/06/1981",
        "am 23. Februar 1988 in Kiel geboren",
        "12.03.1985 doğumlu",
        "Ivanova, 12.03.1985 г.р.",
        "1988年2月23日生まれ",
        "昭和63年2月23日生",
        "他1988年2月23日出生于上海",
        "1988년 2월 23일생입니다",
        "born 07/19/1991, last seen 07/19/2024",
        "Geb.: 04.11.1969, Eintritt 01.04.1998",
        "出生日期：1990年4月12日，入职：2019年4月12日",
    ],
)
def test_a_date_beside_a_word_for_birth_is_a_date_of_birth(text: str) -> None:
    """In numbers or with a month's name, behind the word or right before it; a date that another word names is none."""
    assert [kind for kind, _ in found(text)] == ["date-of-birth"]


@pytest.mark.parametrize(
    "text",
    [
        "logger.info(x); obj.name = self.app; run.sh and node.js and x.py; System.IO; e.g.it",
        "the end.It is so.to be",
        "std::vector<int> a; version 1.2.3.4; 12:34:56",
        "released 1990-01-31, at 10:30",
        "created 1985-03-04T00:00:00Z, delibera n. 04/03/1985, born 19850304",
        "reborn in 31 ways",
        "2026年3月1日生効, 2026년 3월 1일 생산, 2026年3月1日生活",
        "Jane Doe, 10 Downing Street, London",
        "00000000-0000-0000-0000-000000000000 and 00:00:00:00:00:00 and ff:ff:ff:ff:ff:ff",
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD",
        "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdx",
        "how-to-install-python-3-10-on-ubuntu-22-04 getUserById2From3Table4WithName5",
        "4111 1111 1111 1112, order 5551234567, GB82 WEST 1234 5698 7654 33",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    ],
)
def test_what_only_looks_like_it_is_none(text: str) -> None:
    """Attributes of code, wrong check sums, dates of other things, names."""
    assert found(text) == []


def test_what_overlaps_is_one_finding_of_the_longest() -> None:
    """Digits of an IBAN, a UUID or a card are no phone number; a mail address in a link is part of the link."""
    assert found("DE89370400440532013000") == [("iban", "DE89370400440532013000")]
    assert found("phone 12345678-1234-1234-1234-123456789012") == [("uuid", "12345678-1234-1234-1234-123456789012")]
    assert found("see https://a.example/?q=bob@a.io") == [("url", "https://a.example/?q=bob@a.io")]


def test_a_link_with_a_key_in_it_is_a_key() -> None:
    """Whoever has it may come in; so is what stands behind a label, though it has the form of an identifier."""
    link = "https://hooks.slack.com/services/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"
    assert found(link) == [("api-key", link)]
    assert found(f"api_key: {UUID}") == [("api-key", f"api_key: {UUID}")]
    assert found(f"id {UUID}") == [("uuid", UUID)]


def test_a_wallet_with_a_wrong_check_sum_is_none() -> None:
    """Nor is it a key, without a word for one."""
    wrong = "16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ2"
    assert found(wrong, PersonalData(["crypto-wallet"])) == []
    assert found(wrong) == []


def test_an_iban_with_a_wrong_digit_is_found_behind_the_word() -> None:
    """Somebody mistyped it, but it is theirs."""
    assert found("my IBAN is GB82WEST12345698765433") == [("iban", "GB82WEST12345698765433")]
    assert found("my code is GB82WEST12345698765433", PersonalData(["iban"])) == []


def test_a_key_explains_its_value() -> None:
    """As the name of a field does for a person."""
    assert found("1990-01-31", key="date_of_birth") == [("date-of-birth", "1990-01-31")]
    assert found("329 7730", key="phone") == [("phone", "329 7730")]


def test_names_and_addresses_are_left_to_a_judge() -> None:
    """They are told apart, so that whoever asks for them knows."""
    detector = PersonalData(["email", "name", "address", "passport"])
    assert (detector.types, detector.contextual) == (("email",), ("name", "address", "passport"))
    assert set(CONTEXTUAL).isdisjoint(EMBEDDED)
    assert repr(detector) == "PersonalData(email)"
    assert detector == PersonalData(["email"])
    assert hash(detector) == hash(PersonalData(["email"]))


def test_own_rules_are_searched_in_the_same_pass() -> None:
    """A finding's type is the rule's name."""
    own = checked("T", 0, RegexRule("passport", r"\b[A-Z]{2}\d{7}\b"), 0.5)
    detector = PersonalData(["email"], [own])
    assert detector.types == ("email", "passport")
    assert found("AB1234567 a@b.io", detector) == [("passport", "AB1234567"), ("email", "a@b.io")]


def streamed(text: str, *cuts: int, detector: PersonalData = EVERY) -> list[Span]:
    """Return what is found in a text that is cut at those places, of which no more than a window is seen."""
    notes: dict[str, object] = {}
    edges = [0, *sorted(cuts), len(text)]
    decided = 0
    spans: list[Span] = []
    for edge in edges[1:]:
        low = max(decided - detector.lookback, 0)
        final = edge == len(text)
        some, hold = detector.scan(text[low:edge], decided - low, notes, final=final)
        hold += low
        assert decided <= hold <= edge
        spans += [Span(s.start + low, s.end + low, s.type) for s in some if s.end + low <= hold]
        decided = hold
    return spans


PHRASES = [
    *(
        "jo@mail.example.org.",
        "see https://a.example/u(1)?x=1). or",
        "www.a.example/b, then",
        "docs.rs/serde!",
        "a.b.co.uk",
    ),
    *("run.sh x.py", "api.example.com:8080/x", "end.It was", "a@b.example.com", "foo.app/bar", "foo.app bar"),
    *(f"id {UUID};", f"{BITCOIN}x", BITCOIN, SEGWIT, TAPROOT.upper(), ETHEREUM, ETHEREUM[:-1] + "D"),
    *("00:1A:2B:3C:4D:5E and 00-1A-2B-3C-4D-5E", "0012.3456.789a.", "00:1A:2B:3C:4D:5E:6F:70"),
    *(
        "born 31 January 1990",
        "DOB: 1/31/90 or 1990-01-31",
        "born on the 3rd of March 1975, in",
        "birth date May 3, 1975",
    ),
    *("geboren 1.2.1990 und 3.4.1991", "born 1990-01-31-7", "birthday: 12 12 1990"),
    *("born 1.2.1990, married 3.4.2011", "1988年2月23日生まれ", "am 2. Mai 1988 in Kiel geboren", "1988-02-23 生"),
    *("fe80::1%eth0/64 ", "10.0.0.0/8,", "::1/128", "ipv6 :: or", "127.0.0.1:80"),
    *("IBAN GB82WEST12345698765433x", "IBAN: GB82WEST12345698765433", "IBAN GB82 WEST 1234 5698 7654 32"),
    *(
        "key f7Kq29ZxTb81LmWv4RsN0dYg",
        "token 9f86d081884c7d659a2feaa0c55ad015",
        "key f7Kq29ZxTb81LmWv4RsN0dYg+/x",
        "next_page_token=f7Kq29ZxTb81LmWv4RsN0dYg",
        "-u bob:s3cret!x",
    ),
    *(
        "call 329 7730",
        "4111 1111 1111 1111 123",
        "123-45-6789",
        "password: hunter2!",
        "sk_live_qdyFazIVmace52bThiOzbEVT",
    ),
    *("abc8Q~" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA", "$2b$12$R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW x"),
    *(
        "https://discord.com/api/webhooks/123456789012345678/" + "aB3dE5gH7jK9" * 6,
        "https://hooks.slack.com/services/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",
        "?sig=" + "aB3dE5gH7jK9" * 4 + "%3D&x",
    ),
    *("ｊｏ＠ｂ．ｉｏ", "e\u200bxample.com", "b\u043ern 1990-01-31"),
]


@pytest.mark.parametrize("phrase", PHRASES, ids=ascii)
def test_a_phrase_may_be_cut_anywhere(phrase: str) -> None:
    """In two at every place, and into characters."""
    text = f"We say {phrase} here."
    whole = EVERY.find(text)
    for place in range(1, len(text)):
        assert streamed(text, place) == whole, place
    assert streamed(text, *range(1, len(text))) == whole


@settings(max_examples=examples(150), deadline=None)
@given(st.data())
def test_pieces_give_what_the_whole_gives(data: st.DataObject) -> None:
    """Phrases one after another, glued by anything, cut anywhere."""
    glue = st.sampled_from(["", " ", "\n", ".", ",", ": ", "-", "/", "1", "a", "_", "\u200b"])
    pieces = data.draw(st.lists(st.tuples(st.sampled_from(PHRASES), glue), min_size=1, max_size=5))
    text = "".join(part for pair in pieces for part in pair)
    cuts = data.draw(st.sets(st.integers(1, max(len(text) - 1, 1)), max_size=6))
    assert streamed(text, *cuts) == EVERY.find(text)


def test_plain_prose_flows_at_once() -> None:
    """No more than the last word is held."""
    text = "The birthday party was a great success, and everybody liked the cake. Then we went home"
    _, hold = EVERY.scan(text, 0, {}, final=False)
    assert text[hold:] == "home"


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("IBAN GB82 WEST 1234 5698 7654 33", "iban"),
        ("iban: GB82WEST12345698765433", "iban"),
        ("bank account DE12 3456 7890 1234 5678 90 ok", "iban"),
        ("credit card 4111 1111 1111 1112", "credit-card"),
        ("Amex 3782 822463 10006", "credit-card"),
        ("Kreditkarte: 5555-5555-5555-4445.", "credit-card"),
    ],
)
def test_a_mistyped_number_counts_behind_its_word(text: str, type: str) -> None:
    """Though its check digits are wrong; without the word it does not."""
    assert [one.type for one in EVERY.find(text)] == [type]
    number = text.split(" ", 2 if text.startswith(("bank", "credit")) else 1)[-1]
    assert type not in [one.type for one in EVERY.find(f"see {number}")]


@pytest.mark.parametrize(
    "piece",
    [
        "born ",
        "born 1.1.",
        "1.1.",
        "1 Jan ",
        "a.",
        "a.com",
        "a.com/",
        "x-",
        "bc1q",
        "1q",
        "0x",
        "1A",
        "aB3",
        "00:",
        "0012.",
        "ab12-",
        "iban GB82",
        "GB82W",
        "-u a:",
        "$2b$",
        "Q~",
        "8Q~",
        "key ",
        "pass=",
        "::",
        "fe80::",
        "(",
        "/(",
        "a.com)",
    ],
)
@pytest.mark.rest
def test_time_is_in_proportion_to_the_text(piece: str) -> None:
    """A quadratic search would take 256 times as long for sixteen times the text; the bound is six times linear."""

    def seconds(text: str) -> float:
        times: list[float] = []
        for _ in range(3):
            start = process_time()
            EVERY.find(text)
            times.append(process_time() - start)
        return min(times)

    text = piece * (3_000 // len(piece))
    seconds(text)
    assert seconds(text * 16) < 6 * 16 * max(seconds(text), 0.001)


_PIECES = st.sampled_from(
    [
        "Hello there, ",
        "jo@example.org",
        "my phone ",
        "030 1234567",
        "％40",
        "\n",
        "name,phone\n",
        "Jo,0301234567",
        "ключ",
        "·",
        "%41",
        "🙂",
    ]
)


@given(st.lists(_PIECES, max_size=8).map("".join))
def test_one_look_passes_over_texts_alone_in_which_a_search_finds_nothing(text: str) -> None:
    """The look comes before each search of a short text."""
    finder = EVERY._finder  # pyright: ignore[reportPrivateUsage]
    assert not (finder.sees_none(text) and finder.find(text))


class TestShared:
    """Searches for the same share the rules, which are sorted once."""

    def test_equal_searches_sort_their_triggers_once(self) -> None:
        """A second detector with the same arguments takes the tool of the first, also for ids and encoded text."""
        one, other = PersonalData(["email", "phone"]), PersonalData(("email", "phone"))
        assert one._finder is other._finder  # pyright: ignore[reportPrivateUsage]
        assert one.in_ids._finder is other.in_ids._finder  # pyright: ignore[reportPrivateUsage]

    def test_other_options_have_a_tool_of_their_own(self) -> None:
        """Domains that are allowed, and countries, change the rules, whoever was made before."""
        types, text = ("email", "national-id"), "ann@example.com 12345678911"
        plain, allowed = PersonalData(types), PersonalData(types, allow=["example.com"])
        assert found(text, plain) == [("email", "ann@example.com")]
        assert found(text, allowed) == []
        assert found(text, PersonalData(types, countries=["de"])) == [
            ("email", "ann@example.com"),
            ("national-id", "12345678911"),
        ]

    def test_a_search_of_ids_shares_nothing_with_one_of_texts(self) -> None:
        """Random letters are a key in a text and none in an id, with the same types."""
        text = PersonalData(["api-key"])
        assert text._finder is not text.in_ids._finder  # pyright: ignore[reportPrivateUsage]

    def test_rules_of_a_user_are_not_shared(self) -> None:
        """Rules of the same name, replacement and flags may have other patterns."""
        ours, theirs = (
            PersonalData([], [checked("test", 0, RegexRule("order", pattern, "g"), 1.0)])
            for pattern in ("A[0-9]{3}", "B[0-9]{3}")
        )
        assert found("A123 B456", ours) == [("order", "A123")]
        assert found("A123 B456", theirs) == [("order", "B456")]
