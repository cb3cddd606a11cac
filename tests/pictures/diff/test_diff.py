"""What differs between two workflows: everything that does, each thing once, and never a secret."""

from __future__ import annotations

import datetime as dt
import enum
import functools
import json
import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, example as tried, given, settings, strategies as st

from penstock import (
    ModerationProcessor,
    OpenAICompatibleModel,
    OptionError,
    Processor,
    TokenLimiterProcessor,
    Workflow,
    member,
    processor,
)
from penstock.engine import DagEdge, pick
from penstock.engine.graph.nodes import Arm, Branch, Dag, DagMember, Parallel, Policy, Sequence, Step, steps_of
from penstock.engine.values.errors import UsageError
from penstock.pictures.diff.difference import WorkflowChange, WorkflowDiff
from penstock.workflows.presets import PRESETS
from tests.laws import examples
from tests.pictures.test_mermaid import Checks, Says, names, trees
from tests.pictures.test_render import PII, Audit, Injection, Normalizer, example, is_long


def is_short(ctx: Any) -> bool:
    """A condition."""
    return len(ctx.text) < 3


def fields(diff: WorkflowDiff) -> dict[str, tuple[Any, Any]]:
    """The fields of the only change, with both values."""
    (change,) = diff.changes
    return {one.name: (one.before, one.after) for one in change.fields}


def said(diff: WorkflowDiff) -> set[tuple[str, str, str]]:
    """What became of which."""
    return {(change.what, change.kind, change.path) for change in diff.changes}


def old() -> Workflow:
    """A workflow of every kind of node."""
    return (
        Workflow("guard")
        .then(Normalizer())
        .parallel(PII(), Injection(), timeout=2)
        .then(Injection(), id="candidate", mode="shadow")
        .branch((is_long, Workflow("long").then(PII(), id="again")))
        .then(Audit())
    )


def new() -> Workflow:
    """What became of it."""
    return (
        Workflow("guard")
        .then(Normalizer())
        .parallel(PII("block", "sk-999"), Checks("fresh"), timeout=5, merge="first")
        .branch(
            (is_short, Injection()),
            (is_long, Workflow("long").then(PII(), id="again").then(Injection(), id="candidate")),
        )
        .then(Audit())
    )


def test_a_text_is_what_a_reviewer_reads() -> None:
    """Signs in front, the properties below, and the rest left out."""
    assert str(old().diff(new())) == (
        "--- guard (6 steps)\n"
        "+++ guard (7 steps)\n"
        "  normalizer\n"
        "~ parallel\n"
        "~     merge: None → first\n"
        "~   pii\n"
        "~       policy timeout: 2 → 5\n"
        "~       strategy: 'redact' → 'block'\n"
        "~       api_key: '***' → another\n"
        "+   fresh  undeclared, edits nothing · timeout=5 s\n"
        "  branch\n"
        "+   if is_short\n"
        "~     injection\n"
        "~         moved: after pii in parallel → first in branch, if is_short\n"
        "~         policy timeout: 2 → None\n"
        "    if is_long\n"
        "      workflow long\n"
        "        again\n"
        "~       candidate\n"
        "~           moved: after parallel → after again in long\n"
        "~           policy mode: 'shadow' → 'enforce'\n"
        "  audit\n"
        "\n"
        "2 added, 4 changed"
    )


def test_workflows_without_differences_say_so() -> None:
    """In the text, the truth and the JSON."""
    diff = old().diff(old())
    assert not diff
    assert diff.same
    assert diff.changes == ()
    assert str(diff) == "no differences between guard (6 steps) and guard (6 steps)"
    assert diff.to_json()["same"] is True
    assert repr(diff) == "<WorkflowDiff 'guard' -> 'guard': 0 added, 0 removed, 0 changed>"
    assert str(Workflow("a").then(PII()).diff(Workflow("a").then(PII()))).endswith("a (1 step) and a (1 step)")


