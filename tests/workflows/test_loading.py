"""How a workflow is found by its name, and what is said when it is not."""

from pathlib import Path

import pytest

from penstock import PIIDetector, Workflow
from penstock.workflows.loading import (
    LoadingError,
    from_anywhere,
    load_workflow,
    load_workflow_or_agent,
    with_profile,
)
from penstock.workflows.policies import PolicyError


def problem_of(reference: str) -> str:
    """Return what is wrong with loading it."""
    with pytest.raises(LoadingError) as caught:
        load_workflow(reference)
    assert caught.value.reference == reference
    return caught.value.problem


def test_a_file_and_a_name_lead_to_the_workflow(world: Path) -> None:
    """With a relative path, and with an absolute one."""
    assert load_workflow("guards.py:guard").name == "guard"
    assert load_workflow(f"{world}/guards.py:slow").name == "slow"


def test_a_module_in_the_current_folder_is_found(world: Path) -> None:
    """A console script does not have it on its path by itself."""
    (world / "own_pkg").mkdir()
    (world / "own_pkg" / "rules.py").write_text("from penstock import Workflow\nmain = Workflow('main')\n")
    assert load_workflow("own_pkg.rules:main") == Workflow("main")


def test_a_preset_needs_its_name_only() -> None:
    """The name that `penstock list` shows."""
    assert load_workflow("hygiene").name == "hygiene"


def test_the_only_workflow_of_a_file_needs_no_name(world: Path) -> None:
    """Two names of one value are one workflow."""
    (world / "one.py").write_text("from penstock import Workflow\na = Workflow('a')\nb = a\n_hidden = Workflow('c')\n")
    assert load_workflow("one.py").name == "a"


def test_several_workflows_of_a_file_are_all_named_in_the_error(world: Path) -> None:
    """So that the next try can be copied from it."""
    (world / "two.py").write_text("from penstock import Workflow\na = Workflow('a')\nb = Workflow('b')\n")
    assert "two.py:a or two.py:b" in problem_of("two.py")


def test_an_error_about_what_a_file_holds_names_the_file(world: Path) -> None:
    """An error that the user's code raised has a traceback instead, and a missing file has neither."""
    (world / "some.py").write_text("number = 3\ndef wrong():\n    raise RuntimeError\n")
    here = str(world / "some.py")
    named = {"some.py": here, "some.py:x": here, "some.py:number": here}
    for reference, file in {**named, "some.py:wrong": None, "nowhere.py:x": None}.items():
        for load in (load_workflow, load_workflow_or_agent):
            with pytest.raises(LoadingError) as caught:
                load(reference)
            assert caught.value.file == file, reference


def test_a_processor_becomes_a_workflow_of_one_step(world: Path) -> None:
    """Whoever writes one wants to try it."""
    (world / "p.py").write_text("from guards import Mail\nmail = Mail()\n")
    assert load_workflow("p.py:mail").name == "mail"


def test_a_function_without_arguments_is_called(world: Path) -> None:
    """Its defaults count; what it returns must be a workflow."""
    (world / "f.py").write_text(
        "from penstock import Workflow\n"
        "def make(name='made'):\n    return Workflow(name)\n"
        "def wrong():\n    return 3\n"
        "def needy(x):\n    return x\n"
        "async def later():\n    return 3\n"
    )
    assert load_workflow("f.py:make").name == "made"
    assert problem_of("f.py:wrong") == "wrong() returned an int, but must be a Workflow"
    assert "needs arguments" in problem_of("f.py:needy")
    assert "is async" in problem_of("f.py:later")


def test_a_dotted_name_reaches_into_a_class(world: Path) -> None:
    """As imports do."""
    (world / "d.py").write_text("from penstock import Workflow\nclass Box:\n    inner = Workflow('inner')\n")
    assert load_workflow("d.py:Box.inner").name == "inner"


