"""Writes what held in each framework into docs/hosts.md: ``python -m tests.hosts.table``, from results.json."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from penstock.engine.processor.stages import STAGES
from tests.hosts import cases, hard_cases  # noqa: F401 - adds its cases
from tests.hosts.plugin import LACKS

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
PAGE = HERE.parents[1] / "docs" / "hosts.md"
BEGIN, END = "<!-- {name}: written by `make hosts` -->", "<!-- end of {name} -->"

Results = Mapping[str, Mapping[str, Any]]
"""What held, by the driver of the framework and by the release."""


def read() -> Results:
    """Return the results as they are stored."""
    found: Results = json.loads(RESULTS.read_text("utf-8"))
    return found


def tables(results: Results) -> dict[str, str]:
    """Return each table by the name of its place in the page."""
    return {
        "versions": versions(results),
        "stages": stages(results),
        "cases": held(results),
        "not offered": notes(results),
    }


def versions(results: Results) -> str:
    """Return the releases that the suite ran in."""
    rows = [
        [_title(ran), f"`{_any(ran)['package']}`", *(ran[name]["version"] if name in ran else "–" for name in RELEASES)]
        for ran in results.values()
    ]
    return _table(["framework", "distribution", "lowest", "newest"], rows)


def stages(results: Results) -> str:
    """Return which stages each function of an adapter offers."""
    offered = {name: each for ran in results.values() for name, each in _any(ran)["stages"].items()}
    rows = [
        [f"`{stage}`", *("yes" if stage in each["stages"] else "–" for each in offered.values())] for stage in STAGES
    ]
    rows.append(["an answer is requested again", *("yes" if each["retries"] else "–" for each in offered.values())])
    return _table(["stage", *(f"`{name}`" for name in offered)], rows)


def held(results: Results) -> str:
    """Return what held, case by case."""
    rows = []
    for case in cases.CASES:
        name = f"{case} *" if case in cases.LEAKS else case
        rows.append([name, *(cell(ran, case) for ran in results.values())])
    return _table(["case", *map(_title, results.values())], rows)


def cell(ran: Mapping[str, Any], case: str) -> str:
    """Return how a case ended in a framework, all releases and both ways taken together."""
    ended = {(release, way): said for release, each in ran.items() for way, said in each["cases"].get(case, {}).items()}
    if not ended:
        return "not run"
    failed = [" ".join(where) for where, said in ended.items() if said == "no"]
    if failed:
        return f"**no** ({', '.join(failed)})"
    lacking = {way for (_, way), said in ended.items() if said.startswith(LACKS)}
    ways = [way for _, way in ended]
    if lacking == set(ways):
        return "not offered"
    return f"yes; not offered {' and '.join(sorted(lacking))}" if lacking else "yes"


def notes(results: Results) -> str:
    """Return why a framework does not offer a case."""
    lines = [f"- {_title(ran)}, {where}: {why}" for ran in results.values() for where, why in _lacking(ran)]
    return "\n".join(lines) if lines else "Each framework offers each case."


def _lacking(ran: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for case in cases.CASES:
        ways = {
            way: said.removeprefix(LACKS)
            for each in ran.values()
            for way, said in each["cases"].get(case, {}).items()
            if said.startswith(LACKS)
        }
        if len(ways) > 1 and len(set(ways.values())) == 1:
            yield f"*{case}*", next(iter(ways.values()))
        else:
            yield from ((f"*{case}*, {way}", why) for way, why in sorted(ways.items()))


RELEASES = ("lowest", "newest")


def _any(ran: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return one release, the newest if it ran."""
    found: Mapping[str, Any] = ran.get("newest") or next(iter(ran.values()))
    return found


def _title(ran: Mapping[str, Any]) -> str:
    return str(_any(ran)["name"])


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def filled(page: str, made: Mapping[str, str]) -> str:
    """Return a page with each table between its markers.

    Raises:
        ValueError: a marker is missing.
    """
    for name, table in made.items():
        begin, end = BEGIN.format(name=name), END.format(name=name)
        before, found, rest = page.partition(begin)
        _, found_end, after = rest.partition(end)
        if not (found and found_end):
            raise ValueError(f"the page has no place for {name!r}: {begin} … {end}")
        page = f"{before}{begin}\n\n{table}\n\n{end}{after}"
    return page


def main() -> None:
    """Write the tables."""
    PAGE.write_text(filled(PAGE.read_text("utf-8"), tables(read())), "utf-8")
    print(f"written: {PAGE}")


if __name__ == "__main__":
    main()
