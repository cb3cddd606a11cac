"""Whether `to_policy` writes what `parse_policy` reads as an equal workflow, and names what a file cannot say."""

import re
import subprocess
import sys
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings, strategies as st

from penstock import Key, ModerationProcessor, PIIDetector, Processor, UnicodeNormalizer, Workflow, member, processor
from penstock.engine.graph.nodes import Sequence
from penstock.engine.merging.rules import pick
from penstock.processors.budgets import TokenLimiterProcessor
from penstock.processors.caching import ResponseCache
from penstock.processors.discovery import Skill, SkillsProcessor
from penstock.processors.guards import LanguageDetector, SystemPromptScrubber
from penstock.processors.memory import MessageHistory
from penstock.processors.recovery import StreamErrorRetryProcessor
from penstock.processors.text import RegexFilterProcessor
from penstock.stores import InMemoryStorage
from penstock.workflows.policies import PolicyCondition, PolicyError, PolicyWriteError, parse_policy
from penstock.workflows.policies.expressions import FactNames
from penstock.workflows.policies.registry import known_names, maker_of
from penstock.workflows.presets import PRESETS
from tests.laws import examples
from tests.workflows.policies.test_options import VALUES, options_of

LANGUAGE = FactNames().with_keys([Key[str]("language")])


def read_again(workflow: Workflow) -> Workflow:
    """Return what a file that was written of a workflow holds."""
    return parse_policy(workflow.to_policy(), environment={})


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_written(name: str) -> None:
    """Its steps one by one, with all of their conditions."""
    preset = PRESETS[name]()
    assert read_again(preset) == preset
    assert "steps:" in preset.to_policy()


CLASSES = [name for name in known_names() if isinstance(maker_of(name), type)]
NEEDED: dict[str, dict[str, Any]] = {
    "classifier": {"labels": ["a", "b"]},
    "agents-md-injector": {"roots": ["."]},
    "token-limiter": {"limit": 100},
    "token-cost-control": {"max_cost": 1.5},
    "regex-filter": {"presets": ["pii"]},
}


def test_processors_of_their_defaults_can_be_written() -> None:
    """But for those that need what a file cannot hold: a model, a store, an index, a secret."""
    written: list[str] = []
    for name in CLASSES:
        try:
            made = maker_of(name)(**NEEDED.get(name, {}))
        except Exception:  # noqa: BLE001, S112 - it has no defaults
            continue
        workflow = Workflow("w").then(made)
        assert read_again(workflow) == workflow
        written.append(name)
    expected = {
        "agents-md-injector", "batch-parts", "language-detector", "moderation", "pii-detector", "prefill-error-handler",
        "prompt-injection-detector", "provider-history-compat", "regex-filter", "response-cache", "restore",
        "spotlight", "stream-error-retry", "token-cost-control", "token-limiter", "tool-call-filter",
        "trailing-assistant-guard", "unicode-normalizer",
    }  # fmt: skip
    assert expected <= set(written)


@settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(given=st.data())
def test_a_processor_of_any_options_is_written_or_named(given: st.DataObject) -> None:
    """Never written as something else."""
    name = given.draw(st.sampled_from(known_names()))
    options = given.draw(st.dictionaries(st.sampled_from(options_of(name) or ["x"]), VALUES, max_size=3))
    try:
        made = maker_of(name)(**options)
        workflow = Workflow("w").then(made)
    except Exception:  # noqa: BLE001 - whatever a constructor makes of a wrong value; another test is about files
        return
    try:
        text = workflow.to_policy()
    except PolicyWriteError:
        return
    assert parse_policy(text, environment={}) == workflow


PROCESSORS = st.sampled_from(
    [
        UnicodeNormalizer(),
        UnicodeNormalizer(id="own"),
        PIIDetector(strategy="block", threshold=0.9),
        RegexFilterProcessor(presets=["secrets"], strategy="redact", id="keys"),
        LanguageDetector(languages=["en", "de"]),
        ModerationProcessor(strategy="warn"),
        TokenLimiterProcessor(100),
    ]
)
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "timeout": st.sampled_from([0.1, 2, 1 / 3, 1e-5, 86_400]),
        "on_error": st.sampled_from(["block", "allow", UnicodeNormalizer(id="fallback")]),
        "retries": st.integers(1, 3),
    },
)
CONDITIONS = st.sampled_from(
    ["text.length > 3", "role == 'user' && 'x' in metadata", 'stage == "a: b # c"', "known == []"]
)
IDS = st.text("abcXYZ019.-_ :#'\"{}[]&*!|>%@`äß😀$", min_size=1, max_size=8).filter(lambda id: bool(id.strip()))


