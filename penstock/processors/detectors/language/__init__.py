"""Which language a text is in: the identifier, and how languages are named and compared. It knows no processor."""

from penstock.processors.detectors.language.codes import language_code as language_code
from penstock.processors.detectors.language.codes import language_name as language_name
from penstock.processors.detectors.language.codes import same_language as same_language
from penstock.processors.detectors.language.identifier import DEFAULT_LANGUAGES as DEFAULT_LANGUAGES
from penstock.processors.detectors.language.identifier import LanguageGuess as LanguageGuess
from penstock.processors.detectors.language.identifier import LanguageIdentifier as LanguageIdentifier
