"""Write the hooks into the settings of a product, and take them out again.

Everything else in the file keeps its bytes. Beside it stands the file as it was before (``….before-penstock``): as long
as nobody else changes the settings, taking the hooks out gives back exactly that.
"""

from __future__ import annotations

import difflib
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.engine.values.errors import PenstockError
from penstock.formats.wire import is_array, is_object
from penstock.workflows.hooks import client
from penstock.workflows.hooks.json_text import parse_text, with_item, with_member, without

if TYPE_CHECKING:
    from penstock.formats.wire import Json, Value
    from penstock.workflows.hooks.decisions import Product
    from penstock.workflows.hooks.json_text import Node

_BACKUP = ".before-penstock"
_MARK = "penstock/workflows/hooks/client.py"
_REFUSED = 2  # the exit code that both products take for a refusal
_GRACE = 5.0  # seconds that the product waits longer than the client, whose answer denies


class SettingsError(PenstockError):
    """The settings of a product cannot be changed. The message names the cure."""

    def __init__(self, file: Path, problem: str) -> None:
        super().__init__(f"{file}: {problem}")


@dataclass(frozen=True, slots=True)
class SettingsChange:
    """A change of a settings file.

    Attributes:
        file: the file.
        before: its text; None if it is not there.
        after: its text then; None if it is to be removed.
    """

    file: Path
    before: str | None
    after: str | None

    @property
    def diff(self) -> str:
        """The change as a unified diff; empty if nothing changes."""
        before, after = [(text or "").splitlines(keepends=True) for text in (self.before, self.after)]
        names = [os.devnull if text is None else str(self.file) for text in (self.before, self.after)]
        lines = difflib.unified_diff(before, after, names[0], names[1])
        return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def default_settings(product: str) -> Path:
    """Return the file of a product with the hooks of its user."""
    if product == "codex":
        return Path(os.environ.get("CODEX_HOME") or "~/.codex").expanduser() / "hooks.json"
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or "~/.claude").expanduser() / "settings.json"


def hook_command(product: str, policy: str, options: list[str]) -> str:
    """Return the command line that a product is to run for each event.

    Products let a call pass if the program is not there any more, so the line ends with the exit code that refuses it.

    Args:
        product: the name of the product.
        policy: the name of the policy; a path must be absolute.
        options: further arguments of the client.
    """
    program = str(Path(client.__file__).resolve())
    line = shlex.join([sys.executable, "-I", "-S", program, product, "-w", policy, *options])
    return line if "open" in options else f"{line} || exit {_REFUSED}"


def installed(file: Path, product: Product, command: str, *, seconds: float) -> SettingsChange:
    """Return the change that adds the hooks of a product to its settings, in place of older ones of ours.

    Args:
        file: the settings.
        product: the product.
        command: the command line to run.
        seconds: how long the client takes at most.

    Raises:
        SettingsError: the file is no JSON object, or its ``hooks`` have another form.
    """
    before = _text(file)
    text = before or "{}\n"
    text = _without_hooks(file, text)
    for event in product.installed:
        handler: Json = {"type": "command", "command": command, "timeout": _timeout(product, event, seconds)}
        text = _with_hook(file, text, event, {"hooks": [handler]})
    return SettingsChange(file, before, text)


def _timeout(product: Product, event: str, seconds: float) -> int:
    if product.name == "codex" and event == "SessionEnd":
        return 3  # the most that Codex takes
    return round(seconds + _GRACE)


def removed(file: Path) -> SettingsChange:
    """Return the change that takes our hooks out of the settings.

    Raises:
        SettingsError: the file is no JSON object, or its ``hooks`` have another form.
    """
    before = _text(file)
    if before is None:
        return SettingsChange(file, None, None)
    backup = Path(f"{file}{_BACKUP}")
    noted = _text(backup)
    if noted is not None:
        installed_as, _, original = noted.partition("\n")
        if installed_as == _digest(before):
            return SettingsChange(file, before, original[1:] if original.startswith("+") else None)
    return SettingsChange(file, before, _without_hooks(file, before))


