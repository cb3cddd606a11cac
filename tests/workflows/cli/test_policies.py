"""Whether every command takes a policy file with a profile, and `penstock validate` runs its tests."""

import json
from pathlib import Path

import pytest

from penstock.workflows.cli.exit_codes import Exit
from tests.workflows.conftest import Run

POLICY = """\
penstock: 1
description: no rivals
steps:
  - {use: regex-filter, id: rivals, with: {strategy: warn, rules: [{name: rival, pattern: globex}]}}
profiles:
  prod:
    rivals: {with: {strategy: block}}
tests:
  - {text: hello, expect: unchanged}
  - {text: globex, profiles: [prod], expect: {blocked_by: rivals}}
  - {text: globex, profiles: [base], expect: {flagged: rival}}
"""


@pytest.fixture
def policy(world: Path) -> Path:
    """Write a policy file into the folder of the test."""
    (world / "policy.yaml").write_text(POLICY)
    return world / "policy.yaml"


def test_validate_runs_the_tests_without_and_with_each_profile(run: Run, policy: Path) -> None:
    """And says how many passed."""
    ran = run("validate", "policy.yaml")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[1:] == ["2 tests passed", "2 tests passed with the profile prod"]
    assert run("validate", "policy.yaml", "--profile", "prod").out.splitlines()[1:] == [
        "2 tests passed with the profile prod"
    ]
    assert run("validate", "policy.yaml:prod").out.splitlines()[1:] == ["2 tests passed with the profile prod"]


def test_validate_shows_each_test_that_failed_with_its_place(run: Run, policy: Path) -> None:
    """The exit code is that of problems."""
    policy.write_text(POLICY.replace("profiles: [prod], ", ""))
    ran = run("validate", "policy.yaml")
    assert ran.code == 1
    assert ran.out.splitlines()[1:] == [
        "policy.yaml:10:5: it must be blocked by rivals, but passed",
        "1 of 3 tests failed",
        "2 tests passed with the profile prod",
    ]


def test_validate_says_that_a_file_has_no_tests(run: Run, policy: Path) -> None:
    """It is valid; other workflows have no such line."""
    policy.write_text(POLICY.partition("tests:")[0])
    ran = run("validate", "policy.yaml")
    assert ran.code == 0
    assert "it has no tests; write rows under `tests:`" in ran.out
    assert "tests" not in run("validate", "hygiene").out


def test_validate_finds_problems_that_only_a_profile_has(run: Run, policy: Path) -> None:
    """They would be found when it is used."""
    policy.write_text(POLICY.replace("strategy: block", "strategy: bolck"))
    ran = run("validate", "policy.yaml")
    assert ran.code == 2
    assert "policy.yaml:7:31: regex-filter: option 'strategy' is bolck" in ran.err


@pytest.mark.parametrize("command", ["run", "draw", "validate", "diff"])
def test_problems_are_printed_one_a_line_at_the_beginning_of_it(command: str, run: Run, policy: Path) -> None:
    """So that terminals and editors open the place."""
    policy.write_text("penstock: 1\nsteps:\n  - nobody\n  - hygeine\n")
    ran = (
        run(command, "policy.yaml", "policy.yaml" if command == "diff" else "hello")
        if command in ("run", "diff")
        else run(command, "policy.yaml")
    )
    assert ran.code == 2
    lines = ran.err.splitlines()
    assert lines[0] == "penstock: cannot load 'policy.yaml': it has 2 problems:"
    assert [line.split(" ")[0] for line in lines[1:]] == ["policy.yaml:3:5:", "policy.yaml:4:5:"]
    assert len(lines) == 3


def test_every_command_takes_a_profile(run: Run, policy: Path) -> None:
    """By the option, or in the name."""
    assert run("run", "policy.yaml", "globex").rows[0]["status"] == "passed"
    assert run("run", "policy.yaml", "globex", "--profile", "prod").rows[0]["status"] == "blocked"
    assert run("run", "policy.yaml:prod", "globex").rows[0]["status"] == "blocked"
    assert "block" in run("draw", "policy.yaml", "--profile", "prod", "-f", "json").out
    differing = run("diff", "policy.yaml", "policy.yaml:prod")
    assert differing.code == 1
    assert "strategy" in differing.out
    assert run("diff", "policy.yaml", "policy.yaml", "--profile", "prod").code == 0
    assert run("run", "policy.yaml", "x", "--profile", "dev").err.endswith("there is no profile dev; use one of prod\n")