def test_a_diff_is_data() -> None:
    """JSON that a program can read."""
    diff = old().diff(new())
    data = json.loads(diff.draw("json"))
    assert data == diff.to_json()
    assert (data["version"], data["before"], data["after"], data["same"]) == (1, "guard", "guard", False)
    assert data["counts"] == {"added": len(diff.added), "removed": len(diff.removed), "changed": len(diff.changed)}
    pii = next(one for one in data["changes"] if one["path"] == "pii")
    assert pii["what"] == "changed"
    assert {"name": "options.strategy", "before": "redact", "after": "block"} in pii["fields"]
    assert {"name": "options.api_key", "before": "***", "after": "***", "hidden": True} in pii["fields"]
    fresh = next(one for one in data["changes"] if one["path"] == "fresh")
    assert (fresh["what"], fresh["old_path"]) == ("added", None)
    assert {"name": "processor", "after": "Checks"} in fresh["fields"]
    assert diff.draw("text") == str(diff)


def test_another_name_is_a_difference() -> None:
    """As it is for ``==``."""
    diff = Workflow("a").then(PII()).diff(Workflow("b").then(PII()))
    assert fields(diff) == {"name": ("a", "b")}
    assert (diff.changes[0].kind, diff.changes[0].path) == ("workflow", "")
    assert "~ name: a → b" in str(diff)


@pytest.mark.parametrize(
    ("before", "after", "name", "values"),
    [
        (Workflow("w").then(PII(), timeout=1), Workflow("w").then(PII(), timeout=2), "policy.timeout", (1, 2)),
        (Workflow("w").then(PII(), retries=1), Workflow("w").then(PII()), "policy.retries", (1, 0)),
        (
            Workflow("w").then(PII()),
            Workflow("w").then(PII(), on_error=Checks("backup")),
            "policy.on_error",
            (None, "backup"),
        ),
        (Workflow("w").then(PII()), Workflow("w").then(PII("block")), "options.strategy", ("redact", "block")),
        (Workflow("w").then(PII(), id="a"), Workflow("w").then(Injection(), id="a"), "processor", ("PII", "Injection")),
        (
            Workflow("w").parallel(PII(), Audit(), merge="first"),
            Workflow("w").parallel(PII(), Audit(), merge=pick("pii")),
            "merge",
            ("first", "pick pii"),
        ),
        (
            Workflow("w").branch((is_long, PII())),
            Workflow("w").branch((is_short, PII())),
            "condition",
            ("is_long", "is_short"),
        ),
        (
            Workflow("w").branch((is_long, PII()), (is_short, Audit())),
            Workflow("w").branch((is_long, PII()), (is_short, Audit()), match="all"),
            "match",
            ("first", "all"),
        ),
        (
            Workflow("w").branch((is_long, PII())),
            Workflow("w").branch((is_long, PII()), on_error="block"),
            "on_error",
            ("raise", "block"),
        ),
        (
            Workflow("w").dag(member(PII(), id="a"), member(Audit(), id="b")),
            Workflow("w").dag(member(PII(), id="a"), member(Audit(), id="b", after={"a": is_long})),
            "after",
            ([], ["a if is_long"]),
        ),
        (
            Workflow("w").then(Workflow("n").then(PII()), timeout=1),
            Workflow("w").then(Workflow("n").then(PII()), timeout=2),
            "policy.timeout",
            (1, 2),
        ),
        (
            Workflow("w").then(PII()).then(Audit(), id="x"),
            Workflow("w").parallel(PII(), Audit()).then(Audit(), id="x"),
            "",
            (),
        ),
    ],
)
def test_every_kind_of_property_is_compared(before: Workflow, after: Workflow, name: str, values: Any) -> None:
    """And named as it is written."""
    diff = before.diff(after)
    assert diff
    found = {one.name: (one.before, one.after) for change in diff.changes for one in change.fields}
    if name:
        assert found[name] == values
        assert len(diff.changes) == 1


