"""``python -m tests.conformance.runtime``: plays every recorded scenario and prints the counts by file and by rule."""

from __future__ import annotations

import sys
from collections import Counter

import anyio

from tests.conformance.runtime import (
    configuration,
    failures,
    lifecycle,
    messages,
    parallels,
    retries,
    storing,
    streaming,
    streams_around,
    verdicts,
    workflows,
)
from tests.conformance.runtime.driver import World
from tests.conformance.runtime.frame import SCENARIOS, Finding, judge

_ = (configuration, failures, lifecycle, messages, parallels, retries, storing, streaming, streams_around, verdicts, workflows)


async def _all() -> list[Finding]:
    return [finding for file in sorted(SCENARIOS) for finding in await judge(SCENARIOS[file], World())]


def main() -> int:
    """Print the counts; return 1 if anything differs."""
    findings = anyio.run(_all)
    for file in sorted(SCENARIOS):
        kinds = Counter(one.kind for one in findings if one.file == file)
        print(f"{file}  {', '.join(f'{kind} {count}' for kind, count in sorted(kinds.items()))}")  # noqa: T201 - a report
    for rule, count in sorted(Counter(one.rule for one in findings if one.kind == "better").items()):
        print(f"better by {rule}: {count}")  # noqa: T201
    print("in all:", dict(Counter(one.kind for one in findings)))  # noqa: T201
    return int(not all(one.passed for one in findings))


if __name__ == "__main__":
    sys.exit(main())
