"""`penstock draw`, `validate`, `list`, `--version` and `--help`."""

import json
from pathlib import Path

import pytest

import penstock
from penstock.workflows.loading import load_workflow
from penstock.workflows.policies.registry import registry_name


@pytest.mark.parametrize("form", ["mermaid", "dot", "text", "json", "svg"])
def test_a_workflow_is_drawn_in_each_format(run, form) -> None:
    """On stdout, ready to be piped on."""
    guard = load_workflow("guards.py:guard")

    ran = run("draw", "guards.py:guard", "--format", form)
    assert ran.code == 0
    assert ran.out.rstrip("\n") == guard.draw(form).rstrip("\n")


@pytest.mark.parametrize(
    ("name", "form"),
    [("g.mmd", "mermaid"), ("g.dot", "dot"), ("g.txt", "text"), ("g.json", "json"), ("g.svg", "svg"), ("g", "text")],
)
def test_the_ending_of_the_file_says_the_format(run, world: Path, name, form) -> None:
    """Unless --format does."""
    expected = run("draw", "guards.py:guard", "--format", form).out
    ran = run("draw", "guards.py:guard", "-o", name)
    assert (ran.out, ran.err) == ("", f"wrote {name}\n")
    assert (world / name).read_text("utf-8") == expected


@pytest.mark.parametrize(
    "argv", [("-o", "x.jpg"), ("-o", "x.PNG", "--format", "dot"), ("-o", "x.pdf"), ("-o", "x.foo")]
)
def test_no_text_is_written_into_what_is_no_text(run, world: Path, argv) -> None:
    """What can be written is named, and how a picture is made."""
    ran = run("draw", "guards.py:guard", *argv)
    assert (ran.code, ran.out) == (2, "")
    assert all(ending in ran.err for ending in (".mmd", ".dot", ".txt", ".json", ".svg"))
    assert "--format dot | dot -T" in ran.err
    assert not (world / argv[1]).exists()


def test_any_other_file_takes_the_format_asked_for(run, world: Path) -> None:
    """A page in Markdown, for example."""
    assert run("draw", "guards.py:guard", "-o", "x.md", "--format", "mermaid").code == 0
    assert (world / "x.md").read_text("utf-8").startswith("flowchart")


def test_one_stage_is_drawn_alone(run) -> None:
    """As `Workflow.draw` does."""
    ran = run("draw", "guards.py:guard", "--stage", "process_output_step")
    expected = load_workflow("guards.py:guard").draw("text", stage="process_output_step")
    assert ran.out.rstrip("\n") == expected.rstrip("\n")
    assert ran.out != run("draw", "guards.py:guard").out


@pytest.mark.parametrize("detail", ["short", "full"])
def test_a_diagram_says_as_much_as_is_asked(run, detail) -> None:
    """As `Workflow.draw` does."""
    ran = run("draw", "guards.py:guard", "--format", "mermaid", "--detail", detail)
    assert ran.out.rstrip("\n") == load_workflow("guards.py:guard").draw("mermaid", detail=detail)


BOT = """
from penstock import Agent, PIIDetector
from penstock.testing import ScriptedModel

bot = Agent(ScriptedModel(["x"]), id="bot", input_processors=[PIIDetector()])
late = Agent(ScriptedModel(["x"]), id="late", input_processors=lambda context: [])

def made():
    return bot
"""


@pytest.mark.parametrize("name", ["bot", "made"])
def test_an_agent_is_drawn_with_its_lists(run, world: Path, name) -> None:
    """It, or a function that returns it."""
    (world / "bots.py").write_text(BOT, "utf-8")
    ran = run("draw", f"bots.py:{name}", "--detail", "short")
    assert (ran.code, ran.out.splitlines()) == (
        0,
        [
            "bot",
            "└─ input processors: input, input_step",
            "   ├─ pii-detector              guard",
            "   └─ trailing-assistant-guard  transform · on_error=allow",
        ],
    )


def test_an_agent_whose_lists_are_not_known_yet_is_not_drawn(run, world: Path) -> None:
    """The message says why."""
    (world / "bots.py").write_text(BOT, "utf-8")
    ran = run("draw", "bots.py:late")
    assert (ran.code, ran.out) == (2, "")
    assert "depends on the request context" in ran.err


def test_a_sound_workflow_is_told_with_its_stages(run) -> None:
    """In the order of a run."""
    ran = run("validate", "guards.py:guard")
    assert ran.code == 0
    assert ran.out == "workflow 'guard' is valid: 2 steps; stages: process_input, process_output_step\n"


