"""Whether the tests of a policy file run, and say what differs."""

from pathlib import Path

import pytest

from penstock.workflows.policies import load_policy, parse_policy, read_policy, run_tests
from tests.workflows.policies.reading import told

STEPS = """\
penstock: 1
steps:
  - {use: pii-detector, with: {strategy: redact, redaction_method: placeholder}}
  - {use: regex-filter, id: rivals, with: {strategy: block, rules: [{name: rival, pattern: '(?i)globex'}]}}
  - {use: regex-filter, id: watch, with: {strategy: warn, rules: [{name: word, pattern: parcel}]}}
tests:
"""


def results(rows: str, tmp_path: Path, profile: str | None = None) -> list[str]:
    """Return what is said of each row; ``passed`` of one that passed."""
    path = tmp_path / "p.yaml"
    path.write_text(STEPS + rows)
    document = read_policy(path, profile=profile, environment={})
    made = [str(one).rpartition("p.yaml:")[2] for one in run_tests(document.workflow, document.tests, profile=profile)]
    return [line.split(": ", 1)[1] for line in made]


PASSING = [
    "{text: hello, expect: unchanged}",
    "{text: write to ann@example.com, expect: {text: 'write to [EMAIL]'}}",
    "{text: Globex is better, expect: blocked}",
    "{text: Globex is better, expect: {blocked_by: rivals}}",
    "{text: my parcel, expect: {flagged: word}}",
    "{text: my parcel, expect: {flagged: [word]}}",
    "{text: 12:30, expect: unchanged}",
    "{text: 5, expect: {text: '5'}}",
    "{text: '', expect: unchanged}",
    "{text: 5, expect: {text: 5}}",
    "{text: Globex, stage: output_step, expect: {blocked_by: rivals}}",
    "{text: Globex, stage: process_output_stream, expect: {blocked_by: rivals}}",
    "{text: mail ann@example.com now, stage: output_stream, expect: {text: 'mail [EMAIL] now'}}",
    '{messages: [{role: user, content: hi}, {role: user, content: a@b.org}], expect: {text: "hi\\n[EMAIL]"}}',
    "{value: {to: ann@example.com}, stage: tool_result, tool: look, args: {id: 5}, expect: {value: {to: '[EMAIL]'}}}",
    "{value: {query: globex}, stage: tool_call, tool: search, expect: {blocked_by: rivals}}",
    "{text: hello, context: {tenant: a}, expect: unchanged}",
]


@pytest.mark.parametrize("row", PASSING)
def test_a_row_passes_that_says_what_happens(row: str, tmp_path: Path) -> None:
    """At each kind of stage."""
    assert results(f"  - {row}\n", tmp_path) == ["passed"]


FAILING = {
    "{text: hello, expect: blocked}": "it must be blocked, but passed",
    "{text: hello, expect: {blocked_by: rivals}}": "it must be blocked by rivals, but passed",
    "{text: ann@example.com, expect: blocked}": 'it must be blocked, but passed; it is "[EMAIL]"',
    "{text: globex, expect: {blocked_by: watch}}": "it must be blocked by watch, but rivals blocked it: ",
    "{text: globex, expect: unchanged}": "it must pass, but rivals blocked it: ",
    "{text: ann@example.com, expect: unchanged}": 'it must be unchanged; it is "[EMAIL]"',
    "{text: ann@example.com, expect: {text: '[MAIL]'}}": 'it must become "[MAIL]", but is "[EMAIL]"',
    "{text: hello, expect: {flagged: word}}": "word must be flagged; flagged is nothing",
    "{messages: [{role: nobody}], expect: unchanged}": "the row cannot be run: ",
}


@pytest.mark.parametrize("row", FAILING)
def test_a_row_fails_with_what_differs(row: str, tmp_path: Path) -> None:
    """And with its name."""
    (line,) = results(f"  - {row[:-1]}, name: my row}}\n", tmp_path)
    assert line.startswith(FAILING[row])
    assert line.endswith(" (my row)")


