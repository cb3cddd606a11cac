"""`Book`: what several cost controls of one run must not do twice; it knows no money.

Controls of one run may share a ledger, and there an account: each spend is entered there once, and what is set aside
for the call at hand is one amount.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from penstock.engine.values.ports import RANDOM_IDS

if TYPE_CHECKING:
    from penstock.engine.values.usage import UsageEntry
    from penstock.processors.budgets.cost_ledger import CostLedger


class Book:
    """What was entered for one run, and where. Lives as long as the states of the controls that share it.

    Attributes:
        holder: under which name the run sets aside.
    """

    def __init__(self) -> None:
        self.holder = RANDOM_IDS.next()
        self._entered: dict[tuple[int, str, int], tuple[CostLedger, UsageEntry]] = {}

    def once(self, ledger: CostLedger, key: str, spend: UsageEntry) -> bool:
        """Tell whether a spend was not yet entered there, and note that it is now.

        Spends are told apart by identity: equal ones are two, and runs that share an id do not share those.
        """
        place = (id(ledger), key, id(spend))
        with _lock:
            if place in self._entered:
                return False
            self._entered[place] = (ledger, spend)  # kept, so that the ids stay theirs
            return True


_lock = Lock()
_books: WeakValueDictionary[str, Book] = WeakValueDictionary()


def book_of(run_id: str) -> Book:
    """Return the book of a run, the same for all that ask while somebody keeps it."""
    with _lock:
        found = _books.get(run_id)
        if found is None:
            found = _books[run_id] = Book()
        return found