def test_a_file_that_is_not_there_is_named_with_its_likeness(world: Path) -> None:
    """Most such errors are misspellings."""
    assert problem_of("gaurds.py:guard") == "there is no file gaurds.py; did you mean guards.py?"
    assert str(world) in problem_of("elsewhere_entirely.py:guard")
    assert problem_of("no/folder/x.py:guard") == "there is no folder no/folder"
    assert "is a folder" in problem_of("./:guard")


def test_a_module_that_is_not_there_is_told_from_one_that_it_imports(world: Path) -> None:
    """The cures differ: spell it right, or install it."""
    (world / "needs.py").write_text("import not_installed_anywhere\n")
    assert "there is no module 'nowhere.at.all'" in problem_of("nowhere.at.all:guard")
    assert "imports 'not_installed_anywhere', which is not installed" in problem_of("needs:guard")
    assert "imports 'not_installed_anywhere', which is not installed" in problem_of("needs.py:guard")


def test_a_misspelt_preset_is_put_right() -> None:
    """And the presets are listed."""
    problem = problem_of("hygeine")
    assert "did you mean 'hygiene'?" in problem
    assert "module:name or path.py:name" in problem


@pytest.mark.parametrize("name", ["RegexFilterProcessor", "DropMessages"])  # from the top, and from its family only
def test_a_processor_is_told_to_be_placed_in_a_workflow(name: str) -> None:
    """It is no workflow, and needs its options."""
    problem = problem_of(name)
    assert problem.startswith("it is a processor")
    assert f"Workflow('guard').then({name}(...))" in problem


@pytest.mark.usefixtures("world")
def test_a_name_that_is_not_in_the_file_is_put_right_or_the_workflows_are_listed() -> None:
    """Either leads on."""
    assert "did you mean 'guard'?" in problem_of("guards.py:gard")
    assert "chatty, closed, flagging, guard, shadowed, slow, tools" in problem_of("guards.py:zzz")


def test_what_is_no_workflow_is_refused_with_its_kind(world: Path) -> None:
    """A class needs an instance; anything else is named."""
    (world / "k.py").write_text("from guards import Mail\nnumber = 3\n")
    assert problem_of("k.py:Mail") == "Mail is a class; name an instance of it: guard = Mail(...)"
    assert problem_of("k.py:number") == "number is an int, but must be a Workflow"
    assert "it has no workflow" in problem_of("k.py")


def test_a_syntax_error_is_told_with_file_and_line(world: Path) -> None:
    """The line is where to look."""
    (world / "s.py").write_text("x = 1\nif x\n    pass\n")
    assert problem_of("s.py:guard").startswith(f"syntax error in {world}/s.py, line 2:")


def test_code_that_raises_while_it_is_loaded_is_told_with_its_line(world: Path) -> None:
    """And the original error is the cause; a second try is not confused by the first."""
    (world / "r.py").write_text("x = 1\nraise RuntimeError('no database')\n")
    for _ in range(2):
        with pytest.raises(LoadingError) as caught:
            load_workflow("r.py:guard")
        assert "r.py, line 2, raised RuntimeError: no database" in caught.value.problem
        assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_script_that_ends_the_program_does_not_end_ours(world: Path) -> None:
    """It lacks the guard that scripts have."""
    (world / "e.py").write_text("import sys\nsys.exit(0)\n")
    assert "__main__" in problem_of("e.py:guard")


@pytest.mark.parametrize("reference", ["guards:", ":guard", ":", "", "  "])
def test_half_a_reference_is_refused(reference: str) -> None:
    """With the form it should have."""
    assert "module:name" in problem_of(reference)


AGENT = """
from penstock import Agent, Workflow
from penstock.testing import ScriptedModel

bot = Agent(ScriptedModel(["x"]))
"""


