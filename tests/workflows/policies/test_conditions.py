"""Whether conditions of policy files are checked when they are read, read what they should, and fail closed."""

import copy
import json
import pickle
import sys
from types import MappingProxyType

import pytest
from hypothesis import given, strategies as st

from penstock import Message, Workflow
from penstock.engine.values.facts import Key
from penstock.workflows.policies import PolicyCondition, parse_policy
from penstock.workflows.policies.conditions import NAMES, plain
from penstock.workflows.policies.expressions import ExpressionError, FactNames, fact_name, type_in_expressions
from tests.workflows.policies.reading import START, told

BRANCH = """\
penstock: 1
steps:
  - {use: regex-filter, id: seen, with: {presets: [pii], strategy: warn}}
  - {use: unicode-normalizer}
  - branch:
      - when: %s
        steps: [{use: regex-filter, id: stop, with: {strategy: block, rules: [{name: any, pattern: '(?s).+'}]}}]
"""


def workflow_of(expression: str) -> Workflow:
    """Return a workflow that blocks where an expression holds."""
    return parse_policy(BRANCH % json.dumps(expression), environment={})


def holds(expression: str, text: str = "write to ann@example.com", **details: object) -> bool:
    """Return whether an expression holds for a text."""
    outcome = workflow_of(expression).check_sync(text, **details)  # type: ignore[arg-type]
    if outcome.tripwire is not None and outcome.tripwire.processor_id != "stop":
        raise ExpressionError(outcome.tripwire.reason)
    return outcome.blocked


@pytest.mark.parametrize(
    "expression",
    [
        "text.length == 24 && text.size() == 24",
        "text.contains('ann') && text.startsWith('write') && text.matches('[a-z]+@')",
        "stage == 'process_input' && role == 'user'",
        "messages.size() == 1 && messages[0].role == 'user' && messages[0].text == text",
        "messages.exists(m, m.text.contains('@'))",
        "facts.seen.matches['email'] == 1",
        "'seen.matches' in known && !('language' in known)",
        "tool == '' && tool.name == '' && args == {}",
        "context == {} && metadata == {}",
        "!has(context.tenant) || context.tenant == 'a'",
    ],
)
def test_a_condition_reads_the_request(expression: str) -> None:
    """Each of the names that the docs list."""
    assert holds(expression)
    assert not holds(f"!({expression})")


def test_every_name_of_the_list_can_be_read() -> None:
    """With its type."""
    for name, type in NAMES:
        assert holds(f"{name} == {name}"), (name, type)


def test_a_condition_reads_edited_texts_and_the_requests_context() -> None:
    """What a step before it has hidden, it does not see."""
    text = BRANCH.replace("strategy: warn", "strategy: redact") % "\"text.contains('ann@')\""
    assert not parse_policy(text).check_sync("write to ann@example.com").blocked
    message = Message.user("hello", metadata={"tags": ["internal"]})
    assert workflow_of("'internal' in metadata.tags").check_sync([message]).blocked
    assert holds("context.tenant == 'a'", request_context={"tenant": "a"})


def test_a_condition_reads_a_tools_call_and_its_result() -> None:
    """The arguments of a call as the steps before it have left them."""
    run = workflow_of("tool == 'pay' && args.amount > 100").start_sync()
    assert run.process_tool_call("pay", {"amount": 101, "note": "x"}).blocked
    run = workflow_of("tool == 'pay' && args.amount > 100").start_sync()
    assert not run.process_tool_call("pay", {"amount": 99, "note": "x"}).blocked
    assert not run.process_tool_call("look", {"amount": 101, "note": "x"}).blocked
    run = workflow_of("tool.name == 'look' && args.path.startsWith('/etc')").start_sync()
    assert run.process_tool_result("look", "root", arguments={"path": "/etc/passwd"}).blocked


def test_the_arguments_are_those_that_earlier_steps_have_left() -> None:
    """Not those that the model gave, which a guard may have changed."""
    text = BRANCH.replace("strategy: warn", "strategy: redact") % "\"args.to.contains('@')\""
    run = parse_policy(text).start_sync()
    assert not run.process_tool_call("send", {"to": "ann@example.com"}).blocked


