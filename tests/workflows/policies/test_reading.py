"""Whether policy files become the workflows that they say, and each fault is told at its place."""

import pytest

from penstock import PIIDetector, UnicodeNormalizer, Workflow, member
from penstock.engine.graph.nodes import Branch, Parallel
from penstock.workflows.policies import PolicyError, parse_policy
from penstock.workflows.presets import hygiene, privacy
from tests.workflows.policies.reading import START, steps, told


def test_a_file_of_one_line_hides_personal_data() -> None:
    """The first file of the docs."""
    workflow = parse_policy("penstock: 1\nsteps: [{use: privacy, with: {restore: true}}]\n")
    assert workflow == Workflow("policy").then(privacy(restore=True))
    assert workflow.check_sync("Write to ann@example.com").text == "Write to [EMAIL_1]"


def test_a_step_has_options_policies_and_an_id() -> None:
    """As the keywords of `Workflow.then`."""
    made = steps("- {use: pii-detector, id: own, with: {strategy: block}, timeout: 500ms, on_error: block, retries: 2}")
    assert [step.claims.id for step in made.root.nodes] == ["own"]
    expected = PIIDetector(strategy="block", id="own")
    assert made == Workflow("policy").then(expected, timeout=0.5, on_error="block", retries=2)


def test_a_step_may_be_its_name_alone() -> None:
    """Without ``use:``."""
    assert steps("- unicode-normalizer\n- hygiene") == Workflow("policy").then(UnicodeNormalizer()).then(hygiene())


@pytest.mark.parametrize(
    ("written", "seconds"), [("2s", 2), ("500ms", 0.5), ("1.5m", 90), ("1h", 3600), ("3", 3), ("0.25", 0.25)]
)
def test_a_time_has_a_unit_or_is_in_seconds(written: str, seconds: float) -> None:
    """With and without a fraction."""
    made = steps(f"- {{use: pii-detector, timeout: {written}}}")
    assert made == Workflow("policy").then(PIIDetector(), timeout=seconds)


def test_steps_stand_in_groups_beside_each_other_and_in_graphs() -> None:
    """Each shape that the Python interface has."""
    made = steps("""
    - id: first
      steps: [unicode-normalizer]
      timeout: 1s
    - parallel: [pii-detector, {use: moderation, mode: shadow}]
      merge: first
      timeout: 2s
    - dag:
        - {use: unicode-normalizer, id: a}
        - {use: unicode-normalizer, id: b, after: a}
        - {use: unicode-normalizer, id: c, after: [a, b]}
      merge: last
    """)
    sequence, parallel, dag = made.root.nodes
    assert sequence == Workflow("policy").then(Workflow("first").then(UnicodeNormalizer()), timeout=1).root.nodes[0]
    assert isinstance(parallel, Parallel)
    assert [(step.policy.mode, step.policy.timeout) for step in parallel.nodes] == [("enforce", 2), ("shadow", None)]
    expected = Workflow("x").dag(
        member(UnicodeNormalizer(id="a")),
        member(UnicodeNormalizer(id="b"), after="a"),
        member(UnicodeNormalizer(id="c"), after=["a", "b"]),
        merge="last",
    )
    assert dag == expected.root.nodes[0]


def test_a_failed_step_may_have_another_one_in_its_place() -> None:
    """``on_error:`` takes a processor, as in Python."""
    made = steps("- {use: moderation, on_error: {use: regex-filter, with: {presets: [secrets]}}}")
    assert made.root.nodes[0].policy.on_error.id == "regex-filter"
    assert told(f"{START}  - {{use: moderation, on_error: {{use: hygiene}}}}\n") == [
        "3:33: a fallback must be one processor; a preset or another file has several"
    ]


def test_a_branch_of_a_file_blocks_if_its_condition_fails() -> None:
    """In Python the default is to raise; a file is for those who cannot handle an exception."""
    written = "- branch:\n    - when: metadata.plan == 'free'\n      steps: [pii-detector]"
    branch = steps(written).root.nodes[0]
    assert isinstance(branch, Branch)
    assert branch.on_error == "block"
    assert steps(written).check_sync("hello").blocked
    assert steps(f"{written}\n  on_error: raise").root.nodes[0].on_error == "raise"


