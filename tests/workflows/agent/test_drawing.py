"""The diagram of an agent shows each step at the stages at which it runs, and at no others."""

from __future__ import annotations

import functools
import json
import re
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from penstock import Agent, InputContext, Memory, PIIDetector, Processor, Tool, Workflow
from penstock.engine import Record
from penstock.engine.processor.stages import STAGES
from penstock.pictures.layout import picture_of
from penstock.pictures.page_marks import PageMarks
from penstock.pictures.scene import scene_of_lists
from penstock.testing import InMemoryStorage, ScriptedModel
from tests.laws import examples
from tests.pictures.soundness import assert_sound_picture

TURNS = [
    {"error": {"message": "down", "status": 503}},
    {"tool_calls": [{"id": "c", "name": "use", "args": {}}]},
    "done",
]


def use() -> str:
    """Use it."""
    return "used"


def watcher(stages: frozenset[str]) -> Processor[Any]:
    """Return a processor with hooks for these stages, which change nothing."""

    def look(self: object, ctx: object) -> None: ...

    def pass_on(self: object, chunk: object, ctx: object) -> object:
        return chunk

    hooks = {stage: pass_on if STAGES[stage].streams else look for stage in stages}
    kind = type("Watcher", (Processor,), {"edits": "nothing", **hooks})
    made: Processor[Any] = kind()
    return made


stage_sets = st.frozensets(st.sampled_from(list(STAGES)), min_size=1)
LISTS = {"processors": None, "input_processors": "input", "output_processors": "output", "error_processors": "error"}


@st.composite
def agents(draw: st.DrawFn) -> tuple[dict[str, list[Any]], Any]:
    """Return the processor lists of an agent: processors and workflows of them, some in several lists."""
    lists: dict[str, list[Any]] = {}
    for name, serves in LISTS.items():
        lists[name] = []
        for _ in range(draw(st.integers(0, 2))):
            stages = [*draw(st.lists(stage_sets, min_size=1, max_size=3))]
            if serves is not None and not any(STAGES[s].processor_list == serves for one in stages for s in one):
                continue
            inner = [watcher(one) for one in stages]
            shape = draw(st.sampled_from(["alone", "nested", "parallel"]))
            if shape == "alone" and (
                serves is None or any(STAGES[stage].processor_list == serves for stage in stages[0])
            ):
                lists[name].append(inner[0])
            elif shape == "parallel":
                lists[name].append(Workflow("p").parallel(*inner))
            else:
                lists[name].append(functools.reduce(Workflow.then, inner, Workflow("n")))
    return lists, draw(st.booleans())


def drawn(agent: Agent, stage: str | None = None) -> set[tuple[str, str]]:
    """Return the steps of a diagram, each with its stages."""
    found = json.loads(agent.draw("json", stage=stage))
    return {
        (node["path"], one)
        for node in found["nodes"]
        if node.get("stages") and node["kind"] == "step"
        for one in node["stages"]
    }


def ran(records: tuple[Record, ...]) -> set[tuple[str, str]]:
    """Return the steps that ran, each with its stage."""
    return {(record.step, record.stage) for record in records}


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(agents())
def test_a_diagram_shows_what_ran(given: tuple[dict[str, list[Any]], bool]) -> None:
    """Over random agents: a request that passes every stage leaves a record of each step at each stage shown."""
    lists, with_memory = given
    memory = Memory(InMemoryStorage(), semantic_recall=False) if with_memory else None
    again = Workflow("again").then(StreamErrors())
    agent = Agent(
        ScriptedModel(TURNS),
        tools=[use],
        memory=memory,
        **{**lists, "error_processors": [*lists["error_processors"], again]},
    )
    result = agent.generate_sync("Hi", records=True, thread_id="t", resource_id="u")
    assert result.status == "success"
    shown = drawn(agent)
    assert ran(result.records) == shown
    for stage in STAGES:
        assert drawn(agent, stage) == {(path, one) for path, one in shown if one == stage}


class StreamErrors(Processor[Any]):
    """Asks for another call."""

    def process_api_error(self, ctx: Any) -> Any:
        """Ask for it."""
        from penstock import Retry

        return Retry()


@pytest.mark.parametrize("kind", ["text", "mermaid", "dot", "json", "svg"])
def test_each_format_shows_a_guard_only_where_it_runs(kind: Any) -> None:
    """Alone, in a workflow, and for one stage: it is what a reviewer signs."""
    for item in (PIIDetector(id="pii"), Workflow("w").then(PIIDetector(id="pii"))):
        agent = Agent(ScriptedModel(["x"]), input_processors=[item])
        picture = agent.draw(kind)
        assert "pii" in picture
        if kind == "json":
            assert {stage for path, stage in drawn(agent) if "pii" in path} == {"process_input"}
        else:
            assert not re.search("output_stream|output_step|output_result|tool_call|tool_result", picture)
        assert "pii" not in agent.draw(kind, stage="process_output_step")
        assert "pii" in agent.draw(kind, stage="process_input")


