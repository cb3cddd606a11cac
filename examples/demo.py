"""The demo of `make demo`: draw a preset, run it on messages, use it from Python.

It uses the public interfaces only: the command `penstock`, `Workflow.check_sync`,
and a streamed answer.
"""

import shlex
import sys
from pathlib import Path

from penstock.workflows.cli import main
from penstock.workflows.presets import hygiene

HERE = Path(__file__).parent
MESSAGES = HERE / "data" / "messages.jsonl"
OUT = HERE.parent / "build" / "demo"


def shell(*argv: str) -> None:
    """Print a command as a user would type it, and run it."""
    print(f"\n$ penstock {shlex.join(argv)}\n", flush=True)
    code = main(argv)
    if code:
        sys.exit(code)


def demo() -> None:
    """Draw the preset, run it, check one text, and guard one streamed answer."""
    OUT.mkdir(parents=True, exist_ok=True)
    data = (
        str(MESSAGES.relative_to(Path.cwd()))
        if MESSAGES.is_relative_to(Path.cwd())
        else str(MESSAGES)
    )
    for name in ("hygiene.mmd", "hygiene.txt"):
        shell("draw", "hygiene", "--output", str(OUT / name))
    shell("draw", "hygiene")
    shell(
        "run",
        "hygiene",
        "--input",
        data,
        "--format",
        "table",
        "--rows",
        "40",
        *sys.argv[1:],
    )
    shell(
        "run", "hygiene", "--input", data, "--output", str(OUT / "messages.jsonl")
    )

    outcome = hygiene().check_sync(
        "Mail ann@exam\u200bple.com, or see https://example.com/help for more."
    )
    print(f"\n>>> hygiene().check_sync(...).text\n{outcome.text!r}")
    answer = [
        "Ask ann@exam",
        "ple.com, or call ",
        "+1 415 555",
        " 0132 before nine.",
    ]
    with hygiene().start_sync().process_output_stream(answer) as chunks:
        pieces = [chunk.text for chunk in chunks]
    print(f"\n>>> the model streams {answer}\n    and the client gets {pieces}")
    print(
        f"\nThe diagrams and the results are in {OUT}; "
        f"the sources of the messages: {HERE / 'data' / 'SOURCES.md'}"
    )


if __name__ == "__main__":
    demo()
