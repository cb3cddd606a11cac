"""Whether ``use:`` finds processors, presets and what packages register, and nothing else."""

import sys
from pathlib import Path

import pytest

import penstock.processors
from penstock import Processor, Workflow
from penstock.lazy import names_in
from penstock.workflows.policies import parse_policy
from penstock.workflows.policies.registry import known_names, maker_of, name_of, registry_name
from penstock.workflows.presets import moderation
from tests.workflows.policies.reading import steps, told

MODULE = '''
from penstock import PIIDetector, Processor, Workflow

class Shout(Processor):
    """Says it loudly."""

    def __init__(self, times: int = 1) -> None:
        self.times = times

    def process_input(self, ctx):
        del ctx

def made(strategy="block"):
    return Workflow("made").then(PIIDetector(strategy=strategy))

ready = Workflow("ready").then(Shout())
number = 5

def wrong():
    return 5

def failing():
    raise RuntimeError("no luck")
'''
ENTRIES = """\
[penstock.processors]
shout = own_guards:Shout
made = own_guards:made
ready = own_guards:ready
number = own_guards:number
wrong = own_guards:wrong
failing = own_guards:failing
gone = own_guards:gone
missing = no_such_module_of_ours:it
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a distribution, as pip does: a module, and a folder with its entry points."""
    (tmp_path / "own_guards.py").write_text(MODULE)
    info = tmp_path / "own_guards-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-guards\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_guards", raising=False)
    yield tmp_path
    sys.modules.pop("own_guards", None)


def test_every_built_in_processor_has_a_name() -> None:
    """That of its class, in kebab-case, without ``-processor``."""
    classes: set[type] = set()
    for stub in Path(penstock.processors.__path__[0]).glob("*/__init__.pyi"):
        for name, home in names_in(str(stub)).items():
            found = getattr(__import__(home, fromlist=[name]), name)
            if isinstance(found, type) and issubclass(found, Processor) and found.__name__ == name:
                classes.add(found)
    assert {name_of(one) for one in classes} == {registry_name(one.__name__) for one in classes}
    for one in classes:
        assert maker_of(registry_name(one.__name__)) is one
    assert len({registry_name(one.__name__) for one in classes}) == len(classes)


def test_a_preset_of_the_name_of_a_processor_has_a_prefix() -> None:
    """``moderation`` is the processor."""
    assert steps("- preset:moderation") == Workflow("policy").then(moderation())
    assert {"preset:moderation", "moderation", "hygiene"} <= set(known_names())
    assert "preset:hygiene" not in known_names()
    assert told("penstock: 1\nsteps: ['preset:nobody']\n")[0].startswith(
        "2:9: there is no preset nobody; the presets are "
    )


def test_a_package_registers_processors_workflows_and_functions(package: Path) -> None:
    """By entry points, with options."""
    made = steps("- {use: 'own-guards:shout', with: {times: 2}}\n- 'own_guards:made'\n- 'Own.Guards:ready'")
    assert made.root.nodes[0].processor.times == 2
    assert [node.name for node in made.root.nodes[1:]] == ["made", "ready"]
    assert made.check_sync("write to ann@example.com").blocked
    assert "own-guards:shout" in known_names()
    (first, *_) = made.root.nodes
    alone = Workflow("w", type(made.root)((first,)))
    assert "use: own-guards:shout" in alone.to_policy() or 'use: "own-guards:shout"' in alone.to_policy()
    assert parse_policy(alone.to_policy()) == alone


FAULTS = {
    "own-guards:shot": "own-guards registers failing, gone, made, missing, number, ready, shout, wrong, but no shot",
    "own-guards:number": "own_guards:number is of the type int, but must be a processor, a workflow or a function",
    "own-guards:wrong": "own-guards:wrong makes a int, but must make a processor or a workflow",
    "own-guards:failing": "own-guards:failing cannot be made of these options (RuntimeError: no luck)",
    "own-guards:gone": "own_guards:gone cannot be loaded (AttributeError: module 'own_guards' has no attribute 'gone')",
    "own-guards:missing": "no_such_module_of_ours:it cannot be loaded (ModuleNotFoundError: ",
    "no-package:x": "no installed package no-package registers entry points in the group penstock.processors; install",
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_registered_wrongly_is_told(name: str, package: Path) -> None:
    """At the place of its name."""
    (line,) = told(f"penstock: 1\nsteps: [{{use: '{name}'}}]\n")
    assert line.startswith("2:")
    assert FAULTS[name] in line


@pytest.mark.parametrize(
    "name", ["os:system", "penstock.processors.guards:PIIDetector", "builtins:eval", "subprocess:run", ":", "a:", ":a"]
)
def test_names_outside_of_the_registry_are_not_imported(name: str) -> None:
    """A file must not call what its writer likes."""
    (line,) = told(f"penstock: 1\nsteps: [{{use: '{name}'}}]\n")
    assert "no installed package" in line


@pytest.mark.parametrize(
    "name", ["Processor", "PIIDetector", "pii_detector", "strategy", "LANGUAGE", "language", "..", "memory"]
)
def test_other_public_names_are_no_processors(name: str) -> None:
    """Constants, types, classes by the name of their class."""
    (line,) = told(f"penstock: 1\nsteps: [{{use: '{name}'}}]\n")
    assert line.startswith("2:")


def test_a_misspelt_name_has_a_suggestion() -> None:
    """Also one in another form."""
    assert told("penstock: 1\nsteps: [pii_detector]\n")[0].endswith("did you mean pii-detector?")
    assert told("penstock: 1\nsteps: [PII-Detector]\n")[0].endswith("did you mean pii-detector?")
    assert told("penstock: 1\nsteps: [privcy]\n")[0].endswith("did you mean privacy?")
