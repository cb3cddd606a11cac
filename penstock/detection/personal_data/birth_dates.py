"""The rule ``date-of-birth``: a whole date after or right before words such as *born*. Other dates do not count.

A time behind a date belongs to it. Eight digits in one piece are a date only behind a label, a key or a header.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import regex

from penstock.detection.deferred import deferred
from penstock.detection.long_texts import matches as matches_in
from penstock.detection.patterns.built_in import BuiltInRule
from penstock.detection.patterns.kinds import GLUED, UNPARTED, kinds
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace
from penstock.detection.places.labels import HeaderWords, names_next, word_set
from penstock.detection.stems import Stems
from penstock.detection.words import small

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_REACH = 48  # how far before a date the words that explain it may stand
_CUE_READ = 24  # the longest word for birth
_STEM_AT, _CUE_AHEAD = 8, 12  # how far within such a word its stem begins, and what is seen behind the word
_READ = 80  # no more characters than that are read from one place on
_SEP = r"[-./\u2010-\u2013]"
_MONTH_NAMES = """
    jan january januar januari janvier janeiro gen ene enero gennaio januára ledna stycznia tammikuuta január
    ianuarie ocak января січня ιανουαρίου जनवरी يناير ינואר בינואר มกราคม feb february februar februari févr
    fevr février fevrier fév fev fevereiro febrero febbraio února lutego helmikuuta február februarie şubat
    subat февраля лютого φεβρουαρίου फरवरी फ़रवरी فبراير شباط פברואר בפברואר กุมภาพันธ์ mar march märz maerz mrz
    mars maart marzo março marco marts marca března maaliskuuta március martie mart maret марта березня μαρτίου
    मार्च مارس آذار מרץ במרץ มีนาคม apr abr april avril avr abril aprile kwietnia dubna huhtikuuta április
    aprilie nisan апреля квітня απριλίου अप्रैल أبريل نيسان אפריל באפריל เมษายน may mai mei maj mayo maggio maio
    maja května toukokuuta május mayıs мая травня μαΐου मई مايو أيار מאי במאי พฤษภาคม jun giu june juni juin
    junio giugno junho czerwca června kesäkuuta június iunie haziran июня червня ιουνίου जून يونيو حزيران יוני
    ביוני มิถุนายน jul lug july juli juillet juil julio luglio julho lipca července heinäkuuta július iulie
    temmuz июля липня ιουλίου जुलाई يوليو تموز יולי ביולי กรกฎาคม aug ago august augustus août aout agosto
    augusti sierpnia srpna elokuuta augusztus ağustos agustus августа серпня αυγούστου अगस्त أغسطس آب אוגוסט
    באוגוסט สิงหาคม sep set sept september septembre septiembre settembre setembro września září syyskuuta
    szeptember septembrie eylül сентября вересня σεπτεμβρίου सितंबर सितम्बर سبتمبر أيلول ספטמבר בספטמבר กันยายน
    oct okt ott october oktober octobre octubre ottobre outubro out października října lokakuuta október
    octombrie ekim октября жовтня οκτωβρίου अक्टूबर अक्तूबर أكتوبر אוקטובר באוקטובר ตุลาคม nov november novembre
    noviembre novembro listopada listopadu marraskuuta noiembrie kasım ноября листопада νοεμβρίου नवंबर नवम्बर
    نوفمبر נובמבר בנובמבר พฤศจิกายน dec dez dic des déc december dezember décembre diciembre dicembre dezembro
    desember grudnia prosince joulukuuta decembrie aralık desember декабря грудня δεκεμβρίου दिसंबर दिसम्बर
    ديسمبر דצמבר בדצמבר ธันวาคม
