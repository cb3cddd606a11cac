"""`SpokenSpans`: addresses and numbers that are written as they are spoken: ``jane dot doe at example dot com``.

A stretch of such words is read as signs and digits, and another detector judges those, with the text before it.
So eight numbers that somebody counts are no phone, and a card has its check digit. The words are those of some twelve
European languages; numbers up to 99 are known in English, German, French and Spanish, digits in the others.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import regex

from penstock.detection.patterns.open_matches import StreamPattern
from penstock.detection.places.labels import word_set
from penstock.detection.spans import Span

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

_CONTEXT = 96  # characters before a stretch that may say what it is
_FEWEST, _MOST = 5, 40  # numbers behind the first in a row
_LONGEST = 1_500  # characters of a stretch, at most
_LEAST_SHARE = 2  # at least one digit of so many is found

# Addresses

_AT = "at(?:[ -]sign)?|ät|klammeraffe|arobase?|arrobas?|chiocciola|apenstaartje|małpa|malpa|snabel-?a|собака|zavináč"
_DOT = "dot|period|punkt|point|punto|ponto|punt|kropka|точка|nokta|tečka|piste"
_SIGNS = {
    "_": "underscore|unterstrich|tiret bas|gui[oó]n bajo|underline|podkreślenie",
    "-": "dash|hyphen|minus|bindestrich|tiret|trait d'union|gui[oó]n|h[ií]fen|trattino|streepje|myślnik",
    "+": "plus|más|mais|più",
}
_TOPS = (
    "com org net edu gov mil io dev app ai me co info biz name uk de fr es it nl pl ch at be pt br mx ar cl pe eu us "
    "ca ru ua se no dk fi cz sk jp cn in au nz ie hu ro bg gr tr il kr za lu is ee lv lt si hr rs test example invalid"
)
_ENGLISH_WORDS = "in|it|is|at|no|us|so|se"  # country codes that go on behind "at some point"
_NO_LABEL = (
    "the|a|an|this|that|these|those|my|your|our|his|her|their|its|it|some|any|one|what|which|every|each|no|another|both"
    "|all|most|many|few|certain|given|first|last|next|same|der|die|das|dem|den|le|la|les|el|un|une|ein|il|lo|o|os"
)
_NO_NAME = word_set(
    """look looks looked looking see seen find found available it is was are be been here there me us you him her them
    host hosted live lives work works working read book order visit download more out up meet stay located page site
    website docs documentation blog shop store online us arrive arrived arrives stop stopped start starts end ends
    point points aim aimed laugh stare stared good bad great only even not and or but all not now today"""
)

_BLANK = r"[ \t]{1,3}"


def _said(words: str) -> str:
    """Return the pattern of spoken signs between two words, in brackets or not."""
    return rf"(?:{_BLANK}(?:{words}){_BLANK}|[ \t]?[\[({{<][ \t]?(?:{words})[ \t]?[\])}}>][ \t]?)"


_LETTERS = r"(?:[^\W\d_][ -]){2,20}[^\W\d_](?!\w)"
_JOINTS = _said("|".join((_DOT, *_SIGNS.values())))
_ATOM = rf"(?:{_LETTERS}|[^\W_][\w.+-]{{0,39}})"
_LABEL = rf"(?!(?:{_NO_LABEL})[ \t])(?:{_LETTERS}|[^\W_][\w-]{{0,39}})"
_TOP = "|".join(_TOPS.split())
_LAST_DOT = rf"{_said(_DOT)}(?:(?<!(?:point|eriod)[ ])|(?!(?:{_ENGLISH_WORDS})(?!\w)))"
_DOTTED = rf"(?:{_said(_DOT)}|\.)"
_MAIL = rf"""
    (?<![\w@.+-]){_ATOM}(?:{_JOINTS}{_ATOM}){{0,4}}
    (?:
        (?:{_said(_AT)}|[ \t]?@[ \t]?){_LABEL}(?:{_said(_SIGNS["-"])}{_LABEL}){{0,2}}
        (?:{_said(_DOT)}{_LABEL}){{0,2}}{_LAST_DOT}(?:{_TOP})
      | [ \t]?[\[({{<][ \t]?(?:{_AT})[ \t]?[\])}}>][ \t]?{_LABEL}(?:{_DOTTED}{_LABEL}){{0,2}}{_DOTTED}(?:{_TOP})
    )(?![\w@])
