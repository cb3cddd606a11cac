"""Tests within a policy file: rows with an expected outcome, which ``penstock validate`` runs.

A row has an input (``text``, ``messages``, or ``value`` for the stages of tools), and an expected outcome
(``expect``): ``unchanged``, ``blocked``, ``asked``, ``refused``, ``{blocked_by: step}``, ``{text: …}``, ``{value: …}``
or ``{flagged: …}``. Beside the ``value`` of a tool or the ``text`` of an answer, ``messages`` are
the conversation before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

import anyio

from penstock.engine.graph.nodes import resolve, steps_of
from penstock.engine.processor.stages import STAGES, STREAM
from penstock.engine.values.errors import PenstockError
from penstock.engine.workflow import Workflow
from penstock.workflows.batch import TEXT_STAGES, Call, Checked, check_all
from penstock.workflows.policies.fields import list_of, mapping_of, text_of, word_of
from penstock.workflows.policies.problems import suggestion
from penstock.workflows.policies.profiles import BASE
from penstock.workflows.policies.yaml_nodes import ListNode, MappingNode, ScalarNode, plain_data
from penstock.workflows.streamed import pieces_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping

    from penstock.engine.execution.outcome import Outcome
    from penstock.engine.run.run import Run
    from penstock.engine.values.messages import Message
    from penstock.engine.values.tripwire import Tripwire
    from penstock.workflows.policies.problems import FilePlace, Problems
    from penstock.workflows.policies.yaml_nodes import PolicyNode

_KEYS = ("name", "text", "messages", "value", "stage", "tool", "args", "context", "profiles", "expect")
_INPUTS = ("text", "messages", "value")
_EXPECTED = ("blocked_by", "text", "value", "flagged")
_TOOLS = tuple(name for name, stage in STAGES.items() if stage.value)
_ANSWERS = ("process_llm_response", "process_output_step", STREAM.name, "process_output_result")
_CALL = "test"  # the id of a tool's call

WORDS = ("unchanged", "blocked", "asked", "refused")
"""The outcomes that are one word."""

STAGES_OF_TESTS = TEXT_STAGES
"""The stages that a row can run: all but that of errors."""


@dataclass(frozen=True, slots=True)
class PolicyTest:
    """One row of ``tests:``.

    Attributes:
        place: where it stands.
        name: its name; empty if it has none.
        input: a text, messages, or the value of a tool's stage.
        stage: the stage that runs.
        expected: the expected outcome: the word ``unchanged``, ``blocked``, ``asked`` (a person is asked about the call
            of a tool) or ``refused`` (it does not run, and the model reads why); or a pair of ``blocked_by``,
            ``text``, ``value`` or ``flagged`` and its value.
        details: details of the stage: ``tool_name`` and ``arguments``.
        context: the request's context.
        profiles: the profiles that it is about, with ``base`` for the file without any; None: all.
    """

    place: FilePlace
    name: str
    input: object
    stage: str
    expected: tuple[str, object]
    details: Mapping[str, object] = field(default_factory=dict[str, object])
    context: Mapping[str, object] = field(default_factory=dict[str, object])
    profiles: tuple[str, ...] | None = None
    before: object = None
    """The messages before the call of a tool, its result, or an answer; None: none."""


@dataclass(frozen=True, slots=True)
class TestResult:
    """The result of a test.

    Attributes:
        test: the test.
        problem: the difference to the expected outcome; empty if there is none.
    """

    __test__ = False

    test: PolicyTest
    problem: str = ""

    def __str__(self) -> str:
        """Show the place and what differs."""
        name = f" ({self.test.name})" if self.test.name else ""
        return f"{self.test.place}: {self.problem or 'passed'}{name}"


def tests_of(node: PolicyNode | None, profiles: tuple[str, ...], problems: Problems) -> tuple[PolicyTest, ...]:
    """Return the rows of ``tests:``; those that are malformed are left out, and told.

    Args:
        node: the rows.
        profiles: the profiles of the file, which a row may name.
        problems: takes the faults.
    """
    made = [_test(row, profiles, problems) for row in list_of(node, "tests", problems)]
    return tuple(one for one in made if one is not None)


def _test(node: PolicyNode, profiles: tuple[str, ...], problems: Problems) -> PolicyTest | None:
    row = mapping_of(node, "a test", _KEYS, problems)
    if row is None:
        return None
    stage = word_of(_full_stage(row.get("stage")), "stage", STAGES_OF_TESTS, problems) or "process_input"
    given = [key for key in _INPUTS if key in row.entries]
    before = row.get("messages") if stage in _TOOLS or (stage in _ANSWERS and "text" in given) else None
    if before is not None:
        given.remove("messages")
    if len(given) != 1:
        problems.add(row.place, _wrong_input(given, stage))
    expected = _expected(row, problems)
    if given and given[0] != "text" and stage == STREAM.name:
        problems.add(row.key_place(given[0]), "the stage output_stream needs text: as its input")
    if len(given) != 1 or expected is None:
        return None
    return PolicyTest(
        place=row.place,
        name=text_of(row.get("name"), "name", problems) or "",
        input=_input(given[0], row.entries[given[0]][1], problems),
        stage=stage,
        expected=expected,
        details=_details(row, stage, problems),
        context=_object(row.get("context"), "context", problems),
        profiles=_profiles(row, profiles, problems),
        before=None if before is None else plain_data(before),
    )


def _wrong_input(given: list[str], stage: str) -> str:
    """Return the fault of a row with no input, or with several."""
    if stage in _TOOLS and not given:
        return f"a test of {stage.removeprefix('process_')} needs value: the arguments of the call, or its result"
    only = f"only one of {', '.join(f'{key}:' for key in given)}" if given else "text:, messages: or value:"
    return f"a test takes {only} as its input"


def _input(key: str, node: PolicyNode, problems: Problems) -> object:
    """Return the input of a test: a text is text, also where it looks like a number."""
    return text_of(node, "text", problems, empty=True) or "" if key == "text" else plain_data(node)


def _details(row: MappingNode, stage: str, problems: Problems) -> dict[str, object]:
    """Return the details of the call: the name of the tool, and for a result the arguments of its call."""
    details: dict[str, object] = {}
    if "tool" in row.entries:
        details["tool_name"] = text_of(row.get("tool"), "tool", problems)
    if "args" in row.entries and stage == "process_tool_result":
        details["arguments"] = _object(row.get("args"), "args", problems)
    elif "args" in row.entries:
        problems.add(row.key_place("args"), "args: is for the stage tool_result; the input of tool_call is value:")
    return details


def _object(node: PolicyNode | None, what: str, problems: Problems) -> dict[str, object]:
    if node is None or isinstance(node, MappingNode):
        return {} if node is None else plain_data(node)
    problems.add(node.place, f"{what} must be a mapping of names to values")
    return {}


def _profiles(row: MappingNode, known: tuple[str, ...], problems: Problems) -> tuple[str, ...] | None:
    if "profiles" not in row.entries:
        return None
    allowed = (BASE, *known)
    words = [word_of(one, "profiles", allowed, problems) for one in list_of(row.get("profiles"), "profiles", problems)]
    return tuple(word for word in words if word is not None)


def _full_stage(node: PolicyNode | None) -> PolicyNode | None:
    """Return the node of a stage, whose name may stand without ``process_``."""
    if isinstance(node, ScalarNode) and f"process_{node.text}" in STAGES:
        return ScalarNode(node.place, f"process_{node.text}")
    return node


def _expected(row: MappingNode, problems: Problems) -> tuple[str, object] | None:
    node = row.get("expect")
    if node is None:
        problems.add(row.place, f"a test needs expect: {_FORMS}")
        return None
    if isinstance(node, ScalarNode):
        if node.text not in WORDS:
            problems.add(node.place, f"expect is {node.text}, but must be {_FORMS}")
        return (node.text, None) if node.text in WORDS else None
    entry = mapping_of(node, "expect", _EXPECTED, problems)
    if entry is None or not entry.entries:
        return None  # it was told
    if len(entry.entries) > 1:
        problems.add(node.place, f"expect takes one of {', '.join(_EXPECTED)}")
        return None
    name, (_, value) = next(iter(entry.entries.items()))
    if name == "value":
        return name, plain_data(value)
    if name == "flagged" and isinstance(value, ListNode):
        return name, [word for one in value.items if (word := text_of(one, "flagged", problems)) is not None]
    text = text_of(value, name, problems, empty=name == "text")
    return None if text is None else (name, text)


_FORMS = "one of unchanged, blocked, asked, refused, {blocked_by: …}, {text: …}, {value: …}, {flagged: …}"


def step_names(workflow: Workflow) -> set[str]:
    """Return the names by which a test may mean a step: its path, and the last part of it."""
    paths = [step.path for step in steps_of(resolve(workflow.root))]
    return {*paths, *(path.rpartition("/")[2] for path in paths)}


def check_steps_of_tests(node: PolicyNode | None, names: Collection[str], problems: Problems) -> None:
    """Tell the steps in ``blocked_by:`` that do not exist, each at its place."""
    for row in node.items if isinstance(node, ListNode) else ():
        expected = row.get("expect") if isinstance(row, MappingNode) else None
        wanted = expected.get("blocked_by") if isinstance(expected, MappingNode) else None
        if isinstance(wanted, ScalarNode) and wanted.text.strip() and wanted.text not in names:
            problems.add(
                wanted.place, f"blocked_by: no step has the id {wanted.text}; {suggestion(wanted.text, names)}"
            )


def run_tests(workflow: Workflow, tests: Iterable[PolicyTest], *, profile: str | None = None) -> Iterator[TestResult]:
    """Run tests, and yield the result of each. Do not call it inside a running event loop.

    Args:
        workflow: the workflow of the file.
        tests: its tests.
        profile: the profile that the workflow has; tests that are not about it are left out.

    Raises:
        WorkflowError: the workflow has problems.
    """
    for test in tests:
        if test.profiles is not None and (profile or BASE) not in test.profiles:
            continue
        try:
            yield TestResult(test, _unknown_step(workflow, test) or _difference(test, _run(workflow, test)))
        except PenstockError as error:
            yield TestResult(test, f"the row cannot be run: {error}")


def _unknown_step(workflow: Workflow, test: PolicyTest) -> str:
    """Return the fault of a test that names no step of the workflow; empty if it names one."""
    kind, wanted = test.expected
    if kind != "blocked_by":
        return ""
    names = step_names(workflow)
    return "" if wanted in names else f"no step has the id {wanted}; {suggestion(str(wanted), names)}"


@dataclass(frozen=True, slots=True)
class _RowResult:
    """The result of a row."""

    after: object
    tripwire: Tripwire | None
    edited: bool
    flagged: tuple[str, ...] = ()
    asked: bool = False
    answer: object = None


def _run(workflow: Workflow, test: PolicyTest) -> _RowResult:
    if test.stage == STREAM.name:
        return anyio.run(partial(_streamed, workflow, test))
    if test.before is not None:
        return anyio.run(partial(_behind_messages, workflow, test))
    before, found = _checked(Workflow("unguarded"), test), _checked(workflow, test)
    if found.outcome is None or before.outcome is None:
        raise found.error if isinstance(found.error, PenstockError) else PenstockError(str(found.error))
    after = _after(found.outcome)
    edited = not _same(after, _after(before.outcome))  # what steps note beside the texts is no change
    return _row_result(found.outcome, found.flagged, edited=edited)


def _row_result(outcome: Outcome, flagged: tuple[str, ...], *, edited: bool) -> _RowResult:
    answer = None if outcome.blocked else outcome.answer
    return _RowResult(_after(outcome), outcome.tripwire, edited, flagged, outcome.asks, answer)


async def _begin(run: Run, test: PolicyTest) -> None:
    """Let the conversation before a test's input pass the workflow: guards note the values that they hide in it.

    Raises:
        PenstockError: the conversation itself is blocked.
    """
    if test.before is None:
        return
    begun = await run.process_input(cast("list[Message]", test.before))
    if begun.tripwire is not None:
        raise PenstockError(f"{begun.tripwire.processor_id} blocks the messages before it: {begun.tripwire.reason}")


async def _behind_messages(workflow: Workflow, test: PolicyTest) -> _RowResult:
    """Run a stage of a tool or of an answer in a conversation, which passes the workflow first.

    Raises:
        PenstockError: the conversation itself is blocked.
    """
    name = str(test.details.get("tool_name") or "")
    async with workflow.start(request_context=dict(test.context) or None, records=True) as run:
        await _begin(run, test)
        if test.stage in _ANSWERS:
            stage: Callable[[object], Awaitable[Outcome]] = getattr(run, test.stage)
            outcome = await stage(test.input)
        elif test.stage == "process_tool_call":
            outcome = await run.process_tool_call(name, test.input, call_id=_CALL)
        else:
            outcome = await run.process_tool_result(
                name, test.input, arguments=test.details.get("arguments"), call_id=_CALL
            )
        flagged = tuple(dict.fromkeys(one for record in run.records if not record.shadow for one in record.flagged))
    edited = not outcome.blocked and not _same(_after(outcome), test.input)
    return _row_result(outcome, flagged, edited=edited)


def _checked(workflow: Workflow, test: PolicyTest) -> Checked[PolicyTest]:
    checked: list[Checked[PolicyTest]] = []
    check_all(workflow, [test], checked.append, stage=test.stage, as_call=_call)
    return checked[0]


def _call(test: PolicyTest) -> Call:
    details = {**test.details, "call_id": _CALL} if test.stage in _TOOLS else dict(test.details)
    return Call(test.input, details, {"request_context": dict(test.context)} if test.context else {})


def _after(outcome: Outcome) -> object:
    """Return the result of a stage: the value of a tool's stage, or its text."""
    value = STAGES[outcome.stage].value
    return outcome.overrides.get(value) if value else outcome.text


