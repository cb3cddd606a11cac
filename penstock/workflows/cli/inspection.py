"""The commands ``penstock draw``, ``diff`` and ``validate``: look at workflows and agents without running them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING

from penstock.engine.graph.nodes import steps_of
from penstock.engine.processor.stages import STAGES
from penstock.engine.tracing.trace import Trace
from penstock.engine.values.errors import TraceError, UsageError, WorkflowError
from penstock.workflows.cli.arguments.pictures import DIAGRAMS, DIFFS, PICTURES, Diagram, Diff
from penstock.workflows.cli.exit_codes import CommandError, Exit
from penstock.workflows.cli.terminal import refuse_same, refuse_source, write_line, writing
from penstock.workflows.loading import faulty_file, load_workflow, load_workflow_or_agent, policy_documents
from penstock.workflows.policies.files import is_policy_file
from penstock.workflows.rows.reading import is_object

if TYPE_CHECKING:
    import argparse

    from penstock.engine.workflow import Workflow
    from penstock.workflows.policies import PolicyDocument


def draw(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Draw the workflow or the agent, and return the exit code.

    A workflow with problems is drawn, too: the diagram may show them.

    Raises:
        CommandError: the processors of the agent are not known before a request, or the trace cannot be read.
    """
    form = _format(args.output, args.format)
    trace = None if args.trace is None else _trace(args.trace)
    refuse_same(args.trace or "-", args.output, "the trace")
    try:
        drawn = load_workflow_or_agent(args.workflow)
        diagram = drawn.draw(form, stage=args.stage, detail=args.detail, trace=trace)
    except UsageError as error:
        raise CommandError(f"cannot draw {args.workflow}: {error}") from error
    _write(diagram, args.output, stdout)
    return Exit.OK


def _trace(file: str) -> Trace:
    """Return the trace in a file: its JSON, or a row of ``penstock run --trace`` that has it.

    Raises:
        CommandError: the file is no trace.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        data: object = json.loads(text)
        return Trace.from_json(data["trace"] if is_object(data) and is_object(data.get("trace")) else data)
    except (ValueError, TraceError) as error:
        raise CommandError(f"{file} is not the JSON of a trace: {error}") from error


def _write(text: str, output: str | None, stdout: IO[str]) -> None:
    refuse_source(output)
    with writing(output, stdout) as out:
        out.write(text if text.endswith("\n") else f"{text}\n")
    if output not in (None, "-"):
        write_line(f"wrote {output}")


def diff(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Show what differs between two workflows, and return the exit code, as ``diff`` does."""
    form = _diff_format(args.output, args.format)
    found = load_workflow(args.old).diff(load_workflow(args.new))
    _write(found.draw(form), args.output, stdout)
    return Exit.FOUND if found else Exit.OK


def _diff_format(output: str | None, given: Diff | None) -> Diff:
    """Return the format that was given, else the format of the file's extension; text without one.

    Raises:
        CommandError: no format has that extension.
    """
    ending = Path(output or "").suffix.lower()
    endings: dict[str, Diff] = {end: form for form in DIFFS for end in DIAGRAMS[form]}
    if given is None and ending and ending not in endings:
        raise CommandError(f"cannot write a diff into {output}: the formats are {' '.join(endings)}")
    return given or endings.get(ending, "text")


def _format(output: str | None, given: Diagram | None) -> Diagram:
    """Return the format that was given, else the format of the file's extension; text without one."""
    ending = Path(output or "").suffix.lower()
    named: dict[str, Diagram] = {end: form for form, endings in DIAGRAMS.items() for end in endings}
    meant = given or named.get(ending)
    if ending in PICTURES or (ending and meant is None):
        texts = " ".join(endings[0] for endings in DIAGRAMS.values())
        kind = ending[1:] if ending in PICTURES else "png"
        hint = f"for a picture: --format dot | dot -T{kind} >{Path(output or '').stem}.{kind}"
        raise CommandError(f"cannot draw into {output}: the formats are {texts}; {hint}")
    return meant or "text"