"""
_READ = tuple(
    (re.compile(_said(words), re.IGNORECASE), sign)
    for words, sign in ((_AT, "@"), (_DOT, "."), *((w, s) for s, w in _SIGNS.items()))
)

# Numbers

_DIGITS = (
    "zero one two three four five six seven eight nine",
    "null eins zwei drei vier fünf sechs sieben acht neun",
    "zéro un deux trois quatre cinq six sept huit neuf",
    "cero uno dos tres cuatro cinco seis siete ocho nueve",
    "zero uno due tre quattro cinque sei sette otto nove",
    "zero um dois três quatro cinco seis sete oito nove",
    "nul een twee drie vier vijf zes zeven acht negen",
    "zero jeden dwa trzy cztery pięć sześć siedem osiem dziewięć",
    "noll ett två tre fyra fem sex sju åtta nio",
    "nul en to tre fire fem seks syv otte ni",
    "ноль один два три четыре пять шесть семь восемь девять",
)
_OTHERS = {"oh": "0", "o": "0", "zwo": "2", "fuenf": "5", "ein": "1", "meia": "6", "tres": "3", "une": "1", "één": "1"}
_EN = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_EN_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_DE = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn"
_DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
_DE_ONES = "ein zwei drei vier fünf sechs sieben acht neun"
_FR = "dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf"
_FR_TENS = "vingt trente quarante cinquante soixante"
_ES = "diez once doce trece catorce quince dieciséis diecisiete dieciocho diecinueve"
_ES_TWENTIES = (
    "veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve"
)
_ES_TENS = "treinta cuarenta cincuenta sesenta setenta ochenta noventa"
_TIMES = {"double": 2, "doble": 2, "doppel": 2, "dubbel": 2, "dobbelt": 2, "triple": 3}


@cache
def _numbers() -> Mapping[str, str]:
    """Return the digits of the names of numbers, in small letters; a dash stands for blanks, too."""
    made: dict[str, str] = {}
    for names in _DIGITS:
        made |= {name: str(value) for value, name in enumerate(names.split())}
    made |= _OTHERS
    for names in (_EN, _DE, _FR, _ES):
        made |= {name: str(value) for value, name in enumerate(names.split(), 10)}
    english, french, spanish = (_DIGITS[at].split() for at in (0, 2, 3))
    for tens, name in enumerate(_EN_TENS.split(), 2):
        made |= {name: f"{tens}0"} | {f"{name}-{one}": f"{tens}{at}" for at, one in enumerate(english) if at}
    for tens, name in enumerate(_DE_TENS.split(), 2):
        made |= {name: f"{tens}0"} | {f"{one}und{name}": f"{tens}{at}" for at, one in enumerate(_DE_ONES.split(), 1)}
    for tens, name in enumerate(_FR_TENS.split(), 2):
        made |= {name: f"{tens}0"} | {f"{name}-{one}": f"{tens}{at}" for at, one in enumerate(french) if at}
        made |= {f"{name}-et-{one}": f"{tens}1" for one in ("un", "une")}
    for at, name in enumerate(_FR.split()):
        made |= {f"soixante-{name}": f"7{at}", f"quatre-vingt-{name}": f"9{at}"}
    made |= {"soixante-et-onze": "71", "quatre-vingts": "80", "quatre-vingt": "80"}
    made |= {f"quatre-vingt-{one}": f"8{at}" for at, one in enumerate(french) if at}
    made |= {name: str(value) for value, name in enumerate(_ES_TWENTIES.split(), 20)}
    for tens, name in enumerate(_ES_TENS.split(), 3):
        made |= {name: f"{tens}0"} | {f"{name}-y-{one}": f"{tens}{at}" for at, one in enumerate(spanish) if at}
    return made


def _number_pattern() -> str:
    names = sorted(_numbers(), key=len, reverse=True)
    named = "|".join(re.escape(name).replace(r"\-", r"[ -]") for name in names)
    return rf"(?:(?:{'|'.join(_TIMES)})[ -])?(?:{named})(?!\w)|\d{{1,4}}(?!\w)"


_BETWEEN = r"(?:[ \t]{0,3}[,;./–-]?[ \t]{1,3}|[ \t]{0,3}\n[ \t]{0,3}|-)"
_PLUS = "plus|più|más|mais|плюс"


@cache
def _shape() -> StreamPattern:
    """Return the pattern of words that may be spoken data."""
    number = _number_pattern()
    row = rf"(?:(?<!\w)(?:{_PLUS})[ ])?(?<![\w.,-])(?:{number})(?:{_BETWEEN}(?:{number})){{{_FEWEST},{_MOST}}}"
    mail = re.sub(r"\n\s*", "", _MAIL)
    return StreamPattern(rf"(?P<mail>{mail})|(?P<row>{row})", regex.IGNORECASE)


@cache
def _items() -> re.Pattern[str]:
    return re.compile(rf"(?P<plus>{_PLUS})(?!\w)|(?P<item>{_number_pattern()})|(?P<pause>[,;./–\n])", re.IGNORECASE)


class _SpokenRow(NamedTuple):
    """Numbers in a row: their digits in groups, between pauses, and how many of them are words."""

    groups: Sequence[str]
    plus: bool
    words: int

    def readings(self) -> Iterator[str]:
        """Yield the ways to write them."""
        sign = "+" * self.plus
        yield sign + "".join(self.groups)
        if len(self.groups) > 1:
            yield sign + "-".join(self.groups)


class SpokenSpans:
    """Finds spoken data.

    Attributes:
        find: finds personal data in a text.
    """

    def __init__(self, find: Callable[[str], Sequence[Span]]) -> None:
        self.find = find

    def scan(self, text: str, start: int, *, final: bool) -> tuple[list[Span], int]:
        """Return the findings from a place on, and the place from which on more text could change them.

        Args:
            text: the text, with at least 96 characters before that place.
            start: the place.
            final: whether the text ends here.
        """
        matches, hold = _shape().walk(text, start, final=final, longest=_LONGEST)
        spans: list[Span] = []
        for found in matches:
            type = self._type_of(text, found)
            if type:
                spans.append(Span(*found.span(), type))
        return spans, hold

    def _type_of(self, text: str, found: regex.Match[str]) -> str:
        """Return the type of a stretch; an empty text if it is nothing."""
        said = found.group()
        if found.lastgroup == "mail":
            written = _address(said)
            return self._found("", written) if written else ""
        row = _row(said)
        if 2 * row.words < len(row.groups):  # digits that are written are for others to find
            return ""
        before = text[max(found.start() - _CONTEXT, 0) : found.start()]
        return next((type for written in row.readings() if (type := self._found(before, written))), "")

    def _found(self, before: str, written: str) -> str:
        """Return the type of the finding that covers most of a written form."""
        for span in self.find(before + written):
            if _LEAST_SHARE * (span.end - max(span.start, len(before))) >= len(written):
                return span.type
        return ""


def _address(said: str) -> str:
    """Return the address that is spoken; an empty text if its name is a word of a sentence."""
    written = said
    for pattern, sign in _READ:
        written = pattern.sub(sign, written)
    local, _, domain = written.partition("@")
    if local.strip().lower() in _NO_NAME:
        return ""
    return f"{_spelt(local)}@{_spelt(domain)}"


def _spelt(said: str) -> str:
    """Return letters that are spelt one by one as a word."""
    return re.sub(r"[ \t]+|(?<=\b\w)-(?=\w\b)", "", said)


def _row(said: str) -> _SpokenRow:
    groups, words, plus = [""], 0, False
    for found in _items().finditer(said):
        item = found["item"]
        if found["plus"]:
            plus = True
        elif found["pause"]:
            groups.append("")
        elif item:
            words += not item.isdigit()
            groups[-1] += _digits(item)
    return _SpokenRow([group for group in groups if group], plus, words)


def _digits(item: str) -> str:
    """Return the digits of a number that is spoken or written."""
    if item.isdigit():
        return item
    name = re.sub(r"[ -]", "-", item.lower())
    times, _, rest = name.partition("-")
    if times in _TIMES and rest in _numbers():
        return _numbers()[rest] * _TIMES[times]
    return _numbers()[name]