"""
_MONTH = f"(?:{'|'.join(sorted(map(re.escape, set(_MONTH_NAMES.split())), reverse=True))})"  # longer ones first
_CAPITAL = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)"
)
"""Months that a date begins with; a capital letter must be there before they are searched for."""

_YEAR = r"(?:1[89]|20)\d\d"
_DAY = r"(?:0?[1-9]|[12]\d|3[01])"
_TIME = r"(?:T|,?[ ])(?:[01]\d|2[0-3])(?::?[0-5]\d){1,2}(?:[.,]\d{1,9})?(?:Z|[ ]?[+-]\d\d(?::?\d\d)?)?"
_DATE = StreamPattern(
    rf"""(?ix)(?<!\d[.])(?:(?:(?<!{GLUED})(?<![/-])|(?<=ב-))(?P<date>
      {_YEAR}(?P<a>{_SEP})[ ]?{_DAY}(?P=a)[ ]?{_DAY}
    | {_DAY}(?P<b>{_SEP}|\ )[ ]?{_DAY}(?P=b)[ ]?(?:{_YEAR}|\d\d)
    | {_DAY}(?:st|nd|rd|th|\.|er|º)?[ -](?:of[ ]|de[ ])?{_MONTH}\.?,?[ -](?:de[ ])?(?:{_YEAR}|2[45]\d\d)
    | {_DAY}[ ]tháng[ ]{_DAY},?[ ](?:năm[ ])?{_YEAR}
    | {_YEAR}\.?[ ]{_MONTH}[ ]{_DAY}
    | (?-i:{_CAPITAL})\.?[ ]{_DAY}(?:st|nd|rd|th)?,?[ ]{_YEAR}
    | (?P<plain>{_YEAR}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01]))
    )(?:{_TIME})?(?![^\W{UNPARTED}क]|[/-])
    | (?<!\d){_YEAR}(?:[ ]?年[ ]?\d{{1,2}}[ ]?月[ ]?\d{{1,2}}[ ]?日|년[ ]?\d{{1,2}}월[ ]?\d{{1,2}}일)
    | (?:大正|昭和|平成|令和|民[國国])[ ]?(?:\d{{1,3}}|元)年[ ]?\d{{1,2}}月[ ]?\d{{1,2}}日)""",
    flags=0,
    by_re=True,
    begins="[0-9](?<![0-9].)|[JFMASOND大昭平令民]",  # no date begins behind a digit
    unread=r"\t-\r!-*;-@\[-`{-~",
)
_CUE = deferred(
    r"(?i)(?<!(?-i:\[DATE[-_]OF[-_]))birth|\bborn\b|(?<![^\W_])dob(?![^\W_])|\bd\.?o\.?b\b|\bb-?day\b"
    r"|(?<![^\W_])geb(?:\.|oren|_|[_ ]?dat)|geburt|\bjg\.|jahrgang"
    r"|nascimento|nascid[oa]\b|(?<![^\W_])nasc(?:\b|_|\.)|nacid[oa]\b|naci(?:ó|\b)|nacimiento|nascita"
    r"|(?<![^\W_])nac(?:\.|_|(?=\W{1,4}\d))|\bnat[oa](?:/[ao])? (?:(?:a|in) [^\W\d]{2,16} )?il\b|\bnat[oa](?=: \")"
    r"|naissance|naiss\.|\bné(?:e|\(e\)|\.e)?(?: le\b|(?=:? ?[\"']?\d))|naixement|nascut"
    r"|geboorte|födelse|\bfödd?\b|\bfødt?\b|fødsel|fæðing|\bfæddu?r?\b|urodz|\bur\.|narozen|\bnar\."
    r"|narod[ei]n|rođen|rojen|rojst|synty[mn]|szület|\bszül\.|sünni|dzimš|\bdzim\.|gimimo|gimęs|născut|nașter|naşter|doğum|dogum|\bdoğ\."
    r"|ngày[ _]sinh|ngay[ _]sinh|\bsinh(?: ngày| năm|(?=: \"))|lahir|kuzaliwa|kapanganakan"
    r"|γ[εέ]νν|рожд|родил|\bр\.н\.|народж|\bроден|জন্ম|जन्म|பிறந்த|పుట్టిన|ميلاد|مولود|ولادة|\bولد|تولد|پیدائش|לידה|נולד"
    r"|วันเกิด|เกิด(?:เมื่อ|วันที่)|出生|生日|生年月日|誕生日|생년월일|생일|출생|(?<![发發产產诞誕衍])生[于於]"
)
_CUE_STEMS = """
    birth born dob d.o do.b bday b-day geb jg. jahrgang nasc nac nato nata naiss né naixement geboorte föd fød fæ urodz
    ur. naro nar. rođen roj synty szül sünni dzim gim năs nașter naşter doğ dogum sinh lahir kuzaliwa kapanganakan γεν
    γέν рожд родил р.н. народж роден জন্ম जन्म பிறந்த పుట్టిన ميلاد مولود ولادة ولد تولد پیدائش לידה נולד เกิด 出生 生日 生年
    生于 生於 誕生 생년 생일 출생
