"""Terms of a provider, by their form: counts, words, models, addresses, headers. They say nothing of an answer.

Guards need not read a term. Any other text in the same place is one that somebody wrote: guards read it, or it is
dropped. Also here: copies of an answer in another cut, such as the tokens of ``logprobs``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.engine.values.frozen import FrozenDict, is_items, is_mapping

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value, Values

_LONGEST = 64
_MOST_DIGITS = 6
_WORD = re.compile(
    r"(?:[A-Z]?[a-z]{1,20}|[A-Z]{1,20})(?:[_.-](?:[A-Z]?[a-z]{1,20}|[A-Z]{1,20})|[A-Z][a-z]{1,20}"
    r"|[_.-]?\d{1,3}[a-z]{0,5}(?!\d))*",
)


def is_word(text: str) -> bool:
    """Tell whether a text is a name of the kind that programs give to things: ``prompt_tokens``, ``cacheRead5m``."""
    short = len(text) <= _LONGEST and sum(map(str.isdigit, text)) <= _MOST_DIGITS
    return short and _WORD.fullmatch(text) is not None


_MODEL = re.compile(r"[@~]?[A-Za-z0-9][A-Za-z0-9_.:/+~-]*(?:@\d{8})?")
_DATE_DIGITS, _MODEL_DIGITS = re.compile(r"\d{9}"), 14  # a date has eight; a version, and a size


def is_model(text: str) -> bool:
    """Tell whether a text has the form of a model's name, in which no address or number of a person fits."""
    if len(text) > 2 * _LONGEST or _MODEL.fullmatch(text) is None or _DATE_DIGITS.search(text) is not None:
        return False
    return any(map(str.isalpha, text)) and sum(map(str.isdigit, text)) <= _MODEL_DIGITS


_CODE = re.compile(r"[\w.:;+/=\[\]-]+|\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", re.ASCII)


def is_code(text: str) -> bool:
    """Tell whether a text has the form of an id, a count, a duration or a date, as headers hold them."""
    return len(text) <= 2 * _LONGEST and _CODE.fullmatch(text) is not None


_ADDRESS = re.compile(r"(?:https?|wss?)://(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?((?:/[A-Za-z0-9._-]+)*)/?")


def is_address(text: str) -> bool:
    """Tell whether a text is the address of a server: a host, and words as its path."""
    found = _ADDRESS.fullmatch(text) if len(text) <= 2 * _LONGEST else None
    return found is not None and all(map(is_word, found[1].split("/")[1:]))


MOST_COUNTED = 10**15
"""The greatest number that counts."""


def counts_of(value: Value) -> Value:
    """Return the numbers of a usage under words.

    Dropped are texts, keys that are no words, and numbers that nobody can count with: prices are computed from them.
    """
    if is_mapping(value):
        kept = {key: counts_of(item) for key, item in value.items() if isinstance(key, str) and is_word(key)}
        return FrozenDict({key: item for key, item in kept.items() if item is not None})
    return value if isinstance(value, (int, float)) and abs(value) <= MOST_COUNTED else None


# Copies of an answer

TOKEN_KEYS = frozenset(
    {
        "avg_logprobs",
        "completion_token_ids",
        "logprobs",
        "logprobsResult",
        "logprobs_result",
        "output_token_ids",
        "prompt_logprobs",
        "prompt_token_ids",
        "token_ids",
        "tokens",
        "top_logprobs",
    }
)
"""The keys under which providers repeat an answer token by token."""

SEAL_KEYS = frozenset({"encrypted_content", "signature", "thoughtSignature", "thought_signature", "thought_signatures"})
"""The keys of what a provider has signed or encrypted of an answer: it holds for the answer as it was."""


def without_keys(value: Value, keys: frozenset[str]) -> Value:
    """Return a frozen JSON value without these keys, at any depth."""
    if is_mapping(value):
        return FrozenDict({key: without_keys(item, keys) for key, item in value.items() if key not in keys})
    return tuple([without_keys(item, keys) for item in value]) if is_items(value) else value


def without_repeats(metadata: Values) -> Values:
    """Return the metadata of an answer whose text was changed, without tokens and lists, which may spell it."""
    kept = {key: _without_lists(item) for key, item in metadata.items() if key not in TOKEN_KEYS}
    return FrozenDict({key: item for key, item in kept.items() if item is not None})


def _without_lists(value: Value) -> Value:
    if is_mapping(value):
        return without_repeats(value)
    return None if is_items(value) and any(item != "" for item in value) else value
