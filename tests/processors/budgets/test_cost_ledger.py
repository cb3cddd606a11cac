"""What was spent, and what is set aside: the ledger of one process."""

import copy
import logging
import pickle
from datetime import timedelta
from decimal import Decimal
from itertools import count
from threading import Thread

import pytest

from penstock import OptionError
from penstock.engine.values.ledgers import UNSETTLED
from penstock.processors.budgets import CostLedger, InMemoryLedger, Reservation, fits
from penstock.testing import VirtualClock

CHARGES = count()


def reserve(ledger: InMemoryLedger, cost: str, holder: str = "a", *, limit: str | None = "1") -> Reservation:
    """Set aside an amount for ten minutes."""
    bound = None if limit is None else Decimal(limit)
    return ledger.reserve("k", holder, Decimal(cost), limit=bound, window=None, lease=600)


def spend(ledger: InMemoryLedger, cost: str | int, key: str = "k", model: str = "m", **how: str) -> None:
    """Enter an amount under a name of its own."""
    ledger.settle(key, how.pop("charge", f"c{next(CHARGES)}"), model, Decimal(cost), **how)


def test_it_is_a_ledger() -> None:
    """As the protocol has it."""
    assert isinstance(InMemoryLedger(), CostLedger)


def test_it_knows_what_was_spent_by_key_and_model() -> None:
    """To the digit."""
    ledger = InMemoryLedger()
    for _ in range(10):
        spend(ledger, "0.1")
    spend(ledger, 2, model="n")
    spend(ledger, 5, "other")
    assert (ledger.total("k"), ledger.breakdown("k")) == (3, {"m": 1, "n": 2})
    assert (ledger.total("nobody"), ledger.breakdown("nobody")) == (0, {})


@pytest.mark.parametrize(
    ("ago", "since", "counts"),
    [
        (timedelta(minutes=59), timedelta(hours=1), True),
        (timedelta(minutes=62), timedelta(hours=1), False),
        (timedelta(hours=23), timedelta(hours=24), True),
        (timedelta(hours=26), timedelta(hours=24), False),
        (timedelta(days=29), timedelta(days=30), True),
        (timedelta(days=32), timedelta(days=30), False),
        (timedelta(days=364), timedelta(days=365), True),
        (timedelta(days=500), timedelta(days=365), False),
    ],
)
def test_a_window_counts_what_lies_in_it(ago: timedelta, since: timedelta, counts: bool) -> None:
    """Whatever was spent since, so that old amounts have moved into wider buckets."""
    clock = VirtualClock()
    clock.advance(43_200 + 1_830)
    ledger = InMemoryLedger(clock=clock)
    for _ in range(20):
        spend(ledger, 1)
    clock.advance((ago - timedelta(minutes=20)).total_seconds())
    for _ in range(20):
        clock.advance(60)
        spend(ledger, 0)
    assert ledger.total("k", since) == (20 if counts else 0)
    assert ledger.total("k") == 20


def test_what_lies_at_the_edge_of_a_window_counts() -> None:
    """Buckets count whole, so never less than what was spent is told."""
    clock = VirtualClock()
    clock.advance(30)
    ledger = InMemoryLedger(clock=clock)
    spend(ledger, 1)
    clock.advance(80)
    assert ledger.total("k", timedelta(seconds=60)) == 1
    assert ledger.total("k", timedelta(seconds=50)) == 0


@pytest.mark.rest
def test_its_memory_is_bounded_however_long_it_counts() -> None:
    """Of two years by the quarter of an hour, the minutes of 8 hours, the hours of 8 days and 401 days are left."""
    clock = VirtualClock()
    ledger = InMemoryLedger(clock=clock)
    for _ in range(730 * 96):
        clock.advance(900)
        spend(ledger, 1)
    minutes, hours, days = ledger._keys["k"].models["m"]._levels
    assert len(minutes) <= 33
    assert len(hours) <= 194
    assert len(days) <= 402
    assert ledger.total("k") == 730 * 96
    assert 7 * 96 <= ledger.total("k", "7d") <= 7 * 96 + 4