"""
_ALL_STEMS = _CUE_STEMS.split()
_STEMS, _ASCII_STEMS = Stems(_ALL_STEMS), Stems(filter(str.isascii, _ALL_STEMS))
"""Each word for birth contains one of these; searching for them first is cheap."""
_ALL_BEHIND = word_set("geboren geb. född født doğum synty urodz narozen г.р г. рожд р.н р. जन्म पैदा 生 생 출생 태어")
_BEHIND_STEMS, _ASCII_BEHIND = Stems(_ALL_BEHIND), Stems(filter(str.isascii, _ALL_BEHIND))
_BEHIND_WORDS = (
    r"\bgeboren|\bgeb\.|\bfödd|\bfødt|\bdoğumlu|\bsyntyn|\burodz|\bnarozen|\bг\. ?р\.|\bгода рожд|\bр\. ?н\."
    r"|को (?:जन्म|पैदा)|生まれ|生(?=\W|\Z)|出生|생(?![활산명존중각기])|출생|태어"
    r"|(?:が|이 ?|가 ?|是(?:我的?)?)(?:お?誕生日|生年月日|生日|생년월일|생일)"
)
"""Words for birth that follow a date."""
_BEHIND = deferred(f"(?i){_BEHIND_WORDS}")
_TOWN = r"[^\W\d][\w.'’-]{1,20}"
_BETWEEN_WORDS = rf"[ ,]{{0,2}}(?:(?:in|i|w|v|en) {_TOWN}(?: {_TOWN})? |の?お?|に|\.?에 ?)"
"""The text between a date and such a word: a blank, or the name of a town."""
_BETWEEN = deferred(f"(?i){_BETWEEN_WORDS}")
_NAMED_BEHIND = StreamPattern(f"{_BETWEEN_WORDS}(?:{_BEHIND_WORDS})", flags=regex.IGNORECASE)
_DATE_BEGUN = deferred(rf"\d|[大昭平令民]|{_CAPITAL}")  # of a date before such a word
_AHEAD = 72  # characters that are seen behind a date, for such a word
_LABELLED = deferred(r"[\w .()/-]{0,48}[\"'`\])]{0,3}\s{0,4}(?::|=>?|：|[はが是为為은는이가])\s{0,4}[\"'`]?")
"""The text between a word for birth and eight digits that it labels; another label or a value is none."""
_DATED = deferred(rb"000|0[^0\n]{1,2}00?[^0\n]{1,2}0")  # a year, or three numbers, in kinds
_FIRST_YEAR = deferred("元年")  # of an era; no other date has neither
_BEGUN = deferred(r"[0-9JFMASOND]")
_MOST_MONTHS = 12


def births(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of dates after a word for birth."""
    ahead = max(start - _REACH - _CUE_READ, 0)
    plain = small(text[ahead:] if ahead else text)
    stems = (_ASCII_STEMS if plain.isascii() else _STEMS).standing_in(plain)
    if not stems:
        return [], len(text)
    dated = _dated(text, start)
    if dated is None:
        start = len(text) if final else max(start, len(text) - _READ)
        if not _BEGUN.search(text, start):
            return [], len(text)
    low = max((start if dated is None else max(dated - _READ, start)) - _REACH - _CUE_READ, 0)
    found = _behind_cues(text, low, [*_around(stems, plain, ahead, low)])
    if final:
        matches, hold = list(found), len(text)
    else:
        matches, hold = _DATE.final_matches(found, text, start, since=len(text) - _READ)
    dates = [one for one in matches if one.start() >= start]
    return [Trace(*one.span(), *one.span(), _is_date(text, one)) for one in dates], hold