@st.composite
def workflows(draw: st.DrawFn, depth: int = 2) -> Workflow:
    """Draw a workflow of any shape."""
    made = Workflow(draw(IDS))
    for number in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["step", "step", "parallel", "branch", "dag", "group"] if depth else ["step"]))
        inner = workflows(depth=depth - 1) if depth else None
        if kind == "step":
            made = made.then(draw(PROCESSORS), **draw(POLICIES))
        elif kind == "group" and inner is not None:
            made = made.then(draw(inner), id=f"group {number}", **draw(POLICIES))
        elif kind == "parallel":
            made = made.parallel(*[draw(PROCESSORS) for _ in range(2)], merge=draw(st.sampled_from(["first", "last"])))
        elif kind == "branch" and inner is not None:
            arms = [(PolicyCondition(draw(CONDITIONS)), draw(inner)) for _ in range(draw(st.integers(1, 2)))]
            otherwise = draw(st.none() | PROCESSORS)
            made = made.branch(*arms, otherwise=otherwise, on_error=draw(st.sampled_from(["block", "raise"])))
        else:
            members = [member(draw(PROCESSORS), id=f"m{number}-0"), member(draw(PROCESSORS), id=f"m{number}-1")]
            last = member(
                UnicodeNormalizer(), id=f"m{number}-2", after={f"m{number}-0": PolicyCondition(draw(CONDITIONS))}
            )
            made = made.dag(*members, last, merge="last")
    return made


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workflows())
def test_a_workflow_of_any_shape_is_read_again_as_it_was(workflow: Workflow) -> None:
    """The law of both directions. Facts that a condition does not read do not matter; ``known`` reads all."""
    try:
        workflow.validate()
    except Exception:  # noqa: BLE001 - ids that stand twice
        return
    try:
        text = workflow.to_policy()
    except PolicyWriteError as error:
        assert "known" in str(workflow), error  # noqa: PT017 - a condition made by hand does not know the facts
        return
    assert parse_policy(text, environment={}) == workflow
    assert yaml.safe_load(text)["penstock"] == 1


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_read_again_as_it_was(pattern: str, name: str) -> None:
    """By Penstock, and by a reader of YAML 1.1; or it is named, where YAML has no way to say it."""
    rules = [{"name": name or "x", "pattern": re.escape(pattern) or "x"}]
    try:
        workflow = Workflow("w").then(RegexFilterProcessor(rules=rules, strategy="redact"))
    except Exception:  # noqa: BLE001 - not a name
        return
    text = workflow.to_policy()
    assert parse_policy(text, environment={}) == workflow
    if "$" not in text:
        (step,) = yaml.safe_load(text)["steps"]
        assert step["with"]["rules"][0]["pattern"] == rules[0]["pattern"]


def test_two_caches_and_two_retries_of_equal_options_are_equal() -> None:
    """What they hold at run time is no option."""
    assert ResponseCache(ttl=None, scope=None) == ResponseCache(ttl=None, scope=None) != ResponseCache()
    cached = Workflow("w").then(ResponseCache(ttl=5, max_wait=0, agent_id="a"))
    assert read_again(cached) == cached
    with pytest.raises(PolicyWriteError):  # tags and keys are not shown, since they may tell what was asked
        Workflow("w").then(ResponseCache(tags=["a"])).to_policy()
    assert StreamErrorRetryProcessor() == StreamErrorRetryProcessor() != StreamErrorRetryProcessor(max_retries=5)


def is_long(ctx: object) -> bool:
    """Return False."""
    return False


@processor("process_input")
def own(ctx: object) -> None:
    """Do nothing."""


class Mine(Processor):
    """A processor of a user."""

    def process_input(self, ctx: object) -> None:
        """Do nothing."""


