"""What looks like a secret: random letters do, names in code, placeholders, paths and types do not.

Secrets without a prefix of their own are known by the label before them. These functions decide whether the value
there can be one.
"""

from __future__ import annotations

import base64
import re

from penstock.detection.deferred import deferred
from penstock.detection.patterns import validators
from penstock.detection.places.keys import names_secret
from penstock.detection.places.labels import words_of
from penstock.detection.secrets.public import is_example, is_public

_LETTERS = deferred(r"[^\W\d_]+(?:[ '’-][^\W\d_]+){0,3}")
_ENTROPY_OF_WORDS = 3.0  # a key in letters only has more than words joined by hyphens
# The fifty commonest pairs of letters in English, from memory of published counts; half of a text's pairs, and one in
# fourteen of random letters'.
_COMMON = frozenset(
    re.findall(
        "..",
        "thheineranreonatenndtiesorteofedisitalarsttontngsehaasouiolevecomedehiriroicneearacelichllbemasiomur",
    )
)
_PAIR = deferred(r"(?=([a-z]{2}))")
_LEAST_PAIRS = 4
_WORDY, _WORDY_NAME = 0.3, 0.2  # the share of common pairs; a name has the form of one, so less will do
_PART = deferred(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NAME = deferred(r"[\w.:/#\\\[\]-]+", re.ASCII)
_MEAN_PART, _MOST_NUMBERS, _MOST_DIGITS = 3.0, 2, 4
_LONGEST_WORD = 14  # letters in one case; a longer run must be clearly made of words
_PLACEHOLDER = deferred(
    r"""(?ix)
      ^(?:&lt;|%[({]|\#\{|@@?\{|!(?:vault|secret|ref|sub|env|join|getatt)\b|__\w+__$|--|env[.:(]|\{\{)
    | ^(?:your|my|the|some|our|new|old|user|db|database|test|admin|root|sample|example|demo|dummy|fake|secure|strong
        |super|very|hidden|plain|raw|default|initial|temp|temporary|actual|real|long|random|secret|api|client|access
        |auth|account|refresh|bearer|valid|invalid|wrong|correct|some|here|goes|replace|with|insert|enter|put
        |user|me|this|value|string|text|name|key|keys|token|tokens|pass|password|passwd|passwrod|passphrase|pwd|id
        |code|secret|[\W_\d])*$
    | ^x+$ | x{5} | \*{3} | \.{3}$ | 0123456789abcdef0123 | redacted | placeholder | replace_?me | change_?me
    """
)
_CODE_WORD = deferred(
    r"(?i)passw|passphrase|pwd|secret|token|user|config|setting|hash|form|field|self|request|args|param|data|input"
    r"|string|value|env|default|type|option|encod|encrypt|valid|confirm|original|current|optional|manager|provider"
    r"|generat|create|error|message|label|text|require|prompt|reset|change|update|policy|auth|login|account|service"
)


def random(found: str) -> bool:
    """Return whether a key is more than words after a prefix (``sk-learn-…`` is a package), and no known example."""
    if is_example(found):
        return False
    entropy = validators.entropy(found)
    return any(map(str.isdigit, found)) or (found != found.lower() and entropy > _ENTROPY_OF_WORDS)


def wordy(found: str, least: float = _WORDY) -> bool:
    """Return whether the letters follow one another as those of words do."""
    pairs = _PAIR.findall(found.lower())
    return len(pairs) > _LEAST_PAIRS and sum(pair in _COMMON for pair in pairs) > least * len(pairs)


def identifier(found: str) -> bool:
    """Return whether a value is a name in code, a path or a type: ``initialSupply``, ``config.db_key``, ``a/b.pem``."""
    name = found.rstrip(":;,.)")
    parts = _PART.findall(name)
    words = [part for part in parts if not part.isdigit()]
    numbers = [part for part in parts if part.isdigit()]
    if not words or not _NAME.fullmatch(name) or sum(map(len, words)) < _MEAN_PART * len(words):
        return False
    if len(numbers) > _MOST_NUMBERS or sum(map(len, numbers)) > _MOST_DIGITS:
        return False
    return wordy(name, _WORDY if max(map(len, words)) > _LONGEST_WORD else _WORDY_NAME)


def placeholder(found: str) -> bool:
    """Return whether a value only says that something belongs there: ``<YOUR_KEY>``, ``changeme``, ``xxxx``."""
    return validators.placeholder(found) or _PLACEHOLDER.search(found) is not None


def token(found: str) -> bool:
    """Return whether a value after a label is a token: random enough, no placeholder and no name in code."""
    return validators.token(found) and api_key(found)


def api_key(found: str) -> bool:
    """Return whether a value after a label such as ``api_key`` is a key."""
    return not (placeholder(found) or identifier(found) or is_public(found) or _names_one(found))


def _names_one(found: str) -> bool:
    """Return whether a value is the name of a secret, as in lists of translations: ``token: Zugangsschlüssel``."""
    return _LETTERS.fullmatch(found) is not None and names_secret(words_of(found)) is True


def password(found: str) -> bool:
    """Return whether a value after a label is a password: no placeholder, and no name in code."""
    if not validators.password(found) or placeholder(found):
        return False
    return not (identifier(found) and (_CODE_WORD.search(found) or "." in found[1:-1] or "/" in found))


def encoded(found: str) -> bool:
    """Return whether a value is a text in base64; words are not, but for rare ones."""
    if len(found) % 4:
        return False
    try:
        plain = base64.b64decode(found, validate=True).decode()
    except ValueError:
        return False
    return plain.isprintable() or "\n" in plain
