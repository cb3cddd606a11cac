"""Pictures: nothing overlaps, no arrow crosses what it does not belong to, and no name can break out."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET
from itertools import combinations, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from penstock import Processor, Trace, Workflow, member, processor
from penstock.engine import Span
from penstock.engine.graph.nodes import Dag, DagEdge, DagMember, Policy, Sequence, Step
from penstock.engine.tracing.span import SpanEdit
from penstock.pictures.labels import role_of
from penstock.pictures.layout import picture_of
from penstock.pictures.scene import scene_of
from tests.laws import examples
from tests.pictures.soundness import assert_sound_picture
from tests.pictures.test_mermaid import NASTY, Checks, details, names, trees
from tests.pictures.test_render import PII, SNAPSHOTS, Audit, Injection, Normalizer, example, is_long

if TYPE_CHECKING:
    from penstock.pictures.labels import Detail

SVG = "{http://www.w3.org/2000/svg}"


def chain(count: int) -> Workflow:
    """Steps one after the other."""
    workflow = Workflow("chain")
    for number in range(count):
        workflow = workflow.then(PII(), id=f"step-{number}")
    return workflow


def network() -> Workflow:
    """A dag that sequences and parallels cannot express."""
    return Workflow("network").dag(
        member(Normalizer(), id="a"),
        member(Injection(), id="b"),
        member(PII(), id="c", after="a"),
        member(Audit(), id="d", after={"a": is_long, "b": None}),
        member(PII(), id="e", after=("c", "d", "a")),
    )


def read(drawn: str) -> ET.Element:
    """The picture as XML, which it must be."""
    return ET.fromstring(drawn)  # noqa: S314 - it is our own


def texts(drawn: str) -> list[str]:
    """The words of a picture, in their order."""
    return [one.text or "" for one in read(drawn).iter(f"{SVG}text")]


def assert_sound(name: str, root: Sequence, stage: str | None = None, detail: Detail = "short") -> None:
    """Check that nothing of a picture is in the way of anything else."""
    assert_sound_picture(picture_of(scene_of(name, root, stage, detail)))


@settings(max_examples=examples(100), phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(names, st.lists(trees, max_size=3), st.sampled_from([None, "process_input"]), details)
def test_nothing_is_in_the_way_of_anything_else(name: str, nodes: list[Any], stage: str | None, detail: Detail) -> None:
    """In random workflows of hostile names; each is well-formed, and the same each time."""
    root = Sequence(tuple(nodes))
    assert_sound(name, root, stage, detail)
    drawn = Workflow(name, root).draw("svg", stage, detail=detail)
    read(drawn)
    assert drawn == Workflow(name, root).draw("svg", stage, detail=detail)


@pytest.mark.parametrize(
    "workflow", [example(), network(), chain(1), chain(200), Workflow("empty")], ids=lambda it: it.name
)
def test_a_picture_is_sound(workflow: Workflow) -> None:
    """Whatever its shape."""
    assert_sound(workflow.name, workflow.root)


@pytest.mark.parametrize(
    ("name", "workflow"), [("all", example()), ("chain", chain(3)), ("network", network())], ids=["all", "chain", "dag"]
)
def test_a_picture_looks_as_it_did(name: str, workflow: Workflow) -> None:
    """Snapshot by snapshot."""
    drawn = workflow.draw("svg") + "\n"
    kept: Path = SNAPSHOTS / f"{name}.svg"
    if os.environ.get("PENSTOCK_UPDATE_SNAPSHOTS"):
        kept.write_text(drawn, "utf-8")
    assert drawn == kept.read_text("utf-8")


@pytest.mark.parametrize("count", [100, 200])
def test_a_long_chain_folds_into_columns(count: int) -> None:
    """So that it fits a page."""
    picture = picture_of(scene_of("chain", chain(count).root))
    assert 0.5 < picture.width / picture.height < 2


def test_a_wide_parallel_wraps_into_rows() -> None:
    """So that its steps stay legible."""
    workflow = Workflow("wide").parallel(*(Injection() for _ in range(40)))
    assert picture_of(scene_of("wide", workflow.root)).width < 1200
    assert_sound("wide", workflow.root)


@pytest.mark.parametrize(
    "name", [*(one for one in NASTY if one.strip()), "</text><script>alert(1)</script>", "]]>", "\x00\x0b", '"><style>']
)
def test_no_name_breaks_out(name: str) -> None:
    """Nor is there any markup but ours."""
    if "/" in name:
        name = name.replace("/", "∕")
    drawn = Workflow(name).then(Checks(name)).draw("svg")
    tags = {one.tag.removeprefix(SVG) for one in read(drawn).iter()}
    assert tags == {"svg", "title", "desc", "style", "rect", "g", "text", "path"}
    assert drawn.count("<style") == 1


def test_arms_keep_their_order_and_their_conditions() -> None:
    """From left to right, as declared."""
    workflow = Workflow("w").branch(
        (is_long, PII("block")), (lambda ctx: "b" in ctx.text, Audit()), (lambda ctx: "a" in ctx.text, Normalizer())
    )
    shapes = picture_of(scene_of("w", workflow.root)).shapes
    labels = sorted((one for one in shapes if one.kind == "label"), key=lambda one: one.x)
    assert [one.title for one in labels] == ["is_long", "'b' in ctx.text", "'a' in ctx.text", "otherwise"]
    steps = sorted((one for one in shapes if one.id.startswith("step:")), key=lambda one: one.x)
    assert [one.title for one in steps] == ["pii", "audit", "normalizer"]


def test_a_box_says_the_role_and_the_policy_that_was_set() -> None:
    """A step of no declared role is not shown as a guard; stages are not shown."""
    workflow = Workflow("w").then(Normalizer(), timeout=2).then(Checks("own"))
    assert texts(workflow.draw("svg")) == ["w", "normalizer", "transform", "timeout=2 s, on_error=allow", "own",
                                           "undeclared", "end"]  # fmt: skip


def test_a_declared_role_is_found_wherever_it_is_declared() -> None:
    """In a class above, at a function, or by Penstock."""

    class Declared(Processor[Any]):
        role = "guard"

        def process_input(self, ctx: Any) -> None:
            """Do nothing."""

    class Below(Declared):
        pass

    @processor("process_input", role="guard")
    def said(ctx: Any) -> None:
        """Do nothing."""

    @processor("process_input")
    def unsaid(ctx: Any) -> None:
        """Do nothing."""

    workflow = Workflow("w").then(Below()).then(said).then(unsaid)
    assert [role_of(step) for step in workflow.root.nodes] == ["guard", "guard", "undeclared"]  # type: ignore[arg-type]


def test_an_arrow_meets_a_frame_whose_spine_is_not_in_its_middle() -> None:
    """A frame around a shadow step reaches further to the right than to the left."""
    inner = Dag((DagMember("0", Step(Audit(), Policy(mode="shadow")), ()),))
    assert_sound("w", Sequence((Dag((DagMember("0", Step(PII()), ()), DagMember("1", inner, ()))),)))


def test_a_shadow_step_stands_beside_the_flow() -> None:
    """Dashed, and no arrow leads back."""
    picture = picture_of(scene_of("w", Workflow("w").then(PII(), id="a").then(PII(), id="b", mode="shadow").root))
    shadow = next(one for one in picture.shapes if one.shadow)
    assert shadow.title == "b"
    assert [wire.dashed for wire in picture.wires if shadow.id in (wire.source, wire.target)] == [True]


def test_a_notebook_shows_the_picture() -> None:
    """And the text where it can show none."""
    workflow = example()
    assert workflow._repr_mimebundle_() == {"image/svg+xml": workflow.draw("svg"), "text/plain": str(workflow)}


def test_a_picture_can_show_one_stage() -> None:
    """As the other formats do."""
    assert "injection" in texts(example().draw("svg"))
    assert "injection" not in texts(example().draw("svg", "process_output_step"))


def test_a_dag_with_problems_is_drawn_with_them() -> None:
    """A cycle, and a member that is none, show best in a picture."""
    workflow = Workflow("w").dag(
        member(PII(), id="a", after="b"), member(PII(), id="b", after=("a", "nobody")), member(Audit(), id="c")
    )
    assert_sound("w", workflow.root)
    assert "nobody" in texts(workflow.draw("svg"))
    assert_sound("w", Workflow("w").dag(member(PII(), id="a", after="a")).root)


@settings(max_examples=examples(100), phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data(), st.integers(1, 6))
def test_any_dag_can_be_drawn_however_wrong(data: st.DataObject, count: int) -> None:
    """Cycles, members that wait for themselves or for nobody, and the conditions on all of these."""
    sources = st.sampled_from([*map(str, range(count)), "nobody"])
    edges = st.lists(st.builds(DagEdge, sources, st.sampled_from([None, is_long])), max_size=3).map(tuple)
    nodes: Any = st.sampled_from([Step(Injection()), Step(Injection(), Policy(mode="shadow")), Sequence()])
    members = tuple(DagMember(str(one), data.draw(nodes), data.draw(edges)) for one in range(count))
    root = Sequence((Dag(members, data.draw(st.sampled_from([None, "first"]))), Step(Audit())))
    assert_sound("any", root)
    conditions = [edge for one in members for edge in one.after if edge.when]
    drawn = Workflow("any", root).draw("svg")
    read(drawn)
    for form in ("text", "mermaid", "dot", "json"):
        assert Workflow("any", root).draw(form)  # type: ignore[arg-type]
    if any(isinstance(one.node, Step) for one in members):
        assert texts(drawn).count("is_long") == len(conditions)


def test_a_member_that_waits_for_itself_has_a_loop() -> None:
    """Around it, and with the condition if it has one."""
    loop = picture_of(scene_of("w", Workflow("w").dag(member(PII(), id="a", after="a")).root))
    assert [wire.head for wire in loop.wires if wire.source == wire.target == "step:a"] == [True]
    ways = [(wire.source, wire.target) for wire in loop.wires if wire.source != wire.target]
    assert ways == [("start", "step:a"), ("step:a", "end")]
    asked = picture_of(scene_of("w", Workflow("w").dag(member(PII(), id="a", after={"a": is_long})).root))
    label = "arm:dag:a:0"
    ends = [(wire.source, wire.target) for wire in asked.wires if label in (wire.source, wire.target)]
    assert ends == [("step:a", label), (label, "step:a")]


def test_a_dag_without_need_of_crossings_has_none() -> None:
    """Long edges go round the outside where that is better."""
    wires = picture_of(scene_of("network", network().root)).wires
    ends = [(wire.points[0], wire.points[-1]) for wire in wires]
    assert len(set(ends)) == len(ends)
    lines = [(wire, pair) for wire in wires for pair in pairwise(wire.points)]
    assert not [
        (one, other)
        for (one, first), (other, second) in combinations(lines, 2)
        if one.source != other.source and one.target != other.target and _cross(*first, *second)
    ]


def _cross(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float], d: tuple[float, float]) -> bool:
    """Whether two lines cross, and do not only touch."""

    def side(one: tuple[float, float], other: tuple[float, float], point: tuple[float, float]) -> float:
        return (other[0] - one[0]) * (point[1] - one[1]) - (other[1] - one[1]) * (point[0] - one[0])

    return side(a, b, c) * side(a, b, d) < -1e-6 and side(c, d, a) * side(c, d, b) < -1e-6


def test_a_tip_lists_a_few_edits_and_says_how_many_there_are() -> None:
    """However many there are, and however long they are."""
    edits = tuple(SpanEdit("m", 0, "text", at, at + 1, "redact", f"<{at}>" + "x" * 999) for at in range(1000))
    spans = tuple(Span(number, None, "step", "c", path="c", stage="process_input", edits=edits) for number in range(40))
    drawn = Workflow("w").then(Checks("c")).draw("svg", trace=Trace("r", "w", "edited", spans))
    assert len(drawn) < 20_000
    assert "<19>" in drawn or "&lt;19&gt;" in drawn
    assert "… of 40 runs" in drawn
    assert "… of 40,000 edits" in drawn
