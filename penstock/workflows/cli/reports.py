"""``penstock run --report``: which report a name stands for, and the one that is printed on the terminal."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import PurePath
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.exit_codes import CommandError

if TYPE_CHECKING:
    from collections.abc import Generator

    from penstock.engine.workflow import Workflow
    from penstock.workflows.report.short_report import Report
    from penstock.workflows.report.summaries import ReportSource

ENDINGS = (".html", ".htm", ".md", ".json")


def check_report(report: str | None, output: str | None) -> None:
    """Check that the report has a format and a place.

    Raises:
        CommandError: it has none.
    """
    if report == "-":
        if output in (None, "-"):
            raise CommandError("--report - prints on stdout, which is for the results; write them to a file: -o FILE")
    elif report is not None and _ending(report) not in ENDINGS:
        raise CommandError(f"--report takes FILE.html, FILE.md, FILE.json or -, not {report!r}")


def _ending(name: str) -> str:
    return PurePath(name).suffix.lower()


@contextmanager
def opened(name: str, source: ReportSource, workflow: Workflow, out: IO[str], samples: int) -> Generator[Report]:
    """Open the report of that name."""
    if _ending(name) in (".html", ".htm"):
        from penstock.workflows.report.run_report import RunReport

        with RunReport(workflow, source, out) as report:
            yield report
        return
    if name == "-":
        from penstock.workflows.cli.report_tables import PrintedReport

        yield PrintedReport(source, out, samples)
        return
    from penstock.workflows.report.markdown import as_markdown
    from penstock.workflows.report.short_report import WrittenReport, json_text

    yield WrittenReport(source, out, json_text if _ending(name) == ".json" else as_markdown, samples)
