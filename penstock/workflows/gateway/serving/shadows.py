"""`ShadowVerdicts`: what the shadow policies of one request would have done."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.engine.values.tripwire import Record

_WORSE = ("passed", "edited", "failed", "blocked")


class ShadowVerdicts:
    """An observer of one request, which keeps the worst verdict of each of its shadow policies.

    Args:
        names: the names of the policies in the gateway file, by the ids of their workflows in the one that runs.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._found: dict[str, str] = {}

    def on_record(self, record: Record) -> None:
        """Take over the record of a step, if it is one of a shadow policy that ran."""
        name = self._names.get(record.step.partition("/")[0])
        if name is None or record.status == "skipped":
            return
        status = record.status if record.tripwire is None else "blocked"
        if _WORSE.index(status) >= _WORSE.index(self._found.get(name, "passed")):
            self._found[name] = status

    @property
    def found(self) -> Mapping[str, str]:
        """What each policy of which a step ran would have done: ``passed``, ``edited``, ``failed`` or ``blocked``."""
        return self._found
