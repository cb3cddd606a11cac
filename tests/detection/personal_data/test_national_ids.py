"""National numbers with labels in their country's language, in English and as keys; and numbers of other things."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from penstock import OptionError, PIIDetector
from penstock.detection.patterns.matching import Finder
from penstock.detection.personal_data import national_ids
from penstock.detection.personal_data.detector import DEFAULT, PersonalData
from penstock.detection.personal_data.national_ids import NATIONAL_IDS
from penstock.detection.personal_data.national_numbers import known_countries, label_in, label_starts
from tests.detection.patterns.windows import in_order, streamed

if TYPE_CHECKING:
    from penstock.detection.spans import Span
    from penstock.engine.values.frozen import Value

ALL = PersonalData(DEFAULT)

LABELLED = """\
My NINO is AB 12 34 56 C.|AB 12 34 56 C
National Insurance number: QQ123456C|QQ123456C
NHS number 943 476 5919|943 476 5919
nhs_number: "9434765919"|9434765919
Steuer-ID: 36 574 261 809|36 574 261 809
<b>NI number</b> AB654321D|AB654321D
<td>Steuernummer</td><td>21/815/08150</td>|21/815/08150
Reisepass CH7K2RTYV|CH7K2RTYV
passport number: C4X9T2L81|C4X9T2L81
Personalausweisnummer LT3CF8KNX|LT3CF8KNX
MBI: 1EG4-TE5-MK73|1EG4-TE5-MK73
Medicare beneficiary identifier 1EG4TE5MK73|1EG4TE5MK73
documento nacional de identidad 54.362.315-K|54.362.315-K
NIE X-2482300-W|X-2482300-W
driving licence MORGA753116SM9IJ35|MORGA753116SM9IJ35
steuer_id: "36574261809"|36574261809
Meine Steueridentifikationsnummer lautet 36574261809|36574261809
Sozialversicherungsnummer 65 170839 J 003|65 170839 J 003
numéro de sécurité sociale : 2 95 10 99 126 111 93|2 95 10 99 126 111 93
N° SS 295109912611193|295109912611193
mon numéro fiscal est 30 23 217 600 053|30 23 217 600 053
DNI: 54362315K|54362315K
Mi NIE es X-2482300-W|X-2482300-W
nif: "54362315K"|54362315K
Codice fiscale RCCMNL83S18D969H|RCCMNL83S18D969H
il mio codice fiscale è RCCMNL83S18D969H|RCCMNL83S18D969H
mój numer PESEL to 44051401359|44051401359
BSN: 111222333|111222333
burgerservicenummer 1112.22.333|1112.22.333
personnummer 880320-0016|880320-0016
fødselsnummer 151086 95088|151086 95088
CPR-nummer: 211062-5629|211062-5629
henkilötunnukseni on 131052-308T|131052-308T
CPF 390.533.447-05|390.533.447-05
meu CPF é 390.533.447-05|390.533.447-05
CNPJ: 16.727.230/0001-97|16.727.230/0001-97
आधार नंबर 2341 2341 2346|2341 2341 2346
PAN: ABCPE1234F|ABCPE1234F
panNumber: "ABCPE1234F"|ABCPE1234F
tax file number: 123456782|123456782
Medicare card number is 2123456701|2123456701
ABN 83 914 571 673|83 914 571 673
Social Insurance Number: 046-454-286|046-454-286
SIN 046 454 286|046 454 286
T.C. Kimlik Numaram 17291716060|17291716060
マイナンバーは1234 5678 9018です|1234 5678 9018
CURP: HEGG560427MVZRRL04|HEGG560427MVZRRL04
RFC GODE561231GR8|GODE561231GR8
AHV-Nr. 756.9217.0769.85|756.9217.0769.85
SVNR 1237 010180|1237 010180
주민등록번호 971013-9019902|971013-9019902
我的身份证号码是110101199003074514|110101199003074514
passport number C01X00T47|C01X00T47
Reisepassnummer C01X00T47|C01X00T47
passeport n° 12AB34567|12AB34567
护照号码 E12345678|E12345678
driver's license D245-938-19-203|D245-938-19-203
driving licence MORGA657054SM9IJ|MORGA657054SM9IJ
Führerschein-Nr. B072RRE2I55|B072RRE2I55
taxId: "36574261809"|36574261809
tax_id: "12-3456789"|12-3456789
ИНН 500100732259|500100732259
паспорт 45 06 123456|45 06 123456
RUT 12.345.678-5|12.345.678-5
rodné číslo 710319/2745|710319/2745
PPSN 6433435F|6433435F
O meu NIF é 501964843|501964843
national ID 784-1984-1234567-1|784-1984-1234567-1
ת.ז. 039337423|039337423
DNI/NIE 54362315K|54362315K
S.I.N. 046-454-286|046-454-286
Cod. Fiscale: RCC MNL 83S18 D969H|RCC MNL 83S18 D969H
UK driving licence number MORGA 657054 SM9IJ|MORGA 657054 SM9IJ
DL: D1234567|D1234567
VIN 1HGCM82633A004352|1HGCM82633A004352
My car's vin is WVWZZZ1JZXW000001|WVWZZZ1JZXW000001
IMEI 49-015420-323751-8|49-015420-323751-8""".splitlines()

OTHERS = [
    "Order number 123456782 has shipped",
    'customer_id: "111222333"',
    "RFC 2616 section 4.2",
    "PAN-OS 10.1.2, ticket 12345678",
    "sin(0.123456782)",
    "Das ist ein 123456782 Wert",
    "14 dni 12345678 zł",
    "to nie 123456789",
    "passport application form 12345678",
    "driver license fee: 45.00",
    "NHS budget: 120 450 300 pounds",
    "social media id 12345678901",
    "the VIN count of 123456",
    "[NATIONAL_ID] 111222333",
    "BSN: [NATIONAL_ID], order 111222333",
    "[NATIONAL-ID] 111222333",
    "BSN: ,  and 111222333",
    "BSN: [NATIONAL-ID_1] 111222333",
    "commit 36574261809",
    '{"plate": "M-AB 123", "vin": "WVWZZZ1JZXW000001"}',
    'vin: "WVWZZZ1JZXW000001"',
    "deal;vat_id;amount\n41827395061;DE314159265;7960,00\n41827395088;DE314159266;12,00\n",
]


def found(text: str, detector: PersonalData = ALL) -> list[tuple[str, str]]:
    """Return the findings in a text, with their types."""
    return [(text[one.start : one.end], one.type) for one in detector.find(text)]


@pytest.mark.parametrize("row", LABELLED)
def test_a_number_behind_its_label_is_found_whole(row: str) -> None:
    """In words, in the country's language or English, as a key, glued or in groups."""
    text, _, number = row.partition("|")
    type = "vehicle-id" if "vin " in text.lower() else "device-id" if "IMEI" in text else "national-id"
    assert found(text) == [(number, type)]


