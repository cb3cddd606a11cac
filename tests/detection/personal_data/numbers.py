"""Numbers in the forms in which people of many countries write them, made from a seed; none is meant to be anybody's.

``#`` stands for a digit from 2 to 9.
"""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Writing(NamedTuple):
    """How phone numbers are written in a language, and sentences that explain them."""

    forms: Sequence[str]
    sentences: Sequence[str]


PHONES: dict[str, Writing] = {
    "fr": Writing(
        ("06 ## ## ## ##", "06########", "07.##.##.##.##", "01-##-##-##-##", "+33 6 ## ## ## ##", "0033 6 ## ## ## ##"),
        ("Mon numéro est le {}.", "Appelez-moi au {} demain.", "Tél : {}", "joignable au {}", "{} (bureau)"),
    ),
    "es": Writing(
        ("6## ### ###", "6## ## ## ##", "9########", "+34 6## ## ## ##", "91 ### ## ##"),
        ("Mi número es {}", "Llámame al {}", "Teléfono: {}", "Puede llamar al {} mañana", "mi celular es {}"),
    ),
    "it": Writing(
        ("3## ### ####", "3## #######", "02 #### ####", "+39 3## ### ####"),
        ("Il mio numero è {}", "Chiamami al {}", "Cellulare {}", "Contattami al {}"),
    ),
    "pt": Writing(
        ("91# ### ###", "91#######", "+351 91# ### ###", "(11) 9####-####"),
        ("O meu número é {}", "Ligue para {}", "Telemóvel {}", "Contato: {}"),
    ),
    "nl": Writing(
        ("06 ########", "06-########", "020 ### ####", "020-#######"),
        ("Mijn nummer is {}", "Bel mij op {}", "Mobiel {}", "U kunt naar {} bellen"),
    ),
    "de": Writing(
        ("030 ########", "030/########", "0171/#######", "0171#######", "(030) ### ####", "089 - ### ###"),
        ("Meine Nummer ist {}", "Rufen Sie mich unter {} an", "Handy {}", "unter {} erreichbar", "Tel.: {}"),
    ),
    "pl": Writing(
        ("### ### ###", "#########", "22 ### ## ##"),
        ("Mój numer to {}", "Zadzwoń pod {}", "tel. {}", "komórka {}"),
    ),
    "sv": Writing(
        ("070-### ## ##", "08-### ## ##", "## ## ## ##"), ("Mitt nummer är {}", "Ring mig på {}", "tlf. {}", "Mobil {}")
    ),
    "fi": Writing(("040 ### ####", "050#######"), ("Puhelin: {}", "Soita numeroon {}", "Numero on {}")),
    "cs": Writing(("### ### ###", "#########"), ("Moje číslo je {}", "Zavolejte na {}", "mobil {}")),
    "tr": Writing(
        ("0532 ### ## ##", "532 ### ## ##"), ("Beni {} numaralı telefondan arayın", "Cep: {}", "Telefon: {}")
    ),
    "ru": Writing(("8 (9##) ###-##-##", "89#########", "8 9## ### ## ##"), ("Мой номер {}", "тел. {}", "Звоните: {}")),
    "hi": Writing(("98### #####", "098########"), ("मेरा नंबर {} है", "फोन: {}", "मुझे {} पर कॉल करें")),
    "zh": Writing(("13#########", "138 #### ####", "010-########"), ("我的电话是{}", "请致电{}", "手机:{}")),
    "ja": Writing(
        ("090-####-####", "090########", "03(####)####"), ("電話：{}", "{}までお電話ください", "番号は{}です")
    ),
    "ko": Writing(("010-####-####", "010########"), ("전화: {}", "제 번호는 {}입니다", "{}로 연락 주세요")),
    "en": Writing(
        ("(###) ###-####", "###.###.####", "020 #### ####", "07#########", "###-####", "#######", "1-800-###-####"),
        ("call me at {}", "my number is {}", "You can reach me on {}", "{} (office)", "contact number: {}"),
    ),
}
"""By language."""

OTHERS: dict[str, Sequence[str]] = {
    "ssn": ("3##-##-####", "4## ## ####"),
    "ip-address": ("192.168.1.##", "2001:db8::####:#", "##.1.2.##"),
    "iban": ("GB82 WEST 1234 5698 7654 32", "DE89370400440532013000"),
    "credit-card": ("4111 1111 1111 1111", "378282246310005", "5555-5555-5555-4444"),
    "uuid": ("a######f-e29b-41d4-a716-4466########",),
    "url": ("https://example.com/{#}##-###-####", "www.example.com/call?0612######"),
}
"""Other values, by type; none of them is a phone number."""

_SENTENCES = ("{}", "a {} b", "Phone {}, please", '"id": "{}"', "{}\n{}", "call {} or {}")


def digits(form: str, seed: str) -> str:
    """Return a form with its digits."""
    source = random.Random(zlib.crc32(f"{form}|{seed}".encode()))  # noqa: S311 - the same each time
    return "".join(source.choice("23456789") if char == "#" else char for char in form)


def phones_of(language: str) -> Iterator[tuple[str, str]]:
    """Yield texts in a language, each with the phone number in it."""
    writing = PHONES[language]
    for form in writing.forms:
        for sentence in writing.sentences:
            number = digits(form, sentence)
            yield sentence.format(number), number


def texts() -> Iterator[str]:
    """Yield texts with numbers of all kinds, also more than one."""
    for language in PHONES:
        yield from (text for text, _ in phones_of(language))
    for forms in OTHERS.values():
        for form in forms:
            for sentence in _SENTENCES:
                yield sentence.format(digits(form, sentence), digits(form, "other"))
