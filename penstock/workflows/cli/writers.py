"""The results of ``penstock run`` as files: lines of JSON or CSV, or Parquet; from the start, or where a run ended."""

from __future__ import annotations

from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from penstock.workflows.cli.exit_codes import CommandError
from penstock.workflows.cli.terminal import write_line, writing
from penstock.workflows.rows.files import delimiter_of, format_of
from penstock.workflows.rows.outputs import CsvLines, JsonLines, KeptColumns, kept_columns
from penstock.workflows.rows.resuming import Earlier, check_fields, earlier_results, skip_done
from penstock.workflows.rows.sources import RowFiles

if TYPE_CHECKING:
    import argparse
    from collections.abc import Generator

    from penstock.workflows.rows.outputs import Written
    from penstock.workflows.rows.reading import Source
    from penstock.workflows.rows.results import ResultFields, RowForm, RunCounts


class ResultsWriter:
    """Writes the form of each result, and its error to stderr, too.

    Args:
        form: the form of each result.
        out: takes the form.
        flush: whether a program waits for each result.
        single: whether the input is one text.
    """

    def __init__(self, form: RowForm, out: Any, *, flush: bool, single: bool) -> None:
        self.form = form
        self._write = out.write
        self._flush = out.flush if flush else None
        self._single = single

    def add(self, made: Written) -> None:
        """Write it."""
        self._write(made.made)
        if self._flush is not None:
            self._flush()
        if made.problem is not None:
            write_line(f"penstock: {made.problem}")

    def end(self, counts: RunCounts, seconds: float) -> None:
        """Write the counts to stderr, in one line; one text needs none."""
        if counts.rows and not self._single:
            write_line(f"penstock: {counts.sentence(seconds)}")


def output_format(args: argparse.Namespace, stdout: IO[str]) -> str:
    """Return the format of the results: ``table``, ``jsonl``, ``csv`` or ``parquet``.

    Raises:
        CommandError: the results cannot be written so.
    """
    to_file = args.output not in (None, "-")
    named = format_of(args.output) if to_file else None
    form = args.format or (named if named in ("csv", "parquet") else "jsonl")
    if args.format is None and args.output is None and stdout.isatty():
        form = "table"
    if form == "parquet" and not to_file:
        raise CommandError("Parquet is written to a file; add -o FILE")
    if args.resume and (not to_file or form == "table"):
        raise CommandError("--resume goes on with the results in a file; add -o FILE, as JSONL, CSV or Parquet")
    if args.resume and args.text not in (None, "-"):
        raise CommandError("--resume goes on with the rows of files; give them by --input")
    return str(form)


@contextmanager
def written_results(
    args: argparse.Namespace, source: Source, fields: ResultFields, form: str, stdout: IO[str]
) -> Generator[tuple[ResultsWriter, Earlier | None]]:
    """Open the output for results; with --resume, behind those that are there, whose rows are skipped.

    Raises:
        RowsError: it cannot be written or resumed.
    """
    files = source if isinstance(source, RowFiles) else None
    if form == "parquet":
        from penstock.workflows.rows.parquet_results import written_parquet

        with written_parquet(args.output, source, fields, args.stage, resume=args.resume) as (out, parquet, earlier):
            yield ResultsWriter(parquet, out, flush=False, single=files is None), earlier
        return
    lines: JsonLines | CsvLines
    columns: tuple[str, ...] | None = None
    if form == "csv":
        kept = kept_columns(files, fields.columns) if files is not None else KeptColumns((), guessed=False)
        several = files is not None and len(files.names) > 1
        delimiter = delimiter_of(args.output or "")
        lines = CsvLines(fields, fields.names(args.stage, several=several), kept, delimiter)
        columns = lines.columns
    else:
        lines, delimiter = JsonLines(fields), ""
    earlier = None
    if args.resume and files is not None:
        earlier = earlier_results(args.output, columns, delimiter)
        skip_done(files, earlier, fields.columns)
        if isinstance(lines, JsonLines):
            check_fields(files, earlier, fields)
        earlier.cut()
    begun = earlier is not None and earlier.end > 0
    with writing(args.output, stdout, append=begun) as out:
        if isinstance(lines, CsvLines) and not begun:
            out.write(lines.header)
        flush = files is not None and files.names == ("-",)
        yield ResultsWriter(lines, out, flush=flush, single=files is None), earlier
