"""The command ``penstock hook``: install the hooks of a coding agent, take them out, or be their server.

Calls of the hooks themselves go to their client, before this module is imported.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import write_line

if TYPE_CHECKING:
    import argparse

    from penstock.workflows.hooks.installing import SettingsChange


def hook(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Install or remove the hooks, or serve them; return the exit code.

    Raises:
        CommandError: the arguments do not fit together.
        LoadingError: there is no such policy, or it has problems.
        SettingsError: the settings cannot be changed.
    """
    if args.serve:
        return _serve(args)
    if args.stop:
        return _stop()
    if args.product is None or args.install == args.uninstall:
        raise CommandError(
            "write: penstock hook PRODUCT -w WORKFLOW, with --install to install it; or --serve, or --stop"
        )
    from penstock.workflows.hooks.installing import default_settings, removed, write

    file = Path(args.settings).absolute() if args.settings else default_settings(args.product)
    change = _install(args, file) if args.install else removed(file)
    if args.dry_run:
        stdout.write(change.diff)
        return Exit.OK
    if change.before == change.after:
        write_line(f"{file}: nothing to change")
        return Exit.OK
    write(change, installs=args.install)
    write_line(_summary(change, args))
    if args.install and args.product == "codex":
        write_line("Codex runs new hooks only after you have trusted them: start it, and open /hooks.")
    return Exit.OK


def _summary(change: SettingsChange, args: argparse.Namespace) -> str:
    if args.install:
        return f"{change.file}: {args.product} now asks {args.workflow}"
    done = "the hooks of Penstock are gone" if change.after is not None else "removed, since nothing else was in it"
    return f"{change.file}: {done}. `penstock hook --stop` ends the server now; else it ends within an hour"


def _install(args: argparse.Namespace, file: Path) -> SettingsChange:
    if args.workflow is None:
        raise CommandError("--install needs the policy: -w WORKFLOW")
    from penstock.workflows.hooks.answering import PRODUCTS
    from penstock.workflows.hooks.client import SECONDS
    from penstock.workflows.hooks.installing import hook_command, installed
    from penstock.workflows.hooks.policies import HookPolicies, placed

    HookPolicies().guard(
        args.product, args.workflow, folder=str(Path.cwd())
    )  # a policy that fails would deny everything
    options: list[str] = ["--fail", "open"] if args.fail == "open" else []
    options += ["--timeout", str(args.timeout)] if args.timeout != SECONDS else []
    options += ["--unread", args.unread] if args.unread != "pictures" else []
    options += ["--hold-output"] if args.hold_output else []
    options += ["--no-server"] if args.no_server else []
    line = hook_command(args.product, placed(args.workflow, str(Path.cwd())), options)
    return installed(file, PRODUCTS[args.product], line, seconds=args.timeout)


def _stop() -> int:
    from penstock.workflows.hooks.client import ClientError
    from penstock.workflows.hooks.stopping import stop_servers

    try:
        found = stop_servers()
    except ClientError as error:
        raise CommandError(str(error)) from error
    write_line("the server of the hooks ends" if found else "no server of the hooks runs")
    return Exit.OK


def _serve(args: argparse.Namespace) -> int:
    from penstock.workflows.hooks.client import ClientError
    from penstock.workflows.hooks.server import serve

    try:
        with contextlib.suppress(KeyboardInterrupt):
            if not serve(idle=args.idle, announce=lambda path: write_line(f"Penstock answers hooks at {path}")):
                raise CommandError("a server of the hooks runs already")
    except ClientError as error:
        raise CommandError(str(error)) from error
    return Exit.OK
