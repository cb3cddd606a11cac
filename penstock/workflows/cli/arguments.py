"""The arguments of every command, with their help texts; it knows no command's work."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Literal

from penstock.engine.formats import FORMATS
from penstock.engine.processor.stages import STAGES
from penstock.workflows.batch import JOBS
from penstock.workflows.cli.inputs import is_object
from penstock.workflows.cli.memory_arguments import add_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    main = argparse.ArgumentParser("penstock", description=_ABOUT, epilog=_EXAMPLES, formatter_class=_Form)
    main.add_argument("--version", action="version", version=f"penstock {version}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_draw(commands)
    _add_validate(commands)
    _add_list(commands)
    add_memory(commands, _command)
    return main


class _Form(argparse.RawDescriptionHelpFormatter):
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
        formatter_class=_Form,
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
