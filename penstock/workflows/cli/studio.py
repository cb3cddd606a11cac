"""The command ``penstock studio``: a page on this machine to see, run, watch and compare workflows."""

from __future__ import annotations

from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.engine.values.errors import MissingExtraError
from penstock.workflows.cli.exit_codes import Exit
from penstock.workflows.cli.terminal import write_line

if TYPE_CHECKING:
    import argparse


def studio(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Serve the studio until Ctrl-C, and return the exit code.

    Raises:
        MissingExtraError: the libraries that it is made with are not installed.
    """
    del stdout  # the page shows everything
    try:
        import starlette
        import uvicorn
    except ImportError as error:
        raise MissingExtraError("penstock studio", "studio") from error
    del starlette, uvicorn
    from penstock.workflows.cli.review import user_name
    from penstock.workflows.studio.serving import serve
    from penstock.workflows.studio.settings import MIB, Settings, default_history

    settings = Settings(
        references=tuple(args.workflows),
        host=args.host,
        port=args.port,
        allowed_hosts=tuple(name.lower() for name in args.allow_host),
        review=None if args.review is None else Path(args.review),
        reviews=args.reviews or None,
        reviewer=user_name() if args.by is None else args.by,
        reviewer_is_fixed=args.by is not None,
        may_decide=args.may_decide,
        history=None if args.no_history else Path(args.history or default_history()),
        keep=args.keep,
        upload_limit=args.max_upload * MIB,
        text_limit=args.max_text * MIB,
        seconds=args.timeout,
        load_seconds=args.load_timeout,
        processes=args.jobs,
    )
    serve(settings, write_line, browser=args.open)
    return Exit.OK