@pytest.mark.parametrize("text", OTHERS)
def test_numbers_of_other_things_are_none(text: str) -> None:
    """Words that only look like a label, words between, placeholders."""
    assert not [one for one in found(text) if one[1].endswith("-id")]


@pytest.mark.parametrize("text", ["CPF 390.533.447-06", "PESEL: 44051401358", "BSN 111222334"])
def test_a_mistyped_number_right_behind_a_clear_label_counts(text: str) -> None:
    """It still belongs to somebody."""
    assert [type for _, type in found(text)] == ["national-id"]


@pytest.mark.parametrize("text", ["nie 123456789", "sin 123 456 789", "the fin 123456789"])
def test_behind_a_word_that_means_other_things_the_check_digits_must_be_right(text: str) -> None:
    """*Sin* is Spanish, *nie* Polish."""
    assert not found(text)


def test_a_key_says_what_its_value_is() -> None:
    """As the scanner shows it."""
    for key, value in {"cpf": "39053344705", "nationalId": "1234567890", "passportNumber": "C01X00T47"}.items():
        assert [one.type for one in ALL.find(value, key)] == ["national-id"], key


@given(
    st.sampled_from(LABELLED),
    st.lists(st.integers(1, 60), max_size=5),
    st.sampled_from(["", "\n", " and so on.", " 12 3"]),
)
def test_a_stream_finds_what_the_whole_text_has(row: str, sizes: list[int], end: str) -> None:
    """Wherever it is cut."""
    text = row.partition("|")[0] + end
    cuts = sorted({sum(sizes[: at + 1]) for at in range(len(sizes))} - {0})
    notes: dict[str, Value] = {}
    start = 0
    found_so: list[Span] = []
    for cut in [*(cut for cut in cuts if cut < len(text)), len(text)]:
        spans, hold = ALL.scan(text[:cut], start, notes, final=cut == len(text))
        found_so += [span for span in spans if span.end <= hold]
        start = hold
    assert found_so == ALL.find(text)


