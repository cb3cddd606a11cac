"""Pictures of one workflow of each shape, in every format, as they were when somebody last looked at them.

``PENSTOCK_UPDATE_SNAPSHOTS=1 pytest tests/pictures`` writes all of them anew; look at the difference.
"""

from __future__ import annotations

import difflib
import os
import re
from itertools import pairwise
from pathlib import Path

import pytest

from penstock import Workflow
from penstock.pictures import DETAILS, Format
from penstock.pictures.chart import chart_of
from penstock.pictures.labels import Detail
from penstock.pictures.layout import picture_of
from penstock.pictures.scene import scene_of
from tests.pictures.gallery import GALLERY, Audit, Guard, Normalize, chain, is_foreign, is_long, parallel
from tests.pictures.soundness import assert_sound_picture

GOLDEN = Path(__file__).parent / "golden"
FORMATS: tuple[Format, ...] = ("svg", "mermaid", "dot", "text", "json")
IMAGES = Path(__file__).parents[2] / "docs" / "pictures"


def assert_kept(kept: Path, drawn: str) -> None:
    """A file holds what is drawn; it is written anew where that is asked for."""
    if os.environ.get("PENSTOCK_UPDATE_SNAPSHOTS"):
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(drawn, "utf-8")
    assert drawn == kept.read_text("utf-8")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", GALLERY)
def test_a_workflow_looks_as_it_did(name: str, form: Format) -> None:
    """In every format."""
    assert_kept(GOLDEN / f"{name}.{form}", GALLERY[name]().draw(form) + "\n")


def test_the_picture_in_the_docs_is_what_is_drawn() -> None:
    """It is written by the same command as the golden files."""
    assert_kept(IMAGES / "hygiene.svg", GALLERY["preset-hygiene"]().draw("svg") + "\n")


@pytest.mark.parametrize("detail", DETAILS)
@pytest.mark.parametrize("name", GALLERY)
def test_nothing_is_in_the_way_in_the_gallery(name: str, detail: Detail) -> None:
    """Neither short nor full."""
    workflow = GALLERY[name]()
    assert_sound_picture(picture_of(scene_of(workflow.name, workflow.root, None, detail)))


@pytest.mark.parametrize("count", [1, 3, 8, 40, 100, 200])
def test_chains_and_parallels_of_any_length_fit_a_page(count: int) -> None:
    """They fold and wrap: no picture is much wider or higher than a screen or two."""
    for workflow in (chain(count), parallel(count)):
        picture = picture_of(scene_of(workflow.name, workflow.root))
        assert picture.width < 2000
        assert picture.height < 5000
        assert_sound_picture(picture)


def arms() -> Workflow:
    """Arms of all kinds in one branch, and in a parallel: steps, workflows, nothing."""
    inner = Workflow("first").then(Guard("one")).then(Guard("two"))
    return (
        Workflow("arms")
        .branch((is_long, inner), (is_foreign, Workflow("nothing")), (bool, Guard("three")), otherwise=Guard("four"))
        .parallel(Guard("left"), Workflow("middle").then(Guard("inner")), Guard("right"))
        .then(Audit())
    )


def test_arms_keep_their_order_in_every_format() -> None:
    """The conditions, and the steps behind them, also where an arm is a workflow or has none."""
    labels = ["is_long", "is_foreign", "bool", "otherwise"]
    steps = ["one", "two", "three", "four", "left", "inner", "right"]
    for form in ("text", "mermaid", "dot"):
        drawn = arms().draw(form)  # type: ignore[arg-type]
        shown = [word for word in re.findall(r"[a-z_]+", re.sub(r"step_\w+", "", drawn)) if word in (*labels, *steps)]
        assert [word for word in shown if word in labels] == labels
        assert [word for word in dict.fromkeys(shown) if word in steps] == steps
    chart = chart_of(scene_of("arms", arms().root))
    assert [arrow.label for arrow in chart.arrows if arrow.label] == labels
    shapes = picture_of(scene_of("arms", arms().root)).shapes
    for titles in (labels, ["one", "three", "four"], ["left", "inner", "right"]):
        places = [next(one.x + one.width / 2 for one in shapes if one.title == title) for title in titles]
        assert places == sorted(places)


def test_the_ways_into_a_join_are_in_the_order_of_the_arms_too() -> None:
    """By which Mermaid places an arm without a step."""
    chart = chart_of(scene_of("arms", arms().root))
    reached = [arrow.source for arrow in chart.arrows if arrow.target == "fork_parallel"]
    assert reached == ["step_first_two", "choose_branch", "step_three", "step_four"]