async def test_while_an_answer_streams_its_text_is_empty() -> None:
    """A branch decides at the start of it; the docs say so."""
    from penstock import Chunk

    async def source():
        yield Chunk("text-start", id="1")
        yield Chunk("text-delta", "ann@example.com", "1")
        yield Chunk("text-end", id="1")

    async with workflow_of("text == ''").start() as run, run.process_output_stream(source()) as chunks:
        text = "".join([chunk.text async for chunk in chunks if chunk.type == "text-delta"])
    assert text == ""


WRONG = {
    "fakts.seen.matches == {}": "nothing has the name fakts.seen.matches here; did you mean facts.seen.matches?",
    "facts.sen.matches == {}": "nothing has the name facts.sen.matches here; did you mean facts.seen.matches?",
    "facts.stop.matches == {}": "nothing has the name facts.stop.matches here; ",
    "txt.length > 1": "nothing has the name txt.length here; did you mean text.length?",
    "text > 1": "> cannot compare a text with a number; leave the quotes out, or compare its size()",
    "facts.seen.matches > 1": "> cannot be applied to a mapping and a whole number",
    "text": "its value is of the type string, but must be true or false",
    "text.length": "its value is of the type int, but must be true or false",
    "null": "its value is of the type null, but must be true or false",
    "has(facts.seen)": "",
    "1 +": "the expression ends too early; something is missing",
    "text == 'a": "a text is not closed: the second ' is missing",
    "facts.seen = {}": "CEL has no =; write ==",
    "(text == 'a'": "a ) is missing at the end",
    "text == 'a')": "there is a ) without a ( before it",
    "text == 'a' and true": "CEL has no and; write &&",
    "text == 'a' & true": "CEL has no &; write &&",
    "text === 'a'": "CEL has no ===; write ==",
    "text <> 'a'": "CEL has no <>; write !=",
    "text =~ 'a'": "CEL has no =~; write ….matches(…)",
    "not (text == 'a')": "CEL has no not; write !(…)",
    "True": "CEL has no True; write true",
    "len(text) > 3": "CEL has no len; write ….size()",
    "text.lower() == 'a'": "CEL has no lower; write ….matches(",
    "text.contain('a')": "there is no function contain; did you mean contains?",
    "text.startswith('a')": "there is no function startswith; did you mean startsWith?",
    "text.frobnicate('a')": "there is no function frobnicate; use one of contains, ",
    "messages.any(m, m.text == 'a')": "CEL has no any; write ….exists(one, …)",
    "messages.exist(m, m.text == 'a')": "there is no function exist; did you mean exists?",
    "exists(messages, m, m.text == 'a')": "write it behind a list: ….exists(m, …)",
    "text.size > 3": "write text.size(), with parentheses",
    "tool.nam == 'x'": "nothing has the name tool.nam here; did you mean tool.name?",
    "role.kind == 'x'": "role is a text, which has no kind",
    "known.language": 'whether a fact is there, say as "language" in known',
    "facts['seen'] == 1": "facts is no value of its own; write facts.NAME",
    "text in 'abc'": "in looks into lists and mappings; in a text, write text.contains(",
    "text[0] == 'a'": "a text has no elements; ",
    "!tool": "! takes only what is true or false; compare first",
    "text.length >= 1.5": ">= compares whole numbers with whole numbers and others with others: write 1.0 for 1",
    "text.contains(5)": "contains() asks a text for a text in quotes, not a text for a whole number",
    "role == user": 'nothing has the name user here; a text needs quotes ("user"), and for a name use one of args',
    "role == 'user' ? 'a' : 3": "a choice (condition ? one : other) needs a condition, and two results of one type",
    "if text then 1": "if is a reserved word; a choice is written condition ? one : other",
    "has(text)": "has() takes a key, as in has(args.amount)",
    "text.matches('(')": "the pattern '(' is malformed: missing ): (",
    "text == `a`": "it cannot be read from `a` on; is an operator or a quote missing before it?",
    f"{'(' * 200}true{')' * 200}": "Expression recursion limit exceeded",
    "x" * 10_001: "the expression is longer than 10,000 characters; split it into branches",
    "__import__('os').system('ls') == 0": "there is no function __import__; ",
    "text.length > 9223372036854775808": "invalid int literal",
}


