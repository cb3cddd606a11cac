"""Claude Code and Codex themselves, behind the hooks that `penstock hook --install` writes, with a model on 127.0.0.1.

Install them (``npm install -g @anthropic-ai/claude-code @openai/codex``), or name the programs in PENSTOCK_TEST_CLAUDE
and PENSTOCK_TEST_CODEX. They need no account: the key is made up.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.workflows.hooks.agent_provider import AgentProvider, Turn
from tests.workflows.hooks.test_client import end_server

pytestmark = pytest.mark.rest

SECRET = "hunter2xyz"
SETTINGS = f"DB_PASSWORD={SECRET}\nPORT=8080\n"
POLICY = """\
penstock: 1
steps:
  - use: pii-detector
    with: {detection_types: [api-key], redaction_method: placeholder}
  - use: tool-policy
    with: {deny: [Write], ask: [Edit], strategy: refuse}
"""


def program(name: str) -> str:
    """The path of a product; skips if it is not installed."""
    found = os.environ.get(f"PENSTOCK_TEST_{name.upper()}") or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed, so its hooks are tested by recorded payloads only")
    return found


@pytest.fixture
def project(private_home: Path) -> Iterator[Path]:
    """A project with a secret, and a policy that hides it."""
    (private_home / "policy.yaml").write_text(POLICY)
    folder = private_home / "project"
    folder.mkdir()
    (folder / ".env").write_text(SETTINGS)
    yield folder
    for lock in Path(os.environ["XDG_RUNTIME_DIR"]).glob("penstock/*.lock"):
        end_server(lock)


def install(project: Path, product: str, *options: str) -> None:
    """Write the hooks into the settings in the test's home."""
    policy = str(project.parent / "policy.yaml")
    command = [sys.executable, "-m", "penstock", "hook", product, "-w", policy, "--install", *options]
    subprocess.run(command, check=True, capture_output=True, timeout=60)


def claude(project: Path, *turns: Turn, prompt: str = "go on", more: tuple[str, ...] = ()) -> tuple[AgentProvider, Any]:
    """Run Claude Code without a terminal, and return what the model was sent and what a person sees."""
    binary = program("claude")
    install(project, "claude-code")
    command = [binary, "-p", prompt, "--allowedTools", "Read,Bash,Edit,Write", *more]
    with AgentProvider(*turns) as provider:
        env = {**os.environ, "ANTHROPIC_BASE_URL": provider.url, "ANTHROPIC_API_KEY": "made-up"}
        env |= {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
        done = subprocess.run(
            command,
            cwd=project,
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
    return provider, done


def codex(
    project: Path, *turns: Turn, prompt: str = "go on", options: tuple[str, ...] = ()
) -> tuple[AgentProvider, Any]:
    """Run Codex without a terminal, with hooks that nobody has to trust first."""
    binary = program("codex")
    install(project, "codex", *options)
    command = [binary, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    with AgentProvider(*turns) as provider:
        home = Path(os.environ["HOME"]) / ".codex"
        (home / "config.toml").write_text(
            'model = "gpt-5"\nmodel_provider = "fake"\n[model_providers.fake]\nname = "fake"\nenv_key = "FAKE_KEY"\n'
            f'base_url = "{provider.url}/v1"\nwire_api = "responses"\n'
        )
        done = subprocess.run(
            [*command, "--dangerously-bypass-hook-trust", prompt],
            cwd=project,
            env={**os.environ, "FAKE_KEY": "made-up"},
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
    return provider, done


def test_claude_code_reads_a_file_and_a_command_without_the_secret(project: Path) -> None:
    """The model gets the rest of both."""
    read = ("Read", {"file_path": str(project / ".env")})
    provider, done = claude(project, read, ("Bash", {"command": "cat .env", "description": "x"}), "all done")
    assert done.stdout.strip() == "all done"
    assert provider.read.count("PORT=8080") >= 2
    assert SECRET not in provider.read


def test_claude_code_stops_at_a_failed_command_that_shows_the_secret(project: Path) -> None:
    """Also when the conversation is taken up again, or forked."""
    failing = ("Bash", {"command": "cat .env; false", "description": "x"})
    provider, _ = claude(project, failing, "all done")
    assert len(provider.turns) == 1
    assert SECRET not in provider.read
    for more in (("--continue",), ("--continue", "--fork-session")):
        provider, done = claude(project, "all done", more=more)
        assert provider.turns == ["all done"], done
        assert SECRET not in provider.read


def test_claude_code_sends_no_prompt_with_a_key(project: Path) -> None:
    """The person is told why."""
    key = "sk-proj-9hV2Qw8nT4bX7cZ1mK5pL3dF6gJ0rS"
    provider, _ = claude(project, "all done", prompt=f"use {key}")
    assert provider.turns == ["all done"]
    assert key not in provider.read


def test_claude_code_does_not_run_a_denied_tool_nor_one_that_nobody_approves(project: Path) -> None:
    """The model reads the reason and goes on."""
    write = ("Write", {"file_path": str(project / "a.txt"), "content": "x"})
    provider, done = claude(project, write, "all done")
    assert done.stdout.strip() == "all done"
    assert not (project / "a.txt").exists()
    assert "the tool Write is not allowed" in provider.read


def test_codex_reads_commands_without_the_secret(project: Path) -> None:
    """One that fails, too; the guarded version takes the place of the result."""
    commands = [("exec_command", {"cmd": cmd}) for cmd in ("cat .env", "cat .env; false")]
    provider, done = codex(project, *commands, "all done")
    assert done.stdout.strip() == "all done"
    assert provider.read.count("PORT=8080") >= 2
    assert SECRET not in provider.read


def test_codex_sends_no_prompt_with_a_key(project: Path) -> None:
    """The person is told why."""
    key = "sk-proj-9hV2Qw8nT4bX7cZ1mK5pL3dF6gJ0rS"
    provider, _ = codex(project, "all done", prompt=f"use {key}")
    assert provider.turns == ["all done"]
    assert key not in provider.read


@pytest.mark.xfail(reason="Codex 0.171 calls no hook for the first output of a command that still runs", strict=True)
def test_codex_hides_what_a_running_command_has_written_so_far(project: Path) -> None:
    """A gap of Codex; docs/hooks.md says so."""
    provider, _ = codex(project, ("exec_command", {"cmd": "cat .env; sleep 5", "yield_time_ms": 500}), "all done")
    assert SECRET not in provider.read


def test_codex_reads_nothing_of_a_running_command_if_its_output_is_held(project: Path) -> None:
    """The way around that gap."""
    running = ("exec_command", {"cmd": "cat .env; sleep 5", "yield_time_ms": 500})
    provider, done = codex(project, running, "all done", options=("--hold-output",))
    assert done.stdout.strip() == "all done"
    assert "Process running" in provider.read
    assert SECRET not in provider.read
