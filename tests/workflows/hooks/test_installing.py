"""Hooks are written into settings of any form, and taken out again, byte for byte."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.workflows.hooks.answering import PRODUCTS
from penstock.workflows.hooks.installing import SettingsError, hook_command, installed, removed, write
from penstock.workflows.hooks.json_text import parse_text, with_item, with_member, without

CLAUDE = PRODUCTS["claude-code"]
COMMAND = hook_command("claude-code", "coding", [])

FORMS = [
    "{}",
    "{ }\n",
    '{"model": "opus"}',
    '{\r\n\t"model": "opus",\r\n\t"hooks": {}\r\n}\r\n',
    '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say hi"}]}]}, "z": [1, 2.50, 1e3]}',
    '{\n    "hooks": {\n        "PreToolUse": [\n            {"matcher": "Bash", "hooks": []}\n        ]\n    }\n}\n',
    '{"hooks": {"PreToolUse": []}, "é": "\\u00e9", "a": {"b": {"c": []}}}',
]


@pytest.mark.parametrize("text", FORMS)
def test_what_was_there_comes_back_byte_for_byte(tmp_path: Path, text: str) -> None:
    """Also if it was installed twice."""
    file = tmp_path / "claude" / "settings.json"
    file.parent.mkdir()
    file.write_bytes(text.encode())
    for _ in range(2):
        write(installed(file, CLAUDE, COMMAND, seconds=25), installs=True)
    made = json.loads(file.read_bytes())
    assert all(len([g for g in made["hooks"][event] if COMMAND in str(g)]) == 1 for event in CLAUDE.installed)
    write(removed(file), installs=False)
    assert file.read_bytes() == text.encode()
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("text", FORMS)
def test_everything_else_stays_as_it_is(tmp_path: Path, text: str) -> None:
    """Each line of the file is still there, but for commas."""
    file = tmp_path / "settings.json"
    file.write_bytes(text.encode())
    after = installed(file, CLAUDE, COMMAND, seconds=25).after or ""
    before, made = json.loads(text), json.loads(after)
    for event, groups in before.get("hooks", {}).items():
        assert made["hooks"][event][: len(groups)] == groups
    assert {**made, "hooks": None} == {**before, "hooks": None}


@pytest.mark.parametrize("text", FORMS)
def test_a_file_that_was_changed_meanwhile_loses_only_the_hooks(tmp_path: Path, text: str) -> None:
    """A setting that came later stays."""
    file = tmp_path / "settings.json"
    file.write_bytes(text.encode())
    write(installed(file, CLAUDE, COMMAND, seconds=25), installs=True)
    changed = file.read_text().replace("{", '{"later": true, ', 1)
    file.write_text(changed)
    write(removed(file), installs=False)
    left, before = json.loads(file.read_text()), json.loads(text)
    assert left.pop("later") is True
    assert {event: groups for event, groups in left.pop("hooks", {}).items() if groups} == {
        event: groups for event, groups in before.pop("hooks", {}).items() if groups
    }
    assert left == before


def test_a_file_that_was_not_there_goes_again(tmp_path: Path) -> None:
    """With its folder made, as for a product that was never started."""
    file = tmp_path / ".claude" / "settings.json"
    write(installed(file, CLAUDE, COMMAND, seconds=25), installs=True)
    assert file.exists()
    assert file.stat().st_mode & 0o777 == 0o600
    write(removed(file), installs=False)
    assert list(file.parent.iterdir()) == []


def test_a_hook_whose_program_is_gone_refuses(tmp_path: Path) -> None:
    """The shell's own code for that would let everything pass."""
    line = COMMAND.replace(sys.executable, str(tmp_path / "gone"), 1)
    made = subprocess.run(["/bin/sh", "-c", line], input=b"{}", capture_output=True, check=False)
    assert made.returncode == 2
    assert made.stderr
    assert "exit" not in hook_command("claude-code", "coding", ["--fail", "open"])


def test_nothing_to_remove_is_no_change(tmp_path: Path) -> None:
    """No file, and a file without hooks of ours."""
    assert removed(tmp_path / "no.json").after is None
    (tmp_path / "a.json").write_text('{"hooks": {}}')
    assert removed(tmp_path / "a.json").diff == ""


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"a": 1, "a": 2}', "{} {}"]
)
def test_settings_that_are_broken_are_not_touched(tmp_path: Path, text: str) -> None:
    """The error names the file, and what to do."""
    file = tmp_path / "settings.json"
    file.write_text(text)
    if not text:
        return
    with pytest.raises(SettingsError, match=r"settings\.json.*mend it first"):
        installed(file, CLAUDE, COMMAND, seconds=25)
    assert file.read_text() == text


def test_a_change_is_not_written_over_a_newer_one(tmp_path: Path) -> None:
    """The product writes its settings, too."""
    file = tmp_path / "settings.json"
    file.write_text("{}")
    change = installed(file, CLAUDE, COMMAND, seconds=25)
    file.write_text('{"model": "opus"}')
    with pytest.raises(SettingsError, match="try again"):
        write(change, installs=True)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """People keep settings in a repository of their own."""
    target, file = tmp_path / "dotfiles.json", tmp_path / "settings.json"
    target.write_text("{}")
    target.chmod(0o640)
    file.symlink_to(target)
    write(installed(file, CLAUDE, COMMAND, seconds=25), installs=True)
    assert file.is_symlink()
    assert "hooks" in json.loads(target.read_text())
    assert target.stat().st_mode & 0o777 == 0o640


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=4), _VALUES, max_size=4), st.sampled_from([None, 1, 4, "\t"]), st.data())
def test_a_member_that_is_added_and_removed_leaves_the_text_as_it_was(
    value: dict[str, Any], indent: int | str | None, data: st.DataObject
) -> None:
    """For objects and lists that are not empty; and the value is what it should be."""
    text = json.dumps(value, indent=indent, ensure_ascii=data.draw(st.booleans()))
    root = parse_text(text)
    assert root.value == value
    made = with_member(text, root, "new key", [1, {"a": None}], depth=0)
    assert json.loads(made) == {**value, "new key": [1, {"a": None}]}
    if value:
        again = parse_text(made)
        assert without(made, again, {len(again.members) - 1}) == text


@given(st.lists(_VALUES, min_size=1, max_size=5), st.sampled_from([None, 2]), st.data())
def test_items_are_removed_wherever_they_stand(value: list[Any], indent: int | None, data: st.DataObject) -> None:
    """The rest of the list is what it was."""
    text = json.dumps(value, indent=indent)
    gone = data.draw(st.sets(st.integers(0, len(value) - 1), min_size=1))
    left = without(text, parse_text(text), gone)
    assert json.loads(left) == [item for index, item in enumerate(value) if index not in gone]
    assert json.loads(with_item(text, parse_text(text), "x", depth=0)) == [*value, "x"]