@pytest.mark.parametrize("expression", WRONG, ids=lambda one: one[:30])
def test_a_wrong_expression_is_told_when_the_file_is_read(expression: str) -> None:
    """Its names, its types, its form and its length."""
    (line,) = told(BRANCH % json.dumps(expression))
    assert line.startswith(f"6:15: when: {WRONG[expression]}")


def test_a_fault_in_a_plain_expression_is_told_at_its_column() -> None:
    """An expression without quotes, in one line."""
    assert told(BRANCH % "stage == role && txt == role")[0].startswith("6:32: when: nothing has the name txt here; ")


FAILING = [
    "metadata.plan == 'free'",
    "context['tenant'] == 'a'",
    "args.url.startsWith('file:')",
    "messages[7].text == ''",
    "facts.seen.matches['iban'] > 0",
    "int(text) > 1",
    "text.length / (text.length - text.length) == 1",
    "text.matches('(' + text)",
    "'a'.matches('(a{1000}){1000}' + '')",
    "dyn(text) > 5",
]


@pytest.mark.parametrize("expression", FAILING)
def test_a_condition_without_a_value_blocks(expression: str) -> None:
    """A missing key, a type that does not fit, a pattern that is none: nothing passes unread."""
    with pytest.raises(ExpressionError, match="failed"):
        holds(expression)
    assert not workflow_of(f"false && {expression}").check_sync("hello").blocked


REASONS = {
    "metadata.plan == 'free'": "there is no metadata.plan; ask first: has(metadata.plan)",
    "context['tenant'] == 'a'": 'there is no key "tenant"; ask first: "tenant" in …',
    "context[text] == 'a'": "a key is not there; ask first, with has() or in",
    "int(text) > 1": "a value cannot be converted; ask first whether it is of that form, with matches()",
    "dyn(text) > 5": "> cannot compare a text with a number; leave the quotes out, or compare its size()",
    "dyn(text)": "its value is a text, but must be true or false",
    "dyn(text).contains(dyn(1))": "contains() asks a text for a text in quotes, not a text for a whole number",
    "text.matches('(' + text)": "a pattern in matches() is malformed",
    "dyn(text).exists(one, one == 'a')": "exists, exists_one, all, filter, map loop over lists and mappings only",
    "1 / (text.length - text.length) == 1": "it divides by zero",
    "messages[text.length].text == ''": "a list has no such element; ask for its size() first",
}


@pytest.mark.parametrize("expression", REASONS)
def test_a_condition_that_fails_says_why_and_quotes_nothing_of_the_request(expression: str, caplog) -> None:
    """In the verdict and in the log: names of the expression, and types."""
    outcome = workflow_of(expression).check_sync("my-secret-word")
    assert outcome.tripwire is not None
    assert outcome.tripwire.reason.endswith(f"failed, so what it checks is blocked: {REASONS[expression]}")
    assert outcome.tripwire.metadata["why"] == REASONS[expression]
    assert REASONS[expression] in caplog.text
    assert "my-secret-word" not in f"{caplog.text} {outcome.tripwire}"


def nested(levels: int) -> str:
    """Return an expression that would run for 10 to the power of ``levels`` steps."""
    inner = "true"
    for level in range(levels):
        inner = f"[0,1,2,3,4,5,6,7,8,9].all(x{level}, {inner})"
    return inner


def test_an_expression_that_would_run_for_long_is_stopped_and_blocks() -> None:
    """Ten billion steps; what is usual runs."""
    assert holds(nested(2))
    with pytest.raises(ExpressionError, match="failed"):
        holds(nested(10))


def test_a_pattern_takes_linear_time() -> None:
    """One that takes others minutes."""
    assert not holds("text.matches('(a+)+$')", text="a" * 100_000 + "b")


def test_arms_and_neighbours_do_not_see_each_others_facts() -> None:
    """They are not there when the condition is evaluated; after the branch, they may be."""
    inside = "  - branch:\n    - when: \"'b.matches' in known || facts.b.matches == {}\"\n      steps: [%s]\n"
    step = "{use: regex-filter, id: b, with: {presets: [pii], strategy: warn}}"
    assert "nothing has the name facts.b.matches here" in told(START + inside % step)[0]
    arm = "    - branch:\n      - when: facts.b.matches == {}\n        steps: [hygiene]\n"
    assert "nothing has the name facts.b.matches here" in told(f"{START}  - parallel:\n    - {step}\n{arm}")[0]
    assert told(f"{START}  - {step}\n{inside % 'hygiene'}") == []


