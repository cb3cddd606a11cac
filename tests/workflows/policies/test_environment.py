"""Whether ``${NAME}`` in a policy file is the environment's variable, as text, and nothing else."""

import pytest

from penstock import Workflow
from penstock.processors.text import RegexFilterProcessor
from penstock.workflows.policies import parse_policy
from tests.workflows.policies.reading import START, told

RULES = f"""\
{START}  - use: regex-filter
    with:
      strategy: redact
      rules:
        - name: own
          pattern: %s
"""


def pattern(written: str, **environment: str) -> str:
    """Return the pattern of a rule that is written so."""
    step = parse_policy(RULES % written, environment=environment).root.nodes[0]
    return str(step.processor.rules[0]["pattern"])


def test_a_variable_stands_alone_or_within_a_text() -> None:
    """Several, too."""
    assert pattern("${A}", A="x+") == "x+"
    assert pattern("'a${A}b${B}c'", A="1", B="2") == "a1b2c"


def test_a_default_counts_where_the_variable_is_missing_or_empty() -> None:
    """As in shells; the default may be empty, and may hold what it likes but for a brace."""
    assert pattern("${A:-x y:z}") == "x y:z"
    assert pattern("${A:-x}", A="") == "x"
    assert pattern("${A:-x}", A="y") == "y"
    assert pattern("'b${A:-}'") == "b"


def test_dollar_signs_without_a_name_are_text() -> None:
    """Patterns end with one; ``$${`` stands for the two characters."""
    assert pattern("'^a$'") == "^a$"
    assert pattern("'$a $5'") == "$a $5"
    assert pattern("'$${A}'", A="x") == "${A}"
    assert pattern("'$$a'") == "$$a"


def test_a_value_is_never_read_as_yaml() -> None:
    """Who sets a variable does not write the policy."""
    hostile = "x\n  - use: hygiene\n# !!python/object:os.system"
    assert pattern("${A}", A=hostile) == hostile
    assert pattern("${A}", A="[strategy, warn]") == "[strategy, warn]"
    assert pattern("${A}", A="${B}", B="y") == "${B}"


def test_a_value_alone_is_a_number_or_a_bool_where_it_says_one() -> None:
    """So that limits and switches can come from there; in quotes or within a text it is text."""
    text = START + "  - use: token-limiter\n    with:\n      limit: %s\n"
    limited = parse_policy(text % "${LIMIT}", environment={"LIMIT": "500"})
    assert limited == parse_policy(text % "500")
    assert told(text % "'${LIMIT}'", environment={"LIMIT": "500"})[0].startswith("5:14: token-limiter: option 'limit'")
    assert told(text % "a${LIMIT}", environment={"LIMIT": "500"})[0].startswith("5:14: token-limiter: option 'limit'")


@pytest.mark.parametrize("written", ["${}", "${1A}", "${A", "${A:+x}", "${A-B}", "'${A B}'"])
def test_what_is_no_variable_is_told(written: str) -> None:
    """With what one may write."""
    found = told(RULES % written, environment={"A": "x"})
    assert any("is no variable; write ${NAME}, ${NAME:-default}, or $${ for the text" in line for line in found) or (
        "this is no valid YAML" in found[0]
    )


def test_a_variable_within_brackets_needs_quotes() -> None:
    """Its brace would end the mapping; the error says so."""
    (line,) = told(f"{START}  - {{use: regex-filter, with: {{rules: [${{A}}]}}}}\n")
    assert line.endswith("; within [] and {}, write ${NAME} in quotes")


def test_a_missing_variable_is_told_once() -> None:
    """Not again as a wrong option; one of a similar name is suggested."""
    assert told(RULES % "${PROMT}", environment={"PROMPT": "x"}) == [
        "8:20: the environment has no variable PROMT; did you mean PROMPT?"
    ]
    assert told(RULES % "${SECRET_KEY}", environment={"HOME": "x"}) == [
        "8:20: the environment has no variable SECRET_KEY; set it, or write ${SECRET_KEY:-default}"
    ]


def test_keys_are_not_filled_in() -> None:
    """A key says which option it is; that is the file's."""
    assert "has no key ${A}" in told("penstock: 1\nsteps: []\n${A}: 1\n", environment={"A": "name"})[0]


def test_a_workflow_that_holds_what_looks_like_a_variable_is_written_so_that_it_stays_text() -> None:
    """Also where the variable exists."""
    rules = [{"name": "own", "pattern": r"\$\{HOME\} ${HOME} $$${A"}]
    workflow = Workflow("w").then(RegexFilterProcessor(rules=rules, strategy="redact"))
    assert parse_policy(workflow.to_policy(), environment={"HOME": "x"}) == workflow
