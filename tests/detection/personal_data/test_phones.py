"""Phone numbers in many languages, and digits that are none."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from penstock.detection.personal_data.detector import DEFAULT, PersonalData
from penstock.detection.personal_data.phones import phones as search
from tests.detection.personal_data.numbers import PHONES, phones_of

if TYPE_CHECKING:
    from penstock.detection.spans import Span
    from penstock.engine.values.frozen import Value

ALL = PersonalData()
UUID = "550e8400-e29b-41d4-a716-446655440000"


def phones(text: str, detector: PersonalData = ALL) -> list[str]:
    """Return the phone numbers in a text."""
    return [text[one.start : one.end] for one in detector.find(text) if one.type == "phone"]


@pytest.mark.parametrize("language", PHONES)
def test_a_number_behind_or_before_its_word_is_found(language: str) -> None:
    """In the country's forms, from its first digit to its last."""
    for text, number in phones_of(language):
        found = phones(text)
        assert len(found) == 1, text
        assert number.lstrip("8 ").endswith(found[0]) or found == [number], text


@pytest.mark.parametrize(
    "text",
    [
        "Tel. 61 51 81",
        "phone: 555123",
        "61 51 81 office",
        "Handy 0171 / 234567",
        "mobile 23 45 67 8",
    ],
)
def test_few_digits_count_with_a_word_for_a_phone_close_by(text: str) -> None:
    """Six and seven digits."""
    assert len(phones(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "Your SMS code is 483920",
        "the pin for your phone is 4839 20",
        "we called 123 456 people",
        "Numéro de commande 12345678",
        "mi número de cuenta 123 456 789 0",
        "Meine Kundennummer ist 123 456 789",
        "订单号码 12345678901",
        "numéro 1234567",
        "phone 1996 09 18 8",
        "mobile 180.6-31.6 1 1 2 0 4",
        'google_ad_slot = "3718143501"',
        f"mobile {UUID}",
        "mobile aaaaaaaa-0012-3456-7890-abcdefabcdef",
        "call https://example.com/a/555-123-4567",
        "phone www.example.com/0612345678",
        "call 10.12.13.14",
        "伝票番号 3566-0020-20",
        "주문번호는 20260311-4471입니다",
    ],
)
def test_other_numbers_are_no_phone(text: str) -> None:
    """Codes, orders, accounts, dates, measures; digits in UUIDs, links and addresses, with the default types too."""
    assert not phones(text)
    assert not phones(text, PersonalData(DEFAULT))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WhatsApp +52 1 55 8412 7730, guía 7730841255", ["+52 1 55 8412 7730"]),
        ("मेरा मोबाइल 98104 48127 है, ऑर्डर 9810448", ["98104 48127"]),
        ("nomor HP 0812-4481-2773, resi 812448127", ["0812-4481-2773"]),
        ("phones 5035552841, 2065559917 and 4155550100", ["5035552841", "2065559917", "4155550100"]),
        ("mobile 5035552841 home 2065559917", ["5035552841", "2065559917"]),
        ("mi móvil es 612 884 305 y el otro 91 448 27 10", ["612 884 305", "91 448 27 10"]),
        ("my # is 5035552841", ["5035552841"]),
        ("звоните 8 (495) 741-22-08", ["8 (495) 741-22-08"]),
    ],
)
def test_a_word_for_a_phone_explains_the_next_number_and_those_that_no_word_names(
    text: str, expected: list[str]
) -> None:
    """A number behind the name of another thing is that thing's."""
    assert phones(text) == expected


@pytest.mark.parametrize("number", ["(212) 555-0187", "212-555-0187", "030 9018 2000", "+49 30 9018 2000"])
@pytest.mark.parametrize(
    "text",
    [
        '"lang_code": "en", {} model_name":',
        '{{"lang_code": "en", "x": "{}"}}',
        "lang_code = 'en'  # Bob: {}",
        "lang_code: en, {}",
        '<a row_id="r">{}</a>',
        "lang_code = ''\n```\n{}\n```python\n",
    ],
)
def test_a_name_in_code_that_has_its_value_says_nothing_of_the_digits_behind_that(text: str, number: str) -> None:
    """They belong to something else."""
    assert phones(text.format(number)) == [number]