def test_all_that_a_file_cannot_say_is_named_with_its_place() -> None:
    """Functions, objects, classes that nobody registered."""
    workflow = (
        Workflow("mixed")
        .branch((is_long, PIIDetector()), (lambda ctx: True, Mine()))
        .then(own)
        .then(MessageHistory(InMemoryStorage()), id="store")
        .parallel(PIIDetector(), UnicodeNormalizer(), merge=lambda conflict: None)  # type: ignore[arg-type,return-value]
        .then(RegexFilterProcessor(presets=["pii"], strategy="redact"))
    )
    with pytest.raises(PolicyWriteError) as caught:
        workflow.to_policy()
    problems = "\n".join(caught.value.problems)
    assert "a branch: the condition is_long is a function; write it as an expression" in problems
    assert "a branch: the condition <lambda> is a function" in problems
    assert "mine: Mine is not registered; add an entry point of its package in penstock.processors" in problems
    assert "own: FunctionProcessor is not registered" in problems
    assert "store: " in problems
    assert "parallel: its merge= is a function; a file can say first, last, sequence or {pick: id}" in problems
    assert len(caught.value.problems) == 6
    assert str(caught.value).startswith("workflow 'mixed' cannot be written as a policy file:\n  - ")


def test_a_secret_is_not_written() -> None:
    """A system prompt stands in a file as ``${NAME}``; a workflow in Python does not know from where it came."""
    with pytest.raises(PolicyWriteError) as caught:
        Workflow("w").then(SystemPromptScrubber(prompts=["You are Bo, and the code is 4711."])).to_policy()
    assert "4711" not in str(caught.value)


def test_what_differs_only_in_how_it_is_built_is_named() -> None:
    """A pick of a branch, a policy and an id are written; so is an id that the processor has already."""
    workflow = (
        Workflow("w")
        .parallel(PIIDetector(), RegexFilterProcessor(presets=["pii"], strategy="redact"), merge=pick("pii-detector"))
        .then(UnicodeNormalizer(id="a"), id="a")
        .then(UnicodeNormalizer(), id="unicode-normalizer")
        .then(PIIDetector(), id="b")
    )
    assert read_again(workflow) == workflow


def test_conditions_of_facts_are_read_with_their_facts() -> None:
    """The facts that a file's steps put are the same keys."""
    condition = PolicyCondition("facts.language == 'en'", LANGUAGE)
    workflow = Workflow("w").then(LanguageDetector()).branch((condition, PIIDetector()), on_error="block")
    assert read_again(workflow) == workflow
    alone = Workflow("w").branch((condition, PIIDetector()), on_error="block")
    with pytest.raises(PolicyWriteError, match=r"facts\.language"):
        alone.to_policy()


def test_writing_needs_no_extra_and_loads_nothing_before() -> None:
    """`import penstock` and a workflow do not import YAML."""
    code = (
        "import sys; from penstock import Workflow, UnicodeNormalizer; w = Workflow('w').then(UnicodeNormalizer());"
        "assert 'yaml' not in sys.modules and 'cel_expr_python' not in sys.modules;"
        "w.to_policy(); assert 'cel_expr_python' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_empty_workflow_is_read_again() -> None:
    """It changes nothing."""
    assert read_again(Workflow("empty")) == Workflow("empty")
    assert Workflow("empty").root == Sequence()  # its name belongs to the workflow
    with pytest.raises(PolicyError):
        parse_policy("penstock: 1\nname: x\n")


@pytest.mark.parametrize(
    ("processor", "told"),
    [
        (
            lambda: SystemPromptScrubber(prompts=["a secret prompt of many words"]),
            "the option prompts is not shown, because it may be a secret",
        ),
        (
            lambda: PIIDetector(hash_key="k" * 32, redaction_method="hash"),
            "the option hash_key is not shown, because it may be a secret",
        ),
        (
            lambda: ResponseCache(tags=["a"]),
            "one of the options key, scope, tags is not shown, because it may be a secret",
        ),
        (lambda: SkillsProcessor([Skill("a", "b", "c")]), "the option skills cannot be read back from the processor"),
    ],
)
def test_an_option_that_is_not_shown_is_named_in_the_error(processor, told: str) -> None:
    """With the way out: to write it into the file, a secret as a variable."""
    with pytest.raises(PolicyWriteError, match=told):
        Workflow("w").then(processor()).to_policy()
