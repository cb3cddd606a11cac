"""The table of a workflow: conditions, paths, shadow, failures, own code, and what is required."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args
from xml.etree import ElementTree as ET

import pytest

from penstock import (
    Agent,
    ModerationProcessor,
    PIIDetector,
    Processor,
    PromptInjectionDetector,
    RegexFilterProcessor,
    UnicodeNormalizer,
    Workflow,
    processor,
)
from penstock.engine.processor.stages import STAGES
from penstock.engine.text_guards.reading import OF_MESSAGE
from penstock.engine.text_guards.scope import PART_KINDS
from penstock.engine.values.errors import UsageError
from penstock.engine.values.message_list import Source
from penstock.engine.workflow import member
from penstock.processors.tools import ToolPolicy
from penstock.testing import ScriptedModel
from penstock.workflows import presets
from penstock.workflows.coverage import CHANNELS, KINDS, parse_required

if TYPE_CHECKING:
    from penstock import InputContext, OutputStreamContext
    from penstock.engine.values.chunks import Chunk


def is_long(view: Any) -> bool:
    """Whether it is."""
    return len(view.text) > 10


def pii(**options: Any) -> PIIDetector:
    """Return a guard."""
    return PIIDetector(**options)


def alone(*items: Any, **policy: Any) -> Workflow:
    """Return a workflow of steps, one after another."""
    made = Workflow("w")
    for item in items:
        made = made.then(item, **policy)
    return made


def missed(workflow: Workflow, kind: str = "personal") -> set[str]:
    """Return the channels that are missed for a kind."""
    return {gap.channel for gap in workflow.coverage().unmet({kind: None})}


# The list of channels


def test_the_channels_are_all_that_the_engine_can_show_a_guard() -> None:
    """Each stage, each kind of parts on each way, each source of messages, each value of a tool."""
    shown = {stage for channel in CHANNELS for stage in channel.stages}
    assert shown == set(STAGES)
    for way, source in (("input", "input"), ("output", "response")):
        kinds = {kind for one in CHANNELS if (one.way, one.source) == (way, source) for kind in one.kinds}
        assert kinds - {OF_MESSAGE} == set(PART_KINDS) - ({"reasoning"} & set()), way
    sources = {one.source for one in CHANNELS}
    assert set(get_args(Source)) <= sources
    assert {stage.value for stage in STAGES.values() if stage.value} <= sources | {"arguments"}
    assert any("process_tool_call" in one.stages for one in CHANNELS)


def test_a_channel_lists_only_stages_that_show_it() -> None:
    """By the stage table: what a stage does not show, no guard reads there."""
    for one in CHANNELS:
        for name in one.stages:
            stage = STAGES[name]
            by_other = stage.value or stage.streams or one.source in ("tools", "error", "system", "client-system")
            assert by_other or stage.shows_source(one.source), (one.name, name)


def test_names_are_distinct_and_documented() -> None:
    """They are written behind ``--require``."""
    names = [one.name for one in CHANNELS]
    assert len(set(names)) == len(names)
    assert all(one.title for one in CHANNELS)
    assert not set(names) & set(KINDS)


# Values


@pytest.mark.parametrize(
    ("guard", "reads"),
    [
        (pii(), "hides"),
        (pii(strategy="block"), "stops"),
        (pii(strategy="warn"), "observes"),
        (pii(strategy="filter"), "hides"),
        (ModerationProcessor(), "observes"),
        (ModerationProcessor(strategy="block"), "stops"),
        (PromptInjectionDetector(), "stops"),
        (RegexFilterProcessor(presets=["pii"], strategy="warn"), "observes"),
    ],
)
def test_a_cell_says_what_a_guard_may_do(guard: Any, reads: str) -> None:
    """By its strategy."""
    cell = alone(guard).coverage().steps[0].cells["user_text"]
    assert (cell.reads, cell.conditions, cell.own_code) == (reads, (), False)


def test_a_transform_has_no_row() -> None:
    """It protects nothing."""
    assert alone(UnicodeNormalizer()).coverage().steps == ()


def test_a_step_in_shadow_observes_and_covers_nothing() -> None:
    """Also where a workflow around it is in shadow."""
    inner = Workflow("inner").then(pii())
    for made in (alone(pii(), mode="shadow"), alone(inner, mode="shadow")):
        cell = made.coverage().steps[0].cells["answer"]
        assert (cell.reads, cell.conditions) == ("observes", ("in shadow",))
        assert "answer" in missed(made)
        assert {gap.channel for gap in made.coverage().gaps} >= {"answer", "user_text"}


def test_a_guard_that_is_left_out_when_it_fails_covers_nothing() -> None:
    """Unless something of its kind runs in its place."""
    assert missed(alone(pii())) == set()
    assert "answer" in missed(alone(pii(), on_error="allow"))
    assert missed(alone(pii(), on_error=RegexFilterProcessor(presets=["pii"]))) == set()
    partly = alone(pii(), on_error=RegexFilterProcessor(presets=["pii"], parts=["tool"]))
    assert "answer" in missed(partly)
    assert "answer" in missed(alone(pii(), on_error=RegexFilterProcessor(presets=["pii"])), "secrets")
    lax = alone(pii(), on_error=PromptInjectionDetector(phase="all"))
    assert "answer" in missed(lax)
    assert "unless it fails (then prompt-injection)" in lax.coverage().steps[0].cells["answer"].conditions


# Paths


def test_a_branch_covers_where_every_arm_does() -> None:
    """And where something runs if none is taken."""
    assert missed(Workflow("w").branch((is_long, pii()), otherwise=pii(id="other"))) == set()
    assert "answer" in missed(Workflow("w").branch((is_long, pii())))
    assert "answer" in missed(Workflow("w").branch((is_long, pii()), otherwise=UnicodeNormalizer()))
    assert missed(Workflow("w").branch((is_long, UnicodeNormalizer())).then(pii())) == set()


def test_the_condition_of_an_arm_is_told() -> None:
    """In the words of a diagram."""
    made = Workflow("w").branch((is_long, pii()), (is_long, pii(id="two")), otherwise=pii(id="three")).coverage()
    told = [one.cells["answer"].conditions for one in made.steps]
    assert told == [
        ("only in arm 1 (if is_long)",),
        ("only in arm 2 (else if is_long)",),
        ("only where no arm is taken",),
    ]


def test_a_dag_covers_where_every_way_through_it_does() -> None:
    """Conditions of its edges are tried out, true and false."""
    always = Workflow("w").dag(member(UnicodeNormalizer(), id="a"), member(pii(), id="b", after="a"))
    assert missed(always) == set()
    sometimes = Workflow("w").dag(member(UnicodeNormalizer(), id="a"), member(pii(), id="b", after={"a": is_long}))
    assert "answer" in missed(sometimes)
    assert sometimes.coverage().steps[0].cells["answer"].conditions == ("only if is_long",)


def test_a_branch_as_a_graph_covers_the_same() -> None:
    """`Workflow.from_graph` makes a dag of it, whose conditions exclude each other."""
    pytest.importorskip("networkx")
    whole = Workflow("w").branch((is_long, pii()), otherwise=pii(id="other"))
    half = Workflow("w").branch((is_long, pii()), otherwise=UnicodeNormalizer())
    assert missed(Workflow.from_graph(whole.graph)) == set()
    assert "answer" in missed(Workflow.from_graph(half.graph))


def test_two_guards_cover_together_what_neither_covers() -> None:
    """Kind by kind of parts."""
    files = pii(parts=("image", "audio"))
    others = pii(parts=("file", "text", "tool", "reasoning", "source", "data", "step-start", "unknown"), id="others")
    assert "user_files" in missed(alone(files))
    assert "user_files" in missed(alone(others))
    assert missed(alone(files, others)) == set()


# Own code


class Own(Processor):
    """A guard of a user, of two stages."""

    finds = ("codenames",)

    def process_input(self, ctx: InputContext) -> None:
        """Look."""

    def process_output_stream(self, chunk: Chunk, ctx: OutputStreamContext) -> Chunk:
        """Look."""
        return chunk


def test_own_code_is_taken_by_its_stages() -> None:
    """And marked, since it may read less; of a stream it sees single chunks."""
    made = alone(Own()).coverage()
    cells = made.steps[0].cells
    assert (cells["user_text"].reads, cells["user_text"].own_code) == ("hides", True)
    assert cells["answer"].conditions == ("each chunk by itself",)
    assert cells["tool_result"].reads == "unread"
    assert "answer" in missed(alone(Own()), "codenames")
    assert "user_text" not in missed(alone(Own()), "codenames")


def test_own_code_may_declare_what_it_reads() -> None:
    """Then that is taken."""

    @processor("process_tool_call", finds=["codenames"], reads=["tool_call", "tool_definitions"])
    def check(ctx: Any) -> None:
        """Look."""

    covered = alone(check).coverage()
    assert not covered.unmet({"codenames": ["tool_call"]})
    assert covered.unmet({"codenames": ["tool_definitions"]})  # no stage of it sees them
    assert covered.steps[0].cells["tool_call"].own_code is False


def test_a_tool_policy_reads_calls_and_pinned_definitions() -> None:
    """It is no guard of texts, and declares its channels."""
    plain = alone(ToolPolicy(deny=["x"])).coverage()
    assert plain.gaps == ()
    assert plain.covers("calls", "tool_call")
    assert not plain.covers("calls", "tool_definitions")
    assert alone(ToolPolicy(pins={"x": "sha256:" + "0" * 64})).coverage().covers("calls", "tool_definitions")


def test_a_step_can_be_required_by_its_name() -> None:
    """By id, path or class; names that nothing has are refused."""
    made = alone(Own()).coverage()
    for name in ("own", "Own", "codenames"):
        assert [gap.channel for gap in made.unmet({name: ["user_text", "tool_call"]})] == ["tool_call"]
    with pytest.raises(UsageError, match="did you mean 'codenames'"):
        made.unmet({"codename": None})
    with pytest.raises(UsageError, match="there is no channel 'tool_cal'; did you mean 'tool_call'"):
        made.unmet({"own": ["tool_cal"]})


def test_a_kind_that_nothing_looks_for_is_a_gap() -> None:
    """That is why one requires it."""
    gaps = alone(Own()).coverage().unmet({"injection": ["user_text"]})
    assert [str(gap) for gap in gaps] == ["injection: user_text: no step looks for it"]


# Agents


def test_an_agent_is_covered_by_the_lists_that_a_guard_stands_in() -> None:
    """A guard among the input processors reads no answer."""
    everywhere = Agent(ScriptedModel(["x"]), processors=[pii()]).coverage()
    assert everywhere.gaps == ()
    halved = Agent(ScriptedModel(["x"]), input_processors=[pii()]).coverage()
    assert {gap.channel for gap in halved.gaps} == {
        "tool_result", "tool_error", "answer_live", "answer", "structured", "reasoning_live", "reasoning",
        "tool_call", "tool_stream", "provider_tools", "sources", "answer_files", "answer_other", "answer_metadata",
    }  # fmt: skip


def test_a_guard_that_only_judges_whole_answers_holds_the_stream() -> None:
    """So it reads the live answer, unless the agent lets it go."""

    class Whole(Own):
        stages = ("process_output_step",)

        def process_output_step(self, ctx: Any) -> None:
            """Look."""

    held = Agent(ScriptedModel(["x"]), processors=[Whole()]).coverage()
    assert (held.release, held.steps[0].cells["answer_live"].held) == ("step", "step")
    live = Agent(ScriptedModel(["x"]), processors=[Whole()], release="live").coverage()
    assert live.steps[0].cells["answer_live"].reads == "unread"
    assert live.steps[0].cells["answer"].reads != "unread"


def test_an_agent_whose_lists_depend_on_a_request_has_no_table() -> None:
    """It is not known yet."""
    agent = Agent(ScriptedModel(["x"]), processors=lambda _context: [pii()])
    with pytest.raises(UsageError, match="depends on the request"):
        agent.coverage()


# Presets and forms


@pytest.mark.parametrize("preset", [presets.safety, presets.hygiene, presets.privacy, presets.injection])
def test_a_preset_has_no_gap(preset: Any) -> None:
    """What it looks for, it looks for wherever it matters."""
    assert preset().coverage().gaps == ()


def test_what_is_written_in_a_text_is_parsed() -> None:
    """As after ``--require``."""
    assert parse_required(["secrets:tool_call, answer", "injection", "secrets:sources"]) == {
        "secrets": ("tool_call", "answer", "sources"),
        "injection": None,
    }
    for odd in ("", ":answer", "secrets:", " : "):
        with pytest.raises(UsageError, match="no requirement"):
            parse_required([odd])


def test_each_form_has_every_channel_and_every_step() -> None:
    """Text, Markdown, JSON, and the picture."""
    made = presets.safety().coverage()
    for form in ("text", "markdown", "json", "svg"):
        text = made.draw(form)
        assert all(one.name in text for one in CHANNELS)
        assert all(step.path in text for step in made.steps)
    assert str(made) == made.draw()


def test_the_picture_marks_the_gaps_in_the_rows_of_their_channels() -> None:
    """In a red cell, with the reason below; the name is no markup, and what is covered has no mark."""
    made = Workflow("w <b>").then(pii(phase="input")).coverage()
    drawn = ET.fromstring(made.draw("svg", {"personal": ("user_text", "answer")}))  # noqa: S314 - our own
    space = "{http://www.w3.org/2000/svg}"
    rows: dict[str, list[str]] = {}
    for text in drawn.iter(f"{space}text"):
        rows.setdefault(text.attrib["y"], []).append(text.text or "")
    by_name = {row[0]: row[1:] for row in rows.values()}
    assert by_name["user_text"] == ["hides"]
    assert by_name["answer"][1].startswith("\u26a0 personal [")
    assert len([each for each in drawn.iter(f"{space}rect") if each.attrib["class"] == "gap"]) == 1
    assert "Coverage of w <b>" in by_name
    assert any("personal: not read by" in name for name in by_name)


def test_the_json_form_is_as_documented() -> None:
    """Its keys are a promise."""
    told = json.loads(alone(pii(phase="input")).coverage().draw("json"))
    assert list(told) == ["version", "name", "release", "channels", "steps", "gaps"]
    assert told["steps"][0]["cells"]["user_text"] == {
        "reads": "hides",
        "conditions": [],
        "stages": ["process_input"],
        "own_code": False,
        "held": "",
    }
    assert told["steps"][0]["finds"] == ["personal", "secrets"]
    assert told["gaps"][0] == {"kind": "personal", "channel": "answer_live", "why": "not read by pii-detector"}


def test_many_steps_are_written_in_blocks() -> None:
    """No line is wider than a terminal."""
    made = alone(*(pii(id=f"a-guard-with-a-long-name-{number}") for number in range(9))).coverage()
    lines = made.draw().splitlines()
    assert max(map(len, lines)) <= 120
    assert sum(line.startswith("channel ") for line in lines) > 1


def test_types_that_are_only_reported_count_for_no_kind() -> None:
    """A guard may hide keys and report the rest."""
    made = pii(strategy={"api-key": "redact", "*": "warn"})
    assert list(made.finds) == ["secrets"]
    assert list(pii(detection_types=["email"]).finds) == ["personal"]


def test_the_page_lists_every_channel_as_it_is() -> None:
    """docs/coverage.md, row by row."""
    page = (Path(__file__).parents[3] / "docs" / "coverage.md").read_text("utf-8")
    for one in CHANNELS:
        way = "to the model" if one.way == "input" else "from the model"
        assert f"| `{one.name}` | {one.title} | {way} | {'yes' if one.usual else 'no'} |" in page
    assert all(f"`{kind}`" in page for kind in KINDS)


def test_a_tool_policy_stops_calls_and_hides_nothing() -> None:
    """Whatever it does with a denial: a call runs as it is, or not at all."""
    for strategy in ("block", "refuse"):
        made = Workflow("w").then(ToolPolicy(allow=["search"], ask=["pay"], strategy=strategy)).coverage()
        assert made.steps[0].cells["tool_call"].reads == "stops"
