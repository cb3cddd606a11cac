"""Workflows as diagrams: what each format shows, snapshot by snapshot, and that no name can break one.

``PENSTOCK_UPDATE_SNAPSHOTS=1 pytest tests/pictures`` writes the snapshots anew; look at the difference.
"""

from __future__ import annotations

import functools
import html
import json
import linecache
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock import (
    Key,
    OptionError,
    PIIDetector,
    Processor,
    RegexFilterProcessor,
    SystemPromptScrubber,
    Workflow,
    member,
)
from penstock.engine import DagEdge, pick
from penstock.engine.graph.condition_words import condition_label, condition_words
from penstock.engine.graph.conditions import either, every
from penstock.engine.graph.nodes import Arm, Branch, Parallel, Policy, Sequence, Step
from penstock.engine.tracing.display import short, visible
from penstock.pictures.as_json import options_of
from penstock.pictures.labels import merge_words, policy_words

SNAPSHOTS = Path(__file__).parent / "snapshots"
LANGUAGE = Key[str]("language")


class Normalizer(Processor[Any]):
    """A transform at two stages."""

    edits = "anything"
    role = "transform"
    on_error = "allow"

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""

    def process_output_step(self, ctx: Any) -> None:
        """Do nothing."""


class PII(Processor[Any]):
    """A guard with options."""

    edits = "spans"
    role = "guard"

    def __init__(self, strategy: str = "redact", api_key: str = "sk-123") -> None:
        self.strategy = strategy
        self.api_key = api_key
        self._patterns = object()

    async def process_input(self, ctx: Any) -> None:
        """Do nothing."""

    async def process_output_step(self, ctx: Any) -> None:
        """Do nothing."""


class Injection(Processor[Any]):
    """A guard that only looks."""

    edits = "nothing"
    role = "guard"

    async def process_input(self, ctx: Any) -> None:
        """Do nothing."""


class Language(Processor[Any]):
    """Puts a fact."""

    edits = "nothing"
    role = "transform"
    provides = (LANGUAGE,)

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


class Translate(Processor[Any]):
    """Needs a fact."""

    edits = "anything"
    role = "transform"
    requires = (LANGUAGE,)

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


class Audit(Processor[Any]):
    """An observer that stores."""

    role = "observer"
    stores = True

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""

    def process_output_result(self, ctx: Any) -> None:
        """Do nothing."""


def is_long(ctx: Any) -> bool:
    """A condition."""
    return len(ctx.text) > 100


def text(block: str) -> str:
    """The lines of a block, as they are drawn."""
    return textwrap.dedent(block).strip("\n").rstrip()


def example() -> Workflow:
    """A workflow with everything in it."""
    translation = Workflow("translation").then(Language()).branch((lambda ctx: ctx.get(LANGUAGE) != "en", Translate()))
    return (
        Workflow("front door")
        .then(Normalizer())
        .parallel(PII(), Injection(), translation, timeout=2.0, merge=pick("pii"))
        .then(Injection(), id="new-injection", mode="shadow")
        .branch((is_long, PII("block")), (lambda ctx: "x" in ctx.text, Audit()), match="all", on_error="block")
        .dag(
            member(PII(), id="first"),
            member(Injection(), id="left", after="first", on_error="allow"),
            member(Language(), id="right", after={"first": is_long}),
            member(Audit(), id="last", after=("left", "right")),
            merge="last",
        )
        .then(Injection(), id="late", overlap="model", on_error=Injection())
        .then(Normalizer(), id="slow", offload="thread")
    )


@pytest.mark.parametrize("stage", [None, "process_output_step"], ids=["all", "process_output_step"])
@pytest.mark.parametrize("form", ["mermaid", "dot", "text", "json"])
def test_a_diagram_looks_as_it_did(form: str, stage: str | None) -> None:
    """The whole example, and what of it runs at one stage."""
    drawn = example().draw(form, stage) + "\n"  # type: ignore[arg-type]
    kept = SNAPSHOTS / f"{'all' if stage is None else stage}.{form}"
    if os.environ.get("PENSTOCK_UPDATE_SNAPSHOTS"):
        SNAPSHOTS.mkdir(exist_ok=True)
        kept.write_text(drawn, "utf-8")
    assert drawn == kept.read_text("utf-8")