def births_before(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of dates right before a word for birth."""
    plain = small(text[start:])
    stems = (_ASCII_BEHIND if plain.isascii() else _BEHIND_STEMS).standing_in(plain)
    traces: list[Trace] = []
    if stems and _dated(text, start) is not None:
        for low, high in _around(stems, plain, start, start):
            for cue in _BEHIND.finditer(text, low, high):
                begin = max(start, cue.start() - _READ, traces[-1].end if traces else 0)
                before = _DATE.compiled.finditer(text, begin, cue.start(), concurrent=False)
                near = (one for one in before if _BETWEEN.fullmatch(text, one.end(), cue.start()) and not one["plain"])
                traces += [Trace(*one.span(), *one.span(), _is_date(text, one)) for one in near]
    begun = None if final else _DATE_BEGUN.search(text, max(start, len(text) - _READ - _AHEAD))
    if begun is None:
        return traces, len(text)
    since = begun.start()
    # Where a date is open, it ends at the end of the text.
    dates, hold = _DATE.final_matches(_DATE.matches(text, since), text, start, since=max(since, len(text) - _READ))
    return traces, min([hold, *_named_late(text, since, hold)] if dates else [hold])


def _dated(text: str, start: int) -> int | None:
    """Return where in a text numbers stand that may be a date, from a place on; None if there are none."""
    found = _DATED.search(kinds(text, start))
    numbers = [] if found is None else [start + found.start()]
    first = None if text.isascii() else _FIRST_YEAR.search(text, start)
    return min(numbers if first is None else [*numbers, first.start()], default=None)


def _named_late(text: str, since: int, hold: int) -> Iterator[int]:
    """Yield where dates before a place begin behind which a word for birth may follow, wherever a search begins."""
    for found in _DATE.compiled.finditer(text, since, overlapped=True, concurrent=False):
        if found.start() >= hold:
            return
        if found.end() > len(text) - _AHEAD and _NAMED_BEHIND.is_open(text, found.end()):
            yield found.start()


def _around(stems: Iterable[str], plain: str, ahead: int, low: int) -> Iterator[tuple[int, int]]:
    """Yield the stretches of a text around stems, from a place on, in order; ``plain`` is the text behind ``ahead``."""
    places = sorted(
        found.start() + ahead for stem in stems for found in matches_in(re.compile(re.escape(stem)), plain, 0)
    )
    begin = end = low
    for at in places:
        if at - _STEM_AT > end:
            if begin < end:
                yield begin, end
            begin = at - _STEM_AT
        end = max(end, at + _CUE_READ + _CUE_AHEAD)
    if begin < end:
        yield begin, end


def _behind_cues(text: str, low: int, around: Iterable[tuple[int, int]]) -> Iterator[regex.Match[str]]:
    """Yield the dates that begin close after a word for birth; each word is followed from its end on.

    A date behind another one counts only if no word names it: *born 4.3.1985, married 5.6.2010*.
    """
    cues = [found.end() for begin, end in around for found in _CUE.finditer(text, max(begin, low), end)]
    for cue, after in zip(cues, [*cues[1:], len(text)], strict=False):
        last, end = min(cue + _REACH, after), -1
        for found in _DATE.compiled.finditer(text, cue, min(last + _READ, len(text)), concurrent=False):
            if found.start() > last or (end >= 0 and names_next(text[end : found.start()])):
                break
            end = found.end()
            yield found


def _is_date(text: str, found: regex.Match[str]) -> bool:
    """Return whether one of two numbers can be a month; digits in one piece need a label."""
    if found["plain"]:
        low = max(found.start() - _REACH - _CUE_READ, 0)
        cues = [cue.end() for cue in _CUE.finditer(text, low, found.start())]
        return bool(cues) and _LABELLED.fullmatch(text, cues[-1], found.start()) is not None
    numbers = [int(number) for number in re.findall(r"\d+", found["date"] or "") if len(number) <= 2]  # noqa: PLR2004 - day, month
    return len(numbers) < 2 or min(numbers[:2]) <= _MOST_MONTHS  # noqa: PLR2004 - one of them is the month


_SHOWN = 3  # letters of a month behind which a text that goes on otherwise has no date


def _may_begin(words: Iterable[str], at: int = 0) -> str:
    """Return a pattern of texts that begin as one of some words, or end so; letters beyond ASCII are not compared."""
    ways: dict[str, list[str]] = {}
    for word in words:
        if at == _SHOWN or at == len(word):
            return ""
        if word[at].isascii():
            ways.setdefault(word[at], []).append(word)
    shown = [re.escape(letter) + _may_begin(begun, at + 1) for letter, begun in sorted(ways.items())]
    return "(?:" + "|".join([r"\Z", r"[^\x00-\x7f]", *shown]) + ")"


_TRIGGER = (
    rf"[0-9](?:(?:{_SEP}|[ ])[ ]?(?:[0-9]|\Z)|[ ]?[年년]|º\Z"
    rf"|(?:[.º]|(?i:st|nd|rd|th|er))?[ -](?i:{_may_begin([*_MONTH_NAMES.split(), 'of ', 'de ', 'tháng'])}))"
    r"|[12][089][0-9]{6}(?![0-9])"
    r"|[JFMASOND](?:an|eb|ar|pr|ay|un|ul|ug|ep|ct|ov|ec)(?<![A-Za-z]...)"
    r"|元年|[大昭平令民](?:[正和成國国](?:元|[ ]?[0-9]{0,3}))?\Z"
)
"""What stands in each date, as soon as a blank or a sign shows that its first number has ended.

A date is the dearest of the built-in rules to look for, and most numbers in prose are none: *21 degrees*.
"""


def _names_birth(word: str) -> bool:
    return _CUE.search(f'{word}: "1') is not None


_HEADERS = HeaderWords(_names_birth)
BIRTHS: tuple[BuiltInRule, ...] = tuple(
    BuiltInRule("date-of-birth", "[DATE_OF_BIRTH]", _TRIGGER, search, headers=_HEADERS)
    for search in (births, births_before)
)
"""Dates of birth, in numbers or with the name of the month, in about twenty-five languages."""