def test_conditions_are_values() -> None:
    """Compared, copied and sent to other processes by their source and their facts."""
    facts = FactNames().with_keys([Key[str]("language")])
    one = PolicyCondition("facts.language == 'en'", facts)
    assert one == PolicyCondition("facts.language == 'en'", facts)
    assert one != PolicyCondition("facts.language == 'de'", facts)
    assert pickle.loads(pickle.dumps(one)) == one == copy.deepcopy(one)  # noqa: S301 - our own
    assert repr(one) == "facts.language == 'en'"
    workflow = workflow_of("facts.seen.matches == {}")
    assert pickle.loads(pickle.dumps(workflow)) == workflow  # noqa: S301 - our own


def test_pictures_and_differences_show_the_source() -> None:
    """In one line."""
    workflow = workflow_of("text.length > 3\n&& role == 'user'")
    source = "text.length > 3 && role == 'user'"
    assert source in workflow.draw("text")
    assert source in json.dumps(json.loads(workflow.draw("json")))
    assert "text.length" in workflow.draw("svg")
    assert "text.length" in workflow.draw("mermaid")
    newer = workflow_of("text.length > 4")
    assert "text.length > 4" in str(workflow.diff(newer))


def test_names_of_facts_can_stand_in_expressions() -> None:
    """What a name has in brackets is left out."""
    assert fact_name("language") == "facts.language"
    assert fact_name("regex-filter.matches[pii: redact]") == "facts.regex_filter.matches"
    assert fact_name("2nd.x y") == "facts._2nd.x_y"


@pytest.mark.parametrize(
    ("type", "written"),
    [
        (str, "string"),
        (bool, "bool"),
        (int, "int"),
        (float, "double"),
        (str | None, "string"),
        (int | str, "dyn"),
        (dict[str, float], "map(string, double)"),
        (dict[int, float], "dyn"),
        (tuple[str, ...], "list(string)"),
        (frozenset[str], "list(string)"),
        (list[dict[str, bool]], "list(map(string, bool))"),
        (object, "dyn"),
        (None, "dyn"),
    ],
)
def test_the_type_of_a_fact_is_that_of_its_key(type: object, written: str) -> None:
    """``Key[str]("language")``."""
    assert type_in_expressions(type) == written
    if written != "dyn":
        assert Key[type](f"typed-{written}").value_type == type  # type: ignore[valid-type]


def test_a_key_without_a_type_has_none() -> None:
    """It is read as anything."""
    assert Key("untyped-of-this-test").value_type is None


@given(st.recursive(st.none() | st.integers() | st.text() | st.binary() | st.floats(), st.lists, max_leaves=5))
def test_any_value_of_a_fact_can_be_read(value: object) -> None:
    """Objects that expressions do not know are their text; large numbers are floats."""
    found = plain(MappingProxyType({"a": value, 5: {value} if isinstance(value, str) else value}))
    assert set(found) == {"a", "5"}
    json.dumps(found)


def test_without_its_library_a_condition_is_a_problem_at_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the extra to install."""
    from penstock.workflows.policies import cel

    monkeypatch.setitem(sys.modules, "cel_expr_python", None)
    cel.compiled.cache_clear()
    (line,) = told(BRANCH % "role == 'user'")
    assert line.startswith("6:15: ")
    assert "penstock[policy]" in line


def test_a_fact_of_a_step_with_a_fault_is_known() -> None:
    """Of a misspelt name, the closest is meant; another misspelt fact is told at its place."""
    found = told(
        "penstock: 1\nsteps:\n  - {use: pii-detectr, id: first}\n  - {use: language-detector, with: {strategy: foo}}\n"
        "  - branch:\n"
        '      - {when: facts.first.found.email > 0 && facts.language == "en", steps: [moderation]}\n'
        '      - {when: facts.langage == "en", steps: [moderation]}\n'
    )
    assert [one.partition(":")[0] for one in found] == ["3", "4", "7"]
    assert found[-1].partition(": ")[2] == "when: nothing has the name facts.langage here; did you mean facts.language?"
