"""The arguments of every command, with their help texts; it knows no command's work."""

from __future__ import annotations

import argparse
import json
import os
from typing import TYPE_CHECKING, Any, Literal

from penstock.engine.formats import FORMATS
from penstock.engine.processor.stages import STAGES
from penstock.workflows.batch import JOBS
from penstock.workflows.cli.inputs import is_object

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


STORE = "PENSTOCK_STORE"
"""The variable of the environment that names a store where ``--store`` does not."""

LAST = 50
"""How many messages of a thread are shown by default: some screens full."""

_MEMORY = """\
STORE is the file of a SQLiteStorage, or the URL of a PostgreSQL server (postgresql://…). A URL with a password in it
belongs in the variable PENSTOCK_STORE, which counts where there is no --store: other users of a machine see arguments.
"""

_MEMORY_EXAMPLES = """\
examples:
  penstock memory list --store chat.db                 the threads, the last changed first
  penstock memory show --store chat.db THREAD          what was said in one, and what is known of the user
  penstock memory export --store chat.db -o all.jsonl      all of them
  penstock memory import --store copy.db all.jsonl
  penstock memory delete --store chat.db THREAD
  penstock memory forget --store chat.db RESOURCE          all that is a user's

exit codes: 0 done, 2 wrong usage, or the store cannot be read, 3 a line to be imported is malformed
"""

_IMPORT = """\
What is there already is replaced: messages by their ids, working memories as wholes (the one before stays in their
history). So importing a file twice is as good as once. Threads of another resource are refused.
"""

_FORGET = """\
All threads of a resource with their messages, vectors and working memories, and its own working memory, with all
versions of it. Vectors that an application keeps in another store than the messages stay.
"""