MALFORMED = {
    "{text: a}": "7:5: a test needs expect: one of unchanged, blocked, asked, refused, {blocked_by: …}, {text: …}, ",
    "{expect: unchanged}": "7:5: a test takes text:, messages: or value: as its input",
    "{text: a, value: b, expect: unchanged}": "7:5: a test takes only one of text:, value: as its input",
    "{stage: tool_call, tool: pay, expect: asked}": (
        "7:5: a test of tool_call needs value: the arguments of the call, or its result"
    ),
    "{text: [a], expect: unchanged}": "7:12: text must be a text",
    "{text: a, expect: chnged}": "7:23: expect is chnged, but must be one of unchanged, blocked, asked, refused, {",
    "{text: a, expect: {text: a, flagged: b}}": "7:23: expect takes one of blocked_by, text, value, flagged",
    "{text: a, expect: {flagged: {b: c}}}": "7:33: flagged must be a text",
    "{text: a, expect: {blocked_by: [b]}}": "7:36: blocked_by must be a text",
    "{value: a, stage: output_stream, expect: blocked}": "7:6: the stage output_stream needs text: as its input",
    "{text: a, expect: {txt: a}}": "7:24: expect has no key txt; did you mean text?",
    "{text: a, stage: input_now, expect: unchanged}": "7:22: stage is input_now, but must be one of process_input, ",
    "{text: a, args: {b: 1}, expect: unchanged}": (
        "7:15: args: is for the stage tool_result; the input of tool_call is value:"
    ),
    "{text: a, context: b, expect: unchanged}": "7:24: context must be a mapping of names to values",
    "{text: a, profiles: [dev], expect: unchanged}": "7:26: profiles is dev, but must be one of base",
    "{text: a, expct: unchanged, expect: unchanged}": "7:15: a test has no key expct; did you mean expect?",
}


@pytest.mark.parametrize("row", MALFORMED)
def test_a_malformed_row_is_a_problem_of_the_file(row: str) -> None:
    """At its place, with those of the steps."""
    assert told(f"{STEPS}  - {row}\n")[0].startswith(MALFORMED[row])


def test_a_row_may_be_about_some_profiles_alone(tmp_path: Path) -> None:
    """``base`` is the file without any."""
    rows = (
        "  - {text: globex, profiles: [base], expect: blocked}\n"
        "  - {text: globex, profiles: [dev], expect: unchanged}\n"
        "  - {text: hello, expect: unchanged}\n"
        "profiles: {dev: {rivals: {mode: shadow}}}\n"
    )
    assert results(rows, tmp_path) == ["passed", "passed"]
    assert results(rows, tmp_path, profile="dev") == ["passed", "passed"]
    path = tmp_path / "p.yaml"
    assert not load_policy(path, profile="dev").check_sync("globex").blocked


def test_tests_of_an_async_workflow_run_too() -> None:
    """A guard with a time limit is awaited."""
    workflow = parse_policy(f"{STEPS.replace('placeholder}', 'placeholder}, timeout: 5s')}  []\n")
    assert workflow.check_sync("hello").text == "hello"
    with pytest.raises(TypeError):
        list(run_tests(workflow, 5))  # type: ignore[arg-type]