def test_a_diagram_of_a_stage_has_the_order_and_the_names_of_the_run() -> None:
    """Equal ids are numbered as in the records, also where only the second one runs."""
    seen: list[str] = []

    class Look(Processor[Any]):
        id = "look"
        edits = "nothing"

        def process_input(self, ctx: InputContext) -> None:
            seen.append(ctx.step_path)

        def process_output_result(self, ctx: Any) -> None:
            seen.append(ctx.step_path)

    agent = Agent(
        ScriptedModel(["x"]),
        input_processors=[Workflow("a").then(Look())],
        output_processors=[Workflow("a").then(Look())],
    )
    agent.generate_sync("Hi")
    assert seen == ["a/look", "a#2/look"]
    assert "a#2" in agent.draw("text", stage="process_output_result")


def support() -> Agent:
    """An agent with a processor in each list, and one in two of them."""
    return Agent(
        ScriptedModel(["x"]),
        id="support",
        processors=[Workflow("privacy").then(PIIDetector(id="pii"))],
        error_processors=[StreamErrors()],
    )


def test_the_text_says_which_list_serves_which_stage() -> None:
    """A processor of two lists stands in both, with the stages of each."""
    assert support().draw(detail="short").splitlines() == [
        "support",
        "├─ input processors: input, input_step",
        "│  ├─ workflow privacy",
        "│  │  └─ pii                    guard",
        "│  └─ trailing-assistant-guard  transform · on_error=allow",
        "├─ output processors: output_stream, output_step, tool_call, tool_result, output_result",
        "│  └─ workflow privacy",
        "│     └─ pii                    guard",
        "└─ error processors: api_error",
        "   └─ stream-errors             undeclared",
    ]


def test_a_picture_shows_the_lists_around_the_model() -> None:
    """What serves failed calls stands beside it; each box and frame has its own id, and steps keep their paths."""
    found = json.loads(support().draw("json"))
    lists = [
        (group["title"], group["list"], group["stages"][0]) for group in found["groups"] if group["kind"] == "list"
    ]
    assert lists == [
        ("input processors", "input", "process_input"),
        ("error processors", "error", "process_api_error"),
        ("output processors", "output", "process_output_stream"),
    ]
    names = {node["id"]: node.get("path") or node["kind"] for node in found["nodes"]}
    assert len(names) == len(found["nodes"])
    assert [(names[edge["source"]], names[edge["target"]], edge["when"]) for edge in found["edges"]] == [
        ("start", "privacy/pii", None),
        ("privacy/pii", "trailing-assistant-guard", None),
        ("trailing-assistant-guard", "model", None),
        ("model", "stream-errors", "a call fails"),
        ("model", "privacy/pii", None),
        ("privacy/pii", "end", None),
    ]


@pytest.mark.parametrize("detail", ["short", "full"])
@pytest.mark.parametrize("stage", [None, "process_input", "process_api_error", "process_tool_result"])
def test_nothing_is_in_the_way_in_the_picture_of_an_agent(stage: str | None, detail: Any) -> None:
    """As in that of a workflow."""
    agent = support()
    assert agent.plans is not None
    assert_sound_picture(picture_of(scene_of_lists(agent.id, agent.plans, stage, detail, "scripted")))


def test_a_notebook_shows_the_picture_of_an_agent() -> None:
    """Where its lists are known."""
    agent = support()
    assert agent._repr_mimebundle_() == {"image/svg+xml": agent.draw("svg"), "text/plain": agent.draw("text")}
    late = Agent(ScriptedModel(["x"]), id="late", input_processors=lambda context: [])
    assert late._repr_mimebundle_() == {"text/plain": "<Agent 'late': scripted>"}


def parcel(number: str) -> str:
    """Say where a parcel is."""
    return f"{number} is on its way"


def with_tools(**options: Any) -> Agent:
    """Return an agent whose model calls a tool, and then answers."""
    turns: list[Any] = [{"tool_calls": [{"name": "parcel", "args": {"number": "A"}}]}, {"text": "soon"}]
    return Agent(ScriptedModel(turns), tools=[parcel], **options)


def test_tools_are_a_box_with_a_loop_between_model_and_tools() -> None:
    """In every picture; without tools there is none."""
    made = with_tools()
    graph = json.loads(made.draw("json"))
    (box,) = [node for node in graph["nodes"] if node["kind"] == "tools"]
    assert box["tools"] == ["parcel"]
    ends = [(edge["source"], edge["target"], edge["when"]) for edge in graph["edges"] if "tools" in str(edge)]
    assert ends == [("model", "tools", "tool calls"), ("tools", "model", "results")]
    assert '-->|"tool calls"| tools' in made.draw("mermaid")
    assert ">parcel<" in made.draw("svg")
    assert ">tools<" not in made.draw("svg", stage="process_input_step")
    bare = Agent(ScriptedModel(["x"]))
    assert all(node["kind"] != "tools" for node in json.loads(bare.draw("json"))["nodes"])


