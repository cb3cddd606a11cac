"""The arguments of `penstock draw` and `penstock diff`, and the formats that they write."""

from __future__ import annotations

from typing import Literal

from penstock.workflows.cli.arguments.building import WORKFLOW, Subcommands, add_profile, add_stage, command

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

_DRAW_EXAMPLES = """\
examples:
  penstock draw hygiene
  penstock draw guards.py:guard -o guard.mmd           as Mermaid, because of the extension
  penstock draw guards.py:guard --stage process_output_step
  penstock draw guards.py:guard -o guard.svg           as a picture
  penstock draw guards.py:guard -o guard.html          as a page with search, docs and options
  penstock draw guards.py:guard -o guard.svg --detail full
  penstock draw bot.py:agent                           which list of an agent serves which stage
  penstock draw bot.py:agent --trace run.json -o run.svg   with a run in it
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


def add_draw(commands: Subcommands) -> None:
    """Add ``penstock draw``."""
    draw = command(commands, "draw", "WORKFLOW", "draw a workflow or an agent as a diagram", "", _DRAW_EXAMPLES)
    draw.add_argument("workflow", metavar="WORKFLOW", help=f"{WORKFLOW}; or an agent")
    add_profile(draw)
    draw.add_argument("-f", "--format", choices=tuple(DIAGRAMS), help="default: by the extension of FILE, else text")
    draw.add_argument("-o", "--output", metavar="FILE", help="write the diagram to this file")
    add_stage(draw, "draw only the steps that implement this stage")
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


def add_diff(commands: Subcommands) -> None:
    """Add ``penstock diff``."""
    line = "show the differences between two workflows"
    diff = command(commands, "diff", "OLD NEW", line, _DIFF, _DIFF_EXAMPLES)
    diff.add_argument("old", metavar="OLD", help=f"the old workflow: {WORKFLOW}")
    diff.add_argument("new", metavar="NEW", help="the new workflow, named in the same way")
    add_profile(diff)
    diff.add_argument("-f", "--format", choices=DIFFS, help="default: by the extension of FILE, else text")
    diff.add_argument("-o", "--output", metavar="FILE", help="write the differences to this file")
