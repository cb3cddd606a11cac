"""What tokens cost: prices that users give, list prices of the library genai-prices, and models without a known price.

genai-prices brings its data along. It can also fetch newer data over the network; penstock never starts that. If the
application does (``genai_prices.UpdatePrices``), the newer prices are used here too.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase
from threading import Thread
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, cast, runtime_checkable

from penstock.detection.deferred import deferred
from penstock.engine.values.errors import MissingExtraError, OptionError, UsageError
from penstock.engine.values.frozen import is_mapping

if TYPE_CHECKING:
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.model import Usage
    from penstock.processors.budgets.call_estimates import CallEstimate


NOTHING = Decimal(0)

_DIGITS = 6  # decimal places that are shown: a token costs about a millionth of a dollar


def exact_amount(given: object) -> Decimal | None:
    """Return a number of 0 or more as an exact amount, a float as it is written; None for anything else."""
    if isinstance(given, bool) or not isinstance(given, (int, float, str, Decimal)):
        return None
    try:
        made = Decimal(str(given))
    except InvalidOperation:
        return None
    return made if made.is_finite() and made >= 0 else None


def format_amount(money: Decimal) -> str:
    """Return an amount as text, with at most six decimal places."""
    return f"{round(money, _DIGITS):f}".rstrip("0").rstrip(".") if money % 1 else f"{money:.0f}"


_MILLION = 1_000_000
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens")


@runtime_checkable
class PriceTable(Protocol):
    """Looks up the price of model calls."""

    def cost(self, model: str, usage: Usage) -> Decimal | None:
        """Return the cost of a usage, 0 or more; None if the price of the model is unknown.

        Args:
            model: the ``name`` of the `Model`: ``openai/gpt-5``, ``anthropic:claude-haiku-4-5``.
            usage: the tokens. None in a field means that the provider did not report it; count it as 0.
        """
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """The price of a model's tokens: amounts of 0 or more per million tokens, in any currency.

    Numbers are taken as they are written: ``Price(0.15, 0.6)`` is exact.

    Attributes:
        input: per million tokens of the prompt.
        output: per million tokens of the answer.
        cached: per million tokens of the prompt that were read from the provider's cache; None: as ``input``.
        cache_write: per million tokens that were written to the provider's cache; None: as ``input``.
        reasoning: per million tokens of the answer that were reasoning; None: as ``output``.
        request: per request, in addition to its tokens.

    Raises:
        OptionError: an amount is not a number of 0 or more.
    """

    input: Decimal | float | str
    output: Decimal | float | str
    cached: Decimal | float | str | None = None
    cache_write: Decimal | float | str | None = None
    reasoning: Decimal | float | str | None = None
    request: Decimal | float | str = 0

    def __post_init__(self) -> None:
        """Convert the amounts to Decimal."""
        for own in fields(self):
            given: object = getattr(self, own.name)
            if given is None:
                continue
            made = exact_amount(given)
            if made is None:
                raise OptionError("Price", own.name, given, "a number of 0 or more")
            object.__setattr__(self, own.name, made)

    def of(self, usage: Usage) -> Decimal:
        """Return the cost of a usage."""
        asked, answered = usage.input_tokens or 0, usage.output_tokens or 0
        cached = min(usage.cached_tokens or 0, asked)
        written = min(cache_written(usage), asked - cached)
        reasoning = min(usage.reasoning_tokens or 0, answered)
        tokens = (
            (asked - cached - written) * self._exact("input")
            + cached * self._exact("cached", "input")
            + written * self._exact("cache_write", "input")
            + (answered - reasoning) * self._exact("output")
            + reasoning * self._exact("reasoning", "output")
        )
        return tokens / _MILLION + usage.requests * self._exact("request")

    def _exact(self, name: str, otherwise: str = "") -> Decimal:
        found: Decimal | None = getattr(self, name)
        return self._exact(otherwise) if found is None else found


_COUNTS = ("input_tokens", "output_tokens", "cached_tokens", "reasoning_tokens", "requests")


def counted(model: str, usage: Usage) -> Usage:
    """Return a usage with whole numbers; some providers report whole numbers as floats.

    Raises:
        UsageError: a number is negative, not a number, or not whole: its cost would be a guess.
    """
    changed: dict[str, Value] = {}
    for name in _COUNTS:
        given: object = getattr(usage, name)
        if given is None or (type(given) is int and given >= 0):
            continue
        if not isinstance(given, float) or not given.is_integer() or given < 0:
            shown = given if isinstance(given, (int, float)) else type(given).__name__
            raise UsageError(f"the usage of the model {model!r} is wrong: {name} must be 0 or more, but is {shown}")
        changed[name] = int(given)
    return replace(usage, **changed) if changed else usage


def cache_written(usage: Usage) -> int:
    """Return how many tokens of the prompt were written to the provider's cache, according to ``usage.details``."""
    details = usage.details
    nested = details.get("prompt_tokens_details")
    for place in (details, nested if is_mapping(nested) else {}):
        for name in _WRITTEN:
            count = place.get(name)
            if isinstance(count, int) and not isinstance(count, bool):
                return max(count, 0)
    return 0