@pytest.mark.parametrize(
    "text",
    [
        '"user_id": "{}"',
        "user_id = {}",
        "user_id={}",
        'row_key: "a {} b"',
        "order_id, {}",
        "slots(row_id, {})",
        "order_id: US {}",
        "zip_code = int({})",
    ],
)
@pytest.mark.parametrize("number", ["212-555-0187", "2125550187"])
def test_the_value_of_a_name_in_code_that_numbers_things_is_no_phone(text: str, number: str) -> None:
    """However it is written."""
    assert not phones(text.format(number))


NUMBERED = ("0711 2345678", "020 3394 1122", "212-555-0199", "0049 30 1234567")


@pytest.mark.parametrize(
    "label",
    [
        *("Art.-Nr.", "Art. Nr.", "Best.-Nr.", "Kd.-Nr.", "Zählernummer", "Mitgliedsnr.", "Sendungsnummer"),
        *("Customer no.", "Meter no.", "Member number", "Docket number", "Bestelnummer", "Tilausnumero"),
    ],
)
def test_a_number_behind_the_name_of_a_thing_and_number_is_that_of_the_thing(label: str) -> None:
    """With or without a colon, and in a table."""
    texts = [
        text for number in NUMBERED for text in (f"{label} {number}", f"{label}: {number}", f"| {label} | {number} |")
    ]
    assert [text for text in texts if phones(text)] == []


@pytest.mark.parametrize(
    "label",
    [
        *(
            "Annas Nr.",
            "Büro-Nr.",
            "Praxis Nr.",
            "Tel.-Nr.:",
            "Handy-Nr.",
            "Ruf-Nr.:",
            "Kontaktnummer:",
            "Annas Nummer ist",
        ),
        *(
            "Clinic number:",
            "Landlord no.",
            "Customer phone number:",
            "our customer line no.",
            "the customer's number is",
        ),
    ],
)
def test_a_number_behind_the_name_of_somebody_is_a_phones(label: str) -> None:
    """People, places and words for phones stand before *number*, too."""
    texts = [f"{label} {number}" for number in NUMBERED]
    assert [text for text in texts if not phones(text)] == []


@pytest.mark.parametrize("word", ["tel", "call", "ph.", "fax"])
def test_a_word_for_a_phone_behind_the_number_of_a_thing_counts(word: str) -> None:
    """It stands closer, and explains what follows."""
    assert phones(f"Member no. {word} 5551234567") == ["5551234567"]


@pytest.mark.parametrize(
    "text",
    [
        "refused after {} ns",
        "{} bytes were sent",
        "rows: {}",
        "org/feature-{} was merged",
        "SELECT * FROM orders WHERE id = {};",
        "s3://logs/{}/part-0",
        "if size > {}:",
        "run {} of the build",
        "id: {}",
        "phone_id: {}",
        "phoneNumberId: {}",
        "phone verification code {}",
        "the app on my phone counted {} bytes",
        "call_id = {}",
        "call({})",
        "about the headphones, PO {}",
        "[PHONE]: {}",
        "[PHONE] or [PHONE_2], then {}",
        "{}",
    ],
)
@pytest.mark.parametrize("number", ["4155550132", "14155550132", "0612345678", "2147483647"])
def test_digits_without_groups_need_a_word_for_a_phone_and_none_closer_by_for_another_thing(
    text: str, number: str
) -> None:
    """Ids, sizes, times, literals and placeholders are no such words."""
    assert not phones(text.format(number))


