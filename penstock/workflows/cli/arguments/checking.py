"""The arguments of the commands that check a workflow: `validate`, `coverage`, `attack` and `pin`."""

from __future__ import annotations

from typing import Literal

from penstock.workflows.cli.arguments.building import WORKFLOW, Subcommands, add_profile, add_stage, command
from penstock.workflows.cli.arguments.values import natural, positive, seconds

Table = Literal["text", "markdown", "json", "svg"]

COVERAGES: dict[Table, tuple[str, ...]] = {
    "text": (".txt",),
    "markdown": (".md", ".markdown"),
    "json": (".json",),
    "svg": (".svg",),
}
"""The formats of a coverage, with the file extensions that select them."""

_VALIDATE = """\
The tests of a policy file run without a profile and with each of its profiles; --profile picks one.
"""

_VALIDATE_EXAMPLES = """\
examples:
  penstock validate guards.py:guard
  penstock validate guards.py:guard --stage process_output_step
  penstock validate policy.yaml                           and run its tests
  penstock validate policy.yaml --profile staging
  penstock validate gateway.yaml                          with all policies that it names, and their tests

exit codes: 0 no problems, 1 problems or failed tests, 2 the workflow cannot be loaded
"""

_COVERAGE = """\
The table has a row for each channel (texts of users, files, results and arguments of tools, answers as they stream and
at their end, and so on) and a column for each step that reads texts. A cell says how the step acts there: it hides its
findings, may stop the run, or only observes; and under which conditions. The table is computed from the plan; nothing
is run.

--require KIND says that a step must look for that kind on every path, and act on its findings: in every arm of a
branch, enforced (not in shadow), and blocking if it fails. KIND is secrets, personal, injection, moderation, leaks,
links, language, patterns, calls, a kind of your own (Processor.finds), or the name of a step or a processor. Without
channels, all channels count that somebody else than the application writes.
"""

_COVERAGE_EXAMPLES = """\
examples:
  penstock coverage safety
  penstock coverage bot.py:agent -o coverage.md                     as Markdown, because of the extension
  penstock coverage bot.py:agent -o coverage.svg                    as a picture, with the gaps marked
  penstock coverage guards.py:guard --require secrets:tool_call,answer --require injection

exit codes: 0 all that is required is read, 1 something is not, 2 wrong usage
"""

_ATTACK = """\
Texts that the guards must find are sent in every channel through an agent with a scripted model: as they are, in long
texts, in streams cut in every way, across blocks, steps and parts, in disguises, as every string of every wire format,
with parallel steps in other orders, with failing steps, and with pauses. All that the model, the client and the tools
then read is searched for them. A leak is told in its smallest case. The same seed tries the same cases.

The tools and the memory of an agent are not used. Its processors are: a guard that asks a model asks it, and one that
writes to a store writes there.
"""

_ATTACK_EXAMPLES = """\
examples:
  penstock attack safety
  penstock attack bot.py:agent --rows secrets.txt --seconds 300 --write-test tests/test_leaks.py
  penstock attack guards.py:guard --only cuts --only seams --seed 7

A row of --rows is a text, or a JSON object: {"text": "...", "secret": "the piece to hide", "kind": "personal"}.

exit codes: 0 nothing leaked, 1 something leaked, or a row was found by no guard, 2 wrong usage
"""

_PIN = """
A pin is a hash of a tool's definition as the model reads it: name, description and the schema of the arguments.
A server of tools may change them after somebody has read them. `pins` of the processor ToolPolicy refuse a tool whose
definition has changed, or that has no pin, until it is pinned again.
"""

_PIN_EXAMPLES = """examples:
  penstock pin bot.py:agent -o pins.json          write the pins of the tools of an agent
  penstock pin tools.json                         of definitions in a file: a list, or an answer to MCP's tools/list
  penstock pin bot.py:agent --check pins.json     name the tools that have changed, or have no pin

exit codes: 0 all are as pinned, 1 any differs, 2 the tools cannot be read
"""


def add_validate(commands: Subcommands) -> None:
    """Add ``penstock validate``."""
    line = "report all problems of a workflow or gateway file at once, and run the tests of policy files"
    validate = command(commands, "validate", "WORKFLOW", line, _VALIDATE, _VALIDATE_EXAMPLES)
    validate.add_argument("workflow", metavar="WORKFLOW", help=f"{WORKFLOW}; or a gateway file")
    add_profile(validate)
    add_stage(validate, "check that it can be used at this stage, too")


def add_coverage(commands: Subcommands) -> None:
    """Add ``penstock coverage``."""
    line = "show which step reads which channel, and the channels that no step reads"
    coverage = command(commands, "coverage", "WORKFLOW", line, _COVERAGE, _COVERAGE_EXAMPLES)
    coverage.add_argument("workflow", metavar="WORKFLOW", help=f"{WORKFLOW}; or an agent")
    add_profile(coverage)
    coverage.add_argument(
        "--require",
        action="append",
        metavar="KIND[:CHANNEL,...]",
        help="exit with 1 unless steps look for KIND in these channels on every path; may be repeated",
    )
    coverage.add_argument(
        "-f", "--format", choices=tuple(COVERAGES), help="default: by the extension of FILE, else text"
    )
    coverage.add_argument("-o", "--output", metavar="FILE", help="write the table to this file")


def add_attack(commands: Subcommands) -> None:
    """Add ``penstock attack``."""
    line = "try to get texts past the guards of a workflow or an agent"
    attack = command(commands, "attack", "WORKFLOW", line, _ATTACK, _ATTACK_EXAMPLES)
    attack.add_argument("workflow", metavar="WORKFLOW", help=f"{WORKFLOW}; or an agent")
    add_profile(attack)
    attack.add_argument(
        "--rows",
        metavar="FILE",
        help="texts that the guards must find, one a line (default: a short list of each kind)",
    )
    attack.add_argument("--seconds", type=seconds, default=60.0, metavar="S", help="stop after S seconds (default: 60)")
    attack.add_argument("--most", type=positive, metavar="N", help="try at most N cases")
    attack.add_argument("--seed", type=natural, default=0, metavar="N", help="the seed of the dice (default: 0)")
    attack.add_argument("--only", action="append", metavar="ATTACK", help="make only this attack; may be repeated")
    attack.add_argument("--write-test", metavar="FILE", help="write the leaks to this file, as a test")
    attack.add_argument(
        "--test-format", choices=("pytest", "unittest"), default="pytest", help="for which runner (default: pytest)"
    )
    attack.add_argument("-f", "--format", choices=("text", "json"), default="text", help="default: text")


def add_pin(commands: Subcommands) -> None:
    """Add ``penstock pin``."""
    pin = command(commands, "pin", "AGENT", "pin the definitions of tools, or compare them", _PIN, _PIN_EXAMPLES)
    pin.add_argument("tools", metavar="AGENT", help="module:name or path.py:name of an agent, or a .json file of tools")
    pin.add_argument("-o", "--output", metavar="FILE", help="write the pins to this file")
    pin.add_argument(
        "--check", metavar="FILE", help="compare with the pins in this file; the exit code is 1 if any differs"
    )