def write(change: SettingsChange, *, installs: bool) -> None:
    """Write a change, whole or not at all.

    Args:
        change: the change.
        installs: whether to keep the text as it was beside the file; otherwise that copy is removed.

    Raises:
        SettingsError: the file has changed since, or cannot be written.
    """
    if _text(change.file) != change.before:
        raise SettingsError(change.file, "it has changed in the meantime; try again")
    backup = Path(f"{change.file}{_BACKUP}")
    try:
        change.file.parent.mkdir(parents=True, exist_ok=True)
        if installs and change.after is not None:
            kept = _original(change, backup)
            _replace(backup, f"{_digest(change.after)}\n{'' if kept is None else f'+{kept}'}", change.file)
        if change.after is None:
            change.file.unlink(missing_ok=True)
        elif change.after != change.before:
            _replace(change.file, change.after, change.file)
        if not installs:
            backup.unlink(missing_ok=True)
    except OSError as error:
        raise SettingsError(change.file, f"it cannot be written: {error.strerror}") from error


def _original(change: SettingsChange, backup: Path) -> str | None:
    """Return the text from before the first installation, if nobody else has changed the file since then."""
    noted = _text(backup)
    if noted is not None and change.before is not None:
        installed_as, _, original = noted.partition("\n")
        if installed_as == _digest(change.before):
            return original[1:] if original.startswith("+") else None
        return _without_hooks(change.file, change.before)
    return change.before


def _replace(file: Path, text: str, like: Path) -> None:
    """Write a file under another name, and put it in place; a link stays one, and the mode is that of another file."""
    target = file.resolve()
    mode = like.stat().st_mode & 0o777 if like.exists() else 0o600
    made = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with made.open("w", encoding="utf-8", newline="") as opened:
            opened.write(text)
        made.chmod(mode)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def _digest(text: str) -> str:
    import hashlib

    return hashlib.sha256(text.encode()).hexdigest()


def _text(file: Path) -> str | None:
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            return opened.read()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(file, f"it cannot be read: {error}") from error


def _parsed(file: Path, text: str) -> Node:
    try:
        root = parse_text(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(file, f"it is no JSON ({error}); mend it first") from error
    if not is_object(root.value):
        raise SettingsError(file, "it holds no JSON object; mend it first")
    hooks: Value = root.value.get("hooks", {})
    if not is_object(hooks) or not all(map(is_array, hooks.values())):
        raise SettingsError(file, "its hooks are no object of lists; mend it first")
    return root


def _with_hook(file: Path, text: str, event: str, group: Json) -> str:
    root = _parsed(file, text)
    hooks = root.get("hooks")
    if hooks is None:
        text = with_member(text, root, "hooks", {}, depth=0)
        return _with_hook(file, text, event, group)
    groups = hooks.get(event)
    if groups is None:
        return with_member(text, hooks, event, [group], depth=1)
    return with_item(text, groups, group, depth=2)


def _without_hooks(file: Path, text: str) -> str:
    """Return a text without our hooks, and without the lists that are empty then."""
    root = _parsed(file, text)
    hooks = root.get("hooks")
    if hooks is None:
        return text
    events = list(hooks.members)
    emptied: set[int] = set()
    for place in reversed(range(len(events))):
        groups = hooks.members[events[place]][1]
        gone = {index for index, group in enumerate(groups.items) if _is_ours(group.value)}
        if gone and len(gone) == len(groups.items):
            emptied.add(place)
        elif gone:
            text = without(text, groups, gone)
    if not emptied:
        return text
    root = _parsed(file, text)
    hooks = root.get("hooks")
    if hooks is None or len(emptied) == len(events):
        return without(text, root, {list(root.members).index("hooks")})
    return without(text, hooks, emptied)


def _is_ours(group: Value) -> bool:
    """Return whether all hooks of a group run our client."""
    handlers: Value = group.get("hooks") if is_object(group) else None
    if not is_array(handlers) or not handlers:
        return False
    return all(is_object(handler) and _MARK in str(handler.get("command")).replace("\\", "/") for handler in handlers)