def test_a_step_that_moved_is_named_once() -> None:
    """With the place where it was and the one where it is."""
    steps = [Checks(name) for name in "abcd"]
    before, after = Workflow("w"), Workflow("w")
    for one in steps:
        before = before.then(one)
    for one in (steps[0], steps[2], steps[3], steps[1]):
        after = after.then(one)
    diff = before.diff(after)
    assert said(diff) == {("changed", "step", "b")}
    assert fields(diff) == {"place": ("after a", "after d")}
    assert "moved: after a → after d" in str(diff)


def test_a_step_keeps_its_identity_when_it_is_nested() -> None:
    """In a workflow, a parallel or an arm."""
    before = Workflow("w").then(PII())
    for after, place in (
        (Workflow("w").then(Workflow("n").then(PII())), "first in n"),
        (Workflow("w").parallel(PII(), Injection()), "first in parallel"),
        (Workflow("w").branch((is_long, PII())), "first in branch, if is_long"),
        (Workflow("w").branch((is_long, Audit()), otherwise=PII()), "first in branch, otherwise"),
    ):
        diff = before.diff(after)
        assert not diff.removed
        (moved,) = diff.changed
        assert [(one.name, one.before, one.after) for one in moved.fields] == [("place", "first", place)]
        back = after.diff(before)
        assert not back.added
        assert [one.what for one in back.changes if one.kind == "step" and one.path == "pii"] == ["changed"]


def test_a_nested_workflow_can_move_with_what_is_in_it() -> None:
    """Without a word about its steps."""
    inner = Workflow("inner").then(PII()).then(Injection())
    diff = Workflow("w").then(inner).diff(Workflow("w").then(Workflow("outer").then(inner)))
    assert said(diff) == {("added", "workflow", "outer"), ("changed", "workflow", "outer/inner")}
    assert diff.changed[0].old_path == "inner"


def test_one_of_several_alike_can_be_removed() -> None:
    """The others are not changed, though their numbers are."""
    before = Workflow("w").then(PII("redact")).then(PII("block")).then(PII("filter"))
    after = Workflow("w").then(PII("block")).then(PII("filter"))
    diff = before.diff(after)
    assert said(diff) == {("removed", "step", "pii")}
    both = Workflow("w").then(PII("a")).then(PII("b")).diff(Workflow("w").then(PII("b")).then(PII("c")))
    assert said(both) == {("removed", "step", "pii"), ("added", "step", "pii#2")}


def test_parallels_and_branches_are_known_by_what_they_hold() -> None:
    """Not by their numbers."""
    late = Workflow("w").parallel(PII(), Injection()).branch((is_long, Audit()))
    early = (
        Workflow("w")
        .parallel(Checks("x"), Checks("y"))
        .branch((is_short, Checks("z")))
        .parallel(PII(), Injection())
        .branch((is_long, Audit()))
    )
    diff = late.diff(early)
    assert said(diff) == {
        ("added", "parallel", "parallel"),
        ("added", "step", "x"),
        ("added", "step", "y"),
        ("added", "branch", "branch"),
        ("added", "arm", "branch:0"),
        ("added", "step", "z"),
    }
    assert {one.what for one in early.diff(late).changes} == {"removed"}


def test_a_parallel_of_other_steps_in_the_same_place_is_the_same() -> None:
    """Its merge rule is compared."""
    diff = (
        Workflow("w")
        .parallel(Checks("a"), Checks("b"))
        .diff(Workflow("w").parallel(Checks("c"), Checks("d"), merge="last"))
    )
    assert [(one.what, one.kind) for one in diff.changes if one.kind == "parallel"] == [("changed", "parallel")]


