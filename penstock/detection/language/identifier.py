"""`LanguageIdentifier`: tells which language a text is in, without a model, a key or a download.

It wraps py3langid (BSD-3-Clause, the extra ``language``).
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import threading
import unicodedata
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock.detection.deferred import deferred
from penstock.detection.language import rivals as _rivals
from penstock.detection.language.common_words import word_evidence
from penstock.detection.language.names import language_code, neighbours_of
from penstock.detection.language.romanised import is_romanised
from penstock.engine.values.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self


MOST = 16_384
"""How many characters of a text are read; the language is known long before that."""

_FENCED = deferred(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_INLINE = deferred(r"`[^`\n]{1,200}+`")
_TAG = deferred(r"<[/!?]?[A-Za-z][^<>]{0,300}+>|&(?:[a-z]{2,8}|#\d{1,6});")
# ASCII alone, since in scripts without spaces a sentence may follow at once.
_ADDRESS = deferred(
    r"(?:https?|ftp|file)://[!-~]+|\bwww\.[!-~]+|[A-Za-z0-9_.+-]{1,64}+@[A-Za-z0-9-]{1,64}+\.[A-Za-z0-9.-]{2,64}+"
    r"|(?<![A-Za-z0-9_])@[A-Za-z0-9_]{2,64}+|(?<!\S)[~.]{0,2}/[A-Za-z0-9_.-]{1,64}+(?:/[A-Za-z0-9_.-]{0,64}+)+"
    r"|\b[A-Za-z]:\\[!-~]+"
)
# Flags, identifiers in snake_case and camelCase, words with digits, dotted.names, calls().
_NAME = deferred(
    r"(?<!\S)(?:--[a-z][a-z0-9-]{0,64}+|-[A-Za-z]{1,2}\b)|(?<![A-Za-z0-9_])(?:[A-Za-z0-9]*(?:_[A-Za-z0-9_]+|[a-z][A-Z][A-Za-z0-9_]*"
    r"|[0-9][A-Za-z0-9_]*)|[A-Za-z]+(?:\.[a-z][A-Za-z0-9]+){1,8}+|[A-Za-z]+\()"
)
_INVISIBLE = deferred("[\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_OTHER = deferred(r"[^\w\s'’ʼ\-.,;:!?¿¡、。،؟।\u0300-\u036f\u0590-\u08ff\u0900-\u1cff\u200c\u200d]+|[\d_]+")
_CODE_START = deferred(
    r"\s*(?:#include\b|>>> |\$ |(?:import|from|def|class|elif|except|return|public|private|static|const|let|var|func|"
    r"fn|void|SELECT|INSERT|UPDATE|CREATE)\s.*[=(){};:*,]|(?:for|if|while|else|try|switch)\b.*[({:]\s*$|//|/\*|\*/|[A-Za-z_][\w.]*\([^()]*\)\s*;?\s*$)"
)
_CODE_END = deferred(r"[;{}]\s*$|\)\s*:\s*$")
_SYMBOL = deferred(r"[=(){}\[\];<>\\/+&^%$@]")
_FEWEST_SYMBOLS = 3
_SYMBOLS = 0.2  # of what is written in a line of code more is symbols; of prose in languages with any less


def prose(text: str, *, fenced: bool = False) -> str:
    """Return the words of a text, in the normal form NFKC, with the punctuation between them.

    Args:
        text: the text.
        fenced: whether text that is marked as code is read, too. Lines that look like code are never read.
    """
    text = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text[:MOST]))
    for pattern in (*(() if fenced else (_FENCED, _INLINE)), _TAG, _ADDRESS):
        text = pattern.sub(" ", text)
    lines = [line for line in text.splitlines() if line.strip() and not _is_code(line)]
    words = _OTHER.sub(" ", _NAME.sub(" ", "\n".join(lines)))
    return " ".join(words.split())


def _is_code(line: str) -> bool:
    """Return whether a line looks like code, by its beginning, its end and its share of symbols.

    A line with letters beyond ASCII is never code: it says something in a language, and a Greek question ends with
    ``;``.
    """
    if not line.isascii():
        return False
    written = len(line) - line.count(" ")
    symbols = len(_SYMBOL.findall(line))
    return (
        (symbols >= _FEWEST_SYMBOLS and symbols > _SYMBOLS * written)
        or _CODE_START.match(line) is not None
        or (symbols > 1 and _CODE_END.search(line) is not None)
    )


# Ranges of The Unicode Standard's blocks. A script that several of our languages use is not here.
_BLOCKS = {
    "el": "\u0370-\u03ff\u1f00-\u1fff",
    "hy": "\u0530-\u058f",
    "he": "\u0590-\u05ff",
    "pa": "\u0a00-\u0a7f",
    "gu": "\u0a80-\u0aff",
    "or": "\u0b00-\u0b7f",
    "ta": "\u0b80-\u0bff",
    "te": "\u0c00-\u0c7f",
    "kn": "\u0c80-\u0cff",
    "ml": "\u0d00-\u0d7f",
    "si": "\u0d80-\u0dff",
    "th": "\u0e00-\u0e7f",
    "lo": "\u0e80-\u0eff",
    "my": "\u1000-\u109f",
    "ka": "\u10a0-\u10ff\u1c90-\u1cbf",
    "ko": "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af",
    "km": "\u1780-\u17ff",
}
_HAN = "\u3400-\u4dbf\u4e00-\u9fff"
_KANA = "\u3041-\u30ff\u31f0-\u31ff"
_ALONE = {code: re.compile(f"[{block}]") for code, block in _BLOCKS.items()}
_ANY = deferred(f"[{''.join(_BLOCKS.values())}]")
_JAPANESE, _EAST_ASIAN = re.compile(f"[{_KANA}]"), re.compile(f"[{_HAN}{_KANA}]")
_FEWEST_KANA = 0.1  # of Japanese; a Chinese text may quote a word
_LETTER = deferred(r"[^\W\d_]")
_MOST_OF_IT = 0.8  # of the letters; names and terms in Latin letters stand in texts of every script


def count_letters(text: str) -> int:
    """Return how many letters a text has."""
    return len(_LETTER.findall(text))


def only_language(text: str) -> str | None:
    """Return the language whose script a text is written in, if no other language has it; None otherwise."""
    letters = count_letters(text)
    if not letters:
        return None
    east = len(_EAST_ASIAN.findall(text))
    kana = len(_JAPANESE.findall(text))
    if east >= _MOST_OF_IT * letters:
        return "ja" if kana >= _FEWEST_KANA * east else None
    first = _ANY.search(text)
    if first is None:
        return None
    code = next(code for code, block in _ALONE.items() if block.match(first.group()))
    return code if sum(map(str.isalpha, _ALONE[code].findall(text))) >= _MOST_OF_IT * letters else None


_DEFAULT = (
    "af am ar az be bg bn ca cs cy da de dz el en es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko"
    " ku ky lo lt lv mk ml mn mr my nl no or pa pl ps pt ro ru si sk sl sq sr sv sw ta te tg th tk tl tr ug uk ur uz vi"
    " zh"
)
DEFAULT_LANGUAGES: tuple[str, ...] = tuple(_DEFAULT.split())
"""The 77 languages that are told apart by default.

