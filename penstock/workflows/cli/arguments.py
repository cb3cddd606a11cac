"""The arguments of every command, with their help texts."""

from __future__ import annotations

import argparse
import json
import math
import os
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from penstock.engine.processor.stages import STAGES, full_name
from penstock.formats import FORMATS
from penstock.workflows.batch import CHECKED_STAGES, JOBS
from penstock.workflows.cli.terminal import readable
from penstock.workflows.report import SAMPLES
from penstock.workflows.rows.job import ROW_SECONDS
from penstock.workflows.rows.reading import is_object

if TYPE_CHECKING:
    from collections.abc import Sequence


STORE = "PENSTOCK_STORE"
"""The environment variable that names the store if ``--store`` does not."""

STUDIO_PORT = 7374
"""The default port of the studio: no other program's by habit, so a bookmark stays right."""

_LAST_PORT = 65535

LAST = 50
"""How many messages of a thread are shown by default: a few screens."""

_MEMORY = """\
STORE is the file of a SQLiteStorage, or the URL of a PostgreSQL server (postgresql://…). Without --store, the
environment variable PENSTOCK_STORE is used. Put a URL with a password there, because other users of the machine can
see arguments.
"""

_MEMORY_EXAMPLES = """\
examples:
  penstock memory list --store chat.db                   list threads, the most recently changed first
  penstock memory show --store chat.db THREAD            show a thread and the user's working memory
  penstock memory export --store chat.db -o all.jsonl    export all threads
  penstock memory import --store copy.db all.jsonl       import them into another store
  penstock memory delete --store chat.db THREAD          delete a thread
  penstock memory forget --store chat.db RESOURCE        delete everything about a user

exit codes: 0 success, 2 wrong usage, or the store cannot be read, 3 a line to import is malformed
"""

_IMPORT = """\
Messages replace stored ones with the same id, and a working memory replaces the stored one as a whole (the earlier
version stays in its history). To import a file twice has the same result as once. A thread that belongs to another
resource is refused.
"""

_FORGET = """\
Deletes all threads of the resources with their messages, vectors and working memories, and the resources' own working
memory with all versions. Vectors that your application keeps in another store are not deleted.
"""


def _add_memory(commands: Any) -> None:
    line = "manage a store: list, show, export, import or delete threads; forget users"
    memory = _command(commands, "memory", "ACTION", line, _MEMORY, _MEMORY_EXAMPLES)
    actions = memory.add_subparsers(dest="action", metavar="ACTION", prog="penstock memory", required=True)

    def action(name: str, usage: str, line: str, about: str = "") -> argparse.ArgumentParser:
        made = _command(actions, name, usage, line, f"{about}\n{_MEMORY}".strip(), under="penstock memory")
        made.add_argument(
            "--store", metavar="STORE", default=os.environ.get(STORE), help=f"the store (default: ${STORE})"
        )
        return made

    listing = action("list", "", "list threads, the most recently changed first")
    listing.add_argument("--resource", metavar="ID", help="only the threads of this resource")
    listing.add_argument("-n", "--limit", type=_positive, metavar="N", help="show at most N threads")
    _add_format(listing)
    show = action("show", "THREAD", "show a thread: its messages, and the working memory")
    show.add_argument("thread", metavar="THREAD", help="the id of the thread")
    show.add_argument(
        "-n", "--last", type=_positive, default=LAST, metavar="N", help=f"show the last N messages (default: {LAST})"
    )
    show.add_argument("--all", action="store_true", help="show all messages")
    _add_format(show)
    export = action("export", "[THREAD ...]", "write threads as JSON lines for `import`; without THREAD, all of them")
    export.add_argument("threads", metavar="THREAD", nargs="*", help="the ids of the threads")
    export.add_argument("--resource", metavar="ID", help="only the threads of this resource")
    export.add_argument("-o", "--output", metavar="FILE", help="write to this file instead of stdout")
    action("import", "FILE", "import threads from a file of `export`", _IMPORT).add_argument(
        "file", metavar="FILE", help="a file of `export`; `-` for stdin"
    )
    delete = action("delete", "THREAD ...", "delete threads, their messages, vectors and working memories")
    delete.add_argument("threads", metavar="THREAD", nargs="+", help="the ids of the threads")
    forget = action("forget", "RESOURCE ...", "delete everything about a resource, for example a user", _FORGET)
    forget.add_argument("resources", metavar="RESOURCE", nargs="+", help="the ids of the resources")
    for parser in (delete, forget):
        parser.add_argument("-y", "--yes", action="store_true", help="do not ask for confirmation")


