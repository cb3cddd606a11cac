"""Whether workers end with the process that started them, also within a call in C that lets no other thread run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.workflows.rows.orphans import OrphanWatcher

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")

ROOT = str(Path(penstock.__file__).parents[1])
SLEEPING = [sys.executable, "-S", "-c", "import time; print('ready', flush=True); time.sleep(600)"]
WORKER = f"""
import re, subprocess
subprocess.Popen({SLEEPING!r})
re.match("(a+)+$", "a" * 60 + "b")
"""
PARENT = f"""
import subprocess, sys
from penstock.workflows.rows.orphans import OrphanWatcher
watcher = OrphanWatcher()
worker = subprocess.Popen([sys.executable, "-c", {WORKER!r}], start_new_session=True)
watcher.watch(worker.pid)
worker.wait()
"""


def test_a_worker_in_a_long_call_ends_with_its_killed_parent_and_so_does_what_it_started() -> None:
    """The output ends: nobody holds it any more."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"ready\n"
        parent.kill()
        assert parent.communicate(timeout=20)[0] == b""


def test_only_workers_that_are_still_watched_are_killed() -> None:
    """One that is forgotten lives on when the watcher ends."""
    watcher = OrphanWatcher()
    with (
        subprocess.Popen(SLEEPING, stdout=subprocess.PIPE, start_new_session=True) as watched,
        subprocess.Popen(SLEEPING, stdout=subprocess.PIPE, start_new_session=True) as forgotten,
    ):
        for worker in (watched, forgotten):
            assert worker.stdout is not None
            assert worker.stdout.readline() == b"ready\n"
            watcher.watch(worker.pid)
        watcher.forget(forgotten.pid)
        watcher.close()
        assert watched.wait() == -9
        assert forgotten.poll() is None
        forgotten.kill()
