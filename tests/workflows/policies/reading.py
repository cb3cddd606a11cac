"""Read texts of policy files in tests."""

import textwrap
from collections.abc import Mapping

from penstock import Workflow
from penstock.workflows.policies import PolicyError, parse_policy

START = "penstock: 1\nsteps:\n"


def told(text: str, *, file: str = "policy.yaml", environment: Mapping[str, str] | None = None) -> list[str]:
    """Return the problems of a text, each as ``line:column: message``; none if it has none."""
    try:
        parse_policy(text, file=file, environment=environment or {})
    except PolicyError as error:
        return [f"{one.place.line}:{one.place.column}: {one.message}" for one in error.problems]
    return []


def steps(written: str, **options: object) -> Workflow:
    """Return the workflow of steps, written without the first two lines of a file."""
    body = textwrap.indent(textwrap.dedent(written).strip("\n"), "  ")
    return parse_policy(f"{START}{body}\n", environment={}, **options)  # type: ignore[arg-type]