def test_arms_are_known_by_what_they_hold() -> None:
    """Then by their condition; their order counts."""
    before = Workflow("w").branch((is_long, PII()), (is_short, Injection()), otherwise=Audit())
    swapped = Workflow("w").branch((is_short, Injection()), (is_long, PII()), otherwise=Audit())
    diff = before.diff(swapped)
    assert [one.kind for one in diff.changes] == ["arm"]
    assert [one.name for one in diff.changes[0].fields] == ["place"]
    bare = Workflow("w").branch((is_long, PII()), (is_short, Injection()))
    assert said(before.diff(bare)) == {("removed", "arm", "branch:otherwise"), ("removed", "step", "audit")}
    assert said(bare.diff(before)) == {("added", "arm", "branch:otherwise"), ("added", "step", "audit")}
    replaced = Workflow("w").branch((is_long, PII()), (is_short, Checks("new")), otherwise=Audit())
    assert said(before.diff(replaced)) == {("added", "step", "new"), ("removed", "step", "injection")}


def test_the_edges_of_a_dag_are_compared() -> None:
    """By the members that they come from, and their conditions."""
    before = Workflow("d").dag(
        member(PII(), id="a"), member(PII(), id="b", after="a"), member(PII(), id="c", after={"a": is_long, "b": None})
    )
    after = Workflow("d").dag(
        member(PII(), id="a"),
        member(PII(), id="b", after="a"),
        member(PII(), id="x", after="b"),
        member(PII(), id="c", after={"a": None, "x": None}),
        merge="last",
    )
    diff = before.diff(after)
    assert said(diff) == {("changed", "dag", "dag"), ("added", "step", "x"), ("changed", "step", "c")}
    assert "after: 'a if is_long', 'b' → 'a', 'x'" in str(diff)


def test_members_are_known_by_their_ids() -> None:
    """Also those that pass everything through, and whole workflows."""
    before = Workflow("d").dag(member(Workflow("a").then(PII())), member(Audit(), id="b", after="a"))
    after = Workflow("d").dag(
        member(Workflow("a").then(PII("block"))), member(Audit(), id="b", after="a"), member(Workflow("e"), after="b")
    )
    assert said(before.diff(after)) == {("changed", "step", "a/pii"), ("added", "workflow", "e")}
    named = Sequence((Dag((DagMember("one", Step(PII())), DagMember("two", Parallel((Step(Audit()),))))),))
    other = Sequence((Dag((DagMember("one", Step(PII("block"))), DagMember("three", Parallel((Step(Checks("n")),))))),))
    text = str(Workflow("d", named).diff(Workflow("d", other)))
    assert "~   one: pii" in text
    assert "three: parallel" in text


def test_a_sequence_without_a_name_that_says_something_is_compared() -> None:
    """By what is in it."""
    before = Sequence(
        (Sequence((Step(PII()), Step(Audit())), policy=Policy(timeout=1)), Sequence((Step(Injection()),)))
    )
    after = Sequence((Sequence((Step(PII()), Step(Audit())), policy=Policy(timeout=3)), Step(Injection())))
    diff = Workflow("w", before).diff(Workflow("w", after))
    assert [(one.what, one.kind) for one in diff.changes] == [("changed", "steps")]
    text = str(Workflow("w").then(Injection()).diff(Workflow("w", after)))
    assert "+ steps  timeout=3 s" in re.sub(" +", " ", text).replace("steps timeout", "steps  timeout")
    assert "moved: after pii in steps" not in text


# Values


class Color(enum.Enum):
    """An option of a few values."""

    RED = 1
    BLUE = 2


@dataclass(frozen=True)
class Limits:
    """An option with parts."""

    most: int = 3
    _private: int = 0