def validate(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Check a workflow or a gateway file, run the tests of policy files, and return the exit code.

    Raises:
        CommandError: a profile is given for a gateway file.
        LoadingError: the file has problems.
    """
    if _is_gateway(args.workflow if args.profile is None else args.workflow.rpartition(":")[0]):
        return _validate_gateway(args, stdout)
    documents = policy_documents(args.workflow)  # first: it tells the problems of all profiles
    workflow = load_workflow(args.workflow)
    code = _validate_workflow(workflow, args.stage, stdout)
    return _run_tests(documents, stdout) if documents and code == Exit.OK else code


def _is_gateway(name: str) -> bool:
    if not is_policy_file(name):
        return False
    from penstock.workflows.gateway.config.reading import is_gateway_file  # needs YAML

    return is_gateway_file(name)


def _validate_gateway(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Check a gateway file and its policies, run the tests of its policy files, and return the exit code."""
    if args.profile is not None:
        raise CommandError(
            "a gateway file has no profiles; it names a policy with one of its profiles: policy.yaml:dev"
        )
    from penstock.workflows.gateway.config.reading import read_gateway
    from penstock.workflows.policies import PolicyError

    try:
        found = read_gateway(args.workflow)
    except PolicyError as error:
        raise faulty_file(args.workflow, error) from error
    routes = len(found.section.routes)
    stdout.write(f"gateway {args.workflow!r} is valid: {routes} {'route' if routes == 1 else 'routes'}\n")
    code = Exit.OK
    for name in found.policies.names():
        stdout.write(f"policy {name}: ")
        checked = _validate_workflow(found.policies[name], args.stage, stdout)
        documents = found.policies.documents.get(name)
        if documents and checked == Exit.OK:
            checked = _run_tests(documents, stdout)
        code = max(code, checked)
    return code


def _validate_workflow(workflow: Workflow, stage: str | None, stdout: IO[str]) -> Exit:
    """Check a workflow, write what it is or its problems, and return the exit code."""
    try:
        workflow.validate(stage)
    except WorkflowError as error:
        stdout.write(f"{error}\n")
        return Exit.FOUND
    _describe(workflow, stdout)
    return Exit.OK


def schema(args: argparse.Namespace, stdout: IO[str]) -> int:
    """Write a published JSON Schema, and return the exit code."""
    if args.name == "policy":
        from penstock.workflows.policies import policy_schema

        made = policy_schema()
    elif args.name == "gateway":
        from penstock.workflows.gateway.config.schema import gateway_schema

        made = gateway_schema()
    elif args.name == "review":
        from penstock.workflows.review.schema import run_schema

        made = run_schema()
    else:
        made = Trace.json_schema()
    stdout.write(f"{json.dumps(made, indent=2, ensure_ascii=False)}\n")
    return Exit.OK


def _describe(workflow: Workflow, stdout: IO[str]) -> None:
    steps = list(steps_of(workflow.root))
    stages = {name for step in steps for name in step.claims.hooks}
    count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    served = ", ".join(name for name in STAGES if name in stages)
    summary = f"is valid: {count}; stages: {served}" if steps else "is valid, but empty: it changes nothing"
    stdout.write(f"workflow {workflow.name!r} {summary}\n")


def _run_tests(documents: list[PolicyDocument], stdout: IO[str]) -> Exit:
    """Run the tests of a policy file with each of the given profiles, write what failed, and return the exit code."""
    from penstock.workflows.policies import run_tests

    if not documents[0].tests:
        stdout.write("it has no tests; write rows under `tests:`, each with an input and what must happen to it\n")
        return Exit.OK
    code = Exit.OK
    for document in documents:
        results = list(run_tests(document.workflow, document.tests, profile=document.profile))
        failed = [result for result in results if result.problem]
        stdout.writelines(f"{result}\n" for result in failed)
        where = f" with the profile {document.profile}" if document.profile else ""
        count = f"{len(failed)} of {len(results)} tests failed" if failed else f"{_tests(len(results))} passed"
        stdout.write(f"{count}{where}\n")
        code = Exit.FOUND if failed else code
    return code


def _tests(count: int) -> str:
    return "1 test" if count == 1 else f"{count} tests"