Short texts in these are told apart without loss for the others. Closely related languages that would cost the others
accuracy (Malay beside Indonesian, Bosnian, Nynorsk, Cantonese, Latin, Esperanto …) must be asked for.
"""

LEAST = 0.05
"""The probability below which a language is unknown; text in no language at all stays below it."""

SHORT = 20
"""A text with fewer characters is short."""

LEAST_SHORT = 0.15
"""The probability below which the language of a short text is unknown."""

_FAR = 0.001  # of the most probable language; no words lift what is below
_CLEAR = 0.8  # the share from which a language stands without its rivals: 37 of 38 such guesses were right, and more
_SURE = 0.7  # from here on, no guess about the development texts was wrong but for languages that are one
_FEWEST_ASCII, _FEWEST = 4, 2  # letters; those beyond ASCII say more


class _Pair(NamedTuple):
    code: str | None
    confidence: float


class LanguageGuess(_Pair):
    """The language that a text seems to be in: a pair of its code and its probability, with its rivals beside them.

    Attributes:
        code: the two-letter code of the language (three letters if it has no such code); None for unknown.
        confidence: the probability from 0 to 1 that it is this language or one that is hard to tell from it
            (`MACROS` and `NEIGHBOURS` in `penstock.detection.language.names`).
        rivals: the codes of such languages that the text may be in as well, the most probable first; empty if it shows
            which one it is in.
    """

    rivals: tuple[str, ...]

    def __new__(cls, code: str | None, confidence: float, rivals: tuple[str, ...] = ()) -> Self:
        """Return a guess; without ``rivals`` it is a language that the text shows clearly, or unknown."""
        made = super().__new__(cls, code, confidence)
        made.rivals = rivals
        return made

    def __repr__(self) -> str:
        """Show the rivals, too."""
        return f"LanguageGuess(code={self.code!r}, confidence={self.confidence!r}, rivals={self.rivals!r})"


UNKNOWN = LanguageGuess(None, 0.0)


class LanguageIdentifier:
    """Tells the language of texts. It is deterministic and may be shared by threads.

    The model (4.6 MB, some 130 MB in memory, 0.8 s to load with numpy) is loaded at the first text that needs it, or by
    `load`, and shared by all identifiers of the process. Code, addresses, markup, numbers and emoji are not read.

    Args:
        languages: the languages to tell apart, as codes, tags or English names; None (the default) for
            `DEFAULT_LANGUAGES`. With fewer languages, short texts are told apart more surely; a text in none of them
            counts as the nearest one.
        least: the probability below which the language is unknown, 0 to 1; None (the default) for `LEAST`, and
            `LEAST_SHORT` for texts of fewer than `SHORT` characters.

    Raises:
        MissingExtraError: py3langid is not installed.
        OptionError: the model does not know a language, there are fewer than two, or ``least`` is not such a number.
    """

    def __init__(self, languages: Iterable[str] | None = None, *, least: float | None = None) -> None:
        if importlib.util.find_spec("py3langid") is None:
            raise MissingExtraError("the embedded identification of languages", "language")
        if least is not None and (
            isinstance(least, bool) or not isinstance(cast("object", least), (int, float)) or not 0 <= least <= 1
        ):
            raise OptionError("LanguageIdentifier", "least", least, "a number from 0 to 1, or None")
        self.languages = _chosen(languages)
        self.least = None if least is None else float(least)
        self._known = frozenset(self.languages)

    def __eq__(self, other: object) -> bool:
        """Return whether both tell the same languages apart, and have the same ``least``."""
        if not isinstance(other, LanguageIdentifier):
            return NotImplemented
        return (type(self), self.languages, self.least) == (type(other), other.languages, other.least)

    def __hash__(self) -> int:
        """Hash as equality requires."""
        return hash((self.languages, self.least))

    def load(self) -> None:
        """Load the model now. This takes half a second to a second, so do not call it in an event loop."""
        _model()

    @property
    def loaded(self) -> bool:
        """Whether the model is loaded, so that no text waits for it."""
        return bool(_LOADED)

    def prepare(self) -> None:
        """Start to load the model in a thread, so that the first text waits less."""
        if not _LOADED and not _THREADS:
            _THREADS.append(threading.Thread(target=_model, name="penstock-languages", daemon=True))
            _THREADS[0].start()

    def identify(self, text: str) -> LanguageGuess:
        """Return the language of a text; unknown if too little text is left, or no language is probable enough.

        A text that is marked as code from end to end is read all the same, and the result counts only if it is sure.
        """
        least = self._least(text)
        words = prose(text)
        if not _is_short(words):
            return self._guess(words, least)
        words = prose(text, fenced=True)
        return UNKNOWN if _is_short(words) else self._guess(words, max(least, _SURE))

    def _least(self, text: str) -> float:
        if self.least is not None:
            return self.least
        return LEAST_SHORT if len(text.strip()) < SHORT else LEAST

    def _guess(self, words: str, least: float) -> LanguageGuess:
        script = only_language(words)
        if script in self._known:
            return LanguageGuess(script, 1.0)
        if words.isascii() and is_romanised(words):
            return UNKNOWN
        shares = self._shares(words)
        if not shares:
            return UNKNOWN
        code = max(shares, key=lambda each: shares[each])
        near = {each: shares[each] for each in neighbours_of(code) & shares.keys()}
        confidence = min(sum(near.values()), 1.0)
        if confidence < least:
            return LanguageGuess(None, confidence)
        return LanguageGuess(code, confidence, _rivals_of(code, near))

    def _shares(self, words: str) -> dict[str, float]:
        """Return the probability of each language; they add up to 1. Empty if none is probable at all."""
        ranked = [(code, share) for code, share in _model().rank(words) if code in self._known]
        likely = [code for code, share in ranked if share >= _FAR * ranked[0][1]]
        weights, against = _rivals.weights(words), word_evidence().against(words, likely)
        shares = {code: share * weights.get(code, 1.0) * against.get(code, 1.0) for code, share in ranked}
        total = sum(shares.values())
        return {code: share / total for code, share in shares.items()} if total > 0 else {}

    def __repr__(self) -> str:
        """Show how many languages it tells apart."""
        return f"LanguageIdentifier({len(self.languages)} languages)"


def _rivals_of(code: str, shares: Mapping[str, float]) -> tuple[str, ...]:
    """Return the languages that a text may be in instead of the most probable of some; none if that one is sure."""
    total = sum(shares.values())
    if shares[code] >= _CLEAR * total:
        return ()
    others = (each for each in shares if each != code and shares[each] >= (1 - _CLEAR) * shares[code])
    return tuple(sorted(others, key=lambda each: (-shares[each], each)))


def _is_short(words: str) -> bool:
    return count_letters(words) < (_FEWEST_ASCII if words.isascii() else _FEWEST)


class _FastTextModel(Protocol):
    @property
    def labels(self) -> list[str]: ...

    def rank(self, text: str) -> Sequence[tuple[str, float]]: ...


class _Maker(Protocol):
    def from_model_file(self, model_file: str, *, norm_probs: bool) -> _FastTextModel: ...


_LOCK = threading.Lock()
_LOADED: list[_FastTextModel] = []
_THREADS: list[threading.Thread] = []


def _model() -> _FastTextModel:
    """Return the model over all its languages; it is loaded once a process."""
    if not _LOADED:
        with _LOCK:
            if not _LOADED:
                word_evidence()
                module = importlib.import_module("py3langid.langid")
                _LOADED.append(
                    cast("_Maker", module.LanguageIdentifier).from_model_file(module.MODEL_FILE, norm_probs=True)
                )
    return _LOADED[0]


# What py3langid 0.4 knows; without it, an identifier would have to load the model to check its options.
_LABELS = (
    "ace af am an ar ary arz as az ba bcl be bg bn br bs ca crh cs cy da de dz el en eo es et eu ext fa fi fo fr fuv fy"
    " ga gcf gcr gd gl gom gu gug guw ha he hi hr ht hu hy id ig is it ja jv ka kab kik kk km kn ko ku ky la lb lg lij"
    " ln lo lt ltg lv mg mk ml mn mr ms mt my ne nl nn no nso oc om or pa pcm pl ps pt qu ro ru rw sa sdh se si sk sl"
    " sn so sq sr st sv sw ta te tg th tk tl tr tt ug uk ur uz uzs vec vi vo wa wuu xh yo yue zh zu"
)
KNOWN = frozenset(_LABELS.split())
_SPELT = {"nb": "no", "gn": "gug", "ki": "kik", "ff": "fuv", "sh": "sr"}  # what it calls those it knows by other codes


def _chosen(given: Iterable[str] | None) -> tuple[str, ...]:
    if given is None:
        return DEFAULT_LANGUAGES
    allowed = f"two or more languages of {', '.join(sorted(KNOWN))}"
    if isinstance(given, str):
        raise OptionError("LanguageIdentifier", "languages", given, allowed)
    chosen: dict[str, None] = {}
    for name in given:
        code = language_code(name) if isinstance(cast("object", name), str) else None
        label = _SPELT.get(code or "", code or name)
        if label not in KNOWN:
            raise OptionError("LanguageIdentifier", "languages", name, allowed)
        chosen[label] = None
    if len(chosen) < 2:  # noqa: PLR2004 - one language is no choice
        raise OptionError("LanguageIdentifier", "languages", tuple(chosen), allowed)
    return tuple(chosen)
