"""What languages are called, and which are taken for one: by BCP-47 tags, codes and names. It knows no text.

Tags are compared by their primary subtag, so ``en-US`` is ``en``. Languages that no detector tells apart reliably in
a sentence or two (`MACROS`) are compared as their macro-language.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from typing import NamedTuple

from penstock.detection.language._names import OTHER_CODES, REGIONAL, ROWS

MACROS: tuple[frozenset[str], ...] = (
    frozenset({"bs", "hr", "sh", "sr"}),
    frozenset({"id", "ms"}),
    frozenset({"nb", "nn", "no"}),
    frozenset({"wuu", "yue", "zh"}),
)
"""Languages that are compared as one: Bosnian, Croatian and Serbian; Indonesian and Malay; both forms of Norwegian;
what is written in Chinese characters. Danish is none of them: it is told from Norwegian in 19 of 20 short texts."""

_GROUPS = {code: members for members in MACROS for code in members}


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
    """Return the primary subtag that a tag, a code or a name of a language stands for; None if it is none we know.

    Args:
        given: ``en``, ``en-US``, ``pt_BR``, ``eng``, ``English``, ``Deutsch`` …, in any case.
    """
    plain = _plain(given)
    names = _names().code_of
    if plain in names:
        return names[plain]
    return names.get(plain.replace("_", "-").partition("-")[0])


def language_name(tag: str) -> str:
    """Return the English name of a language, from its code or tag; what is unknown by the tag itself."""
    regional = REGIONAL.get(tag.lower().replace("_", "-"))
    code = language_code(tag)
    return regional or _names().name_of.get(code or "", tag)


def macro_of(code: str) -> frozenset[str]:
    """Return the codes that a code is compared as one with, itself among them."""
    return _GROUPS.get(code, frozenset({code}))


def same_language(one: str, other: str) -> bool:
    """Tell whether two tags, codes or names are of one language, or of languages that are compared as one.

    What we do not know is compared as it is written, but for its case and what follows the primary subtag.
    """
    first, second = (language_code(given) or _primary(given) for given in (one, other))
    return first in macro_of(second)


def _primary(given: str) -> str:
    return _plain(given).replace("_", "-").partition("-")[0]


def _plain(given: str) -> str:
    return unicodedata.normalize("NFC", given).strip().casefold()