class Slotted:
    """An option with slots and a name."""

    __slots__ = ("_secret", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._secret = object()

    @property
    def name(self) -> str:
        """The name."""
        return f"slotted-{self.size}"


class Opaque:
    """An option that is compared by a method of its own."""

    def __init__(self, hidden: int) -> None:
        self._hidden = hidden

    def __eq__(self, other: object) -> bool:
        """Compare what is hidden."""
        return isinstance(other, Opaque) and self._hidden == other._hidden

    __hash__ = None  # type: ignore[assignment]


class Angry:
    """An option that cannot be compared."""

    def __eq__(self, other: object) -> bool:
        """Refuse."""
        raise ValueError

    __hash__ = None  # type: ignore[assignment]


class Holds(Processor[Any]):
    """A guard with any option."""

    edits = "nothing"

    def __init__(self, value: Any) -> None:
        self.value = value

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


def held(value: Any, name: str = "value") -> Workflow:
    """A workflow of one step with one option."""
    made = Holds(None)
    del made.value
    setattr(made, name, value)
    return Workflow("w").then(made)


def made_here(limit: int) -> Any:
    """A function that holds a value."""
    return lambda ctx: len(ctx.text) > limit


@pytest.mark.parametrize(
    ("before", "after", "name"),
    [
        (1, True, "options.value"),
        ([1, 2], [1, 3], "options.value"),
        ((1,), (2,), "options.value"),
        ({1, 2}, {1, 3}, "options.value"),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "options.value.a.b"),
        (Limits(1), Limits(2), "options.value.most"),
        ([Limits(1)], [Limits(2)], "options.value"),
        (Slotted(1), Slotted(2), "options.value.size"),
        (Opaque(1), Opaque(2), "options.value"),
        (Color.RED, Color.BLUE, "options.value"),
        (re.compile("a"), re.compile("b"), "options.value"),
        (dt.timedelta(1), dt.timedelta(2), "options.value"),
        (is_long, is_short, "options.value"),
        (made_here(1), made_here(2), "options.value"),
        (functools.partial(is_long, 1), functools.partial(is_long, 2), "options.value"),
        (Holds(1).process_input, Holds(2).process_input, "options.value"),
        (Holds, PII, "options.value"),
        (len, max, "options.value"),
        (b"1", b"2", "options.value"),
        (Angry(), Angry(), "options.value"),
    ],
)
def test_every_kind_of_value_is_compared(before: Any, after: Any, name: str) -> None:
    """By what it is, not by where it stands in memory."""
    diff = held(before).diff(held(after))
    assert name in fields(diff)
    str(diff)
    json.dumps(diff.to_json())
    if not isinstance(before, Angry):
        assert not held(before).diff(held(before))


@pytest.mark.parametrize(
    "make",
    [
        lambda: made_here(3),
        lambda: [made_here(3)],
        lambda: functools.partial(max, default=[1]),
        lambda: Limits(4),
        lambda: Slotted(2),
        object,
        lambda: {"x": {1, 2}},
        lambda: Holds(3).process_input,
        lambda: Opaque(3),
        lambda: Limits,
    ],
)
def test_equal_values_that_were_made_twice_are_the_same(make: Any) -> None:
    """As in a file that was loaded twice."""
    assert not held(make()).diff(held(make()))


def test_values_that_hold_themselves_end() -> None:
    """And so do those that are deep."""
    ring: dict[str, Any] = {"size": 1}
    ring["self"] = ring
    around: list[Any] = [1]
    around.append(around)
    deep: Any = 1
    for _ in range(50):
        deep = {"x": deep, "y": [deep]}
    for value in (ring, around, deep):
        assert not held(value).diff(held(value))
        assert held(value).diff(held(0))


def test_a_function_that_refers_to_what_is_not_there_yet_is_compared() -> None:
    """An empty cell holds nothing."""

    def make(*, fill: bool) -> Any:
        def check(ctx: Any) -> bool:
            return bool(later)

        if fill:
            later = 1
        return check

    assert not held(make(fill=False)).diff(held(make(fill=False)))
    assert held(make(fill=False)).diff(held(make(fill=True)))


