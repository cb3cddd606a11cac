"""What the adapters add to the frameworks that are installed here; `benchmarks/hosts` has one file each."""

from __future__ import annotations

from harness import FLOOR, FULL, OURS, Effort, Row
from hosts.rounds import measured, names, pairs_of


class Hosts:
    """The scenario."""

    name = "hosts"

    @property
    def notes(self) -> list[str]:
        """The frameworks that are left out."""
        left = [name for name in names() if pairs_of(name) is None]
        return [f"hosts: not installed here, so left out: {', '.join(left)}"] if left else []

    def check(self) -> None:
        """Run each request once."""
        for name in names():
            for pair in (pairs_of(name) or {}).values():
                for request in pair:
                    request()

    def rows(self, effort: Effort) -> list[Row]:
        """Time each request beside the framework as it is."""
        rounds = 51 if effort == FULL else 5
        return [
            Row(self.name, f"{name}: {each.label}", "the framework alone", {FLOOR: each.bare, OURS: each.guarded}, None)
            for name in names()
            for each in measured(pairs_of(name) or {}, rounds)
        ]


SCENARIO = Hosts()
