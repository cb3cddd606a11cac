"""Names of languages: codes (ISO 639-1, ISO 639-3), BCP-47 tags, English and own names, and which count as the same.

Tags are compared by their primary subtag, so ``en-US`` is ``en``. Languages that no detector tells apart reliably in
a sentence or two (`MACROS`) are compared as their macro-language.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import NamedTuple

ROWS = """
aa aar Afar
ab abk Abkhazian/Abkhaz/Аԥсуа
ae ave Avestan
af afr Afrikaans
ak aka Akan/Twi
am amh Amharic/አማርኛ
an arg Aragonese/Aragonés
ar ara Arabic/العربية/عربي
as asm Assamese/অসমীয়া
av ava Avaric/Avar
ay aym Aymara
az aze Azerbaijani/Azeri/Azərbaycanca
ba bak Bashkir/Башҡортса
be bel Belarusian/Беларуская
bg bul Bulgarian/Български
bi bis Bislama
bm bam Bambara/Bamanankan
bn ben Bengali/Bangla/বাংলা
bo bod Tibetan/བོད་ཡིག
br bre Breton/Brezhoneg
bs bos Bosnian/Bosanski
ca cat Catalan/Valencian/Català
ce che Chechen/Нохчийн
ch cha Chamorro
co cos Corsican/Corsu
cr cre Cree
cs ces Czech/Čeština
cu chu Church Slavonic/Old Church Slavonic
cv chv Chuvash/Чӑвашла
cy cym Welsh/Cymraeg
da dan Danish/Dansk
de deu German/Deutsch
dv div Divehi/Dhivehi/Maldivian
dz dzo Dzongkha/རྫོང་ཁ
ee ewe Ewe/Eʋegbe
el ell Greek/Modern Greek/Ελληνικά
en eng English
eo epo Esperanto
es spa Spanish/Castilian/Español/Castellano
et est Estonian/Eesti
eu eus Basque/Euskara
fa fas Persian/Farsi/فارسی
ff ful Fulah/Fula/Fulani
fi fin Finnish/Suomi
fj fij Fijian
fo fao Faroese/Føroyskt
fr fra French/Français
fy fry Western Frisian/Frisian/Frysk
ga gle Irish/Gaeilge
gd gla Scottish Gaelic/Gaelic/Gàidhlig
gl glg Galician/Galego
gn grn Guarani/Avañe'ẽ
gu guj Gujarati/ગુજરાતી
gv glv Manx/Gaelg
ha hau Hausa
he heb Hebrew/עברית
hi hin Hindi/हिन्दी/हिंदी
ho hmo Hiri Motu
hr hrv Croatian/Hrvatski
ht hat Haitian/Haitian Creole/Kreyòl ayisyen
hu hun Hungarian/Magyar
hy hye Armenian/Հայերեն
hz her Herero
ia ina Interlingua
id ind Indonesian/Bahasa Indonesia
ie ile Interlingue/Occidental
ig ibo Igbo
ii iii Sichuan Yi/Nuosu
ik ipk Inupiaq
io ido Ido
is isl Icelandic/Íslenska
it ita Italian/Italiano
iu iku Inuktitut/ᐃᓄᒃᑎᑐᑦ
ja jpn Japanese/日本語
jv jav Javanese/Basa Jawa
ka kat Georgian/ქართული
kg kon Kongo
ki kik Kikuyu/Gikuyu
kj kua Kuanyama
kk kaz Kazakh/Қазақша/Қазақ тілі
kl kal Kalaallisut/Greenlandic
km khm Khmer/Central Khmer/ខ្មែរ
kn kan Kannada/ಕನ್ನಡ
ko kor Korean/한국어
kr kau Kanuri
ks kas Kashmiri
ku kur Kurdish/Kurdî
kv kom Komi
kw cor Cornish/Kernewek
ky kir Kyrgyz/Kirghiz/Кыргызча
la lat Latin/Latina
lb ltz Luxembourgish/Lëtzebuergesch
lg lug Ganda/Luganda
li lim Limburgish/Limburgan/Limburgs
ln lin Lingala
lo lao Lao/ລາວ
lt lit Lithuanian/Lietuvių
lu lub Luba-Katanga
lv lav Latvian/Latviešu
mg mlg Malagasy
mh mah Marshallese
mi mri Maori/Māori
mk mkd Macedonian/Македонски
ml mal Malayalam/മലയാളം
mn mon Mongolian/Монгол
mr mar Marathi/मराठी
ms msa Malay/Bahasa Melayu
mt mlt Maltese/Malti
my mya Burmese/မြန်မာ
na nau Nauru/Nauruan
nb nob Norwegian Bokmål/Bokmål/Bokmal
nd nde North Ndebele
ne nep Nepali/नेपाली
ng ndo Ndonga
nl nld Dutch/Flemish/Nederlands
nn nno Norwegian Nynorsk/Nynorsk
no nor Norwegian/Norsk
nr nbl South Ndebele
nv nav Navajo/Diné bizaad
ny nya Chichewa/Chewa/Nyanja
oc oci Occitan
oj oji Ojibwa/Ojibwe
om orm Oromo/Afaan Oromoo
or ori Oriya/Odia/ଓଡ଼ିଆ
os oss Ossetian/Ossetic/Ирон
pa pan Punjabi/Panjabi/ਪੰਜਾਬੀ
pi pli Pali
pl pol Polish/Polski
ps pus Pashto/Pushto/پښتو
pt por Portuguese/Português
qu que Quechua/Runa Simi
rm roh Romansh/Rumantsch
rn run Rundi/Kirundi
ro ron Romanian/Moldavian/Moldovan/Română
ru rus Russian/Русский
rw kin Kinyarwanda
sa san Sanskrit/संस्कृतम्
sc srd Sardinian/Sardu
sd snd Sindhi/سنڌي
se sme Northern Sami/Davvisámegiella
sg sag Sango
si sin Sinhala/Sinhalese/සිංහල
sk slk Slovak/Slovenčina
sl slv Slovenian/Slovene/Slovenščina
sm smo Samoan
sn sna Shona/ChiShona
so som Somali/Soomaali
sq sqi Albanian/Shqip
sr srp Serbian/Српски/Srpski
ss ssw Swati/Swazi
st sot Southern Sotho/Sotho/Sesotho
su sun Sundanese/Basa Sunda
sv swe Swedish/Svenska
sw swa Swahili/Kiswahili
ta tam Tamil/தமிழ்
te tel Telugu/తెలుగు
tg tgk Tajik/Тоҷикӣ
th tha Thai/ไทย
ti tir Tigrinya/ትግርኛ
tk tuk Turkmen/Türkmençe
tl tgl Tagalog/Filipino
tn tsn Tswana/Setswana
to ton Tonga/Tongan
tr tur Turkish/Türkçe
ts tso Tsonga/Xitsonga
tt tat Tatar/Татарча
ty tah Tahitian
ug uig Uighur/Uyghur/ئۇيغۇرچە
uk ukr Ukrainian/Українська
ur urd Urdu/اردو
uz uzb Uzbek/Oʻzbekcha
ve ven Venda/Tshivenda
vi vie Vietnamese/Tiếng Việt
vo vol Volapük
wa wln Walloon/Walon
wo wol Wolof
xh xho Xhosa/isiXhosa
yi yid Yiddish/ייִדיש
yo yor Yoruba/Yorùbá
za zha Zhuang/Chuang
zh zho Chinese/Mandarin/中文/汉语/漢語/普通话
zu zul Zulu/isiZulu
"""

REGIONAL = {
    "zh-cn": "Chinese (Simplified)",
    "zh-hans": "Chinese (Simplified)",
    "zh-tw": "Chinese (Traditional)",
    "zh-hant": "Chinese (Traditional)",
}

# Codes that were withdrawn, are used beside those of the table, or name one variety of a language in it.
OTHER_CODES = {
    "alb": "sq", "arm": "hy", "arz": "ar", "ary": "ar", "baq": "eu", "bur": "my", "chi": "zh", "cmn": "zh",
    "cze": "cs", "dut": "nl", "ekk": "et", "fil": "tl", "fre": "fr", "geo": "ka", "ger": "de", "gre": "el",
    "gug": "gn", "ice": "is", "in": "id", "iw": "he", "ji": "yi", "jw": "jv", "khk": "mn", "lvs": "lv", "mac": "mk",
    "mao": "mi", "may": "ms", "mo": "ro", "npi": "ne", "ory": "or", "pes": "fa", "prs": "fa", "rum": "ro",
    "sh": "sh", "hbs": "sh", "slo": "sk", "srl": "sr", "swh": "sw", "tib": "bo", "wel": "cy", "wuu": "wuu",
    "yue": "yue", "zsm": "ms",
}  # fmt: skip


MACROS: tuple[frozenset[str], ...] = (
    frozenset({"bs", "hr", "sh", "sr"}),
    frozenset({"id", "ms"}),
    frozenset({"nb", "nn", "no"}),
    frozenset({"wuu", "yue", "zh"}),
)
"""Languages that count as the same.