def test_lists_say_what_was_added_and_removed() -> None:
    """Where they are long; a changed order is shown whole."""
    before, after = ["a", "b", "c", "d"], ["a", "c", "d", "e"]
    assert "value: -'b', +'e'" in str(held(before).diff(held(after)))
    assert "'a', 'b', 'c', 'd' → 'd', 'c', 'b', 'a'" in str(held(before).diff(held(before[::-1])))
    assert "value: 'a' → 'a', 'b'" in str(held(["a"]).diff(held(["a", "b"])))
    many = [str(number) * 20 for number in range(40)]
    assert "…" in str(held(many).diff(held([f"x{one}" for one in many])))
    assert "none → 'a'" in str(held([]).diff(held(["a"])))


def test_an_option_that_only_one_has_is_said_to_be_not_set() -> None:
    """On the side where it is missing."""
    assert "a: (not set) → 1" in str(held({}, "value").diff(held(1, "a")))
    assert "a: 1 → (not set)" in str(held(1, "a").diff(held(2, "b")))


def test_values_that_cannot_be_told_apart_are_said_to_differ() -> None:
    """Code, and objects that are shown as their class."""
    assert "value: <Opaque> → another value" in str(held(Opaque(1)).diff(held(Opaque(2))))
    one = Workflow("w").branch((made_here(1), PII()))
    assert ", with other code or values" in str(one.diff(Workflow("w").branch((made_here(2), PII()))))


def test_the_code_of_a_processor_counts() -> None:
    """Of a function, and of a class of the same name."""

    def first() -> Workflow:
        @processor("process_input", id="same")
        def check(ctx: Any) -> None:
            ctx.abort("no")

        class Own(Processor[Any]):
            def process_input(self, ctx: Any) -> None:
                ctx.abort("no")

        Own.__qualname__ = "Own"
        return Workflow("w").then(check).then(Own())

    def second() -> Workflow:
        @processor("process_input", id="same")
        def check(ctx: Any) -> None:
            ctx.abort("yes")

        class Own(Processor[Any]):
            def process_input(self, ctx: Any) -> None:
                ctx.abort("yes")

        Own.__qualname__ = "Own"
        return Workflow("w").then(check).then(Own())

    assert not first().diff(first())
    assert str(first().diff(second())).count(", with other code or values") == 2


def test_a_class_without_a_signature_is_compared() -> None:
    """Its options are all shown where they differ."""

    class Odd(Holds):
        __signature__ = "none"

    added = Workflow("w").diff(Workflow("w").then(Odd(3)))
    assert "+ odd" in str(added)
    one, other = Odd(1), Odd(2)
    one.inner = other.inner = Limits(1)  # type: ignore[attr-defined]
    assert "value: 1 → 2" in str(Workflow("w").then(one).diff(Workflow("w").then(other)))


def test_large_values_that_follow_from_options_are_only_named() -> None:
    """Unless nothing else differs."""

    class Derived(Processor[Any]):
        edits = "nothing"

        def __init__(self, size: int, seed: int = 0) -> None:
            self.size = size
            self.table = [[size, seed]]

        def process_input(self, ctx: Any) -> None:
            """Do nothing."""

    one = Workflow("w").then(Derived(1))
    assert "size: 1 → 2\n~     and with them table" in str(one.diff(Workflow("w").then(Derived(2))))
    assert "table: [[1, 0]] → [[1, 1]]" in str(one.diff(Workflow("w").then(Derived(1, 1))))


def test_another_class_shows_what_both_have_and_what_was_set() -> None:
    """Options that only one of them has would fill the page; the JSON has them all."""
    diff = Workflow("w").then(PII(), id="x").diff(Workflow("w").then(Slow(7), id="x"))
    text = str(diff)
    assert "processor: PII → Slow" in text
    assert "seconds: (not set) → 7" in text
    assert "quiet" not in text
    assert "api_key" not in text
    assert {"options.api_key", "options.quiet"} <= {field.name for field in diff.changes[0].fields}


