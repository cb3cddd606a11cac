"""The table of evidence: what the place of a value says for and against its being personal data.

A match has a weight by its form (see `forms`), from 0 (digits that pass a check) to 4 (a form that nothing else has).
Evidence is added: a label, a key or the header of a column weighs 3, words right before a value without a separator
weigh 2, a unit behind a number 2. A match without any weight left is no finding.

The words are from everyday interfaces, tables and prose; none is taken from a data set.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.places import forms
from penstock.detection.places.labels import HeaderWords, lead_of, word_set, words_near, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.detection.places.labels import Lead

_LABEL, _WORDS, _UNIT = 3, 2, 2
_OWNED = frozenset({("for",), ("by",), ("from",), ("with",), ("für",), ("von",), ("pour",), ("para",), ("per",)})
"""Behind the name of a thing they name whose it is: *the order for …*."""

_MOST_WORDS = 3  # of a name that the table has


IDENTITIES = word_set(
    """id ids uid uuid guid gid oid pid rid sid key keys ref refs reference references cursor token tokens etag sha
    hash digest checksum integrity fingerprint signature revision rev commit version versions build builds run runs job
    jobs attempt slug nonce trace span request response session event
    kennung referenz référence referencia riferimento identifiant identificador kennzeichen aktenzeichen"""
)
"""Names of ids, of hashes and of versions."""

COUNTS = word_set(
    """size sizes bytes byte length len count counts total totals sum quantity qty offset limit index idx seq sequence
    position line lines rank score amount price prices cost costs balance budget revenue weight height width duration
    latency elapsed timeout ttl ns ms us sec secs seconds minutes hours time times timestamp timestamps ts epoch unix
    created updated modified expires expiry until seed port ports population max min maximum minimum limit memory cpus
    betrag preis summe anzahl größe menge montant prix total taille importe precio tamaño importo prezzo valor preço"""
)
"""Names of sizes, amounts and times."""

GOODS = word_set(
    """sku skus ean upc gtin isbn issn asin mpn doi barcode serial model part parts item items order orders invoice
    invoices ticket tickets case cases batch lot tracking shipment parcel awb waybill po deal contract booking
    reservation pnr flight product products article variant catalog catalogue stock transaction txn receipt iswc isrc
    ismn gtin ean13 ndc pzn cas loinc snomed patent docket grant award room asset inventory meter device parcel lot
    register consignment pallet container manifest voucher coupon claim
    raum zimmer inventar gerät geräte zähler zolltarif flurstück hrb
    bestell bestellung auftrag auftrags rechnung rechnungs artikel teile teil sendungs vorgang vorgangs serien vertrag
    vertrags commande facture article pièce série colis pedido factura artículo pieza serie envío ordine fattura
    articolo pezzo spedizione fatura encomenda peça bestelling factuur artikel onderdeel zamówienie faktura заказ счёт
    счет артикул 订单 訂單 零件 部件 型号 編號 编号 注文 部品 型番 주문 부품 품번 आदेश ऑर्डर طلب فاتورة"""
)
"""Names of what is sold, sent, counted and filed."""

_PHONES = word_set(
    """phone phones telephone tel mobile cell cellphone msisdn whatsapp fax fone telefon telefono teléfono telefone
    telefoon handy móvil celular cellulare telemóvel mobiel caller callback hotline"""
) | {"no hp", "nomor hp", "caller id", "wa id", "phone line", "direct line", "support line"}
_CARDS = word_set(
    "card cards cc pan visa mastercard amex maestro diners discover jcb unionpay karte kreditkarte carte tarjeta carta "
    "cartão cartao kort karta creditcard debitcard карта карты 银行卡 信用卡 卡号 カード番号 카드번호 بطاقة"
)
_SSNS = word_set("ssn ssns social security tin itin")
_ADDRESSES = word_set(
    """ip ipv4 ipv6 address addr host client remote peer src dst source gateway dns resolver inet ips server origin
    visitor adresse adres dirección indirizzo endereço адрес 地址 アドレス 주소 عنوان"""
)
_MESSAGES = frozenset(
    {
        "message id",
        "msg id",
        "in reply to",
        "references",
        "uid",
        "event id",
        "thread id",
        "content id",
        "etag",
        "boundary",
    }
)
_VERSIONS = word_set("version versions release releases build firmware api ver v tag driver sdk oid")


@dataclass(frozen=True, slots=True)
class _Kind:
    """The evidence about one type.

    Attributes:
        form: returns the weight of a match by its form; less than -1 if its form is another's.
        supports: names that speak for it, of up to three words.
        opposes: names that speak against it. They say nothing if a word that supports it stands in the same label.
        amounts: names of sizes and times, which speak against digits without brackets, dashes and other signs.
        near: whether words without a separator count.
        units: whether a unit behind it speaks against it.
        is_open: returns whether a form may go on behind a match that ends at a place.
    """

    form: Callable[[str, int, int], int]
    supports: frozenset[str] = frozenset()
    opposes: frozenset[str] = frozenset()
    amounts: frozenset[str] = frozenset()
    near: bool = True
    units: bool = False
    is_open: Callable[[str, int, int], bool] = forms.never_open


class Evidence(NamedTuple):
    """The evidence about a match.

    Attributes:
        weight: more than 0 if the match is a finding.
        said: the evidence that counted, for a record, without any text of the value: ``("label phone",)``.
    """

    weight: int
    said: tuple[str, ...]


KINDS: Mapping[str, _Kind] = {
    "email": _Kind(forms.email, frozenset({"email", "mail"}), _MESSAGES, is_open=forms.path_may_follow),
    "phone": _Kind(
        forms.phone, _PHONES, IDENTITIES | GOODS, COUNTS, near=False, units=True, is_open=forms.unit_may_follow
    ),
    "credit-card": _Kind(forms.card, _CARDS, IDENTITIES | GOODS, COUNTS, units=True, is_open=forms.card_may_go_on),
    "ssn": _Kind(forms.ssn, _SSNS, GOODS - {"claim"}, COUNTS),  # a claim of Medicare had one as its number
    "ip-address": _Kind(forms.public_address, _ADDRESSES, _VERSIONS, is_open=forms.entry_may_follow),
    "private-ip": _Kind(forms.private_address, _ADDRESSES, _VERSIONS),
    "mac": _Kind(forms.mac, is_open=forms.device_may_follow),
    "device-mac": _Kind(forms.device_mac, is_open=forms.device_may_follow),
}
"""The evidence by type; places say nothing about other types."""


def evidence_of(type: str, text: str, low: int, high: int) -> Evidence | None:
    """Return the evidence about a match; None for types that places say nothing about.

    Args:
        type: the type of the match: ``email``, ``phone``, ``credit-card``, ``ssn`` …
        text: the text, with up to `labels.REACH` characters before the match.
        low: where the match begins.
        high: where it ends.
    """
    kind = KINDS.get(type)
    if kind is None:
        return None
    weight = kind.form(text, low, high)
    if weight < 0:
        return Evidence(weight, ("form",))
    said: list[str] = []
    lead = lead_of(text, low)
    side = _side(kind, lead, text[low:high]) if lead.labelled or kind.near else 0
    if side:
        weight += side * (_LABEL if lead.labelled else _WORDS)
        said.append(f"{'label' if lead.labelled else 'word'} {lead.head}")
    elif weight < 1 and not kind.supports.isdisjoint(words_near(text, low)):
        weight += _WORDS
        said.append("word nearby")
    if kind.units and forms.unit_follows(text, high):
        weight -= _UNIT
        said.append("unit")
    return Evidence(weight, tuple(said) or ("form",))


def header_words(types: Iterable[str]) -> HeaderWords:
    """Return how the table knows headers that speak for one of some types."""
    names = frozenset[str]().union(*(KINDS[type].supports for type in types if type in KINDS))
    first = frozenset(name.split()[0] for name in names)

    def tells(label: str) -> bool:
        words = words_of(label)
        return not names.isdisjoint((*words, *map(" ".join, pairwise(words))))

    return HeaderWords(first.__contains__, tells)


def is_open(type: str, text: str, low: int, high: int) -> bool:
    """Return whether more text behind a match may change what is said of it, in a text that goes on."""
    kind = KINDS.get(type)
    return kind is not None and kind.is_open(text, low, high)


def _side(kind: _Kind, lead: Lead, found: str) -> int:
    """Return 1 if a name speaks for a type, -1 if it speaks against it, and 0 if it says nothing."""
    names = {" ".join(lead.words[-count:]) for count in range(2, _MOST_WORDS + 1)} | {lead.head}
    if not names.isdisjoint(kind.supports):
        return 1
    if not kind.supports.isdisjoint(lead.words) or (not lead.labelled and lead.words[-1:] in _OWNED):
        return 0
    opposes = not names.isdisjoint(kind.opposes) or (lead.head in kind.amounts and forms.is_amount(found))
    return -1 if opposes else 0
