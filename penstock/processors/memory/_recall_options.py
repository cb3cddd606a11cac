"""The options of `SemanticRecall`, checked. It knows no conversation."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, cast

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import Value, is_items, is_mapping
from penstock.engine.values.ports import Embedder, VectorStore
from penstock.models.embedders.cached import CachedEmbedder
from penstock.models.embedders.hashing import HashingEmbedder
from penstock.models.embedders.indexes import index_name
from penstock.processors.memory.ranking import RecallRanking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_OWNER = "SemanticRecall"
_MOST_HITS = 100
_MOST_NEIGHBOURS = 50


class Neighbours(NamedTuple):
    """How many messages before and after each that is found come with it."""

    before: int
    after: int


MessageRange: TypeAlias = "int | tuple[int, int] | Mapping[str, int]"
"""How many neighbours: as many on both sides, ``(before, after)``, or ``{"before": 1, "after": 2}``."""


Threshold: TypeAlias = "float | Literal['auto'] | None"
"""The least likeness; ``auto``: the embedder's own, if it has one; None: any."""

KeepInput = Literal["accepted", "answered"]
"""When the input is indexed: once its own guards have let it pass, or only together with an accepted answer."""

ReadOnly: TypeAlias = "bool | Callable[[dict[str, Value]], bool]"
"""Whether nothing is indexed; or a function of the request context that tells."""


def neighbours(given: object) -> Neighbours:
    """Return the option as two numbers.

    Raises:
        OptionError: it is none of the allowed.
    """
    allowed = f"a number from 0 to {_MOST_NEIGHBOURS}, (before, after), or {{'before': 1, 'after': 1}}"
    found: tuple[Value, ...] = ()
    if is_mapping(given) and given and set(given) <= {"before", "after"}:
        found = (given.get("before", 0), given.get("after", 0))
    elif is_items(given):
        found = tuple(given)
    elif not is_mapping(given):
        found = (given, given)
    if len(found) != 2 or not all(type(number) is int and 0 <= number <= _MOST_NEIGHBOURS for number in found):  # noqa: PLR2004 - before and after
        raise OptionError(_OWNER, "message_range", given, allowed)
    return Neighbours(*found)


def count(option: str, given: object, most: int = _MOST_HITS) -> int:
    """Return the option if it is a number from 1 on.

    Raises:
        OptionError: it is not.
    """
    if type(given) is not int or not 1 <= given <= most:
        raise OptionError(_OWNER, option, given, f"a number from 1 to {most:,}")
    return given


def share(option: str, given: object, allowed: str, most: float = math.inf) -> float | None:
    """Return the option if it is a finite number, ``most`` at most, or None.

    Raises:
        OptionError: it is not.
    """
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not math.isfinite(given) or given > most:
        raise OptionError(_OWNER, option, given, allowed)
    return float(given)


def threshold_of(given: object, embedder: Embedder) -> float | None:
    """Return the least likeness that counts; None: any.

    Raises:
        OptionError: it is no such number.
    """
    if given == "auto":
        return share("threshold", getattr(embedder, "threshold", None), "a number from the embedder")
    return share("threshold", given, "a finite number (cosines go from -1 to 1), 'auto', or None")


def checked_ranking(given: object) -> RecallRanking | None:
    """Return the option if it is a ranking, or None.

    Raises:
        OptionError: it is not.
    """
    if given is not None and not isinstance(given, RecallRanking):
        raise OptionError(_OWNER, "ranking", given, "a RecallRanking, or None")
    return given


def checked_read_only(given: ReadOnly) -> ReadOnly:
    """Return the option if it is a bool or a function.

    Raises:
        OptionError: it is neither.
    """
    if not isinstance(given, bool) and not callable(cast("object", given)):
        raise OptionError(_OWNER, "read_only", given, "True, False, or a function of the request context")
    return given


def embedder_of(given: object) -> Embedder:
    """Return the embedder to ask: with a cache, unless it has one or hardly needs one.

    Raises:
        OptionError: it is none.
    """
    if given is None:
        return HashingEmbedder()
    if isinstance(given, type) or not isinstance(given, Embedder):
        raise OptionError(_OWNER, "embedder", given, "an Embedder, or None for a HashingEmbedder")
    return given if isinstance(given, (CachedEmbedder, HashingEmbedder)) else CachedEmbedder(given)


def vectors_of(given: object, storage: object) -> VectorStore:
    """Return where the vectors are: the store of the messages, if that keeps vectors too.

    Raises:
        OptionError: neither keeps vectors.
    """
    found = storage if given is None else given
    if isinstance(found, type) or not isinstance(found, VectorStore):
        allowed = "a VectorStore; it may be left out where the storage is one"
        raise OptionError(_OWNER, "vectors", type(found).__name__, allowed)
    return found


def index_of(given: object, embedder: Embedder) -> str:
    """Return the name of the index; by default one for the embedder's vectors alone.

    Raises:
        OptionError: it is no name.
    """
    if given is None:
        return index_name(cast("str | None", getattr(embedder, "name", None)))
    if not isinstance(given, str) or not given.strip():
        raise OptionError(_OWNER, "index_name", given, "the name of an index, or None")
    return given
