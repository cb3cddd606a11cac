"""`Price`, `PriceTable` and `PriceList`: what tokens cost, as users say it; they know no model and no budget."""

from __future__ import annotations

from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Protocol, cast, runtime_checkable

from penstock.engine.values.errors import OptionError
from penstock.engine.values.frozen import is_mapping
from penstock.processors.budgets.money import NOTHING, amount

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from penstock.engine.values.model import Usage

_MILLION = 1_000_000
_WRITTEN = ("cache_write_tokens", "cache_creation_input_tokens")


@runtime_checkable
class PriceTable(Protocol):
    """Knows what models cost."""

    def cost(self, model: str, usage: Usage) -> Decimal | None:
        """Return what so many tokens of a model cost; None if it does not know the model's price.

        Args:
            model: the model's name as its `Model` tells it: ``openai/gpt-5``, ``anthropic:claude-haiku-4-5``.
            usage: the tokens; where a field is None the provider did not say, and it counts as 0.
        """
        ...


@dataclass(frozen=True, slots=True)
class Price:
    """What a model's tokens cost: amounts for a million tokens each, of 0 or more, in any currency.

    Numbers are taken as they are written: ``Price(0.15, 0.6)`` is exact.

    Attributes:
        input: a million tokens of the prompt.
        output: a million tokens of the answer.
        cached: a million tokens of the prompt that the provider's cache held; None: as ``input``.
        cache_write: a million that were written to it; None: as ``input``.
        reasoning: a million tokens of the answer that were reasoning; None: as ``output``.
        request: each request, whatever its tokens.

    Raises:
        OptionError: an amount is no number of 0 or more.
    """

    input: Decimal | float | str
    output: Decimal | float | str
    cached: Decimal | float | str | None = None
    cache_write: Decimal | float | str | None = None
    reasoning: Decimal | float | str | None = None
    request: Decimal | float | str = 0

    def __post_init__(self) -> None:
        """Make the amounts exact."""
        for field in fields(self):
            given: object = getattr(self, field.name)
            if given is None:
                continue
            made = amount(given)
            if made is None:
                raise OptionError("Price", field.name, given, "a number of 0 or more")
            object.__setattr__(self, field.name, made)

    def of(self, usage: Usage) -> Decimal:
        """Return what so many tokens cost."""
        asked, answered = usage.input_tokens or 0, usage.output_tokens or 0
        cached = min(usage.cached_tokens or 0, asked)
        written = min(cache_written(usage), asked - cached)
        thought = min(usage.reasoning_tokens or 0, answered)
        tokens = (
            (asked - cached - written) * self._exact("input")
            + cached * self._exact("cached", "input")
            + written * self._exact("cache_write", "input")
            + (answered - thought) * self._exact("output")
            + thought * self._exact("reasoning", "output")
        )
        return tokens / _MILLION + usage.requests * self._exact("request")

    def _exact(self, name: str, otherwise: str = "") -> Decimal:
        found: Decimal | None = getattr(self, name)
        return self._exact(otherwise) if found is None else found


def cache_written(usage: Usage) -> int:
    """Return how many tokens of the prompt were written to the provider's cache, as its details tell it."""
    details = usage.details
    nested = details.get("prompt_tokens_details")
    for place in (details, nested if is_mapping(nested) else {}):
        for name in _WRITTEN:
            count = place.get(name)
            if isinstance(count, int) and not isinstance(count, bool):
                return max(count, 0)
    return 0


class PriceList:
    """Prices by the names of models, as a `PriceTable`.

    Args:
        prices: the prices. A name may hold stars, ``ollama/*``; whole names go before those, longer ones before
            shorter. Whether a provider's name ends in a slash or a colon makes no difference.
        otherwise: who is asked about models that are not listed; nobody by default.

    Raises:
        OptionError: what is given for a name is no `Price`.
    """

    def __init__(self, prices: Mapping[str, Price], *, otherwise: PriceTable | None = None) -> None:
        for name, price in prices.items():
            if not isinstance(cast("object", price), Price):
                raise OptionError("PriceList", f"prices[{name!r}]", price, "a Price")
        self.prices = {_spelt(name): price for name, price in prices.items()}
        self.otherwise = otherwise
        self._patterns = sorted((name for name in self.prices if "*" in name), key=len, reverse=True)

    def cost(self, model: str, usage: Usage) -> Decimal | None:
        """Return what so many tokens of a model cost; None if nobody knows."""
        name = _spelt(model)
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
        """Show how many prices there are, and who is asked about others."""
        return f"PriceList({len(self.prices)} models, otherwise={self.otherwise!r})"


FREE = Price(NOTHING, NOTHING)
"""The price of what costs nothing: of models on one's own machine."""


def _spelt(name: str) -> str:
    """Return a model's name with a slash behind its provider."""
    head, colon, rest = name.partition(":")
    return f"{head}/{rest}" if colon and "/" not in head else name