def _add_stage(
    parser: argparse.ArgumentParser, line: str, choices: Sequence[str] = tuple(STAGES), default: str | None = None
) -> None:
    parser.add_argument("--stage", type=full_name, choices=choices, default=default, metavar="STAGE", help=line)


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-f", "--format", choices=("table", "jsonl"), default="table", help="default: table")


Diagram = Literal["text", "mermaid", "dot", "json", "svg", "html"]
DIAGRAMS: dict[Diagram, tuple[str, ...]] = {
    "text": (".txt",),
    "mermaid": (".mmd", ".mermaid"),
    "dot": (".dot", ".gv"),
    "json": (".json",),
    "svg": (".svg",),
    "html": (".html", ".htm"),
}
"""The formats of diagrams, with the file extensions that select them."""

Diff = Literal["text", "json", "svg"]
DIFFS: tuple[Diff, ...] = ("text", "json", "svg")
"""The formats of differences between two workflows; the file extensions are those of diagrams."""

PICTURES = (".png", ".pdf", ".jpg", ".jpeg", ".gif", ".webp")
"""Extensions of pictures, which graphviz can make of our text; no diagram is written into such a file."""

ROWS = 50
"""How many rows that were blocked, edited, failed or invalid a table shows by default: a few screens."""

_WORKFLOW = "a preset (see `penstock list`), a policy file (.toml, .json), module:name, or path.py:name"

_ABOUT = "Run, draw and check workflows of guards for LLM agents, and manage stored conversations."

_EXAMPLES = """\
examples:
  penstock run hygiene "Write to ann@example.com"          check one text
  penstock run hygiene --input chats.jsonl                 check a file
  penstock run guards.py:guard - <rows.jsonl >out.jsonl    read stdin, write JSONL
  penstock draw hygiene                                    show the workflow as a diagram
  penstock diff old.py:guard new.py:guard                  show what differs between two workflows
  penstock list                                            show presets, processors and stages
  penstock memory list --store chat.db                     show stored conversations
  penstock studio guards.py:guard                          a page to see workflows, and to watch them run
  penstock mcp -w guards.py:guard -- uvx mcp-server-time   guard an MCP server
"""

_RUN = """\
Input: TEXT, or rows from files or stdin. A row of JSONL is a string, {"text": ...}, {"messages": [...]}, a chat
message ({"role": ..., "content": ...}), or a list of messages; an "id" is copied to the result. The name of a file says
its format: .csv, .tsv, .parquet, .txt, .md or .log (each line is a text), else JSONL; .gz and .zst are decompressed. On
stdin the first line decides: if it is JSON, the input is JSONL, else each line is a text.

Output: a table on a terminal, and JSONL elsewhere; the name of -o FILE may say CSV or Parquet. Blocked and redacted
text is never written, unless you pass --show-input.
"""

_RUN_EXAMPLES = """\
examples:
  penstock run hygiene "Write to ann@example.com"
  penstock run hygiene --input chats.jsonl -o cleaned.jsonl
  cat prompts.txt | penstock run guards.py:guard - --format table
  penstock run myapp.guards:output --stage process_output_step --input answers.jsonl
  penstock run hygiene --input chats.jsonl --report report.html
  penstock run hygiene --input chats.jsonl -o cleaned.jsonl --report -
  penstock run hygiene "Write to ann@example.com" --trace         a timeline of what each step did
  penstock run hygiene --input pull.jsonl --fail-on blocked     exit code 1 if a row is blocked
  penstock run hygiene --input 'data/*.csv.gz' --text body -o out.parquet
  penstock run hygiene --input chats.jsonl -o out.jsonl --resume   go on where an interrupted run ended

exit codes: 0 every row was checked, 1 --fail-on found a row, 2 wrong usage, 3 some rows could not be checked (they are
malformed, or a step failed), 130 interrupted, 141 the reader of the output has closed it
"""

