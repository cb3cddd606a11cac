"""How the linear models read a text: without disguises, split into words, by script, with wrapped attacks unwrapped.

An unwrapped reading is made only where its wrapping is seen, so ordinary text costs one look. Guards undo codes such as
base64 and letters written apart, for every detector.
"""

from __future__ import annotations

import codecs
import unicodedata
from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.unicode import disguises
from penstock.detection.words import word_set
from penstock.engine.text_guards.views import view_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Set as AbstractSet

# A word is a run without white space and without the signs that stand by themselves. Letters of other scripts are not
# told apart here: a run of them is a word, whose pairs of letters carry what it says.
_WORD = deferred(r"[^\s\x00-/:-@\[-`{-\x7f“”„«»…—–‘’、。，！？「」]+|[!-/:-@\[-`{-~“”„«»…—–‘’、。，！？「」]")
_ACCENT = deferred("[\u0300-\u036f]")


def is_undisguised(text: str) -> bool:
    """Return whether a text has no character that could be a disguise."""
    return text.isascii() and "\x1b" not in text


def undisguised(text: str) -> str:
    """Return a text with full-width, styled and look-alike letters as plain ones, and without invisible characters.

    Honest text in another script is changed, too, in training as in use.
    """
    return text if is_undisguised(text) else view_of(text, _undisguised)


def _undisguised(text: str) -> str:
    return disguises.read(text).text


def words(text: str) -> list[str]:
    """Return the words and signs of a text, as they are written. Guards share the list: do not change it."""
    return view_of(text, _WORD.findall)


def folded(word: str) -> str:
    """Return a word in small letters, without accents."""
    if word.isascii():
        return word.lower()
    return unicodedata.normalize("NFC", _ACCENT.sub("", unicodedata.normalize("NFD", word.lower())))


LATIN = "Latin"
_BLOCKS = (
    (0x0370, "Greek"),
    (0x0400, "Cyrillic"),
    (0x0530, ""),
    (0x0590, "Hebrew"),
    (0x0600, "Arabic"),
    (0x0780, ""),
    (0x0900, "Devanagari"),
    (0x0980, "Bengali"),
    (0x0A00, ""),
    (0x0E00, "Thai"),
    (0x0E80, ""),
    (0x1E00, LATIN),
    (0x2000, ""),
    (0x3041, "Kana"),
    (0x3100, ""),
    (0x3400, "Han"),
    (0xA000, ""),
    (0xAC00, "Hangul"),
    (0xD7B0, ""),
)
_STARTS = [start for start, _ in _BLOCKS]
_LOOKED_AT = 400  # characters of a text that show its script
_KANA_SHARE = 0.2  # of Japanese, by different characters; most of those are Han


def script(text: str) -> str:
    """Return the script of most of the different letters at the beginning of a text; "" for a script without a name."""
    if text.isascii():
        return LATIN
    letters = [char for char in set(text[:_LOOKED_AT]) if char.isalpha()]
    counted = Counter(_script_of(ord(char)) for char in letters)
    if not counted:
        return LATIN
    if counted["Kana"] >= _KANA_SHARE * (counted["Kana"] + counted["Han"]) > 0:
        counted["Kana"] += counted.pop("Han", 0)
    return max(sorted(counted), key=counted.__getitem__)


def _script_of(code: int) -> str:
    return LATIN if code < _STARTS[0] else _BLOCKS[bisect_right(_STARTS, code) - 1][1]


_LEET_WORD = deferred(
    r"(?<![\w@$])(?=[a-zA-Z]{0,20}[0134578@$])(?=[0134578@$]{0,20}[a-zA-Z])[a-zA-Z0134578@$]{3,20}+(?![\w@$])"
)
_LEET = str.maketrans("0134578@$", "oieastbas")
_LEET_WORDS = 3
_LEET_SIGN = deferred(r"[0134578@$](?:(?=[a-zA-Z])|(?<=[a-zA-Z].))")  # each of those words has one beside a letter
# Words that nobody writes otherwise; of the common ones among them two must be there.
_ROT13 = frozenset(
    (
        *("vtaber", "vafgehpgvba", "vafgehpgvbaf", "cerivbhf", "cebzcg", "cnffjbeq", "flfgrz", "ercrng", "erirny"),
        *("qvfertneq", "gur", "naq", "lbh", "lbhe", "guvf", "jvgu", "gung"),
    )
)
_REVERSED = frozenset(
    (
        *("erongi", "snoitcurtsni", "suoiverp", "tpmorp", "drowssap", "metsys", "laever", "dragersid", "eht", "uoy"),
        *("ruoy", "siht", "htiw", "taht", "tahw"),
    )
)
_COMMON = 4  # letters of a word that may stand there by chance
_TAGGED = deferred("(?<![\U0001f3f4\U000e0020-\U000e007e])[\U000e0020-\U000e007e]{6,}")
_MOST = 50_000  # characters of a wrapped stretch that are read


# Letters in boxes and circles, and those of which flags are made; Unicode gives them no plain form.
_BOXED = {start + at: chr(ord("a") + at) for start in (0x1F150, 0x1F170, 0x1F1E6) for at in range(26)}
_BOXES = deferred("[\U0001f150-\U0001f169\U0001f170-\U0001f189\U0001f1e6-\U0001f1ff]")
_FEWEST_BOXES = 12  # six flags in a row are a list of countries, and read as letters they do no harm
_APART = deferred(r"(?<=\b[a-z])[ \u200b-\u200d\u2060](?=[a-z]\b)")


def hidden(text: str) -> list[str]:
    """Return the text in tag characters, which are invisible; flags of countries do not count."""
    if text.isascii():
        return []
    return ["".join(chr(ord(char) - 0xE0000) for char in found.group()[:_MOST]) for found in _TAGGED.finditer(text)]


def readings(text: str) -> Sequence[str]:
    """Return what else a text says; nothing for most texts."""
    return view_of(text, _readings)


def _readings(text: str) -> Sequence[str]:
    plain = undisguised(text)
    found = hidden(text)
    if _LEET_SIGN.search(plain) and len(_LEET_WORD.findall(plain)) >= _LEET_WORDS:
        found.append(_LEET_WORD.sub(lambda word: word.group().translate(_LEET), plain))
    if not text.isascii() and len(_BOXES.findall(text)) >= _FEWEST_BOXES:
        found.append(_APART.sub("", text.translate(_BOXED)))
    spelled = word_set(plain)
    if _says(_ROT13, spelled):
        found.append(codecs.encode(plain, "rot13"))
    if _says(_REVERSED, spelled):
        found.append(plain[::-1])
    return found


def _says(words: frozenset[str], spelled: AbstractSet[str]) -> bool:
    """Return whether a text has one of the long words of a list, or two of the short ones."""
    found = words & spelled
    return len(found) > 1 or any(len(word) > _COMMON for word in found)
