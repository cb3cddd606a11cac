"""Whether Mermaid itself reads our Mermaid text as it is meant; the parser comes from npm (see tests/mermaid)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from penstock import Processor, Workflow
from penstock.engine import DagEdge
from penstock.engine.graph.nodes import Arm, Branch, Dag, DagMember, Parallel, Policy, Sequence, Step
from penstock.engine.tracing.display import short, whole
from penstock.pictures.chart import Chart, chart_of
from penstock.pictures.scene import scene_of
from penstock.pictures.wrapping import label_lines, note_lines, title_lines
from tests.npm import installed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.pictures.labels import Detail

HOUSE = Path(__file__).parents[1] / "mermaid"

NASTY = (
    *(
        "end",
        "graph",
        "subgraph",
        "click",
        "default",
        "style n1 fill:red",
        "class",
        "--> x",
        "%% note",
        "%%{init: {}}%%",
    ),
    *(
        'a"b',
        "a'b",
        "x]y}z)|w",
        "((",
        ">",
        "semi;colon",
        "line\nbreak",
        "tab\there",
        "typed \\n \\N",
        "#35; #quot; &amp;",
    ),
    *(
        "<b>x",
        "<script>alert(1)",
        "<!--",
        "1. list",
        "2) list",
        "- item",
        "+ item",
        "# head",
        "> quote",
        "=== x",
        "***",
    ),
    *("`code`", "**bold**", "_em_", "__x__", "a_b", "~~s~~", "[link](x)", "![image](x)", "a@b.c", "www.x.org"),
    *(
        "$$x^2$$",
        "$$$",
        "fa:fa-car",
        "@{shape: x}",
        ":::name",
        "日本語 é 😀",
        "\u202eevil",
        "\x1b[31mred",
        "\ud800",
        "\u2028",
    ),
    *("x" * 300, "“”‘’", "ﬂ°35¶ß", "-", "_", "|", "\\", "\u200b", "---", "graph TD; a-->b"),
)
names = st.one_of(st.sampled_from(NASTY), st.text(min_size=1)).filter(lambda it: bool(it.strip()) and "/" not in it)


class Checks(Processor[Any]):
    """A guard of any name."""

    edits = "nothing"

    def __init__(self, id: str) -> None:
        self.id = id

    def process_input(self, ctx: Any) -> None:
        """Do nothing."""


class Says:
    """A condition of any look."""

    def __init__(self, look: str) -> None:
        self.look = look

    def __call__(self, _ctx: Any) -> bool:
        """Hold."""
        return True

    def __repr__(self) -> str:
        """Show the look."""
        return self.look


steps = st.builds(
    Step,
    st.builds(Checks, names),
    st.sampled_from([Policy(), Policy(mode="shadow"), Policy(timeout=1), Policy(retries=2)]),
)
conditions = st.builds(Says, st.one_of(names, names.map(lambda it: f"https://{it}/<i>")))


def below(nodes: Any) -> Any:
    """Everything that holds nodes."""
    several = st.lists(nodes, min_size=1, max_size=3).map(tuple)
    arms = st.lists(st.builds(Arm, conditions, nodes), min_size=1, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Sequence, several, names, st.sampled_from([Policy(), Policy(mode="shadow"), Policy(timeout=2)])),
        st.builds(Parallel, several, st.sampled_from([None, "first", "sequence"])),
        st.builds(Branch, arms, st.none() | nodes, st.sampled_from(["first", "all"])),
        several.flatmap(
            lambda inside: st.builds(Dag, st.tuples(*map(_member, range(len(inside)), map(st.just, inside))))
        ),
    )


def _member(number: int, node: Any) -> Any:
    edges = st.builds(DagEdge, st.integers(0, max(number - 1, 0)).map(str), st.none() | conditions)
    after = st.lists(edges, max_size=2 if number else 0).map(tuple)
    return st.builds(DagMember, st.just(str(number)), node, after)


details: Any = st.sampled_from(["short", "full"])
trees = st.recursive(steps, below, max_leaves=8)


def drawn(count: int) -> list[tuple[Chart, str]]:
    """Return random workflows of hostile names, as charts and as Mermaid text."""
    made: list[tuple[Chart, str]] = []

    @settings(max_examples=count, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(names, st.lists(trees, max_size=3), st.sampled_from([None, "process_input"]), details)
    def draw(name: str, nodes: list[Any], stage: str | None, detail: Detail) -> None:
        root = Sequence(tuple(nodes))
        drawn = Workflow(name, root).draw("mermaid", stage, detail=detail)
        made.append((chart_of(scene_of(name, root, stage, detail)), drawn))

    draw()
    return made


@pytest.fixture(scope="module")
def reader() -> Path:
    """The script that reads with Mermaid, installed by npm where it is not yet; skips without node or network."""
    return installed(HOUSE, "read.mjs", "Mermaid's own parser cannot be asked")


def read(reader: Path, texts: list[str]) -> list[Any]:
    """Return what Mermaid understood of each text; one process for all."""
    given_texts = json.dumps(texts)
    command = [str(shutil.which("node")), str(reader)]
    done = subprocess.run(command, input=given_texts, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def shown(text: str) -> list[str]:
    """The lines of a label, without the characters of no width that keep things apart."""
    return [line.replace("\u200c", "").strip() for line in text.split("\n")]


def bare(lines: Iterable[str]) -> list[str]:
    """The lines that a label should have, without such characters, too."""
    return [line.replace("\u200c", "").strip() for line in lines]


def check(chart: Chart, told: Any) -> None:
    """Every box, arrow and group is there once, says what it should, and holds no markup but ours."""
    assert "error" not in told, told["error"]
    assert told["type"] == "flowchart-v2"
    boxes = {box.id: bare([*title_lines(whole(box.title)), *note_lines(box.notes)]) for box in chart.boxes}
    assert {one["id"]: shown(one["text"]) for one in told["nodes"]} == boxes
    assert {tag for one in (*told["nodes"], *told["edges"], *told["groups"]) for tag in one["tags"]} <= {"b", "br"}
    arrows = [(arrow.source, arrow.target, bare(label_lines(arrow.label)), arrow.beside) for arrow in chart.arrows]
    edges = [(one["from"], one["to"], shown(one["text"]), one["stroke"] == "dotted") for one in told["edges"]]
    assert edges == arrows
    groups = {
        group.id: [" · ".join([short(group.title).replace("\u200c", ""), *group.notes])] for group in chart.groups
    }
    assert {one["id"]: shown(one["text"]) for one in told["groups"]} == groups
    for one in told["groups"]:
        inside = {box.id for box in chart.boxes if box.group == one["id"]}
        assert set(one["nodes"]) == inside | {group.id for group in chart.groups if group.parent == one["id"]}


@pytest.mark.rest
def test_mermaid_reads_every_diagram_as_it_is_meant(reader: Path) -> None:
    """200 random workflows with hostile names: nodes, labels, edges, subgraphs; and a broken text is still broken."""
    diagrams = drawn(200)
    broken = 'flowchart TB\n  n0["a --> b'
    *told, refused = read(reader, [*(text for _, text in diagrams), broken])
    assert "Parse error" in refused["error"]
    for (chart, text), understood in zip(diagrams, told, strict=True):
        try:
            check(chart, understood)
        except AssertionError as error:
            error.add_note(text)
            raise


@pytest.mark.rest
def test_mermaid_knows_roles_by_their_class(reader: Path) -> None:
    """What gives a box its colour arrives."""
    workflow = Workflow("w").then(Checks("end"), mode="shadow").branch((Says("x"), Checks("y")))
    (told,) = read(reader, [workflow.draw()])
    assert [one["classes"] for one in told["nodes"]] == [
        ["is-start"],
        ["is-undeclared", "is-shadow"],
        ["is-branch"],
        ["is-undeclared"],
        ["is-end"],
    ]