class Slow(Processor[Any]):
    """A guard with two options."""

    edits = "nothing"

    def __init__(self, seconds: int, *, quiet: bool = False, strategy: str = "redact") -> None:
        self.seconds = seconds
        self.quiet = quiet
        self.strategy = strategy

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


def test_an_added_step_shows_the_options_that_were_given() -> None:
    """Not those that have their default."""
    text = str(Workflow("w").diff(Workflow("w").then(PII("block"), timeout=2)))
    assert "+ pii  guard, edits spans · timeout=2 s" in text.replace("undeclared", "guard")
    assert "+     strategy: 'block'" in text
    assert "api_key" not in text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("end_stream", True),
        ("pinned", is_short),
        ("on_trim", print),
        ("summarize", str),
        ("token_counter", len),
    ],
)
def test_another_option_of_a_built_in_step_is_a_difference(name: str, value: Any) -> None:
    """Also if it is only called."""
    plain, other = (Workflow("guard").then(TokenLimiterProcessor(100, **given)) for given in ({}, {name: value}))
    assert f"options.{name}" in fields(plain.diff(other))


def test_another_model_is_a_difference_and_its_key_is_no_secret_told() -> None:
    """The name of a model decides what a guard finds."""

    def guard(name: str, key: str) -> Workflow:
        model = OpenAICompatibleModel(name, api_key=key, base_url="https://models.example/v1")
        return Workflow("w").then(ModerationProcessor(model=model))

    text = str(guard("small", "sk-1").diff(guard("large", "sk-2")))
    assert "model.name: 'openai-compatible/small' → 'openai-compatible/large'" in text
    assert "sk-" not in text
    assert not guard("small", "sk-1").diff(guard("small", "sk-1"))


# Laws

SECRET = "hunter2-hunter2"
secret_names = st.sampled_from(
    ["api_key", "token", "client_secret", "password", "credentials", "authorization", "headers"]
)
secrets = st.recursive(
    st.sampled_from([SECRET, f"x{SECRET}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(secret_names, secrets, secrets, st.booleans())
def test_no_secret_is_ever_shown(name: str, one: Any, other: Any, deep: bool) -> None:
    """In lists, mappings and objects, in no format."""
    before, after = ({"x": {name: one}}, {"x": {name: other}}) if deep else (one, other)
    label = "value" if deep else name
    for diff in (held(before, label).diff(held(after, label)), Workflow("w").diff(held(before, label))):
        assert SECRET not in str(diff)
        assert SECRET not in diff.draw("json")
        assert SECRET not in repr(diff.changes)
    assert bool(held(before, label).diff(held(after, label))) == (one != other)


def test_the_password_of_a_url_is_not_shown() -> None:
    """Whatever the option is called."""
    diff = held("postgresql://me:hunter2@db/x").diff(held("postgresql://me:hunter3@db/x"))
    assert "hunter" not in str(diff)
    assert "postgresql://me:***@db/x" in str(diff)


graphs = st.lists(trees, max_size=3).map(lambda nodes: Sequence(tuple(nodes)))


@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs)
def test_a_workflow_does_not_differ_from_itself(root: Sequence) -> None:
    """Whatever its shape and its names."""
    diff = Workflow("w", root).diff(Workflow("w", root))
    assert not diff
    assert diff.to_json()["changes"] == []


def paths(changes: tuple[WorkflowChange, ...]) -> list[str]:
    """The paths of steps."""
    return [one.path for one in changes if one.kind == "step"]


def dag(*steps: Step) -> Dag:
    """A dag whose members depend on nothing."""
    return Dag(tuple(DagMember(str(number), step) for number, step in enumerate(steps)))


TWICE, SHADOW = Step(Checks("end")), Step(Checks("end"), Policy(mode="shadow"))


@tried(Sequence((dag(TWICE, TWICE), dag(SHADOW))), Sequence((dag(SHADOW), dag(TWICE, TWICE))))
@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs, graphs)
def test_each_step_that_was_added_or_removed_is_named_once(one: Sequence, other: Sequence) -> None:
    """And as many stay as were there; both ways the same count; the words never break."""
    there, back = Workflow("w", one).diff(Workflow("w", other)), Workflow("w", other).diff(Workflow("w", one))
    for diff in (there, back):
        for changes in (diff.added, diff.removed):
            assert len(set(paths(changes))) == len(paths(changes))
        json.dumps(diff.to_json())
        lines = str(diff).splitlines()
        assert all(line.isprintable() for line in lines)
        if diff:
            assert sum(line.startswith("+ ") for line in lines) >= len(diff.added)
            assert sum(line.startswith("- ") for line in lines) >= len(diff.removed)
    before, after = len(list(steps_of(one))), len(list(steps_of(other)))
    assert before - len(paths(there.removed)) == after - len(paths(there.added))
    assert len(there.added) == len(back.removed)
    assert len(there.removed) == len(back.added)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs, st.data())