TOOLS = """\
penstock: 1
steps:
  - use: tool-policy
    id: tools
    with: {untrusted: ["read_*"], sensitive: [send_mail], ask_when: 'tool == "pay" && args.amount > 100'}
  - {use: tool-policy, id: refusing, with: {deny: [wipe], strategy: refuse}}
tests:
"""
PAGE = (
    "[{role: user, content: read and mail it}, {role: assistant, tool_calls: [{id: c, type: function, function: "
    "{name: read_page, arguments: '{}'}}]}, {role: tool, tool_call_id: c, content: the page}]"
)
CALLS = {
    "{tool: pay, value: {amount: 150}, expect: asked}": "passed",
    "{tool: pay, value: {amount: 5}, expect: unchanged}": "passed",
    "{tool: wipe, value: {}, expect: refused}": "passed",
    "{tool: send_mail, value: {to: a}, expect: unchanged}": "passed",
    f"{{tool: send_mail, value: {{to: a}}, messages: {PAGE}, expect: {{blocked_by: tools}}}}": "passed",
    f"{{tool: search, value: {{}}, messages: {PAGE}, expect: unchanged}}": "passed",
    "{tool: pay, value: {amount: 150}, expect: unchanged}": "it must pass, but a person is asked about it",
    "{tool: pay, value: {amount: 150}, expect: {value: {amount: 150}}}": "it must pass, but a person is asked about it",
    "{tool: pay, value: {amount: 150}, expect: refused}": "it must be refused, but a person is asked about it",
    "{tool: pay, value: {amount: 5}, expect: asked}": "a person must be asked about it, but nobody is",
    "{tool: pay, value: {amount: 5}, expect: refused}": "it must be refused, but passed",
    "{tool: wipe, value: {}, expect: unchanged}": "it must pass, but it is answered in place of the tool: ",
    "{tool: wipe, value: {}, expect: asked}": "a person must be asked about it, but nobody is",
}


@pytest.mark.parametrize("row", CALLS)
def test_a_call_is_asked_about_refused_or_let_through(row: str, tmp_path: Path) -> None:
    """Also in a conversation; a call that does not run is not unchanged."""
    path = tmp_path / "p.yaml"
    path.write_text(f"{TOOLS}  - {{stage: tool_call, {row[1:]}\n")
    document = read_policy(path, environment={})
    (result,) = run_tests(document.workflow, document.tests)
    assert (result.problem or "passed").startswith(CALLS[row])


def test_a_result_behind_messages_is_guarded(tmp_path: Path) -> None:
    """And a conversation that is blocked itself is told."""
    rows = (
        "  - {stage: tool_result, tool: look, value: write to ann@example.com, messages: [{role: user, content: hi}], "
        "expect: {value: 'write to [EMAIL]'}}\n"
        "  - {stage: tool_result, tool: look, value: x, messages: [{role: user, content: Globex}], expect: unchanged}\n"
    )
    first, second = results(rows, tmp_path)
    assert first == "passed"
    assert second.startswith("the row cannot be run: rivals blocks the messages before it: ")


RESTORE = """\
penstock: 1
steps:
  - {use: privacy, with: {restore: %s}}
tests:
  - {stage: output_stream, messages: To ann@example.com, text: "To [EMAIL_1].", expect: {text: To ann@example.com.}}
  - {stage: output_step, messages: To ann@example.com, text: "To [EMAIL_1].", expect: {text: To ann@example.com.}}
  - stage: tool_call
    messages: Write to ann@example.com
    tool: send_mail
    value: {to: "[EMAIL_1]"}
    expect: {value: {to: ann@example.com}}
"""


def test_what_was_hidden_in_the_messages_before_is_given_back(tmp_path: Path) -> None:
    """In a streamed answer, in a whole one, and to a tool; without `restore`, each row fails."""
    for restore, problems in (("true", 0), ("false", 3)):
        (tmp_path / "p.yaml").write_text(RESTORE % restore, "utf-8")
        document = read_policy(tmp_path / "p.yaml", environment={})
        results = list(run_tests(document.workflow, document.tests))
        assert len(results) == 3
        assert sum(bool(result.problem) for result in results) == problems


def test_a_conversation_that_is_blocked_before_the_answer_is_told(tmp_path: Path) -> None:
    """The row cannot be run."""
    text = RESTORE.replace("restore: %s", "strategy: block")
    (tmp_path / "p.yaml").write_text(text, "utf-8")
    document = read_policy(tmp_path / "p.yaml", environment={})
    results = [result.problem for result in run_tests(document.workflow, document.tests)]
    assert all("blocks the messages before it" in problem for problem in results)