def test_all_problems_of_a_workflow_are_told_at_once(run, world: Path) -> None:
    """Exit code 1: found."""
    (world / "w.py").write_text(
        "from guards import *\n"
        "bad = Workflow('bad').then(Mail(), id='a').then(Judge(), id='a').then(Judge(), timeout=1)\n",
        "utf-8",
    )
    ran = run("validate", "w.py:bad")
    assert ran.code == 1
    assert "2 steps have the id 'a'" in ran.out
    assert run("validate", "guards.py:guard", "--stage", "process_tool_call").code == 1
    assert run("validate", "guards.py:nothing").code == 2


def test_presets_and_processors_are_listed_with_a_line_each(run) -> None:
    """Name and first sentence, whole where no terminal cuts them; the stages are named."""
    out = run("list").out
    assert "\n  hygiene                    Normalise texts, and hide personal data, secrets and links\n" in out
    assert "\n  pii-detector               Finds personal data" in out
    assert " process_output_step," in out
    assert "TextGuard" not in out  # a base of guards, which nobody places


def test_the_list_fits_one_screen_of_a_terminal(run, monkeypatch) -> None:
    """Of 80 columns and 60 lines; longer lines are cut between two words."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    lines = run("list").out.splitlines()
    assert len(lines) <= 60
    assert "  hygiene                    Normalise texts, and hide personal data, secrets …" in lines
    assert max(map(len, lines)) <= 80
    assert sum(line.endswith(" …") for line in lines) > 5


def test_no_object_is_shown_by_its_place_in_memory(run) -> None:
    """A default that is a function or an object has a name."""
    out = run("list", "--format", "json").out
    assert " at 0x" not in out
    assert "scope=by_resource\n" in run("list", "ResponseCache").out
    assert "clock=SystemClock()\n" in run("list", "SemanticRecall").out


@pytest.mark.parametrize("name", ["PIIDetector", "DropMessages", "DropParts", "LegacyMemory", "MemoryInputFilter"])
def test_processors_are_listed_wherever_they_are_imported_from(run, name) -> None:
    """From the top, or from their family only."""
    assert f"\n  {registry_name(name)} " in run("list").out
    assert run("list", registry_name(name)).out == run("list", name).out
    assert run("list", name).out.startswith(f"{name} (processor)")


def test_a_guard_is_described_with_the_options_that_all_have(run) -> None:
    """By name, behind its own."""
    assert "options of all guards:\n  arguments\n  backoff\n" in run("list", "ModerationProcessor").out


def test_the_list_is_there_for_programs(run) -> None:
    """With whole descriptions."""
    listed = json.loads(run("list", "--format", "json").out)
    assert {"preset", "stage"} <= {one["kind"] for one in listed}
    assert all(one["line"] for one in listed)


@pytest.mark.rest
def test_one_thing_is_described_in_full(run) -> None:
    """A misspelt one is put right."""
    assert run("list", "hygiene").out.startswith("hygiene (preset)")
    ran = run("list", "hygeine")
    assert ran.code == 2
    assert "did you mean 'hygiene'?" in ran.err
    assert "`penstock list` shows all of them" in run("list", "qqq").err


def test_the_version_is_the_packages(run) -> None:
    """On stdout, as other tools have it."""
    assert run("--version") == (0, f"penstock {penstock.__version__}\n", "")


@pytest.mark.parametrize("command", ["run", "draw", "validate"])
def test_help_has_examples_and_fits_the_screen(run, command, monkeypatch) -> None:
    """And names the exit codes where there are some."""
    monkeypatch.setenv("COLUMNS", "100")
    ran = run(command, "--help")
    assert ran.code == 0
    assert "examples:" in ran.out
    assert max(map(len, ran.out.splitlines())) <= 120


def test_the_policies_for_coding_agents_are_listed(run) -> None:
    """They are names that every command takes, so they are named where a name is unknown, too."""
    assert "\n  coding-keys  " in run("list").out
    assert run("list", "coding-keys").out.startswith("coding-keys (policy)")
    assert "coding-keys" in run("draw", "zzzzzz").err


def test_a_new_key_alone_is_written_to_stdout(run, tmp_path) -> None:
    """So that a shell can keep it; the file gets its hash, and a second key of a client is told."""
    file = tmp_path / "keys.txt"
    made = run("serve", "--new-key", "team-a", "--keys", str(file))
    assert made.out.startswith("psk-")
    assert made.out.count("\n") == 1
    assert f"added to {file}\n" in made.err
    assert "keys now" not in made.err
    assert "team-a has 2 keys now" in run("serve", "--new-key", "team-a", "--keys", str(file)).err
    assert [line.split()[0] for line in file.read_text().splitlines()] == ["team-a", "team-a"]