def test_a_stream_finds_it_by_the_same_rule() -> None:
    """Also a number with few digits, which begins like one with many."""
    finder = Finder(NATIONAL_IDS)
    text = "Medicare card 2428778132. My Personalausweisnummer is LT3CF8KN5, please update it."
    whole = finder.find(text)
    assert len(whole) == 2
    for at in range(1, len(text)):
        assert in_order(streamed(finder, [text[:at], text[at:]]).matches) == whole, at


def test_countries_with_check_digits_are_known() -> None:
    """By their codes."""
    assert {"de", "fr", "es", "it", "pl", "nl", "se", "no", "fi", "br", "in", "ca"} <= set(known_countries())


def test_numbers_of_named_countries_count_without_a_label() -> None:
    """If their check digits are right; those of other countries do not."""
    text = "rows 36574261809, 44051401359 and 36574261808"
    assert found(text, PersonalData(DEFAULT, countries=["de"])) == [("36574261809", "national-id")]
    assert [one for one, _ in found(text, PersonalData(DEFAULT, countries=["de", "pl"]))] == [
        "36574261809",
        "44051401359",
    ]
    assert not found(text)


def test_a_country_that_nobody_knows_is_refused() -> None:
    """The error names those that are known."""
    with pytest.raises(OptionError, match="countries"):
        PIIDetector(countries=["xx"])
    assert PIIDetector(countries=["DE"]).countries == ("de",)


_LABELS = st.sampled_from(
    [
        *("nino", "taxID", "steuer_id", "No. VIN", "c f", "imei1", "kimliğim", "身份证", "NINOcode", "T.C. no"),
        "tax</b> <i>id",
    ]
)
_AROUND = st.text(st.sampled_from("ab AB_-.: \n9"), max_size=8)


@given(st.lists(st.tuples(_AROUND, _LABELS), max_size=4), _AROUND)
def test_each_label_begins_where_labels_may_begin(parts: list[tuple[str, str]], rest: str) -> None:
    """So digits far from those places need no closer look."""
    text = "".join(chain.from_iterable(parts)) + rest
    starts = label_starts(text)
    label = label_in(text[max((at + 1 for at, char in enumerate(text) if char.isdigit()), default=0) :])
    assert label is None or all(any(at < len(text) for at in starts.get(one.type, ())) for one in label.numbers)


def test_digits_without_a_label_are_not_judged_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of numbers has a thousand of them, and noise too."""

    def judged(before: str) -> None:
        raise AssertionError(before)

    monkeypatch.setattr(national_ids, "label_in", judged)
    table = "\n".join(f"{at}\t{at * 7919 % 100_000}\t{at * 104_729 % 1_000_000}" for at in range(500))
    assert ALL.find(table) == []
    assert ALL.find("%a3%1f0%%9c4e7%b208f%5d" * 200) == []
