"""The language of a text: the identifier, and how languages are named and compared."""

from penstock.detection.language.identifier import (
    DEFAULT_LANGUAGES as DEFAULT_LANGUAGES,
    LanguageGuess as LanguageGuess,
    LanguageIdentifier as LanguageIdentifier,
)
from penstock.detection.language.names import (
    language_code as language_code,
    language_name as language_name,
    neighbours_of as neighbours_of,
    same_language as same_language,
)