def test_an_agent_is_found_where_one_is_allowed(world: Path) -> None:
    """By its name, by a function, or because it stands alone in its file; workflows and presets are found, too."""
    (world / "bots.py").write_text(f"{AGENT}def make():\n    return bot\n")
    (world / "both.py").write_text(f"{AGENT}guard = Workflow('guard')\n")
    found = [load_workflow_or_agent(one) for one in ("bots.py:bot", "bots.py:make", "bots.py")]
    assert [type(one).__name__ for one in found] == ["Agent"] * 3
    assert load_workflow_or_agent("both.py") == Workflow("guard")
    assert load_workflow_or_agent("both.py:guard") == Workflow("guard")
    assert str(load_workflow_or_agent("hygiene")) == str(load_workflow("hygiene"))
    assert "is an Agent, but must be a Workflow" in problem_of("bots.py:bot")


POLICIES = {
    "policy.yaml": """
penstock: 1
steps:
  - {use: privacy, with: {allow: [support@acme.org], fields: {customer.id: null, name: name}}}
""",
    "policy.json": """{"penstock": 1, "steps": [
  {"use": "privacy", "with": {"allow": ["support@acme.org"], "fields": {"customer.id": null, "name": "name"}}}
]}""",
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_file_is_loaded_wherever_a_workflow_is_named(name: str, tmp_path: Path) -> None:
    """Its presets have all options, ``fields`` and ``allow``, too."""
    path = tmp_path / name
    path.write_text(POLICIES[name].strip())
    workflow = load_workflow(str(path))
    assert load_workflow_or_agent(str(path)) == workflow
    value = {"name": "Ann", "customer": {"id": "a@b.org"}, "to": "c@d.org, support@acme.org"}
    result = workflow.start_sync().process_tool_result("look", value).result
    assert result == {"name": "[NAME]", "customer": {"id": "a@b.org"}, "to": "[EMAIL], support@acme.org"}


@pytest.mark.parametrize("written", ["preset: privacy", "{", "penstock: 1\nsteps: [{use: privacy, with: {field: 1}}]"])
def test_a_wrong_policy_file_is_an_error_that_names_each_problem(written: str, tmp_path: Path) -> None:
    """The `PolicyError` is the cause; the message has its lines."""
    path = tmp_path / "policy.yaml"
    path.write_text(written)
    with pytest.raises(LoadingError) as caught:
        load_workflow(str(path))
    assert isinstance(caught.value.__cause__, PolicyError)
    assert str(caught.value) == f"cannot load '{path}': it has a problem:\n{caught.value.__cause__}"


def test_a_policy_file_may_be_named_with_a_profile(world: Path) -> None:
    """As ``path.py:name``; it goes with the name into other processes, whose environment may differ."""
    (world / "p.yaml").write_text(
        "penstock: 1\nsteps: [{use: pii-detector, with: {strategy: warn}}]\n"
        "profiles: {prod: {pii-detector: {with: {strategy: block}}}}\n"
    )
    assert load_workflow("p.yaml") == Workflow("p").then(PIIDetector(strategy="warn"))
    assert load_workflow("p.yaml:prod") == Workflow("p").then(PIIDetector(strategy="block"))
    assert with_profile("p.yaml", "prod") == "p.yaml:prod"
    assert with_profile("p.yaml:dev", "prod") == "p.yaml:dev"
    assert with_profile("p.py", "prod") == "p.py"
    assert from_anywhere("p.yaml:prod") == f"{world}/p.yaml:prod"
    with pytest.raises(LoadingError, match="there is no profile dev; use one of prod"):
        load_workflow("p.yaml:dev")


def test_the_profile_of_the_environment_is_named_for_other_machines(
    world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do not have the variable."""
    (world / "p.yaml").write_text("penstock: 1\nsteps: [hygiene]\nprofiles: {prod: {}}\n")
    assert from_anywhere("p.yaml") == f"{world}/p.yaml"
    monkeypatch.setenv("PENSTOCK_PROFILE", "prod")
    assert from_anywhere("p.yaml") == f"{world}/p.yaml:prod"