def test_the_environment_names_the_profile_too(run: Run, policy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option counts more."""
    monkeypatch.setenv("PENSTOCK_PROFILE", "prod")
    assert run("run", "policy.yaml", "globex").rows[0]["status"] == "blocked"
    monkeypatch.setenv("PENSTOCK_PROFILE", "dev")
    assert run("run", "policy.yaml", "globex").code == 2
    assert run("run", "policy.yaml", "globex", "--profile", "prod").rows[0]["status"] == "blocked"


@pytest.mark.rest
def test_worker_processes_have_the_same_profile(run: Run, policy: Path) -> None:
    """Each loads the file by itself."""
    (policy.parent / "rows.jsonl").write_text("\n".join(json.dumps(f"globex {number}") for number in range(200)))
    ran = run("run", "policy.yaml", "-i", "rows.jsonl", "--jobs", "2", "--profile", "prod")
    assert {row["status"] for row in ran.rows} == {"blocked"}
    assert len(ran.rows) == 200


def test_a_profile_without_a_policy_file_is_refused(run: Run, policy: Path) -> None:
    """It would be without effect."""
    for argv in (("run", "hygiene", "hi"), ("draw", "guards.py:guard"), ("validate", "policy.yaml:prod")):
        ran = run(*argv, "--profile", "prod")
        assert ran.code == 2
        assert ran.err == "penstock: --profile is for policy files (.yaml, .json) that are named without a profile\n"


def test_a_json_file_is_a_policy_too(run: Run, policy: Path) -> None:
    """And a file of another kind is none."""
    (policy.parent / "p.json").write_text('{"penstock": 1, "steps": ["hygiene"]}')
    assert run("validate", "p.json").code == 0
    (policy.parent / "p.toml").write_text('preset = "privacy"')
    assert run("validate", "p.toml").code == 2


def test_problems_that_a_file_has_only_with_a_profile_are_told_with_the_others(run, world) -> None:
    """Also if the file without a profile has some: one attempt tells all."""
    text = """\
penstock: 1
steps:
  - {use: moderation, id: harm, with: {strategy: %s}}
profiles:
  dev: {harm: {with: {threshold: high}}}
  staging: {harm: {with: {strategy: warning}}}
"""
    for strategy, count in (("block", 2), ("blok", 3)):
        (world / "policy.yaml").write_text(text % strategy, "utf-8")
        told = run("validate", "policy.yaml")
        assert told.code == 2
        assert f"it has {count} problems" in told.err
        assert "policy.yaml:5:" in told.err
        assert "policy.yaml:6:" in told.err
        assert ("policy.yaml:3:" in told.err) is (count == 3)
    (world / "policy.yaml").write_text(text % "block", "utf-8")
    assert run("run", "policy.yaml", "hello").code == 0


GATEWAY = """\
gateway: 1
policy: guard.yaml
upstreams:
  local: {url: http://127.0.0.1:8000/v1}
routes:
  - {name: few, models: small-*, shadow: [{policy: safety, rate: 0.5}]}
  - {name: rest}
"""
GUARD = """\
penstock: 1
steps:
  - use: pii-detector
    with: {strategy: redact, redaction_method: placeholder}
tests:
  - {text: mail ann@example.com, expect: {text: "mail [EMAIL]"}}
"""


def test_a_gateway_file_is_validated_with_its_policies(run: Run, world: Path) -> None:
    """The tests of a policy file run, too; a stage is asked for of each policy."""
    (world / "gateway.yaml").write_text(GATEWAY)
    (world / "guard.yaml").write_text(GUARD)
    done = run("validate", "gateway.yaml", "--stage", "process_output_step")
    told = [line.partition(";")[0] for line in done.out.splitlines()]
    assert (done.code, told) == (
        Exit.OK,
        [
            "gateway 'gateway.yaml' is valid: 2 routes",
            "policy guard.yaml: workflow 'guard' is valid: 1 step",
            "1 test passed",
            "policy safety: workflow 'safety' is valid: 5 steps",
        ],
    )
    (world / "guard.yaml").write_text(GUARD.replace("[EMAIL]", "[MAIL]"))
    failed = run("validate", "gateway.yaml")
    assert (failed.code, "1 of 1 tests failed" in failed.out) == (Exit.FOUND, True)
    assert "guard.yaml:6:5: " in failed.out
    assert "a gateway file has no profiles" in run("validate", "gateway.yaml", "--profile", "dev").err


def test_all_faults_of_a_gateway_file_and_its_policies_are_told_at_once(run: Run, world: Path) -> None:
    """Each with its place and its cure; one in a section does not hide what other sections name."""
    (world / "gateway.yaml").write_text(
        GATEWAY.replace("{name: rest}", "{name: rest, upstrem: local, upstream: locl, policy: gard.yaml}")
        + "  - {name: third, fallback: lcal, rate: fast, upstream: [{name: loca}, local], checks: x}\n"
    )
    (world / "guard.yaml").write_text(GUARD.replace("pii-detector", "pii-detctor"))
    failed = run("validate", "gateway.yaml")
    assert (failed.code, failed.out) == (Exit.USAGE, "")
    assert [line.partition(";")[0] for line in failed.err.splitlines()[1:]] == [
        "gateway.yaml:7:18: routes has no key upstrem",
        "gateway.yaml:7:44: there is no upstream locl",
        "gateway.yaml:7:58: gard.yaml cannot be read: No such file or directory",
        "gateway.yaml:8:29: there is no upstream lcal",
        "gateway.yaml:8:41: rate must be a mapping of names to values",
        "gateway.yaml:8:65: there is no upstream loca",
        "gateway.yaml:8:80: routes has no key checks",
        "guard.yaml:3:10: unknown processor pii-detctor",
    ]
    assert all("did you mean" in line for line in failed.err.splitlines() if "there is no upstream" in line)