_DRAW_EXAMPLES = """\
examples:
  penstock draw hygiene
  penstock draw guards.py:guard -o guard.mmd           as Mermaid, because of the extension
  penstock draw guards.py:guard --stage process_output_step
  penstock draw guards.py:guard -o guard.svg           as a picture
  penstock draw guards.py:guard -o guard.html          as a page with search, docs and options
  penstock draw guards.py:guard -o guard.svg --detail full
  penstock draw bot.py:agent                           which list of an agent serves which stage
  penstock draw bot.py:agent --trace run.json -o run.svg   what a run did
"""

_DIFF = """\
Compares two workflows, or two versions of one: which steps were added, removed or moved; which options, policies,
conditions, merge rules and edges of a dag changed. Strings that may be secrets are shown as ***.
"""

_DIFF_EXAMPLES = """\
examples:
  penstock diff old_guards.py:guard guards.py:guard
  penstock diff hygiene guards.py:guard -o diff.svg      as a picture
  penstock diff old_guards.py:guard guards.py:guard --format json

exit codes, as those of diff: 0 no differences, 1 differences, 2 a workflow cannot be loaded
"""

_VALIDATE_EXAMPLES = """\
examples:
  penstock validate guards.py:guard
  penstock validate guards.py:guard --stage process_output_step

exit codes: 0 no problems, 1 problems, 2 the workflow cannot be loaded
"""

_STUDIO = """\
Opens a page on this machine: presets and your workflows and agents as pictures; runs on a text, a conversation or a
JSONL file, watched live; options changed in a form; two workflows, versions or runs compared. A workflow is loaded
again when its file changes. Each is loaded and run in a process of its own.

The studio listens on 127.0.0.1. With another --host it demands the token in the URL that it prints.
"""

_STUDIO_EXAMPLES = """\
examples:
  penstock studio --open                        the presets, in a browser
  penstock studio guards.py:guard app.py:agent  a workflow and an agent, beside the presets
  penstock studio --port 0                      any free port; the URL is printed
"""

_MCP = """\
A proxy for any MCP server. What goes to the server (arguments of tools, answers of users and models) passes
process_tool_call; what comes from it (results, descriptions of tools, resources, prompts, requests, logs) passes
process_tool_result. A blocked call of a tool becomes a result that says so.

The server is a command after `--`, which gets the whole environment, or a URL of streamable HTTP. Clients connect over
stdin and stdout, or with --listen over streamable HTTP.
"""

_MCP_EXAMPLES = """\
examples:
  penstock mcp -w guards.py:guard -- uvx mcp-server-fetch
  penstock mcp -w guards.py:tools -- npx -y @modelcontextprotocol/server-filesystem /tmp
  penstock mcp -w guards.py:guard --url https://example.com/mcp --header 'Authorization: Bearer ${API_KEY}'
  penstock mcp -w guards.py:guard --listen 127.0.0.1:8000 -- uvx mcp-server-fetch

With a --listen address that other machines can reach, clients need a token: that of the environment variable
PENSTOCK_MCP_TOKEN, or one that is printed.

exit codes: 0 the client has ended, 2 wrong usage, or the server cannot be started or reached, 3 the server has ended,
130 interrupted
"""

_COMPLETION = """\
Needs the extra `completion`. For bash, put this line into ~/.bashrc; other shells are alike:
  eval "$(penstock completion bash)"
"""


def parse(argv: Sequence[str] | None, version: str) -> argparse.Namespace:
    """Parse a command line.

    argparse (at least that of Python 3.11) assigns an optional positional argument as soon as the one before it is
    there, so an argument after options (``run WORKFLOW --stage STAGE -``) is left over; here it gets its place.

    Raises:
        SystemExit: the arguments are wrong, or ask for help; argparse has printed the message.
    """
    made = command_parser(version)
    args, left = made.parse_known_args(argv)
    for name in ("text", "name"):
        if len(left) == 1 and getattr(args, name, "") is None and (left[0] == "-" or left[0][:1] != "-"):
            setattr(args, name, left.pop())
    if left:
        made.error(f"unrecognized arguments: {' '.join(left)}")
    return args