def test_a_step_that_is_appended_is_the_only_change(root: Sequence, data: Any) -> None:
    """And the one that is taken away again."""
    fresh = Step(Checks("entirely-new"))
    place = data.draw(st.integers(0, len(root.nodes)))
    more = Workflow("w", replace(root, nodes=(*root.nodes[:place], fresh, *root.nodes[place:])))
    less = Workflow("w", root)
    assert said(less.diff(more)) == {("added", "step", "entirely-new")}
    assert said(more.diff(less)) == {("removed", "step", "entirely-new")}


@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_compared(name: str) -> None:
    """Each with itself and with the next."""
    assert not PRESETS[name]().diff(PRESETS[name]())
    for other in PRESETS:
        diff = PRESETS[name]().diff(PRESETS[other]())
        assert bool(diff) == (name != other)
        assert " at 0x" not in str(diff)


def test_what_is_no_workflow_is_refused() -> None:
    """With words that help."""
    with pytest.raises(UsageError, match="diff\\(\\) takes a workflow, not str"):
        example().diff("guard")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="format"):
        example().diff(example()).draw("png")  # type: ignore[arg-type]


def test_unchanged_steps_far_from_changes_are_counted() -> None:
    """So that a diff of a long workflow is short."""
    before = Workflow("w")
    for number in range(30):
        before = before.then(Checks(f"s{number}"))
    text = str(before.diff(before.then(Checks("last"))))
    assert text.splitlines()[2:5] == ["  … 29 unchanged steps", "  s29", "+ last  undeclared, edits nothing"]
    inner = Workflow("inner").then(Checks("x")).then(Checks("y"))
    assert "    … 2 unchanged steps" in str(
        Workflow("w").then(inner).diff(Workflow("w").then(inner).then(Checks("last")))
    )


def test_edges_from_nobody_and_arms_of_lambdas_are_compared() -> None:
    """Whatever is in a graph."""
    root = Sequence(
        (Dag((DagMember("a", Step(PII()), (DagEdge("nobody"),)),)), Branch((Arm(lambda _: True, Step(Audit())),)))
    )
    other = Sequence((Dag((DagMember("a", Step(PII())),)), Branch((Arm(lambda _: False, Step(Audit())),))))
    diff = Workflow("w", root).diff(Workflow("w", other))
    assert [(one.kind, [field.name for field in one.fields]) for one in diff.changes] == [
        ("step", ["after"]),
        ("arm", ["condition"]),
    ]


def test_hostile_names_do_not_break_a_text() -> None:
    """Each stands on its line."""

    @settings(max_examples=examples(30), deadline=None)
    @given(names, names)
    def check(one: str, other: str) -> None:
        text = str(
            Workflow(one).then(Checks(one)).diff(Workflow(other).then(Checks(other)).branch((Says(other), PII())))
        )
        assert all(line.isprintable() for line in text.splitlines())

    check()