def test_a_step_that_reads_facts_in_python_has_its_registered_condition() -> None:
    """The presets use two of them."""
    written = """
    - {use: regex-filter, with: {presets: [pii], strategy: redact}}
    - branch:
        - when: {use: something-hidden, with: {found: ["regex-filter.matches[pii: redact]"]}}
          steps: [{use: pii-detector, with: {strategy: block}}]
    """
    assert not steps(written).check_sync("hello").blocked
    assert told(f"{START}  - branch:\n    - when: {{use: somthing-hidden}}\n      steps: [hygiene]\n") == [
        "4:13: there is no condition somthing-hidden; did you mean something-hidden?"
    ]


TWELVE = """\
penstock: 1
nam: chat
steps:
  - use: pii-detectr
  - {use: pii-detector, with: {strategy: redcat, tresholt: 1}}
  - {use: moderation, mode: shadow, mode: enforce}
  - {use: unicode-normalizer, timeout: soon, on_error: ignore}
  - {use: system-prompt-scrubber, with: {prompts: ["${PROMPT}"]}}
  - branch:
      - when: fakts.language == "en"
        steps: [hygiene]
  - parallel: []
  - {use: token-limiter}
tests:
  - {text: hello, expect: changed}
"""


def test_a_file_with_twelve_faults_has_all_of_them_told_at_their_places() -> None:
    """One after the other would take twelve attempts."""
    expected = [
        "2:1: a policy file has no key nam; did you mean name?",
        "4:10: unknown processor pii-detectr; did you mean pii-detector?",
        "5:42: pii-detector: option 'strategy' is redcat, but must be one of redact, ",
        "5:50: pii-detector has no option tresholt; did you mean threshold?",
        "6:37: mode stands here twice, first in line 6; remove one of them",
        "7:40: timeout must be a time above 0, such as 2s, 500ms or 1.5m",
        "7:56: on_error is ignore, but must be one of block, raise, allow",
        "8:52: the environment has no variable PROMPT; set it, or write ${PROMPT:-default}",
        "10:15: when: nothing has the name fakts.language here; ",
        "12:5: parallel: needs at least one step",
        "13:11: token-limiter needs the option limit; add `with: {limit: …}`",
        "15:27: expect is changed, but must be one of unchanged, blocked",
    ]
    found = told(TWELVE)
    assert len(found) == len(expected)
    for line, start in zip(found, expected, strict=True):
        assert line.startswith(start)


