"""``python -m tests.conformance.runtime [CARRIER]``: plays each recorded scenario; prints counts by file and rule."""

from __future__ import annotations

import sys
from collections import Counter

import anyio

from tests.conformance.runtime.carriers import CARRIERS, Carrier
from tests.conformance.runtime.driver import World
from tests.conformance.runtime.frame import SCENARIOS, Finding, judge
from tests.conformance.runtime.scenarios import SCENARIO_MODULES

_ = SCENARIO_MODULES  # their import has entered them


async def _all(carrier: Carrier) -> list[Finding]:
    return [finding for file in sorted(SCENARIOS) for finding in await judge(SCENARIOS[file], World(carrier))]


def main() -> int:
    """Print the counts; return 1 if anything differs."""
    carrier = next((name for name in CARRIERS if name in sys.argv[1:]), "direct")
    findings = anyio.run(_all, carrier)
    for file in sorted(SCENARIOS):
        kinds = Counter(one.kind for one in findings if one.file == file)
        print(f"{file}  {', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items()))}")  # noqa: T201 - a report
    for rule, count in sorted(Counter(one.rule for one in findings if one.kind == "better").items()):
        print(f"better by {rule}: {count}")  # noqa: T201
    print("in all:", dict(Counter(one.kind for one in findings)))  # noqa: T201
    return int(not all(one.passed for one in findings))


if __name__ == "__main__":
    sys.exit(main())