async def _streamed(workflow: Workflow, test: PolicyTest) -> _RowResult:
    answer = str(test.input)

    async with workflow.start(request_context=dict(test.context) or None) as run:
        await _begin(run, test)
        async with run.process_output_stream(pieces_of(answer, "answer")) as chunks:
            text = "".join([chunk.text async for chunk in chunks if chunk.type == "text-delta"])
        return _RowResult(text, run.tripwire, text != answer)


def _difference(test: PolicyTest, result: _RowResult) -> str:
    """Return in words how a result differs from the expected outcome; empty if it does not."""
    kind, wanted = test.expected
    if result.tripwire is not None or kind in ("blocked", "blocked_by"):
        return _difference_of_verdict(kind, wanted, result)
    if kind in ("asked", "refused") or result.asked or result.answer is not None:
        return _difference_of_call(kind, result)
    if kind == "unchanged":
        return f"it must be unchanged{_changed(result)}" if result.edited else ""
    if kind == "flagged":
        names = [wanted] if isinstance(wanted, str) else cast("list[str]", wanted)
        missing = ", ".join(name for name in names if name not in result.flagged)
        return f"{missing} must be flagged; flagged is {', '.join(result.flagged) or 'nothing'}" if missing else ""
    return "" if _same(result.after, wanted) else f"it must become {_shown(wanted)}, but is {_shown(result.after)}"


