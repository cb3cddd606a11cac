"""Which language a text is in: the identifier, and how languages are named and compared. It knows no processor."""

from penstock.detection.language.identifier import (
    DEFAULT_LANGUAGES as DEFAULT_LANGUAGES,
    LanguageGuess as LanguageGuess,
    LanguageIdentifier as LanguageIdentifier,
)
from penstock.detection.language.names import (
    language_code as language_code,
    language_name as language_name,
    same_language as same_language,
)