FAULTS = {
    "steps:\n  - hygiene\n": "1:1: this is no policy file; its first line is `penstock: 1`",
    "steps: [hygiene]\npenstock: 1\n": "2:1: penstock: must be the first key of the file",
    "penstock: 2\nsteps: []\n": "1:1: the version is 2; this Penstock reads `penstock: 1`",
    "penstock: true\nsteps: []\n": "1:1: the version is true; this Penstock reads `penstock: 1`",
    "penstock: 1\n": "1:1: a policy file needs steps:",
    "penstock: 1\nsteps: hygiene\n": "2:8: steps must be a list: begin each entry with `- `",
    "penstock: 1\nname: a/b\nsteps: []\n": "2:1: a name must be a text without '/'",
    f"{START}  - [hygiene]\n": "3:5: a step must be a mapping that begins with `use:`, or the name of a processor",
    f"{START}  - {{id: a}}\n": "3:5: a step needs one of use:, steps:, parallel:, branch:, dag:",
    f"{START}  - {{use: hygiene, dag: []}}\n": "3:20: use: and dag: cannot stand in one step; begin another with `- `",
    f"{START}  - {{use: hygiene, id: a/b}}\n": "3:20: an id must be a text without '/'",
    f"{START}  - {{use: hygiene, retries: -1}}\n": "3:29: retries must be a whole number, 0 or more",
    f"{START}  - {{use: hygiene, with: [1]}}\n": "3:26: with: takes options by name, as in `with: {strategy: block}`",
    f"{START}  - {{use: hygiene, timeout: .nan}}\n": "3:29: timeout must be a time above 0, such as 2s, 500ms or 1.5m",
    f"{START}  - {{steps: [hygiene]}}\n": "3:5: a group of steps needs an id:, which is its name in the graph",
    f"{START}  - dag: [hygiene, {{use: hygiene, id: a, after: b}}]\n": (
        "3:49: after: no member of the dag has the id b; use one of a, hygiene"
    ),
    f"{START}  - branch:\n    - steps: [hygiene]\n    - when: 'true'\n      steps: [hygiene]\n": (
        "4:7: only the last arm of a branch may stand without when:; add one"
    ),
    f"{START}  - parallel: [hygiene]\n    merge: newest\n": (
        "4:12: merge must be one of first, last, sequence, or {pick: the id of a step}"
    ),
    f"{START}  - {{use: unicode-normalizer, id: a}}\n  - {{use: unicode-normalizer, id: a}}\n": (
        "4:5: 2 steps have the id 'a', which was set explicitly; give each its own id; the first stands in line 3"
    ),
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_fault_is_told_at_its_place(text: str) -> None:
    """With what to do."""
    assert told(text)[0] == FAULTS[text]


def test_an_error_can_be_pickled_and_lists_one_problem_a_line() -> None:
    """It comes back from worker processes."""
    import pickle

    with pytest.raises(PolicyError) as caught:
        parse_policy(TWELVE, environment={})
    copy = pickle.loads(pickle.dumps(caught.value))  # noqa: S301 - our own
    assert copy.problems == caught.value.problems
    assert str(copy).splitlines() == [str(one) for one in caught.value.problems]
    assert str(copy).startswith("policy.yaml:2:1: a policy file has no key nam; did you mean name?\n")


def test_faults_of_the_graph_are_told_beside_steps_that_cannot_be_read() -> None:
    """Equal ids, unknown members of a dag, steps of profiles and of tests: one attempt finds all."""
    text = """\
penstock: 1
steps:
  - {use: pii-detectr, id: pii}
  - {use: pii-detector, id: pii}
  - {use: regex-filter, id: keys, with: {presets: [secrets], strategy: blok}}
  - dag:
      - {use: unicode-normalizer, id: a}
      - {use: language-detector, id: b, after: [a, aa]}
      - {use: moderatoin, id: c, after: {bb: text.length > 3}}
      - {use: moderation, id: d, after: c}
profiles:
  dev: {kees: {skip: true}}
tests:
  - {text: a, expect: {blocked_by: kees}}
  - {text: a, expect: {blocked_by: pii}}
"""
    assert told(text) == [
        "3:11: unknown processor pii-detectr; did you mean pii-detector?",
        "4:5: 2 steps have the id 'pii', which was set explicitly; give each its own id; the first stands in line 3",
        "5:72: regex-filter: option 'strategy' is blok, but must be one of block, redact, warn; did you mean block?",
        "8:52: after: no member of the dag has the id aa; did you mean a?",
        "9:15: unknown processor moderatoin; did you mean moderation?",
        "9:42: after: no member of the dag has the id bb; did you mean b?",
        "12:9: profile dev has no key kees; did you mean keys?",
        "14:36: blocked_by: no step has the id kees; did you mean keys?",
    ]


def test_ids_that_cannot_be_known_are_no_fault() -> None:
    """Those of another file that cannot be read, and of a preset whose name is unknown."""
    rest = "tests:\n  - {text: a, expect: {blocked_by: anything}}\n"
    assert len(told(f"{START}  - use: ./missing.yaml\n{rest}")) == 1
    dag = "  - dag: [{use: unknown-thing}, {use: hygiene, id: b, after: thing}]\n"
    assert [line.partition(";")[0] for line in told(f"{START}{dag}")] == ["3:17: unknown processor unknown-thing"]


def test_a_profile_that_leaves_a_step_out_takes_no_test_its_step() -> None:
    """A test may name it: it is about the others."""
    text = f"""{START}  - {{use: regex-filter, id: keys, with: {{presets: [secrets], strategy: block}}}}
profiles: {{dev: {{keys: {{skip: true}}}}}}
tests: [{{text: a, profiles: [base], expect: {{blocked_by: keys}}}}]
"""
    assert parse_policy(text, profile="dev").validate() is None