def test_print_shows_the_text() -> None:
    """`str` of a workflow is its diagram for a terminal."""
    assert str(example()) == example().draw("text")


def test_text_tells_sequence_parallel_branch_and_shadow_apart() -> None:
    """By the lines of the tree."""
    inner = Workflow("in").then(Injection(), id="d")
    workflow = (
        Workflow("w")
        .then(PII(), id="a")
        .parallel(Injection(), inner, merge="first")
        .then(Injection(), id="s", mode="shadow")
        .branch((is_long, Workflow("empty")), otherwise=Audit())
    )
    assert str(workflow) == text(
        """
        w
        ├─ a             guard, edits spans · input, output_step
        ├─ parallel (merge=first)
        │  ╠═ injection  guard, edits nothing · input
        │  ╚═ workflow in
        │     └─ d       guard, edits nothing · input
        ├┄ s             guard, edits nothing · shadow · input
        └─ branch: first that holds
           ├─ if is_long
           │  └─ workflow empty
           │     └─ (passes through)
           └─ otherwise
              └─ audit   observer, stores · input, output_result
        """
    )


def test_text_lines_up_in_a_terminal_whatever_the_names() -> None:
    """Wide characters take two columns, combining ones none."""
    lines = str(Workflow("w").then(Injection(), id="日本").then(Injection(), id="e\u0301").then(Injection(), id="abcd"))
    assert lines.split("\n")[1:] == [
        "├─ 日本  guard, edits nothing · input",
        "├─ e\u0301     guard, edits nothing · input",
        "└─ abcd  guard, edits nothing · input",
    ]


def test_an_empty_workflow_can_be_drawn() -> None:
    """It says so; and so does one that has nothing at the stage."""
    assert str(Workflow("w")) == "w\n└─ (nothing)"
    assert Workflow("w").then(Audit()).draw("text", "process_tool_call") == "w at process_tool_call\n└─ (nothing)"
    assert [node["kind"] for node in _json(Workflow("w"))["nodes"]] == ["start", "end"]


def test_steps_and_arms_without_the_stage_are_left_out_of_its_picture() -> None:
    """A parallel of one is that one; an arm with nothing in it passes through; a workflow with nothing is not there."""
    workflow = (
        Workflow("w")
        .parallel(PII(), Injection())
        .branch((is_long, Injection()), otherwise=Normalizer())
        .then(Workflow("in").then(Injection()))
        .branch((is_long, Language()))
    )
    assert workflow.draw("text", "process_output_step") == text(
        """
        w at process_output_step
        ├─ pii               guard, edits spans
        └─ branch: first that holds
           ├─ if is_long
           │  └─ (passes through)
           └─ otherwise
              └─ normalizer  transform, edits anything · on_error=allow
        """
    )


def test_an_unknown_format_or_stage_is_refused() -> None:
    """With what there is."""
    with pytest.raises(OptionError, match="one of 'mermaid', 'dot', 'text', 'json', 'svg'"):
        example().draw("png")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="process_output_step"):
        example().draw("text", "process_outputs")