def command_parser(version: str) -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    main = _Parser(
        "penstock", description=_ABOUT, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    main.add_argument("--version", action="version", version=f"penstock {version}")
    commands = main.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_draw(commands)
    _add_diff(commands)
    _add_validate(commands)
    _add_list(commands)
    _add_memory(commands)
    _add_studio(commands)
    _add_mcp(commands)
    _add_completion(commands)
    return main


FILES = {
    "bash": "_shtab_compgen_files",
    "zsh": "_files",
    "tcsh": "f",
    "fish": "(__fish_complete_path (commandline -ct))",
    "powershell": "_shtab_powershell_compgen_files",
}
"""How the scripts of shtab complete the name of a file, by shell (``shtab.FILE``)."""


class _Parser(argparse.ArgumentParser):
    """A parser whose error messages cannot control the terminal, though they repeat arguments."""

    def add_argument(self, *args: Any, **options: Any) -> argparse.Action:
        """Add an argument; where it names a file, say so to shell completion."""
        action = super().add_argument(*args, **options)
        if options.get("metavar") in ("FILE", "WORKFLOW", "OLD", "NEW"):
            vars(action)["complete"] = FILES
        return action

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """Print the message and end."""
        super().exit(status, None if message is None else readable(message))


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
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument(
        "--debug",
        action="store_true",
        help="show the traceback of an error, without any text that was checked",
    )
    return made


def _add_run(commands: Any) -> None:
    run = _command(
        commands, "run", "WORKFLOW [TEXT | -]", "run a workflow on a text, a file or stdin", _RUN, _RUN_EXAMPLES
    )
    run.add_argument("workflow", metavar="WORKFLOW", help=_WORKFLOW)
    run.add_argument("text", metavar="TEXT", nargs="?", help="one text; `-` for stdin (the default in a pipe)")
    _add_files(run)
    run.add_argument(
        "--messages-format",
        choices=FORMATS,
        default="openai-chat",
        metavar="FORMAT",
        help=f"the format of conversations in the results: {', '.join(FORMATS)} (default: openai-chat)",
    )
    stage = "the stage to run (default: process_input; for answers: process_output_step; `penstock list` shows all)"
    _add_stage(run, stage, CHECKED_STAGES, "process_input")
    run.add_argument(
        "--context", type=_json_object, default={}, metavar="JSON", help="the request context, as a JSON object"
    )
    _add_engine(run)
    run.add_argument("-n", "--limit", type=_positive, metavar="N", help="stop after N rows")
    _add_columns(run)
    run.add_argument(
        "--dead-letters",
        metavar="FILE",
        help="write each row that could not be checked to this file, as it came, with its error (JSONL)",
    )
    run.add_argument(
        "--no-times", action="store_true", help="leave times out of the results, so that every run writes the same"
    )
    run.add_argument(
        "--rows", type=_natural, default=ROWS, metavar="N", help=f"show at most N rows in a table (default: {ROWS})"
    )
    run.add_argument("--show-text", action="store_true", help="show the resulting texts in a table, too")
    run.add_argument(
        "--show-input", action="store_true", help="show the original rows, including everything that was hidden"
    )
    _add_trace(run)
    run.add_argument(
        "--fail-on",
        choices=("blocked", "edited", "flagged"),
        help="exit with 1 if a row is blocked (edited: if one is edited or blocked; flagged: or flagged)",
    )
    run.add_argument("--no-progress", action="store_true", help="show no progress bar")


def _add_files(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "-i",
        "--input",
        action="append",
        metavar="FILE",
        help="read rows from this file, URL or glob ('data/*.jsonl.gz'); `-` for stdin; may be repeated",
    )
    run.add_argument(
        "--input-format",
        choices=("auto", "jsonl", "text", "csv", "parquet"),
        default="auto",
        help="the format of the rows (default: auto, that of the name of each file)",
    )
    run.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the results to this file or URL, in the format of its name (.csv, .parquet; else JSONL), "
        "compressed if it ends with .gz or .zst",
    )
    run.add_argument(
        "-f",
        "--format",
        choices=("table", "jsonl", "csv", "parquet"),
        help="default: that of the name of the output; table on a terminal, else jsonl",
    )
    run.add_argument(
        "--resume", action="store_true", help="go on where an interrupted run with the same -o FILE and input ended"
    )


