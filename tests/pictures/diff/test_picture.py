"""A diff as one picture: what was removed is drawn where it stood, and every difference is marked or said below."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from penstock import Workflow, member
from penstock.engine.graph.nodes import Arm, Branch, Sequence, Step
from penstock.pictures.diff.picture import Says
from penstock.workflows.presets import PRESETS
from tests.laws import examples
from tests.pictures.diff.test_diff import graphs, is_short, new, old
from tests.pictures.test_gallery import assert_kept
from tests.pictures.test_mermaid import Checks
from tests.pictures.test_render import PII, Audit, Injection, is_long

DOCS = Path(__file__).parents[3] / "docs"
SVG = "{http://www.w3.org/2000/svg}"


def marked(drawn: str) -> dict[str, str]:
    """The kinds of marks by path."""
    found = {}
    for one in ET.fromstring(drawn).iter(f"{SVG}g"):  # noqa: S314 - it is our own
        if "data-mark" in one.attrib and "data-path" in one.attrib:
            found[one.attrib["data-path"]] = one.attrib["data-mark"]
    return found


def words(drawn: str) -> list[str]:
    """The words of a picture."""
    return [one.text or "" for one in ET.fromstring(drawn).iter(f"{SVG}text")]  # noqa: S314 - it is our own


def test_a_picture_has_what_was_and_what_is() -> None:
    """Each with its mark, in one drawing."""
    drawn = old().then(Checks("late")).diff(new()).draw()
    assert marked(drawn) == {
        "pii": "changed",
        "fresh": "added",
        "branch:0": "added",
        "injection": "changed",
        "long/candidate": "changed",
        "late": "removed",
    }
    said = words(drawn)
    assert {"added", "removed", "strategy: 'redact' → 'block'", "changed or moved"} <= set(said)
    assert "changed: parallel (merge: None → first)" in said
    assert "2 added, 1 removed, 4 changed" in said
    assert "sk-999" not in drawn
    assert said.index("audit") < said.index("late") < said.index("end")


def test_no_difference_is_drawn_without_marks() -> None:
    """And said so."""
    drawn = old().diff(old()).draw()
    assert marked(drawn) == {}
    assert "no differences" in words(drawn)


def test_both_names_are_the_title() -> None:
    """Where they differ."""
    drawn = Workflow("a").then(PII()).diff(Workflow("b").then(PII())).draw()
    assert "a → b" in words(drawn)
    assert "changed: the workflow (name: a → b)" in words(drawn)


def test_edges_that_only_one_has_get_a_label() -> None:
    """Also those without a condition."""
    before = Workflow("d").dag(
        member(PII(), id="a"),
        member(PII(), id="b", after="a"),
        member(PII(), id="gone", after={"a": is_short}),
        member(PII(), id="c", after={"a": is_long, "b": None, "gone": is_short}),
    )
    after = Workflow("d").dag(
        member(PII(), id="a"),
        member(PII(), id="b", after="a"),
        member(PII(), id="x", after={"b": is_short}),
        member(PII(), id="c", after={"a": None, "x": None, "b": is_long}),
    )
    drawn = before.diff(after).draw()
    said = words(drawn)
    assert {"is_long → always", "new edge", "always → is_long", "other edges", "is_short"} <= set(said)
    kinds = marked(drawn)
    assert [kinds[f"dag:c:{number}"] for number in range(4)] == ["changed", "added", "changed", "removed"]
    assert kinds["gone"] == "removed"
    plain = Workflow("d").dag(member(PII(), id="a"), member(PII(), id="b", after="a"))
    apart = Workflow("d").dag(member(PII(), id="a"), member(PII(), id="b"))
    assert "edge" in words(plain.diff(apart).draw())


def test_arms_show_their_old_and_new_condition() -> None:
    """And `otherwise`, where only one has it, or where it became an arm."""
    before = Workflow("w").branch((is_long, PII()), otherwise=Audit())
    drawn = before.diff(Workflow("w").branch((is_short, PII()))).draw()
    assert "is_long → is_short" in words(drawn)
    assert marked(drawn) == {"branch:0": "changed", "branch:otherwise": "removed", "audit": "removed"}
    both = Branch((Arm(is_long, Step(PII())),), otherwise=Sequence())
    assert marked(Workflow("w", Sequence((both,))).diff(before).draw())["audit"] == "added"


def test_a_box_shows_a_few_differences_and_the_rest_under_the_pointer() -> None:
    """However many there are."""
    before = Workflow("w").then(PII())
    after = Workflow("w").then(PII("block", "sk-2"), timeout=1, on_error="allow", retries=2, retry_delay=1)
    drawn = before.diff(after).draw()
    assert "and 3 more" in words(drawn)
    title = next(one for one in re.findall("<title>(.*?)</title>", drawn, re.DOTALL) if "strategy" in one)
    assert title.count("\n") == 6


def test_what_is_removed_may_have_the_path_of_something_new() -> None:
    """They are different boxes."""
    before = Workflow("w").then(PII(), id="x").then(Injection(), id="y")
    after = Workflow("w").then(Workflow("x").then(Audit(), id="y"))
    drawn = before.diff(after).draw()
    ET.fromstring(drawn)  # noqa: S314 - it is our own
    assert words(drawn).count("x") == 2


def test_a_condition_that_is_only_drawn_is_never_run() -> None:
    """It would hold for nothing."""
    with pytest.raises(NotImplementedError):
        Says("x")(None)  # type: ignore[arg-type]


@settings(max_examples=examples(30), phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(graphs, graphs)
def test_any_two_workflows_can_be_drawn(one: Sequence, other: Sequence) -> None:
    """Of hostile names; every difference is marked or said, and each picture is the same again."""
    diff = Workflow("w", one).diff(Workflow("w", other))
    drawn = diff.draw()
    seen = marked(drawn)
    said = " ".join(words(drawn))
    ET.fromstring(drawn)  # noqa: S314 - it is our own
    for change in diff.changes:
        if change.kind == "step":
            assert change.path in seen or change.path.strip() == "" or not change.path.isprintable()
    if diff:
        assert seen or "changed: " in said or "added: " in said or "removed: " in said
    assert drawn == Workflow("w", one).diff(Workflow("w", other)).draw()


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_drawn(name: str) -> None:
    """Each beside each other, with every step that was added, removed or changed."""
    for other in PRESETS:
        diff = PRESETS[name]().diff(PRESETS[other]())
        shown = ET.fromstring(diff.draw())  # noqa: S314 - it is our own
        paths = {group.get("data-path") for group in shown.iter() if group.get("data-mark")}
        assert bool(diff) == (name != other)
        assert {change.path for change in diff.changes if change.kind == "step"} <= paths


def test_a_notebook_shows_the_picture() -> None:
    """And the text where it can show none."""
    diff: Any = old().diff(new())
    assert diff._repr_mimebundle_() == {"image/svg+xml": diff.draw(), "text/plain": str(diff)}


def test_the_picture_in_the_docs_is_that_of_the_example() -> None:
    """And up to date."""
    page = (DOCS / "diff.md").read_text("utf-8")
    known: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0].replace("print(", "str("), known)  # noqa: S102 - our own page
    assert_kept(DOCS / "pictures" / "diff.svg", known["old"].diff(known["new"]).draw() + "\n")