def test_dot_keeps_arms_in_order_where_one_is_a_frame() -> None:
    """Each arm is a cluster then; elsewhere none is."""
    assert re.findall(r"cluster_arm_step_(\w+)", arms().draw("dot")) == [
        *("first_one", "three", "four"),
        *("left", "middle_inner", "right"),
    ]
    assert "cluster_arm" not in parallel(8).draw("dot")
    deep = Workflow("deep").branch((is_long, arms()), otherwise=arms())
    drawn = deep.draw("dot")
    assert drawn.count("{") == drawn.count("}")
    assert drawn.count("cluster_arm_") == 2 + 2 * 6
    for step in ("one", "two", "three", "four", "left", "inner", "right"):
        assert drawn.count(f"<b>{step}</b>") == 2


@pytest.mark.parametrize("form", ["mermaid", "dot", "json"])
def test_a_step_more_changes_few_lines(form: Format) -> None:
    """Ids are made of paths, so nothing else gets another one."""
    before = Workflow("w").parallel(Guard("a"), Guard("b")).branch((is_long, Guard("c"))).then(Audit())
    after = Workflow("w").then(Normalize()).parallel(Guard("a"), Guard("b")).branch((is_long, Guard("c"))).then(Audit())
    old, new = before.draw(form).splitlines(), after.draw(form).splitlines()
    removed = [line for line in difflib.ndiff(old, new) if line.startswith("- ")]
    assert len(removed) <= 1
    assert len(new) - len(old) < {"mermaid": 5, "dot": 3, "json": 45}[form]


def test_two_pictures_on_one_page_share_no_ids() -> None:
    """There are none, and nothing refers to one; the styles of all are the same."""
    drawn = [make().draw("svg") for make in GALLERY.values()]
    assert not any(re.search(r"\sid=|url\(|href", one) for one in drawn)
    assert len({re.search("<style>.*</style>", one, re.DOTALL)[0] for one in drawn}) == 1  # type: ignore[index]


def test_full_detail_says_stages_facts_and_edits() -> None:
    """And the stages only once where all steps have the same."""
    privacy = GALLERY["preset-privacy"]()
    short, full = privacy.draw("svg"), privacy.draw("svg", detail="full")
    for words in ("edits spans", "puts personal-data.found", ">input, tool_result<"):
        assert words not in short
        assert words in full
    same = Workflow("same").then(Guard("a")).then(Guard("b"))
    for form in ("svg", "mermaid", "dot"):
        assert same.draw(form, detail="full").count("input, output_step") == 1  # type: ignore[arg-type]
        assert "output_step" not in same.draw(form)  # type: ignore[arg-type]


def test_a_picture_of_a_stage_says_so() -> None:
    """In its first box."""
    assert "<br>at output_step" in chain(3).then(Guard("x")).draw("mermaid", "process_output_step")
    assert ">at output_step<" in chain(3).then(Guard("x")).draw("svg", "process_output_step")


def test_long_words_wrap_and_the_rest_is_under_the_pointer() -> None:
    """A title, a condition, and the title of a frame: several lines, each shorter than a limit."""

    class Says:
        def __repr__(self) -> str:
            return " ".join(["condition"] * 40)

        def __call__(self, _ctx: object) -> bool:
            return True

    title = "-".join(["title"] * 12)
    workflow = Workflow("w").branch((Says(), Guard(title)), (is_long, Workflow("frame " * 30).then(Guard("a"))))
    assert_sound_picture(picture := picture_of(scene_of("w", workflow.root)))
    for kind, lines, wide in (("undeclared", 3, 28), ("guard", 3, 28), ("label", 4, 30)):
        for shape in picture.shapes:
            if shape.kind == kind and shape.title.startswith(("title", "condition")):
                heads = [one.text for one in shape.words if one.tone == ("note" if kind == "label" else "title")]
                assert len(heads) == lines
                assert all(len(line) <= wide for line in heads)
    drawn = workflow.draw("svg")
    assert f"<title>{title}</title>" in drawn
    assert f"<title>{' '.join(['condition'] * 40)}</title>" in drawn
    assert "condition condition condition<br>condition" in workflow.draw("mermaid")
    assert "condition condition condition<br/>condition" in workflow.draw("dot")
    assert " ".join(["condition"] * 40) in workflow.draw("json")


def test_a_label_is_placed_in_its_lines() -> None:
    """Whole, and one below the other."""
    shapes = picture_of(scene_of("", GALLERY["branches-in-parallels"]().root)).shapes
    shape = next(one for one in shapes if "SELECT" in one.title)
    lines = [one.text for one in shape.words]
    assert lines == ["'SELECT' in ctx.text and", "len(ctx.text) > 100 and (not", "ctx.text.startswith('--'))"]
    assert " ".join(lines) == shape.title
    assert all(two.y - one.y == 14 for one, two in pairwise(shape.words))