class PriceList:
    """A `PriceTable` of prices by model name.

    Args:
        prices: the prices by model name. A name may hold wildcards, as in ``ollama/*``; exact names are tried first,
            then longer patterns before shorter ones. ``provider/model`` and ``provider:model`` are the same name.
        otherwise: the table for models that are not listed; None: their price is unknown.

    Raises:
        OptionError: a value is not a `Price`.
    """

    def __init__(self, prices: Mapping[str, Price], *, otherwise: PriceTable | None = None) -> None:
        for name, price in prices.items():
            if not isinstance(cast("object", price), Price):
                raise OptionError("PriceList", f"prices[{name!r}]", price, "a Price")
        self.prices = {_normal_name(name): price for name, price in prices.items()}
        self.otherwise = otherwise
        self._patterns = sorted((name for name in self.prices if "*" in name), key=len, reverse=True)

    def cost(self, model: str, usage: Usage) -> Decimal | None:
        """Return the cost of a usage; None if the price of the model is unknown."""
        name = _normal_name(model)
        found = self.prices.get(name) or next(
            (self.prices[pattern] for pattern in self._patterns if fnmatchcase(name, pattern)), None
        )
        if found is not None:
            return found.of(usage)
        return None if self.otherwise is None else self.otherwise.cost(model, usage)

    def __eq__(self, other: object) -> bool:
        """Tell whether both list the same."""
        return isinstance(other, PriceList) and (self.prices, self.otherwise) == (other.prices, other.otherwise)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Show the number of prices, and the table for other models."""
        return f"PriceList({len(self.prices)} models, otherwise={self.otherwise!r})"


FREE = Price(NOTHING, NOTHING)
"""The price of models that cost nothing, such as local ones."""


def _normal_name(name: str) -> str:
    """Return the name of a model with a slash after its provider."""
    head, colon, rest = name.partition(":")
    return f"{head}/{rest}" if colon and "/" not in head else name


_NAMES = {"gemini": "google", "bedrock": "aws", "grok": "x-ai", "google-gla": "google", "google-vertex": "google"}
_NOBODY = frozenset({"openai-compatible"})  # may be any server; the library would take it for OpenAI


class GenaiPrices:
    """The list prices of the library genai-prices (extra ``prices``), in US dollars, as a `PriceTable`.

    A price is looked up by provider and model (``openai/gpt-5``, ``anthropic:claude-haiku-4-5``), or by the model
    alone. Discounts, also those for batches, are not included.

    Raises:
        MissingExtraError: the library is not installed.
    """

    def __init__(self) -> None:
        if not installed():
            raise MissingExtraError("a table of list prices", "prices")

    def cost(self, model: str, usage: Usage) -> Decimal | None:
        """Return the cost of a usage in US dollars; None if the library does not know the price of the model."""
        from genai_prices import (
            Usage as Counts,  # loading it takes half a second, once per process
            calc_price,
        )

        asked = usage.input_tokens or 0
        cached = min(usage.cached_tokens or 0, asked)
        written = min(cache_written(usage), asked - cached)
        counts = Counts(
            input_tokens=asked,
            output_tokens=usage.output_tokens or 0,
            cache_read_tokens=cached or None,
            cache_write_tokens=written or None,
        )
        provider, name = provider_and_model(model)
        if provider in _NOBODY:
            return None
        try:
            return calc_price(counts, name, provider_id=provider).total_price
        except (LookupError, ValueError):  # unknown model, or tokens without a price
            return None

    def prepare(self) -> None:
        """Start to load the library in a thread, so that the first lookup is faster."""
        if not _threads:
            _threads.append(Thread(target=_load, name="penstock-prices", daemon=True))
            _threads[0].start()

    def __eq__(self, other: object) -> bool:
        """Tell whether the other is a `GenaiPrices` too: there is only one list."""
        return isinstance(other, GenaiPrices)

    def __hash__(self) -> int:
        """Hash by the class."""
        return hash(GenaiPrices)

    def __repr__(self) -> str:
        """Show the class."""
        return "GenaiPrices()"


def installed() -> bool:
    """Tell whether genai-prices is installed, without loading it."""
    return importlib.util.find_spec("genai_prices") is not None


def provider_and_model(name: str) -> tuple[str | None, str]:
    """Split a name into the provider, as genai-prices calls it (None if there is none), and the model."""
    found = _PROVIDER.match(name)
    if found is None:
        return None, name
    provider = found[1].lower()
    return _NAMES.get(provider, provider), found[2]


_PROVIDER = deferred(r"([^/:]+)[/:](.+)", re.DOTALL)
_threads: list[Thread] = []


def _load() -> None:
    with suppress(Exception):  # the first lookup raises the same error to its caller
        from genai_prices.data_snapshot import get_snapshot

        get_snapshot()


def _join_threads() -> None:
    """Wait for the thread before a fork: a child process would wait forever for a lock of an unfinished import."""
    for thread in _threads:
        thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_join_threads)


_LOG = logging.getLogger("penstock")

OnUnknownPrice = Literal["error", "ignore", "assume"]
GivenPrices: TypeAlias = "PriceTable | Mapping[str, Price] | None"


@dataclass(frozen=True, slots=True)
class Pricing:
    """The cost of model calls according to a processor's options. Lives as long as the processor.

    Attributes:
        table: looks up prices.
        on_unknown: what to do with a model whose price is unknown: ``error``, ``ignore`` or ``assume``.
        assumed: the price for ``assume``.
    """

    table: PriceTable
    on_unknown: str
    assumed: Price | None
    _warned: set[str] = field(default_factory=set[str], compare=False, repr=False)

    def cost_of(self, model: str, usage: Usage | None) -> Decimal:
        """Return the cost of a call that has ended; see `cost`. Without a usage it is unknown.

        Raises:
            UsageError: it is unknown, unless ``on_unknown`` is ``ignore``.
        """
        if usage is not None:
            return self.cost(model, usage)
        if self.on_unknown == "ignore":
            return self._nothing(model, "reports no usage")
        raise UsageError(
            f"nobody reported how many tokens the model {model!r} took: let its client report them, or pass "
            "on_unknown_price='ignore'"
        )

    def cost(self, model: str, usage: Usage) -> Decimal:
        """Return the cost of a usage.

        Raises:
            UsageError: the price is unknown and ``on_unknown`` is ``error``; or the table returned no valid amount; or
                a number of tokens is not a whole number of 0 or more.
        """
        usage = counted(model, usage)
        given: object = self.table.cost(model, usage)
        if given is None:
            return self._unknown(model, usage)
        made = exact_amount(given)
        if made is None:
            raise UsageError(f"the price table must return a number of 0 or more, or None, for {model!r}")
        return made

    def of(self, estimate: CallEstimate) -> Decimal:
        """Return the cost of an estimated call; without a model name, that of the assumed price, or 0."""
        if estimate.model is not None:
            return self.cost(estimate.model, estimate.usage)
        return NOTHING if self.assumed is None else self.assumed.of(estimate.usage)

    def prepare(self) -> None:
        """Start to load list prices, if they are used."""
        table = self.table.otherwise if isinstance(self.table, PriceList) else self.table
        if isinstance(table, GenaiPrices):
            table.prepare()

    def _unknown(self, model: str, usage: Usage) -> Decimal:
        if self.on_unknown == "error":
            raise UsageError(
                f"the price of the model {model!r} is unknown: pass prices={{{model!r}: Price(...)}}, or "
                "on_unknown_price='ignore' or 'assume'"
            )
        if self.assumed is not None:
            return self.assumed.of(usage)
        return self._nothing(model, "has no known price")

    def _nothing(self, model: str, why: str) -> Decimal:
        """Return 0, and log why, once for each model."""
        if model not in self._warned:
            self._warned.add(model)
            _LOG.warning("the model %r %s; its usage counts as free (logged once)", model, why)
        return NOTHING


def pricing(owner: str, prices: object, on_unknown: str, assumed: object) -> Pricing:
    """Check the options about prices, and return the `Pricing`.

    Raises:
        OptionError: an option has a value that is not allowed.
        MissingExtraError: list prices are needed, and the extra ``prices`` is not installed.
    """
    if assumed is not None and not isinstance(assumed, Price):
        raise OptionError(owner, "assumed_price", assumed, "a Price")
    if (on_unknown == "assume") != (assumed is not None):
        raise OptionError(owner, "assumed_price", assumed, "a Price if on_unknown_price='assume', otherwise None")
    return Pricing(_table(owner, prices), on_unknown, assumed)


def _table(owner: str, prices: object) -> PriceTable:
    if prices is None:
        return GenaiPrices()
    if isinstance(prices, Mapping):
        listed = cast("Mapping[str, Price]", prices)
        return PriceList(listed, otherwise=GenaiPrices() if installed() else None)
    if isinstance(prices, PriceTable):
        return prices
    raise OptionError(
        owner, "prices", prices, "a mapping from model names to Price, or an object with cost(model, usage)"
    )