@pytest.mark.parametrize(
    "text",
    [
        "call {}",
        "phone={}",
        '"whatsapp": "{}"',
        "msisdn: {}",
        "fone: {}",
        "primary_contact_number: {}",
        "homeTel: {}",
        "order by phone: {}",
        "Account mobile {}",
        "Handy {}",
        "7,phone,{},33",
    ],
)
@pytest.mark.parametrize("number", ["4155550132", "0612345678"])
def test_digits_without_groups_count_behind_a_word_or_a_key_for_a_phone(text: str, number: str) -> None:
    """The word that stands closest decides."""
    assert phones(text.format(number)) == [number]


@pytest.mark.parametrize(
    "text",
    [
        "part no. 030-555-0199",
        "030-555-0199",
        "0151-2384-77",
        "Receiving objects: 100% (28417/28417), done.",
        "J. Finance 12 (2011) 345-367",
        "12 (11) 2345-2367",
        "latencies were 250 300 1000 ms",
        "status codes 404 500 5030",
        "scores: 212 555 1000",
        "\n1 2\n250 300 1000\n260 310 1100\n",
        "08 09 10 11 12",
        "+40.7128-074.0060/",
        "offset: +12345678",
        "0049000028904",
        "1,234 567 8901",
        "123-456-7890",
    ],
)
def test_groups_that_other_things_have_too_are_no_phone(text: str) -> None:
    """Without a word for one."""
    assert not phones(text)


@pytest.mark.parametrize(
    "number",
    [
        "+1-404-555-0171",
        "+44 20 7946 0958",
        "+442079460958",
        "(404) 555-0171",
        "404-555-0171",
        "404.555.0171",
        "0171/1234567",
        "06 12 34 56 78",
        "0049 171 1234567",
    ],
)
@pytest.mark.parametrize("text", ["7,{},33", "{},33", "7,{}", "[{},{}]", "a,{},b\n1,{},2\n", '"{}",4'])
def test_a_number_between_commas_is_found_whatever_stands_beyond_them(text: str, number: str) -> None:
    """Only thousands have commas within a number."""
    found = phones(text.replace("{}", number))
    assert found == [number] * text.count("{}")


@pytest.mark.parametrize(
    "number",
    [
        "0049 171 1234567",
        "0049-171-1234567",
        "00491711234567",
        "0043 664 1234567",
        "0041 79 123 45 67",
        "(0049) 171 1234567",
        "0049 (0)171 1234567",
        "+49 (0) 30 1234567",
        "0171/1234567",
        "0171 / 123 45 67",
        "030/1234567-0",
        "030 – 1234567",
        "+49–30–1234567",
        "030 1234567-89",
        "06/87464593",
        "0044 20 7434 5936",
        "011 555 5222",
    ],
)
@pytest.mark.parametrize("text", ["Ada\n{}\nExample GmbH", "{}-Büro", "{}-Office"])
def test_german_austrian_and_swiss_numbers_are_found_whole(text: str, number: str) -> None:
    """With two zeros, a slash, a dash of any length, a direct dial, and glued to a word."""
    assert phones(text.format(number)) == [number]


@pytest.mark.parametrize("text", ["am 01/12/2024", "build 0049.1.2", "Seite 030/12"])
def test_dates_versions_and_pages_are_no_german_number(text: str) -> None:
    """They have fewer digits."""
    assert not phones(text)


def test_a_list_of_placeholders_reads_the_same_when_it_is_read_again() -> None:
    """Placeholders are no words for a phone, and no word is seen beyond one."""
    text = "phone: 0171 2345678 or ada@example.com. Then 5551234567, and order 2125550187"
    once = text
    for one in reversed(ALL.find(text)):
        once = f"{once[: one.start]}[{one.type.upper()}]{once[one.end :]}"
    assert not ALL.find(once)


@pytest.mark.parametrize(
    "text", ["tel. 030-555-[PHONE]", "[PHONE](415) 555 0132", "[PHONE_2]-415-555-0132", "[CREDIT-CARD]-415-555-0132"]
)
def test_what_is_left_of_a_longer_run_beside_a_placeholder_is_no_phone(text: str) -> None:
    """A text that is read twice changes once."""
    assert not phones(text)