def _add_columns(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--text",
        dest="column",
        metavar="COLUMN",
        help="the column (field of a JSON object) that holds the text to check",
    )
    run.add_argument("--id", default="id", metavar="COLUMN", help="the column that holds the row's id (default: id)")
    run.add_argument(
        "--keep",
        action="append",
        metavar="COLUMN",
        help="keep this column in the results, as it came; may be repeated (default: all that were not checked)",
    )


def _add_engine(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "-j",
        "--jobs",
        type=_positive,
        metavar="N",
        help="how many rows run at once: in so many processes (default for files: one a core), or if there are async "
        f"steps, in this one (default: {JOBS})",
    )
    run.add_argument(
        "--row-timeout",
        type=_seconds,
        metavar="S",
        help=f"give a row up that takes a process longer than S seconds for each million bytes "
        f"(default: {ROW_SECONDS:.0f})",
    )
    run.add_argument(
        "--engine",
        choices=("local", "ray"),
        default="local",
        help="where rows are checked: on this machine (the default), or on a Ray cluster, which reads the files, too",
    )
    run.add_argument(
        "--address",
        metavar="ADDRESS",
        help="the Ray cluster (default: $RAY_ADDRESS; without it, one is started on this machine for the run)",
    )


def _add_diff(commands: Any) -> None:
    line = "show what differs between two workflows"
    diff = _command(commands, "diff", "OLD NEW", line, _DIFF, _DIFF_EXAMPLES)
    diff.add_argument("old", metavar="OLD", help=f"the old workflow: {_WORKFLOW}")
    diff.add_argument("new", metavar="NEW", help="the new workflow, named in the same way")
    diff.add_argument("-f", "--format", choices=DIFFS, help="default: by the extension of FILE, else text")
    diff.add_argument("-o", "--output", metavar="FILE", help="write the differences to this file")


def _add_trace(run: argparse.ArgumentParser) -> None:
    run.add_argument(
        "--trace", action="store_true", help="show a timeline of what each step did; in JSONL, add the field `trace`"
    )
    run.add_argument(
        "--report",
        metavar="FILE",
        help="write a report: FILE.html is a page with every trace; FILE.md, FILE.json and - (on stdout) are short",
    )
    run.add_argument(
        "--samples",
        type=_natural,
        default=SAMPLES,
        metavar="N",
        help=f"show N rows of each verdict and step in a short report (default: {SAMPLES})",
    )
    run.add_argument(
        "--texts",
        action="store_true",
        help="keep texts in the trace and the report, including everything that was hidden",
    )


def _add_draw(commands: Any) -> None:
    draw = _command(commands, "draw", "WORKFLOW", "draw a workflow or an agent as a diagram", "", _DRAW_EXAMPLES)
    draw.add_argument("workflow", metavar="WORKFLOW", help=f"{_WORKFLOW}; or an agent")
    draw.add_argument("-f", "--format", choices=tuple(DIAGRAMS), help="default: by the extension of FILE, else text")
    draw.add_argument("-o", "--output", metavar="FILE", help="write the diagram to this file")
    _add_stage(draw, "draw only the steps that implement this stage")
    draw.add_argument(
        "--trace",
        metavar="FILE",
        help="show a run, too (svg, html): the JSON of its trace, or a row of `run --trace`; `-` for stdin",
    )
    draw.add_argument(
        "--detail",
        choices=("short", "full"),
        help="full: also stages, facts and permitted edits (default: full in text, short in pictures)",
    )


def _add_validate(commands: Any) -> None:
    validate = _command(
        commands, "validate", "WORKFLOW", "report all problems of a workflow at once", "", _VALIDATE_EXAMPLES
    )
    validate.add_argument("workflow", metavar="WORKFLOW", help=_WORKFLOW)
    _add_stage(validate, "check that it can be used at this stage, too")


def _add_list(commands: Any) -> None:
    listing = _command(commands, "list", "[NAME]", "list the presets, the built-in processors and the stages")
    listing.add_argument("name", metavar="NAME", nargs="?", help="show only this one, with its whole description")
    listing.add_argument("-f", "--format", choices=("text", "json"), default="text", help="default: text")