def add_memory(commands: Any, command: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the command and its actions; ``command`` makes a parser of its own for each.

    Args:
        commands: where the command goes.
        command: makes a parser, given where it goes, its name, its usage and what it does.
    """
    line = "look at what a store remembers: list, show, export, import or delete threads, forget users"
    memory = command(commands, "memory", "ACTION", line, _MEMORY, _MEMORY_EXAMPLES)
    actions = memory.add_subparsers(dest="action", metavar="ACTION", prog="penstock memory", required=True)

    def action(name: str, usage: str, line: str, about: str = "") -> argparse.ArgumentParser:
        made = command(actions, name, usage, line, f"{about}\n{_MEMORY}".strip(), under="penstock memory")
        made.add_argument(
            "--store", metavar="STORE", default=os.environ.get(STORE), help=f"the store (default: ${STORE})"
        )
        return made

    listing = action("list", "", "list threads, the last changed first")
    listing.add_argument("--resource", metavar="ID", help="only those of this resource")
    listing.add_argument("-n", "--limit", type=_positive, metavar="N", help="only the first N")
    _add_format(listing)
    show = action("show", "THREAD", "show a thread: what was said, and what is known of the user")
    show.add_argument("thread", metavar="THREAD", help="its id")
    show.add_argument("-n", "--last", type=_positive, default=LAST, metavar="N", help=f"how many messages ({LAST})")
    show.add_argument("--all", action="store_true", help="all messages")
    _add_format(show)
    export = action(
        "export", "[THREAD ...]", "write threads as JSON lines, which `import` reads; all, if none is named"
    )
    export.add_argument("threads", metavar="THREAD", nargs="*", help="their ids")
    export.add_argument("--resource", metavar="ID", help="those of this resource")
    export.add_argument("-o", "--output", metavar="FILE", help="write them there")
    action("import", "FILE", "store what was exported", _IMPORT).add_argument(
        "file", metavar="FILE", help="what `export` wrote; `-` for stdin"
    )
    delete = action("delete", "THREAD ...", "delete threads, their messages, vectors and working memories")
    delete.add_argument("threads", metavar="THREAD", nargs="+", help="their ids")
    delete.add_argument("-y", "--yes", action="store_true", help="do not ask")
    forget = action("forget", "RESOURCE ...", "delete all that is a resource's, a user's say", _FORGET)
    forget.add_argument("resources", metavar="RESOURCE", nargs="+", help="their ids")
    forget.add_argument("-y", "--yes", action="store_true", help="do not ask")


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f", "--format", choices=("table", "jsonl"), default="table", help="for people, or for programs"
    )


CHECKED_STAGES = tuple(name for name, stage in STAGES.items() if not stage.streams and name != "process_api_error")
"""The stages that can be run on one row alone: not on a source of chunks, and not on an error."""

Diagram = Literal["text", "mermaid", "dot", "json"]
DIAGRAMS: dict[Diagram, tuple[str, ...]] = {
    "text": (".txt",),
    "mermaid": (".mmd", ".mermaid"),
    "dot": (".dot", ".gv"),
    "json": (".json",),
}
"""The formats of diagrams, and the endings of file names that mean them."""

PICTURES = (".svg", ".png", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")
"""The endings of files that graphviz can make of our text, and that no text may be written into."""

ROWS = 50
"""How many rows that were blocked, edited or broken a table shows by default: some screens full."""

_WORKFLOW = "a preset (see `penstock list`), module:name, or path.py:name"

_ABOUT = "Run, draw, check and list workflows of guards for LLM agents."

_EXAMPLES = """\
examples:
  penstock run hygiene "Write to ann@example.com"      one text
  penstock run hygiene --input chats.jsonl             a file, as a table
  penstock run guards.py:guard - <rows.jsonl >out.jsonl    rows in, rows out
  penstock draw hygiene                                what will happen, as a diagram
  penstock list                                        what there is
  penstock memory list --store chat.db                 what was remembered
"""

_RUN = """\
Rows come from TEXT, from a file, or from stdin. A row of JSONL is a string, {"text": ...}, {"messages": [...]}, a chat
message ({"role": ..., "content": ...}), or a list of them; an "id" is kept. A file is JSONL, unless its name ends with
.txt, .md or .log. On stdin the first line decides: JSONL if it is JSON, else each line is a text.

A table is shown on a terminal, and JSONL is written elsewhere. The text of a row that was blocked, and what was
redacted, is never shown unless you say --show-input.
"""

_RUN_EXAMPLES = """\
examples:
  penstock run hygiene "Write to ann@example.com"
  penstock run hygiene --input chats.jsonl -o cleaned.jsonl
  cat prompts.txt | penstock run guards.py:guard - --format table
  penstock run myapp.guards:output --stage process_output_step --input answers.jsonl
  penstock run hygiene --input pull.jsonl --fail-on blocked     exit code 1 if any row is blocked

exit codes: 0 every row was judged, 1 --fail-on found something, 2 wrong usage, 3 some rows could not be judged (they
are malformed, or a step broke), 130 interrupted, 141 the reader of the output went away
"""

_DRAW_EXAMPLES = """\
examples:
  penstock draw hygiene
  penstock draw guards.py:guard -o guard.mmd           the ending says: Mermaid
  penstock draw guards.py:guard --stage process_output_step
  penstock draw guards.py:guard --format dot | dot -Tsvg >guard.svg
"""

_VALIDATE_EXAMPLES = """\
examples:
  penstock validate guards.py:guard
  penstock validate guards.py:guard --stage process_output_step

exit codes: 0 no problems, 1 problems, 2 the workflow cannot be loaded
"""


def parse(argv: Sequence[str] | None, version: str) -> argparse.Namespace:
    """Return the arguments of a command line.

    argparse (that of Python 3.11 at least) decides about an argument that may be left out as soon as the one before it
    is there, so what stands behind options (``run WORKFLOW --stage STAGE -``) is left over; here it gets its place.

    Raises:
        SystemExit: they are wrong, or ask for help; argparse has said so.
    """
    made = _parser(version)
    args, left = made.parse_known_args(argv)
    for name in ("text", "name"):
        if len(left) == 1 and getattr(args, name, "") is None and (left[0] == "-" or left[0][:1] != "-"):
            setattr(args, name, left.pop())
    if left:
        made.error(f"unrecognized arguments: {' '.join(left)}")
    return args


def _parser(version: str) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    main = argparse.ArgumentParser("penstock", description=_ABOUT, epilog=_EXAMPLES, formatter_class=_HelpFormatter)
    main.add_argument("--version", action="version", version=f"penstock {version}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_draw(commands)
    _add_validate(commands)
    _add_list(commands)
    add_memory(commands, _command)
    return main


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Keeps the lines of descriptions and examples as they are written."""


def _command(
    commands: Any, name: str, usage: str, line: str, about: str = "", examples: str = "", under: str = "penstock"
) -> argparse.ArgumentParser:
    text = f"{line[0].upper()}{line[1:]}.\n\n{about}".strip()
    made: argparse.ArgumentParser = commands.add_parser(
        name,
        usage=f"{under} {name} [OPTION ...] {usage}".rstrip(),
        help=line,
        description=text,
        epilog=examples,
        formatter_class=_HelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--debug",
        action="store_true",
        help="show where an error was raised: the frames, never the text that was checked",
    )
    return made


def _add_run(commands: Any) -> None:
    run = _command(
        commands, "run", "WORKFLOW [TEXT | -]", "run a workflow over a text, a file or stdin", _RUN, _RUN_EXAMPLES
    )
    run.add_argument("workflow", metavar="WORKFLOW", help=_WORKFLOW)
    run.add_argument("text", metavar="TEXT", nargs="?", help="one text; `-` for stdin (which it is, too, in a pipe)")
    run.add_argument("-i", "--input", metavar="FILE", help="read the rows from this file; `-` for stdin")
    run.add_argument("--input-format", choices=("auto", "jsonl", "text"), default="auto", help="what a line is")
    run.add_argument("-o", "--output", metavar="FILE", help="write the result there; JSONL unless --format says else")
    run.add_argument("-f", "--format", choices=("table", "jsonl"), help="for people, or for programs")
    run.add_argument(
        "--messages-format",
        choices=FORMATS,
        default="openai-chat",
        metavar="FORMAT",
        help=f"how JSONL holds conversations: {', '.join(FORMATS)} (default: openai-chat)",
    )
    run.add_argument(
        "--stage",
        choices=CHECKED_STAGES,
        default="process_input",
        metavar="STAGE",
        help="the stage to run (default: process_input; `penstock list` names them; of answers, process_output_step)",
    )
    run.add_argument(
        "--context", type=_json_object, default={}, metavar="JSON", help="the request context, an object of JSON"
    )
    run.add_argument(
        "-j", "--jobs", type=_positive, default=JOBS, help=f"rows under way at once, for async steps (default: {JOBS})"
    )
    run.add_argument("-n", "--limit", type=_positive, metavar="N", help="stop after N rows")
    run.add_argument("--rows", type=_natural, default=ROWS, metavar="N", help=f"rows in a table (default: {ROWS})")
    run.add_argument("--show-text", action="store_true", help="the texts that are left, in a table too")
    run.add_argument("--show-input", action="store_true", help="the rows as they came, whatever was hidden in them")
    run.add_argument("--fail-on", choices=("blocked", "edited"), help="exit with 1 if a row is (edited: or blocked)")
    run.add_argument("--no-progress", action="store_true", help="no progress bar")


def _add_draw(commands: Any) -> None:
    draw = _command(commands, "draw", "WORKFLOW", "draw a workflow as a diagram", "", _DRAW_EXAMPLES)
    draw.add_argument("workflow", metavar="WORKFLOW", help=_WORKFLOW)
    draw.add_argument("-f", "--format", choices=tuple(DIAGRAMS), help="default: as FILE's ending says, else text")
    draw.add_argument("-o", "--output", metavar="FILE", help="write it there")
    draw.add_argument("--stage", choices=tuple(STAGES), metavar="STAGE", help="draw only what has this stage")


def _add_validate(commands: Any) -> None:
    validate = _command(
        commands, "validate", "WORKFLOW", "tell all problems of a workflow at once", "", _VALIDATE_EXAMPLES
    )
    validate.add_argument("workflow", metavar="WORKFLOW", help=_WORKFLOW)
    validate.add_argument("--stage", choices=tuple(STAGES), metavar="STAGE", help="a stage it is to be used at")


def _add_list(commands: Any) -> None:
    listing = _command(commands, "list", "[NAME]", "list the presets, the built-in processors and the stages")
    listing.add_argument(
        "name", metavar="NAME", nargs="?", help="only the one of this name, with its whole description"
    )
    listing.add_argument("-f", "--format", choices=("text", "json"), default="text", help="for people or programs")


def _positive(given: str) -> int:
    number = _natural(given)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{given} is less than 1")
    return number


def _natural(given: str) -> int:
    if not given.isdecimal():
        raise argparse.ArgumentTypeError(f"{given!r} is no whole number")
    return int(given)


def _json_object(given: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(given)
    except ValueError:
        value = None
    if not is_object(value):
        raise argparse.ArgumentTypeError("""expected an object of JSON, for example '{"tenant": "a"}'""")
    return value