@pytest.mark.parametrize(
    ("spent", "held", "cost", "limit", "granted"),
    [
        ("0", "0", "1", "1", True),
        ("0", "0", "1.01", "1", False),
        ("0.5", "0.4", "0.1", "1", True),
        ("0.5", "0.4", "0.2", "1", False),
        ("1", "0", "0", "1", False),
        ("0.9", "0.1", "0", "1", False),
        ("0", "0", "0", "0", False),
        ("5", "5", "5", None, True),
    ],
)
def test_an_amount_fits_up_to_the_limit(spent: str, held: str, cost: str, limit: str | None, granted: bool) -> None:
    """A limit that is reached lets nothing through, not even what costs nothing."""
    ledger = InMemoryLedger()
    spend(ledger, spent)
    assert reserve(ledger, held, "b", limit=None).granted
    found = reserve(ledger, cost, limit=limit)
    assert found == Reservation(Decimal(spent), Decimal(held), granted)
    bound = None if limit is None else Decimal(limit)
    assert fits(Decimal(spent), Decimal(held), Decimal(cost), bound) is granted


def test_what_a_holder_sets_aside_replaces_what_it_had() -> None:
    """And one that does not get it has nothing any more."""
    ledger = InMemoryLedger()
    assert reserve(ledger, "0.9").granted
    assert reserve(ledger, "1").granted
    assert not reserve(ledger, "1.1").granted
    assert reserve(ledger, "1", "b") == Reservation(Decimal(0), Decimal(0), granted=True)


def test_what_is_given_back_is_free_again() -> None:
    """At once, twice if need be."""
    ledger = InMemoryLedger()
    reserve(ledger, "1", "b")
    ledger.release("k", "b")
    ledger.release("k", "b")
    assert ledger.keys == ()
    assert reserve(ledger, "1").granted


def test_what_nobody_comes_for_counts_as_spent() -> None:
    """Its holder may be dead, and may have spent it before."""
    clock = VirtualClock()
    ledger = InMemoryLedger(clock=clock)
    reserve(ledger, "0.6")
    clock.advance(600)
    assert reserve(ledger, "0.4", "b") == Reservation(Decimal("0.6"), Decimal(0), granted=True)
    ledger.release("k", "a")
    assert ledger.breakdown("k") == {UNSETTLED: Decimal("0.6")}


@pytest.mark.parametrize(("actual", "total"), [("0.5", "0.6"), ("0.7", "0.7")])
def test_what_is_settled_late_counts_at_least_as_it_was_reserved(actual: str, total: str) -> None:
    """Others may have relied on either figure."""
    clock = VirtualClock()
    ledger = InMemoryLedger(clock=clock)
    reserve(ledger, "0.6")
    clock.advance(601)
    spend(ledger, actual, holder="a")
    assert ledger.total("k") == Decimal(total)


def test_an_amount_is_settled_once_and_in_place_of_what_was_reserved() -> None:
    """However often it is told."""
    ledger = InMemoryLedger()
    for _ in range(3):
        reserve(ledger, "0.6")
        spend(ledger, "0.1", holder="a", charge="c")
        ledger.release("k", "a")
    assert reserve(ledger, "0.9", "b") == Reservation(Decimal("0.1"), Decimal(0), granted=True)


def test_the_keys_that_were_not_used_for_longest_are_forgotten(caplog: pytest.LogCaptureFixture) -> None:
    """Which is logged once."""
    ledger = InMemoryLedger(most_keys=2)
    with caplog.at_level(logging.WARNING):
        for key in ("a", "b", "a", "c", "d"):
            spend(ledger, 1, key)
    assert (ledger.keys, len(caplog.records)) == (("c", "d"), 1)
    assert repr(ledger) == "InMemoryLedger(2 of 2 keys)"


def test_threads_at_once_lose_nothing_and_get_no_more_than_there_is() -> None:
    """Each sets aside, enters and gives back; what is granted never exceeds the limit."""
    ledger = InMemoryLedger()
    granted: list[int] = []

    def work(number: int) -> None:
        for round_ in range(200):
            if reserve(ledger, "0.01", f"{number}-{round_}").granted:
                spend(ledger, "0.01", holder=f"{number}-{round_}")
                granted.append(1)

    threads = [Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (sum(granted), ledger.total("k")) == (100, 1)


def test_it_can_be_copied_and_pickled() -> None:
    """With what it holds; what is entered in the copy is not in it."""
    ledger = InMemoryLedger()
    spend(ledger, 1)
    for other in (pickle.loads(pickle.dumps(ledger)), copy.deepcopy(ledger)):  # noqa: S301 - our own
        spend(other, 1)
        assert (other.total("k"), ledger.total("k")) == (2, 1)


@pytest.mark.parametrize("most", [0, -1, 1.5, True])
def test_a_number_of_keys_that_cannot_be_is_refused(most: object) -> None:
    """With its name."""
    with pytest.raises(OptionError, match="most_keys"):
        InMemoryLedger(most_keys=most)  # type: ignore[arg-type]
