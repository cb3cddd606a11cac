"""What tokens cost: prices that users give, lists of them, and list prices."""

import sys
import threading
from decimal import Decimal

import pytest

from penstock import OptionError
from penstock.engine import MissingExtraError, Usage
from penstock.engine.values.frozen import FrozenDict
from penstock.processors.budgets import FREE, GenaiPrices, Price, PriceList, TokenCostControl, prices as price_module
from penstock.processors.budgets.prices import exact_amount, format_amount
from penstock.testing import run_stage

MILLION = 1_000_000


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        (Usage(MILLION, 0), "2"),
        (Usage(0, MILLION), "8"),
        (Usage(MILLION, 0, cached_tokens=MILLION // 2), "1.1"),
        (Usage(0, MILLION, reasoning_tokens=MILLION), "10"),
        (Usage(MILLION, 0, details=FrozenDict(cache_write_tokens=MILLION)), "2.5"),
        (Usage(MILLION, 0, details=FrozenDict(prompt_tokens_details=FrozenDict(cache_write_tokens=MILLION))), "2.5"),
        (Usage(None, None), "0"),
        (Usage(10, 0, cached_tokens=MILLION), "0.000002"),  # no provider has cached more than there is
    ],
)
def test_a_price_tells_what_tokens_cost(usage: Usage, cost: str) -> None:
    """Cached, written and thought tokens are among those of the prompt and of the answer."""
    assert Price(2, 8, cached=0.2, cache_write=2.5, reasoning=10).of(usage) == Decimal(cost)


def test_what_a_price_does_not_say_costs_what_it_is_part_of() -> None:
    """A thought costs what an answer does; and each request may cost something by itself."""
    usage = Usage(MILLION, MILLION, cached_tokens=MILLION, reasoning_tokens=MILLION, requests=3)
    assert Price(1, 2, request=0.1).of(usage) == Decimal("3.3")
    assert FREE.of(usage) == 0


def test_amounts_are_exact() -> None:
    """A tenth is a tenth."""
    assert Price(0.1, "0.2").of(Usage(3 * MILLION, 0)) == Decimal("0.3")
    assert [exact_amount(given) for given in (True, "nan", -1, float("inf"), "x", None)] == [None] * 6
    assert [format_amount(Decimal(given)) for given in ("0.30000000000000004", "2", "100", "0.0000001")] == [
        "0.3",
        "2",
        "100",
        "0",
    ]


@pytest.mark.parametrize("given", [-1, "much", float("nan"), True])
def test_a_price_that_cannot_be_is_refused(given: object) -> None:
    """As are lists with something else in them."""
    with pytest.raises(OptionError, match="output"):
        Price(1, given)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"prices\['m'\]"):
        PriceList({"m": given})  # type: ignore[dict-item]


def test_a_list_knows_models_by_name_and_by_stars() -> None:
    """Whole names first, then the longest; a slash and a colon behind a provider are the same."""
    prices = PriceList(
        {"ollama/*": FREE, "ollama/big*": Price(1, 1), "ollama/big-one": Price(2, 2), "a:m": Price(3, 3)}
    )
    usage = Usage(MILLION, 0)
    costs = [prices.cost(name, usage) for name in ("ollama/x", "ollama/big", "ollama:big-one", "a/m", "m")]
    assert costs == [0, 1, 2, 3, None]


def test_a_list_asks_another_about_what_is_not_listed() -> None:
    """And shows who that is."""
    prices = PriceList({"m": FREE}, otherwise=PriceList({"n": Price(1, 1)}))
    assert (prices.cost("n", Usage(MILLION, 0)), prices.cost("o", Usage(1, 1))) == (1, None)
    assert repr(prices) == "PriceList(1 models, otherwise=PriceList(1 models, otherwise=None))"
    assert prices == PriceList({"m": FREE}, otherwise=PriceList({"n": Price(1, 1)}))


def test_list_prices_are_found_by_provider_and_model() -> None:
    """However the provider is spelt; those of nobody's server, and of models that nobody knows, are not."""
    prices, usage = GenaiPrices(), Usage(MILLION, MILLION)
    known = ("openai/gpt-4o", "gpt-4o", "anthropic:claude-haiku-4-5", "gemini/gemini-2.5-pro", "xai/grok-4")
    assert all((prices.cost(name, usage) or 0) > 0 for name in known)
    assert prices.cost("openai/gpt-4o", Usage(MILLION, 0)) == Decimal("2.5")  # OpenAI's price list of 2024
    unknown = ("ollama/gpt-4o", "openai-compatible/gpt-4o", "openai/no-such-model", "scripted")
    assert [prices.cost(name, usage) for name in unknown] == [None] * 4


def test_a_budget_has_list_prices_unless_it_is_given_others() -> None:
    """Behind a mapping, too."""
    for prices in (None, {"m": FREE}):
        control = TokenCostControl(1, prices=prices)
        settings = {"max_tokens": 10}
        outcome = run_stage(control, "process_input_step", "hi", model="openai/gpt-4o", model_settings=settings)
        assert outcome.facts[control.standing]["estimate"] == pytest.approx(8 * 2.5e-6 + 10 * 10e-6)
    assert GenaiPrices() == GenaiPrices()
    assert (hash(GenaiPrices()), repr(GenaiPrices())) == (hash(GenaiPrices), "GenaiPrices()")


def test_cached_tokens_cost_less_by_list_prices() -> None:
    """More than the whole prompt cannot be cached."""
    prices = GenaiPrices()
    whole, cached = (prices.cost("openai/gpt-4o", Usage(1_000, 0, cached_tokens=count)) for count in (None, 5_000))
    assert cached == (whole or 0) / 2


def test_list_prices_come_without_the_network() -> None:
    """The library can fetch newer ones in a thread of its own: that is never begun."""
    prices = GenaiPrices()
    prices.prepare()
    price_module._join_threads()
    prices.cost("openai/gpt-4o", Usage(1, 1))
    from genai_prices import data_snapshot, wait_prices_updated_sync

    assert not data_snapshot.get_snapshot().from_auto_update
    assert not wait_prices_updated_sync(0)
    assert not [thread for thread in threading.enumerate() if "price" in thread.name]


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as list prices are wanted."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    monkeypatch.setattr(price_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"penstock\[prices\]"):
        GenaiPrices()