Bosnian, Croatian and Serbian; Indonesian and Malay; both forms of Norwegian; languages in Chinese characters.
"""

NEIGHBOURS: tuple[frozenset[str], ...] = (frozenset({"da", "nb", "nn", "no"}),)
"""Languages that do not count as the same, but that a short text can be in equally: Danish and Norwegian."""

_GROUPS = {code: members for members in MACROS for code in members}
_NEAR = {code: members for members in NEIGHBOURS for code in members}


class _Names(NamedTuple):
    code_of: dict[str, str]
    name_of: dict[str, str]


@cache
def _names() -> _Names:
    code_of = dict(OTHER_CODES)
    name_of: dict[str, str] = {}
    for row in ROWS.strip().splitlines():
        code, three, names = row.split(" ", 2)
        first, *others = names.split("/")
        name_of[code] = first
        code_of.update({_plain(spelling): code for spelling in (code, three, first, *others)})
    code_of.update({_plain(name): "zh" for name in REGIONAL.values()})
    return _Names(code_of, name_of)


def language_code(given: str) -> str | None:
    """Return the primary subtag that a tag, a code or a name of a language stands for; None if it is not known.

    Args:
        given: ``en``, ``en-US``, ``pt_BR``, ``eng``, ``English``, ``Deutsch`` …, in any case.
    """
    plain = _plain(given)
    names = _names().code_of
    if plain in names:
        return names[plain]
    return names.get(plain.replace("_", "-").partition("-")[0])


def language_name(tag: str) -> str:
    """Return the English name of a language, from its code or tag; the tag itself if it is not known."""
    regional = REGIONAL.get(tag.lower().replace("_", "-"))
    code = language_code(tag)
    return regional or _names().name_of.get(code or "", tag)


def macro_of(code: str) -> frozenset[str]:
    """Return the codes that count as the same language as a code, itself included."""
    return _GROUPS.get(code, frozenset({code}))


def neighbours_of(code: str) -> frozenset[str]:
    """Return the codes of the languages that a text in a language may be in as well, itself included."""
    return macro_of(code) | _NEAR.get(code, frozenset())


def same_language(one: str, other: str) -> bool:
    """Return whether two tags, codes or names stand for one language, or for languages that count as the same.

    Unknown ones are compared as they are written, without case and without the subtags behind the primary one.
    """
    first, second = (language_code(given) or _primary(given) for given in (one, other))
    return first in macro_of(second)


def _primary(given: str) -> str:
    return _plain(given).replace("_", "-").partition("-")[0]


def _plain(given: str) -> str:
    return unicodedata.normalize("NFC", given).strip().casefold()
