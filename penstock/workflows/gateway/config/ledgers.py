"""`ledger_of`: the shared ledger of a budget, which a gateway file names."""

from __future__ import annotations

from importlib import import_module

from penstock.engine.values.ledgers import CostLedger


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
