"""`is_romanised`: whether a text in Latin letters is in Japanese, or in Hindi, alone or mixed with English.

The model knows these languages in their own scripts only, and takes such texts for Swahili or English. They are told by
words that are frequent in them and hardly known elsewhere.
"""

from __future__ import annotations

from penstock.detection.deferred import deferred

_WORD = deferred(r"[a-z']+")
_STRONG = (
    frozenset(
        (
            *("desu", "deshita", "masu", "imasu", "arimasu", "shimasu", "kudasai", "gozaimasu", "mashita", "masen"),
            *("watashi", "sumimasen", "arigatou", "arigato", "omoimasu", "onegai", "nihongo", "totemo", "ohayou"),
            *("konnichiwa", "shite", "dekimasu", "ikimasu", "tabemasu", "deshou", "janai", "kyou", "ashita"),
        )
    ),
    frozenset(
        (
            *("hai", "hain", "nahi", "nahin", "kya", "mujhe", "mera", "meri", "mere", "aap", "aapka", "kaise", "yaar"),
            *("raha", "rahi", "rahe", "karna", "karni", "hoga", "hogi", "kyun", "kyunki", "bahut", "kuch", "sakta"),
            *("sakte", "chahiye", "abhi", "tumhara", "kahan", "theek", "achha", "accha", "bhai", "batao", "wala"),
        )
    ),
)
_WEAK = (
    frozenset(("wa", "no", "ga", "wo", "ni", "ka", "kara", "made", "mo", "kono", "sono", "nani", "doko", "ne", "yo")),
    frozenset(
        (
            *("ka", "ki", "ke", "ko", "se", "mein", "ho", "na", "to", "kar", "karo", "kal", "gaya", "gayi", "bhi"),
            *("sab", "jo"),
        )
    ),
)
_LEAST = (1, 2)  # different words of the first kind; "hai" is also Italian and Vietnamese
_SHARE = 0.25


def is_romanised(words: str) -> bool:
    """Return whether a text of Latin letters is Japanese or Hindi that is written with them, as its words show."""
    found = _WORD.findall(words.lower())
    for strong, weak, least in zip(_STRONG, _WEAK, _LEAST, strict=True):
        told = [word for word in found if word in strong]
        if len(set(told)) >= least and len(told) + sum(word in weak for word in found) >= _SHARE * len(found):
            return True
    return False
