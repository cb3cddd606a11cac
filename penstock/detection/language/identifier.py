"""`LanguageIdentifier`: which language a text is in, without a model, a key or a download.

It wraps py3langid (BSD-3-Clause, the extra ``language``), and knows neither messages nor stages.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from penstock.detection.language import _rivals
from penstock.detection.language._prose import prose
from penstock.detection.language._scripts import count_letters, only_language
from penstock.detection.language.codes import language_code, macro_of
from penstock.engine.values.errors import MissingExtraError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_DEFAULT = (
    "af am ar az be bg bn ca cs cy da de dz el en es et eu fa fi fr ga gl gu he hi hr hu hy id is it ja ka kk km kn ko"
    " ku ky lo lt lv mk ml mn mr my nl no or pa pl ps pt ro ru si sk sl sq sr sv sw ta te tg th tk tl tr ug uk ur uz vi"
    " zh"
)
DEFAULT_LANGUAGES: tuple[str, ...] = tuple(_DEFAULT.split())
"""The 77 languages that are told apart by default.

They are those that short texts are told apart in with no loss to the others: closely related ones that would cost the
others accuracy (Malay beside Indonesian, Bosnian, Nynorsk, Cantonese, Latin, Esperanto …) are there to be asked for.
"""

LEAST = 0.05
"""Below this probability a guess is none: what is written in no language at all stays below it."""

_SURE = 0.7  # from here on, no guess about the development texts was wrong but for languages that are one
_FEWEST_ASCII, _FEWEST = 4, 2  # letters; those beyond ASCII say more


class LanguageGuess(NamedTuple):
    """What a text seems to be written in.

    Attributes:
        code: the language's two-letter code (three letters where it has none of two); None: unknown.
        confidence: how probable it is, from 0 to 1, with the languages that are compared as one with it (`MACROS`).
    """

    code: str | None
    confidence: float


UNKNOWN = LanguageGuess(None, 0.0)


class LanguageIdentifier:
    """Tells the language of texts. Pure and deterministic; may be shared by threads.

    The model (4.6 MB, some 130 MB in memory, 0.8 s to load with numpy) is loaded at the first text that needs it, or by
    `load`, and shared by all identifiers of the process. Of code, addresses, markup, numbers and emoji nothing is read.

    Args:
        languages: those that come into question, as codes, tags or English names; None: `DEFAULT_LANGUAGES`. The fewer
            there are, the surer a short text is told; a text in none of them is taken for the nearest.
        least: below this probability the language is unknown, 0 to 1.

    Raises:
        MissingExtraError: py3langid is not installed.
        OptionError: a language that the model does not know, fewer than two of them, or no such number.
    """

    def __init__(self, languages: Iterable[str] | None = None, *, least: float = LEAST) -> None:
        if importlib.util.find_spec("py3langid") is None:
            raise MissingExtraError("the embedded identification of languages", "language")
        if isinstance(least, bool) or not isinstance(_any(least), (int, float)) or not 0 <= least <= 1:
            raise OptionError("LanguageIdentifier", "least", least, "a number from 0 to 1")
        self.languages = _chosen(languages)
        self.least = float(least)
        self._known = frozenset(self.languages)

    def __eq__(self, other: object) -> bool:
        """Tell whether both tell the same languages apart, and are sure from the same probability on."""
        if not isinstance(other, LanguageIdentifier):
            return NotImplemented
        return (type(self), self.languages, self.least) == (type(other), other.languages, other.least)

    def __hash__(self) -> int:
        """Go with equality."""
        return hash((self.languages, self.least))

    def load(self) -> None:
        """Load the model now: half a second to a second, which is better not spent in an event loop."""
        _model()

    def prepare(self) -> None:
        """Begin to load the model in a thread, so that the first text need not wait so long."""
        if not _LOADED and not _THREADS:
            _THREADS.append(threading.Thread(target=_model, name="penstock-languages", daemon=True))
            _THREADS[0].start()

    def identify(self, text: str) -> LanguageGuess:
        """Return the language of a text; unknown where too little is left of it, or nothing is probable enough.

        A text that is marked as code from end to end is read nevertheless, and believed only where that is sure.
        """
        words = prose(text)
        if not _is_short(words):
            return self._guess(words, self.least)
        words = prose(text, fenced=True)
        return UNKNOWN if _is_short(words) else self._guess(words, max(self.least, _SURE))

    def _guess(self, words: str, least: float) -> LanguageGuess:
        script = only_language(words)
        if script in self._known:
            return LanguageGuess(script, 1.0)
        shares = self._shares(words)
        if not shares:
            return UNKNOWN
        code = max(shares, key=lambda each: shares[each])
        confidence = min(sum(shares.get(each, 0.0) for each in macro_of(code)), 1.0)
        return LanguageGuess(code, confidence) if confidence >= least else LanguageGuess(None, confidence)

    def _shares(self, words: str) -> dict[str, float]:
        """Return how probable each language is; they add up to 1. Empty if none is probable at all."""
        weights = _rivals.weights(words)
        shares = {code: share * weights.get(code, 1.0) for code, share in _model().rank(words) if code in self._known}
        total = sum(shares.values())
        return {code: share / total for code, share in shares.items()} if total > 0 else {}

    def __repr__(self) -> str:
        """Show how many languages it tells apart."""
        return f"LanguageIdentifier({len(self.languages)} languages)"


def _is_short(words: str) -> bool:
    return count_letters(words) < (_FEWEST_ASCII if words.isascii() else _FEWEST)


class _Model(Protocol):
    @property
    def labels(self) -> list[str]: ...

    def rank(self, text: str) -> Sequence[tuple[str, float]]: ...


class _Maker(Protocol):
    def from_model_file(self, model_file: str, *, norm_probs: bool) -> _Model: ...


_LOCK = threading.Lock()
_LOADED: list[_Model] = []
_THREADS: list[threading.Thread] = []


def _model() -> _Model:
    """Return the model over all its languages, loaded once a process."""
    if not _LOADED:
        with _LOCK:
            if not _LOADED:
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
        code = language_code(name) if isinstance(_any(name), str) else None
        label = _SPELT.get(code or "", code or name)
        if label not in KNOWN:
            raise OptionError("LanguageIdentifier", "languages", name, allowed)
        chosen[label] = None
    if len(chosen) < 2:  # noqa: PLR2004 - one language is no choice
        raise OptionError("LanguageIdentifier", "languages", tuple(chosen), allowed)
    return tuple(chosen)


def _any(given: object) -> object:
    """Return it as one of any type: what callers without a type checker give may be."""
    return given