def test_a_box_names_the_first_of_many_tools() -> None:
    """And says how many more there are."""
    tools = [Tool(parcel, name=f"parcel_{number}") for number in range(20)]
    drawn = Agent(ScriptedModel(["x"]), tools=tools).draw("svg")
    assert ">parcel_7<" in drawn
    assert ">parcel_8<" not in drawn
    assert ">and 12 more<" in drawn


@pytest.mark.parametrize("called", [True, False])
def test_a_run_takes_the_loop_only_if_a_tool_ran(called: bool) -> None:
    """The box says how often, and the page says the same as the picture."""
    made = with_tools() if called else Agent(ScriptedModel(["no"]), tools=[parcel])
    trace = made.generate_sync("where?", records=True).trace
    assert made.plans is not None
    marks = PageMarks(scene_of_lists(made.id, made.plans, None, parts=made.parts)).of(trace)
    ends = {(source, target) for source, target, _ in marks["wires"]}
    assert (("model", "tools") in ends, ("tools", "model") in ends) == (called, called)
    assert ("model", "end") in ends
    assert ("tools" in marks["shapes"]) is called
    assert ("1 call" in made.draw("svg", trace=trace).partition(">tools<")[2].partition("</g>")[0]) is called


def test_memory_is_one_frame_before_the_model_and_one_behind_it() -> None:
    """Guards between its processors are not in a frame; without memory there is none."""
    made = Agent(
        ScriptedModel(["x"]), memory=Memory(InMemoryStorage(), working_memory=True), processors=[PIIDetector()]
    )
    graph = json.loads(made.draw("json"))
    frames = {group["id"]: group["title"] for group in graph["groups"] if group["kind"] == "memory"}
    inside = [[node["title"] for node in graph["nodes"] if node["group"] == frame] for frame in frames]
    loads = ["memory-input-filter", "working-memory", "message-history"]
    assert inside == [loads, ["working-memory", "message-history-saver"]]
    assert {*frames.values()} == {"memory"}
    assert made.draw("text").count("─ memory\n") == 2
    trace = made.generate_sync("hi", records=True, thread_id="t", resource_id="r").trace
    assert made.plans is not None
    marks = PageMarks(scene_of_lists(made.id, made.plans, None, parts=made.parts)).of(trace)
    drawn = made.draw("svg", trace=trace)
    assert all(f'data-id="step:{name}@input"' in drawn for name in loads)
    assert all(marks["shapes"][f"step:{name}@input"][-1].get("kind") in ("passed", "edited") for name in loads)
    bare = json.loads(Agent(ScriptedModel(["x"])).draw("json"))
    assert all(group["kind"] != "memory" for group in bare["groups"])


def test_memory_saves_behind_the_model() -> None:
    """The saver stands there once, with all stages at which it runs; the picture of a stage shows where it runs."""
    made = Agent(ScriptedModel(["x"]), memory=Memory(InMemoryStorage()))
    nodes = [node["id"] for node in json.loads(made.draw("json"))["nodes"]]
    assert nodes.count("step_message_history_saver") == 1
    assert nodes.index("step_message_history") < nodes.index("model") < nodes.index("step_message_history_saver")
    (saver,) = [node for node in json.loads(made.draw("json"))["nodes"] if node["id"] == "step_message_history_saver"]
    assert {"process_llm_response", "process_output_result"} <= {*saver["stages"]}
    assert "message-history-saver" in made.draw("text", stage="process_llm_response")


@pytest.mark.parametrize("form", ["svg", "mermaid", "dot", "text"])
def test_memory_is_one_box_in_short_pictures(form: Literal["svg", "mermaid", "dot", "text"]) -> None:
    """The box names its processors, those of other lists stay; with all detail each processor has its own box."""
    agent = Agent(
        ScriptedModel(["x"]), memory=Memory(InMemoryStorage(), working_memory=True), processors=[PIIDetector()]
    )
    short, full = agent.draw(form, detail="short"), agent.draw(form, detail="full")
    box = {
        "svg": 'data-id="memory:memory-input-filter',
        "mermaid": "<b>memory</b><br>memory-input-filter<br>working-memory<br>message-history",
        "dot": "<b>memory</b><br/>",
        "text": "memory-input-filter, working-memory, message-history",
    }[form]
    assert box in short
    assert box not in full
    assert all(name in short and name in full for name in ("message-history-saver", "pii-detector"))


def test_a_run_is_laid_over_each_processor_of_a_memory() -> None:
    """A box for several could not say what each of them did."""
    agent = Agent(ScriptedModel(["x"]), memory=Memory(InMemoryStorage(), working_memory=True))
    assert "memory-input-filter" in json.loads(agent.draw("json", detail="short"))["nodes"][1]["title"]
    assert 'data-path="memory-input-filter"' in agent.draw("html")
