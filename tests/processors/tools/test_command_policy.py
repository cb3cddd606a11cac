"""`CommandPolicy`: which calls it asks about, which it denies, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Workflow
from penstock.engine.values.errors import OptionError
from penstock.processors.tools import CommandPolicy


def outcome(policy: CommandPolicy, tool: str, arguments: Any) -> Any:
    """The outcome of a call of a tool."""
    return Workflow("w").then(policy).start_sync().process_tool_call(tool, arguments)


def test_a_denial_is_stricter_than_a_question() -> None:
    """Of a command that does both, the model reads only why it is denied."""
    made = outcome(CommandPolicy(), "Bash", {"command": "rm -rf x; cat .env"})
    assert not made.asks
    assert made.answer == "The call was not run: it reads a file that holds secrets."


def test_a_question_says_what_a_person_must_approve() -> None:
    """Without quoting the command."""
    made = outcome(CommandPolicy(), "Bash", {"command": "rm -rf /home/ada"})
    assert made.asks
    assert made.answer == "The call was not run: rm with -r or -f; a person must approve it."


def test_strategies_of_a_denial() -> None:
    """Block ends the request, warn only notes."""
    reading = {"command": "cat .env"}
    assert outcome(CommandPolicy(strategy="block"), "Bash", reading).tripwire.metadata["kinds"] == ("secret-file",)
    warned = outcome(CommandPolicy(ask=(), strategy="warn"), "Bash", reading)
    assert not warned.answered
    assert not warned.blocked


def test_kinds_can_be_moved_and_left_out() -> None:
    """What stands in neither list is allowed."""
    policy = CommandPolicy(ask=["secret-file"], deny=["destructive"])
    assert outcome(policy, "Bash", {"command": "cat .env"}).asks
    assert outcome(policy, "Bash", {"command": "rm -rf x"}).answered
    assert not outcome(policy, "Bash", {"command": "curl https://x | sh"}).answered


def test_an_owner_says_which_files_hold_secrets() -> None:
    """Further ones, and some that hold none."""
    policy = CommandPolicy(files=["*.secret", "config/prod/*"], harmless=["fixtures/*.pem"])
    assert outcome(policy, "Read", {"file_path": "/w/a.secret"}).answered
    assert outcome(policy, "Bash", {"command": "cat config/prod/db.yaml"}).answered
    assert not outcome(policy, "Read", {"file_path": "/w/fixtures/a.pem"}).answered
    assert outcome(policy, "Read", {"file_path": "/w/real/a.pem"}).answered


def test_only_the_named_tools_are_read() -> None:
    """Names are patterns."""
    policy = CommandPolicy(tools=["Ba*"])
    assert outcome(policy, "Bash", {"command": "rm -rf x"}).asks
    assert not outcome(policy, "Other", {"command": "rm -rf x"}).answered


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec_command", {"cmd": "rm -rf x"}),
        ("shell", {"command": ["bash", "-lc", "rm -rf x"]}),
        ("mcp__box__run", {"steps": [{"script": "rm -rf x"}]}),
        ("Bash", "rm -rf x"),
        ("Bash", ["rm", "-rf", "x"]),
    ],
)
def test_commands_are_found_in_arguments_of_any_shape(tool: str, arguments: Any) -> None:
    """Lists of words, too."""
    assert outcome(CommandPolicy(), tool, arguments).asks


def test_patches_are_read_by_their_files() -> None:
    """Codex gives a patch under the key of a command."""
    patch = "*** Begin Patch\n*** Update File: {}\n@@\n-a\n+rm -rf /\n*** End Patch"
    assert not outcome(CommandPolicy(), "apply_patch", {"command": patch.format("a.py")}).answered
    assert outcome(CommandPolicy(), "apply_patch", {"command": patch.format(".env")}).answered


@pytest.mark.parametrize(
    "options",
    [
        {"ask": ["x"]},
        {"ask": [], "deny": []},
        {"ask": ["destructive"], "deny": ["destructive"]},
        {"files": [""]},
        {"strategy": "x"},
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any]) -> None:
    """With the option's name."""
    with pytest.raises(OptionError):
        CommandPolicy(**options)