def _difference_of_verdict(kind: str, wanted: object, result: _RowResult) -> str:
    """Return in words how a row differs that is blocked, or should be."""
    tripwire = result.tripwire
    if tripwire is None:
        return f"it must be blocked{f' by {wanted}' if wanted else ''}, but passed{_changed(result)}"
    if kind not in ("blocked", "blocked_by"):
        return f"it must pass, but {tripwire.processor_id} blocked it: {tripwire.reason}"
    if kind == "blocked_by" and wanted not in (tripwire.processor_id, tripwire.processor_id.rpartition("/")[2]):
        return f"it must be blocked by {wanted}, but {tripwire.processor_id} blocked it: {tripwire.reason}"
    return ""


def _difference_of_call(kind: str, result: _RowResult) -> str:
    """Return in words how a call differs that a person is asked about, that does not run, or that should be such."""
    if kind == "asked":
        return "" if result.asked else "a person must be asked about it, but nobody is"
    if result.asked:
        return f"it must {'be refused' if kind == 'refused' else 'pass'}, but a person is asked about it"
    if kind == "refused":
        return "" if result.answer is not None else "it must be refused, but passed"
    return f"it must pass, but it is answered in place of the tool: {_shown(result.answer)}"


def _same(found: object, wanted: object) -> bool:
    return bool(json.dumps(found, default=dict, sort_keys=True) == json.dumps(wanted, default=dict, sort_keys=True))


def _changed(result: _RowResult) -> str:
    return f"; it is {_shown(result.after)}" if result.edited else ""


def _shown(value: object) -> str:
    written = json.dumps(value, ensure_ascii=False, default=dict)
    return written if len(written) <= 200 else f"{written[:199]}…"  # noqa: PLR2004 - a line or two of a terminal
