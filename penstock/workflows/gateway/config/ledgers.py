"""The stores that a gateway file names: shared ledgers, and what replicas share."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from penstock.engine.values.ledgers import CostLedger
from penstock.stores.shared import open_state

if TYPE_CHECKING:
    from penstock.engine.values.shared import SharedState
    from penstock.workflows.gateway.config.sections import BudgetSection, StateSection
    from penstock.workflows.gateway.secret import Secret


def ledger_of(reference: str) -> CostLedger:
    """Return the ledger that ``module:name`` says; a function or a class there is called.

    Raises:
        ImportError: there is no such module.
        AttributeError: it has no such name.
        TypeError: it is no ledger.
    """
    module, _, name = reference.partition(":")
    found = getattr(import_module(module), name)
    made = found() if callable(found) else found
    if not isinstance(made, CostLedger):
        raise TypeError(f"{reference} is no CostLedger")
    return made


def state_of(url: Secret, name: str) -> SharedState:
    """Return the state on a server. It connects at first use.

    Raises:
        OptionError: the address is not allowed; the error does not show it.
        MissingExtraError: the extra of the server is not installed.
    """
    return open_state(url.reveal(), name=name)


def ledger_place(budget: BudgetSection, state: StateSection | None) -> tuple[Secret, str] | str:
    """Return where a budget records costs: address and name of a state, ``module:name``, or ``memory``."""
    name = "penstock" if state is None else state.name
    if budget.ledger is None:
        return "memory" if state is None else (state.url, name)
    return budget.ledger if isinstance(budget.ledger, str) else (budget.ledger, name)