def _add_studio(commands: Any) -> None:
    studio = _command(
        commands, "studio", "[WORKFLOW ...]", "a page to see, run and compare workflows", _STUDIO, _STUDIO_EXAMPLES
    )
    studio.add_argument(
        "workflows", metavar="WORKFLOW", nargs="*", help="module:name or path.py:name of a workflow or an agent"
    )
    studio.add_argument("--open", action="store_true", help="open a browser")
    studio.add_argument(
        "--port", type=_natural, default=STUDIO_PORT, metavar="N", help=f"default: {STUDIO_PORT}; 0: any free one"
    )
    studio.add_argument(
        "--host", default="127.0.0.1", metavar="ADDRESS", help="the address to listen on (default: 127.0.0.1)"
    )
    studio.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name under which it may be reached, too"
    )
    studio.add_argument("--history", metavar="FILE", help="where the last runs are kept (default: a file of yours)")
    studio.add_argument("--no-history", action="store_true", help="keep no runs when the studio stops")
    studio.add_argument("--keep", type=_positive, default=200, metavar="N", help="keep the last N runs (default: 200)")
    studio.add_argument(
        "--max-upload", type=_positive, default=256, metavar="MIB", help="the largest file to upload (default: 256)"
    )
    studio.add_argument(
        "--max-text", type=_positive, default=8, metavar="MIB", help="the largest text to run (default: 8)"
    )
    studio.add_argument(
        "--timeout", type=_positive, default=600, metavar="S", help="stop a run after S seconds (default: 600)"
    )
    studio.add_argument(
        "--load-timeout", type=_positive, default=30, metavar="S", help="stop importing after S seconds (default: 30)"
    )
    studio.add_argument(
        "-j", "--jobs", type=_positive, default=4, metavar="N", help="how many runs are at work at once (default: 4)"
    )


def _add_mcp(commands: Any) -> None:
    line = "guard an MCP server: a proxy over stdio or streamable HTTP"
    usage = "--workflow WORKFLOW (--url URL | -- COMMAND [ARGUMENT ...])"
    mcp = _command(commands, "mcp", usage, line, _MCP, _MCP_EXAMPLES)
    mcp.add_argument(
        "-w", "--workflow", action="append", required=True, metavar="WORKFLOW", help=f"{_WORKFLOW}; may be repeated"
    )
    mcp.add_argument("--url", metavar="URL", help="the server, if it speaks streamable HTTP")
    mcp.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="HEADER",
        help="a header for --url: 'NAME: VALUE'; ${NAME} in it is an environment variable",
    )
    mcp.add_argument("--listen", type=_address, metavar="HOST:PORT", help="serve streamable HTTP there, not stdio")
    mcp.add_argument("--path", default="/mcp", metavar="PATH", help="where it is found with --listen (default: /mcp)")
    mcp.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name under which it may be reached, too"
    )
    mcp.add_argument(
        "--descriptions",
        choices=("result", "input", "trusted"),
        default="result",
        help="how descriptions of tools are read: as results, as input, or not at all (default: result)",
    )
    mcp.add_argument(
        "--on-block", choices=("call", "session"), default="call", help="what a verdict ends (default: call)"
    )
    mcp.add_argument(
        "--lenient", action="store_true", help="go on if a processor of the workflow would read nothing here"
    )
    mcp.add_argument("server", nargs="*", metavar="COMMAND", help="the command of the server, after `--`")


def _add_completion(commands: Any) -> None:
    made = _command(commands, "completion", "SHELL", "write a script that completes commands in a shell", _COMPLETION)
    made.add_argument("shell", metavar="SHELL", choices=tuple(FILES), help=", ".join(FILES))


def _positive(given: str) -> int:
    number = _natural(given)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{given} is less than 1")
    return number


def _seconds(given: str) -> float:
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{given!r} is not a number of seconds above 0")
    return seconds


def _natural(given: str) -> int:
    if not given.isdecimal():
        raise argparse.ArgumentTypeError(f"{given!r} is not a whole number")
    return int(given)


def _address(given: str) -> tuple[str, int]:
    host, _, port = given.rpartition(":")
    if not port.isdecimal() or int(port) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, for example 127.0.0.1:8000, not {given!r}")
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def _json_object(given: str) -> dict[str, Any]:
    try:
        value: Any = json.loads(given)
    except (ValueError, RecursionError):
        value = None
    if not is_object(value):
        raise argparse.ArgumentTypeError("""expected a JSON object, for example '{"tenant": "a"}'""")
    return value
