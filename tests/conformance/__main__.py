"""``python -m tests.conformance [DIR]``: runs every vector file of a folder, and prints what came of it.

Exit status 1 if anything differs, with ``--strict-missing`` also if anything is missing. With ``--sabotage`` it runs
implementations that are wrong, and exits with 1 if a file does not find one out.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.conformance.builtin.catalogue import broken
from tests.conformance.runner import HERE, SABOTEURS, Report, by_hand, ignored_options, run, unread_streams

KINDS = ("same", "better", "neutral", "differs", "missing")
UNSEEN: dict[str, str] = {
    "unicode_normalizer.preserve_emojis": "it has no effect in the reference, nor in ours where nothing invisible is "
    "taken out, as in these rows; tests/processors/text are about it",
}
"""Options that no row can find out if they are ignored, and why."""

SHOWN = 1_000  # characters of a value


def main(arguments: list[str] | None = None) -> int:
    """Run, print, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=HERE, help="where the vector files are")
    parser.add_argument("--sabotage", action="store_true", help="check that wrong implementations are found out")
    parser.add_argument("--strict-missing", action="store_true", help="count what is missing as wrong")
    given = parser.parse_args(arguments)
    reports = run(given.folder)
    if not reports:
        parser.error(f"there is no vector file in {given.folder}")
    if given.sabotage:
        return _sabotage(given.folder, reports) | _unread(given.folder) | _ignored(given.folder)
    return _report(reports, strict=given.strict_missing) | _by_hand(given.folder)


def _report(reports: Iterable[Report], *, strict: bool) -> int:
    findings = [one for report in reports for one in report.findings]
    width = max(len(report.file) for report in reports)
    _say(f"{'':{width}}  " + "  ".join(f"{kind:>7}" for kind in KINDS) + "  neutral fields")
    for report in reports:
        counts = "  ".join(f"{len(report.of(kind)) or '.':>7}" for kind in KINDS)
        _say(f"{report.file:{width}}  {counts}  {sum(one.neutral for one in report.findings) or '.':>7}")
    counts = Counter(one.kind for one in findings)
    _say(f"{'in all':{width}}  " + "  ".join(f"{counts[kind] or '.':>7}" for kind in KINDS))
    rules = Counter(rule for one in findings if one.kind == "better" for rule in one.rule.split(" + "))
    for rule, count in sorted(rules.items()):
        _say(f"better by {rule}: {count}")
    for why in dict.fromkeys(one.detail for one in findings if one.kind == "missing"):
        files = Counter(one.file for one in findings if (one.kind, one.detail) == ("missing", why))
        _say(f"missing, {why}: " + ", ".join(f"{file} ({count})" for file, count in files.items()))
    for module, why in broken().items():
        _say(f"cannot be imported: {module} ({why})")
    for one in findings:
        if one.kind == "differs":
            _say(f"\ndiffers: {one.file}/{one.name} {one.rule and f'[{one.rule}]'} {one.detail}")
            _say(f"  expected {one.expected!r:.{SHOWN}}\n  got      {one.ours!r:.{SHOWN}}")
    return int(counts["differs"] > 0 or (strict and counts["missing"] > 0))


def _by_hand(folder: Path) -> int:
    """Print what comes of the rows that were made by hand, as others may have been recorded."""
    findings = [one for report in by_hand(folder) for one in report.findings]
    counts = Counter(one.kind for one in findings)
    _say("made by hand: " + ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]))
    for one in findings:
        if not one.passed:
            _say(f"  {one.kind}: {one.file}/{one.name} {one.rule} {one.detail}")
    return int(not all(one.passed for one in findings))


def _ignored(folder: Path) -> int:
    """Print which options could be ignored without any row finding it out."""
    found = ignored_options(folder)
    missed = [name for name, is_red in found.items() if not is_red and name not in UNSEEN]
    _say(
        f"ignored options: {sum(found.values())} of {len(found)} are found out"
        + "".join(f"\n  not {n}" for n in missed)
        + "".join(f"\n  not {n}, since {why}" for n, why in UNSEEN.items() if found.get(n) is False)
    )
    return int(bool(missed))


def _unread(folder: Path) -> int:
    """Print which files do not find out a processor that does its work everywhere but in streams."""
    found = unread_streams(folder)
    missed = [name for name, is_red in found.items() if not is_red]
    _say(
        f"streams unread: {sum(found.values())} of {len(found)} files with streams find it out"
        + "".join(f"\n  not {n}" for n in missed)
    )
    return int(bool(missed))


def _sabotage(folder: Path, honest: Iterable[Report]) -> int:
    """Print which files find out which saboteur; those of which nothing is implemented have nothing to sabotage."""
    played = [report.file for report in honest if any(one.passed for one in report.findings)]
    missed = 0
    for name in SABOTEURS:
        red = {report.file for report in run(folder, name) if report.red}
        green = [file for file in played if file not in red]
        missed += len(green)
        _say(
            f"{name}: {len(played) - len(green)} of {len(played)} files find it out"
            + "".join(f"\n  not {f}" for f in green)
        )
    return int(missed > 0)


def _say(line: str) -> None:
    """Print a line; what the terminal cannot show is escaped."""
    encoding = sys.stdout.encoding or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding))  # noqa: T201 - a report


if __name__ == "__main__":
    sys.exit(main())
