"""`PostgresLedger`: costs spent and reserved, in a PostgreSQL server. Each call is one function of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.engine.values.ledgers import UNSETTLED, Reservation
from penstock.stores.amounts import NAMES_KEPT, amount, limit_units, units, window_text
from penstock.stores.postgres._shared import value_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from decimal import Decimal

    from penstock.engine.values.frozen import Value
    from penstock.engine.values.ledgers import Window
    from penstock.stores.postgres._connections import PostgresDatabase, Session

_RESERVE = "SELECT * FROM {schema}.ledger_reserve($1, $2, $3, $4, $5, $6, $7)"
_SETTLE = "SELECT {schema}.ledger_settle($1, $2, $3, $4, $5, $6, $7)"
_RELEASE = "SELECT {schema}.ledger_release($1, $2, $3)"
_BREAKDOWN = """
    SELECT model, sum(amount)::bigint AS spent
    FROM {schema}.ledger_spent, {schema}.ledger_since($2, extract(epoch FROM now())::double precision) AS since
    WHERE key = $1 AND (since IS NULL OR start + width > since) GROUP BY model
"""


class PostgresLedger:
    """A `CostLedger` in a PostgreSQL server. Amounts are whole millionths; times are those of the server's clock.

    Its functions have no further effect when they are called again with the same names, so that a call whose answer
    was lost is repeated.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def reserve(
        self, key: str, holder: str, cost: Decimal, *, limit: Decimal | None, window: Window, lease: float
    ) -> Reservation:
        """Reserve an amount if it fits; see `CostLedger.reserve`."""
        args = (key, holder, units(cost), limit_units(limit), window_text(window), float(lease), UNSETTLED)

        async def work(session: Session) -> Value:
            return await session.row(_RESERVE, *args)

        found = await self._database.read(work)
        return Reservation(amount(found["spent"]), amount(found["held"]), found["granted"])

    async def settle(self, key: str, charge: str, model: str, cost: Decimal, *, holder: str | None = None) -> None:
        """Count an amount as spent, once, in place of a reservation; see `CostLedger.settle`."""
        await value_of(
            self._database, _SETTLE, key, charge, units(cost), model, holder or "", UNSETTLED, float(NAMES_KEPT)
        )

    async def release(self, key: str, holder: str) -> None:
        """Remove the reservation of a holder, if there is one; one whose lease has ended counts as spent."""
        await value_of(self._database, _RELEASE, key, holder, UNSETTLED)

    async def breakdown(self, key: str, window: Window = None) -> Mapping[str, Decimal]:
        """Return the amounts spent under a key within a window, by model."""

        async def work(session: Session) -> Value:
            return await session.rows(_BREAKDOWN, key, window_text(window))

        return {row["model"]: amount(row["spent"]) for row in await self._database.read(work)}