_PIECES = [
    "+1-404-555-0171",
    "415-555-0132",
    "(415) 555 0132",
    "0171/1234567",
    "4155550132",
    "06 12 34 56 78",
    "250 300 1000",
    "0049 171 1234567",
    "1,234,567",
    "2026-11-28",
    "[PHONE]",
    "ms",
    "bytes",
    "Tel.",
    "phone",
    "order",
    "id",
    "22",
    ",",
    ";",
    "\n",
    " ",
    "  ",
    "\t",
    ":",
    "(",
    ")",
    "- ",
]


@given(st.lists(st.sampled_from(_PIECES), max_size=14), st.lists(st.integers(1, 40), max_size=5))
def test_a_stream_finds_the_phones_of_the_whole_text(pieces: list[str], sizes: list[int]) -> None:
    """Wherever it is cut; words may stand behind a number or before it."""
    text = " ".join(pieces)
    cuts = [cut for cut in accumulate(sizes) if cut < len(text)]
    notes: dict[str, Value] = {}
    start = 0
    streamed: list[Span] = []
    for cut in [*cuts, len(text)]:
        spans, hold = ALL.scan(text[:cut], start, notes, final=cut == len(text))
        streamed += [span for span in spans if span.end <= hold]
        start = hold
    assert streamed == ALL.find(text)


@pytest.mark.parametrize("number", ["2026-11-26", "1998-2003", "1 2 3 4 5 6 7", "1958 01 13"])
def test_a_date_or_a_row_of_figures_waits_for_no_word(number: str) -> None:
    """No word explains it as a phone number; a number of another form waits for one that stands behind it."""
    seen = f"seen {number}, and then "
    assert search(seen, 0, final=False)[1] == len(seen)
    assert search("dial 555 014 277, and then ", 0, final=False)[1] == len("dial ")


def test_an_address_behind_a_word_for_a_phone_is_an_address() -> None:
    """Its form says more than the word."""
    assert [one.type for one in ALL.find("phone 84.168.1.17")] == ["ip-address"]


@pytest.mark.parametrize("mask", ["255.255.255.0", "255.0.0.0", "255.255.0.0"])
def test_a_netmask_is_nobodys_address(mask: str) -> None:
    """The broadcast address still counts."""
    assert not ALL.find(f"netmask {mask} here")
    assert ALL.find("broadcast 255.255.255.255 here")


@pytest.mark.parametrize("label", ["user_key = ", '"customer_key": "', "row-key: "])
def test_a_uuid_that_is_the_key_of_a_row_is_no_secret(label: str) -> None:
    """Behind words for rows of a table; behind those for access it is."""
    assert [one.type for one in ALL.find(label + UUID)] == ["uuid"]
    assert not PersonalData(DEFAULT).find(label + UUID)
    assert [one.type for one in ALL.find(f"api_key = {UUID}")] == ["api-key"]


@pytest.mark.parametrize("first", ["+1 404-555-0171", "0049 171 4182739", "phone 404 555 0171", "+44 20 7946 0958"])
@pytest.mark.parametrize("second", ["(404) 555-0172", "(0171) 4182730"])
def test_the_area_code_of_the_next_number_is_no_part_of_one(first: str, second: str) -> None:
    """Both are found whole."""
    text = f"{first} {second}"
    found = [text[one.start : one.end] for one in ALL.find(text)]
    assert found == [first.removeprefix("phone "), second]


_FIGURES = st.lists(st.integers(1, 99_999), min_size=2, max_size=12)


@given(
    _FIGURES,
    st.sampled_from(["+49 30 1234567", "(030) 1234567", "030 / 1234567", "212 555 0123", "0171 2345678"]),
    _FIGURES,
)
def test_a_number_of_a_form_is_found_among_figures(before: list[int], number: str, behind: list[int]) -> None:
    """A table is passed over in one look only where no figures have such a form."""
    row = [*map(str, before), number, *map(str, behind)]
    assert number in phones("\t".join(row))
    assert number in phones("\n".join([*map(str, before), f"tel. {number}", *map(str, behind)]))