def test_drawing_does_not_load_networkx() -> None:
    """Nor does importing the package."""
    code = (
        "import sys; from penstock import Workflow; w = Workflow('w'); "
        "[w.draw(one) for one in ('mermaid', 'dot', 'text', 'json')]; sys.exit('networkx' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# The flow


def _json(workflow: Workflow) -> Any:
    return json.loads(workflow.draw("json"))


def _flow(workflow: Workflow) -> list[str]:
    """The edges of a diagram in words."""
    drawn = _json(workflow)
    names = {node["id"]: node["path"] if node["kind"] == "step" else node["kind"] for node in drawn["nodes"]}
    arrows = {False: "→", True: "⇢"}
    return [
        f"{names[edge['source']]} {arrows[edge['shadow']]} {names[edge['target']]}"
        + (f" if {edge['when']}" if edge["when"] else "")
        for edge in drawn["edges"]
    ]


def test_a_parallel_forks_and_joins() -> None:
    """All ways lead from the fork to the join."""
    assert _flow(Workflow("w").parallel(PII(), Injection())) == [
        "start → fork",
        "fork → pii",
        "fork → injection",
        "pii → join",
        "injection → join",
        "join → end",
    ]


def test_a_parallel_told_to_run_in_sequence_is_one() -> None:
    """It neither forks nor joins."""
    assert _flow(Workflow("w").parallel(PII(), Injection(), merge="sequence")) == [
        "start → pii",
        "pii → injection",
        "injection → end",
    ]


def test_a_parallel_of_one_is_that_one() -> None:
    """As it runs."""
    assert _flow(Workflow("w").parallel(PII())) == ["start → pii", "pii → end"]


def test_a_branch_goes_on_from_each_arm_or_past_them() -> None:
    """Where nothing stands for otherwise, the way is free."""
    assert _flow(Workflow("w").branch((is_long, PII())).then(Audit())) == [
        "start → branch",
        "branch → pii if is_long",
        "pii → audit",
        "branch → audit if otherwise",
        "audit → end",
    ]


def test_a_branch_for_all_that_hold_joins() -> None:
    """What ran beside each other meets."""
    assert _flow(Workflow("w").branch((is_long, PII()), (bool, Injection()), otherwise=Audit(), match="all")) == [
        "start → branch",
        "branch → pii if is_long",
        "pii → join",
        "branch → injection if bool",
        "injection → join",
        "branch → audit if otherwise",
        "audit → join",
        "join → end",
    ]


def test_what_runs_in_shadow_is_beside_the_flow() -> None:
    """A way leads to it, none leads back: a step, a workflow, a branch of a parallel, all of them."""
    inner = Workflow("in").then(PII()).then(Audit())
    assert _flow(Workflow("w").then(inner, mode="shadow").then(Injection())) == [
        "start ⇢ in/pii",
        "start → injection",
        "in/pii → in/audit",
        "injection → end",
    ]
    shadow = Workflow("w").parallel(PII(), Injection(), mode="shadow")
    assert _flow(shadow) == ["start → fork", "fork ⇢ pii", "fork ⇢ injection", "fork → end"]


def test_a_dag_shows_its_edges_and_conditions() -> None:
    """A member that does nothing is a point on the way."""
    empty = Workflow("empty")
    dag = Workflow("w").dag(
        member(PII(), id="a"), member(empty, id="b", after={"a": is_long}), member(Audit(), id="c", after=("a", "b"))
    )
    assert _flow(dag) == ["start → a", "a → pass if is_long", "a → c", "pass → c", "c → end"]


def test_a_condition_on_a_way_out_of_a_branch_is_added_to_its_own() -> None:
    """Both must hold."""
    passing = Workflow("p").branch((is_long, PII()))
    dag = Workflow("w").dag(member(passing, id="a"), member(Audit(), id="c", after={"a": callable}))
    assert "branch → c if otherwise and callable" in _flow(dag)


def test_a_dag_with_problems_is_drawn_with_them() -> None:
    """A cycle, and a member that is none, show best in a picture."""
    cycle = Workflow("w").dag(
        member(PII(), id="a", after="b"), member(PII(), id="b", after=("a", "nobody")), member(Audit(), id="c")
    )
    assert _flow(cycle) == ["start → c", "missing → b", "c → end", "b → a", "a → b"]
    circle = Workflow("w").dag(member(Workflow("a").then(PII(), mode="shadow"), after="a"))
    assert _flow(circle) == []
    for form in ("mermaid", "dot", "text"):
        assert "nobody" in cycle.draw(form)  # type: ignore[arg-type]


def test_steps_without_a_name_of_their_own_workflow_are_framed_by_their_policy() -> None:
    """A sequence under a policy is something, even if nobody named it."""
    workflow = Workflow("w", Sequence((Sequence((Step(PII()),), "", Policy(timeout=1)),)))
    assert str(workflow).split("\n")[1] == "└─ steps (timeout=1 s)"
    assert [(group["kind"], group["title"]) for group in _json(workflow)["groups"]] == [("sequence", "steps")]
    bare = Workflow("w", Sequence((Branch((Arm(is_long, Sequence((Step(PII()), Step(Audit())))),)),)))
    assert str(bare).split("\n")[3:] == [
        "      ├─ pii    guard, edits spans · input, output_step",
        "      └─ audit  observer, stores · input, output_result",
    ]


# JSON


def test_json_holds_all_that_is_known_of_a_step() -> None:
    """Claims, policy, options; of a secret nothing, of an object its class."""
    (step,) = (node for node in _json(example())["nodes"] if node.get("path") == "late")
    assert step == {
        "id": step["id"],
        "kind": "step",
        "group": None,
        "title": "late",
        "path": "late",
        "processor": f"{Injection.__module__}.Injection",
        "role": "guard",
        "edits": "nothing",
        "on_error": "raise",
        "stages": ["process_input"],
        "async_stages": ["process_input"],
        "provides": [],
        "requires": [],
        "stores": False,
        "policy": {
            "timeout": None,
            "on_error": {"fallback": "injection"},
            "mode": "enforce",
            "overlap": "model",
            "offload": None,
            "retries": 0,
            "retry_delay": None,
        },
        "options": {},
    }


def test_json_tells_no_secret_and_always_is_json() -> None:
    """Whatever the options are."""

    class Odd(Processor[Any]):
        def __init__(
            self,
            patterns: Any,
            words: Any,
            limits: Any,
            apiKey: str,  # noqa: N803 - as other languages spell it
            auth_header: str,
            max_tokens: int,
        ) -> None:
            self.patterns = patterns
            self.words = words
            self.limits = limits
            self.apiKey = apiKey
            self.auth_header = auth_header
            self.max_tokens = max_tokens
            self.process_input = is_long

    odd = Odd(
        (re.compile("x"), "y", None),
        {"b", "a"},
        {"max": 1.5, "token": "t0p", 3: [True]},
        apiKey="sk-1",
        auth_header="Bearer x",
        max_tokens=10,
    )
    assert options_of(odd) == {
        "patterns": [{"class": "Pattern"}, "y", None],
        "words": ["a", "b"],
        "limits": {"max": 1.5, "token": "***", "3": [True]},
        "apiKey": "***",
        "auth_header": "***",
        "max_tokens": 10,
    }


# Labels


class Bound:
    """Something with a method."""

    @classmethod
    def always(cls, _ctx: Any) -> bool:
        """Hold."""
        return True

    def holds(self, _ctx: Any) -> bool:
        """Hold."""
        return True

    def __call__(self, _ctx: Any) -> bool:
        """Hold."""
        return True


class Broken(Bound):
    """Something whose repr breaks."""

    def __repr__(self) -> str:
        """Break."""
        raise RuntimeError


class Spoken(Bound):
    """Something that says what it is."""

    def __repr__(self) -> str:
        """Say it."""
        return "Spoken('x')"


class Address(Bound):
    """Something that says where it is."""

    def __repr__(self) -> str:
        """Say it."""
        return object.__repr__(self)


SAID: list[tuple[Any, str]] = [
    (is_long, "is_long"),
    (lambda ctx: len(ctx.text) > 10 and "é" in ctx.text, "len(ctx.text) > 10 and 'é' in ctx.text"),
    (
        lambda ctx: (
            (ctx.text or ctx.run_id)  # a comment
            and ctx.messages
        ),
        "(ctx.text or ctx.run_id) and ctx.messages",
    ),
    *(((lambda ctx: ctx.text), "ctx.text"), ((lambda ctx: ctx.text != LANGUAGE), "ctx.text != LANGUAGE")),
    (lambda _: True, "True"),
    (eval("lambda ctx: ctx.text"), "lambda"),  # noqa: S307 - a lambda without a source
    (Bound().holds, "Bound.holds"),
    (Bound.always, "Bound.always"),
    (Bound(), "Bound"),
    (Broken(), "Broken"),
    (Spoken(), "Spoken('x')"),
    (Address(), "Address"),
    (Bound, "Bound"),
    (len, "len"),
    (functools.partial(is_long, 1, limit=Bound, by=len), "is_long(…, 1, limit=Bound, by=len)"),
    (every([(is_long, False), (Spoken(), True)]), "not is_long and Spoken('x')"),
    (every([(lambda ctx: ctx.text or ctx.run_id, False)]), "not (ctx.text or ctx.run_id)"),
    (either([every([(is_long, True), (len, False)]), Spoken()]), "(is_long and not len) or Spoken('x')"),
]


@pytest.mark.parametrize(("condition", "label"), SAID, ids=[label for _, label in SAID])
def test_a_condition_is_shown_in_words(condition: Any, label: str) -> None:
    """A function's name, a lambda's own source, what an object says, or its class."""
    assert condition_label(condition) == label


def asks_service(api_key: object, *more: object, **options: object) -> bool:
    """A function whose arguments may be secret."""
    return bool(api_key or more or options)


@dataclass(frozen=True)
class Asking:
    """A condition whose representation holds a secret."""

    api_key: str
    url: str = "https://me:hunter2@x.test/"

    def __call__(self, ctx: object) -> bool:
        return bool(ctx)


@pytest.mark.parametrize(
    ("condition", "label"),
    [
        (functools.partial(asks_service, "hunter2"), "asks_service(…, ***)"),
        (functools.partial(asks_service, token=["hunter2"], size=3), "asks_service(…, token=***, size=3)"),
        (functools.partial(asks_service, key=len, max_tokens=5), "asks_service(…, key=len, max_tokens=5)"),
        (functools.partial(asks_service, None, {"password": "hunter2"}), "asks_service(…, None, {'password': '***'})"),
        (Asking("it's hunter2"), "Asking(api_key='***', url='https://me:***@x.test/')"),
        (lambda ctx: asks_service(ctx, token="hunter2"), "asks_service(ctx, token='***')"),  # noqa: S106
        (lambda ctx: ctx.token == "open", "ctx.token == 'open'"),
    ],
)
def test_a_condition_in_words_shows_no_secret(condition: Any, label: str) -> None:
    """Not by its name, nor inside of an object."""
    assert condition_label(condition) == label
    assert condition_words(condition) == label
    flow = Workflow("w").branch((condition, Audit()))
    for diagram in ("mermaid", "dot", "text", "json", "svg", "html"):
        assert "hunter2" not in flow.draw(diagram)
    assert "hunter2" not in str(Workflow("w").then(Audit()).diff(flow))


def test_a_lambda_whose_source_is_another_is_a_lambda(tmp_path: Path) -> None:
    """A file that changed, is no Python, or has two that cannot be told apart; better no label than a wrong one."""
    made = tmp_path / "made.py"
    source = "one, other = lambda ctx: ctx.text, lambda ctx: ctx.run_id"
    names: dict[str, Any] = {}
    exec(compile(source, made, "exec"), names)  # noqa: S102
    labels = []
    for written in (source, source.replace("text", "texts"), f"{source}\n)", "x = 1"):
        made.write_text(written, "utf-8")
        linecache.checkcache(str(made))
        labels.append(condition_label(names["one"]))
    assert labels == ["ctx.text", "lambda", "lambda", "lambda"]
    made.write_text("one, other = lambda ctx: ctx.text, lambda ctx: ctx.text", "utf-8")
    linecache.checkcache(str(made))
    names["one"].__code__ = names["one"].__code__.replace(co_linetable=b"")  # as with -X no_debug_ranges
    assert condition_label(names["one"]) == "lambda"


def test_what_cannot_be_seen_is_shown_by_a_sign() -> None:
    """Line breaks, escape codes, changes of writing direction; and what is too long is cut."""
    assert visible("a\nb\x1b[31m\u202e\ud800 é日") == "a␊b␛[31m⟨U+202E⟩⟨U+D800⟩ é日"
    assert short("x" * 61) == "x" * 59 + "…"
    assert short(" \u2003") == "⟨U+2003⟩"
    assert short("  ") == "?"


def test_policies_and_merges_are_shown_as_they_are_written() -> None:
    """Word for word."""
    policy = Policy(1.5, Injection(), "shadow", "model", "thread", 2, 0.5)
    assert policy_words(policy) == (
        "timeout=1.5 s",
        "on_error=injection",
        "shadow",
        "overlap=model",
        "offload=thread",
        "retries=2",
        "retry_delay=0.5 s",
    )
    assert [merge_words(one) for one in (None, "first", pick("a"), is_long)] == [
        "",
        "merge=first",
        "merge=pick a",
        "merge=is_long",
    ]


def test_dot_labels_are_escaped() -> None:
    """Markup, entities, and what graphviz replaces by a node's name; an HTML parser reads back what was meant."""
    title = '<b>"x" & \\N &lt; \x00 ]]> -->'
    line = Workflow(title.replace("/", "")).draw("dot").split("\n")[4]
    label = re.fullmatch(r"  start \[label=<<b>(.*)</b>> shape=.*\]", line)
    assert label is not None
    assert not set(label[1]) & set("<>")
    assert html.unescape(label[1]).replace("\u200c", "") == title.replace("\x00", "␀")


def test_a_branch_of_a_graph_shows_what_its_edges_ask() -> None:
    """A workflow made of a graph is drawn with the conditions that the graph has."""
    again = Workflow.from_graph(Workflow("w").then(PII()).branch((is_long, Injection()), otherwise=Audit()).graph)
    assert _flow(again) == [
        "start → pii",
        "pii → injection if is_long",
        "pii → audit if not is_long",
        "injection → end",
        "audit → end",
    ]


def test_two_equal_ways_are_one() -> None:
    """A picture says a thing once."""
    twice = Workflow("w").dag(member(PII(), id="a"), member(Audit(), id="b", after=("a", DagEdge("a"))))
    assert _flow(twice) == ["start → a", "a → b", "b → end"]


def test_every_policy_of_a_parallel_is_on_its_steps() -> None:
    """A parallel has none of its own."""
    nodes = Workflow("w").parallel(PII(), Injection(), timeout=3).root.nodes
    assert isinstance(nodes[0], Parallel)
    assert Workflow("w").parallel(PII(), Injection(), timeout=3).draw("text").count("timeout=3 s") == 2


def test_only_options_that_were_set_are_shown() -> None:
    """Those of the constructor that differ from their defaults, as they were given; no other attribute."""

    class Counts(Processor[Any]):
        def __init__(self, most: int = 3, least: int = 0, unkept: int = 1) -> None:
            self.most, self.least, self._unkept, self.seen = most, least, unkept, [most]
            self.process_input = is_long

    assert options_of(Counts(4)) == {"most": 4}
    assert options_of(Counts(unkept=2)) == {}
    assert options_of(PIIDetector()) == {}
    given = PIIDetector(strategy="block", threshold=0.7, parts=["text"], unscanned=None, id="pii")
    assert options_of(given) == {"strategy": "block", "threshold": 0.7, "parts": ["text"], "id": "pii"}
    assert options_of(RegexFilterProcessor(presets=["pii"])) == {"presets": ["pii"]}


def test_a_diagram_shows_no_text_that_a_guard_hides() -> None:
    """The texts that nobody may see, such as system prompts, are counted, as in the repr of their guard."""
    guard = SystemPromptScrubber(prompts=["The word of the day is plover."], canaries=["c4n4ry-7"])
    assert options_of(guard) == {"prompts": "1 of them", "canaries": "1 of them"}
    workflow = Workflow("w").then(guard)
    other = Workflow("w").then(SystemPromptScrubber(prompts=["The word of the day is heron."], canaries=["c4n4ry-7"]))
    diff = workflow.diff(other)
    assert [field.name for field in diff.changed[0].fields] == ["options.prompts"]
    for drawn in (workflow.draw("json"), workflow.draw("html"), str(diff.to_json()), str(diff), diff.draw("svg")):
        assert not any(word in drawn for word in ("plover", "heron", "c4n4ry"))
