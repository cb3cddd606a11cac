"""Whether a process ends with its parent, also within a call in C that lets no other thread run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock

ROOT = str(Path(penstock.__file__).parents[1])
CHILD = """
import re
from penstock.workflows.rows.orphans import end_with_parent
end_with_parent()
print("ready", flush=True)
re.match("(a+)+$", "a" * 60 + "b")
"""
PARENT = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {CHILD!r}]).wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_a_process_in_a_long_call_ends_when_its_parent_is_killed() -> None:
    """Its output ends: nobody holds it any more."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
        assert parent.communicate(timeout=20)[0] == b""
