"""Whether workers end with the process that started them, also within a call in C that lets no other thread run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import penstock
from penstock.workflows.rows.orphans import _PROGRAM, OrphanWatcher

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no process groups")

ROOT = str(Path(penstock.__file__).parents[1])
SLEEPING = [sys.executable, "-S", "-c", "import time; print('ready', flush=True); time.sleep(600)"]
SILENT = [sys.executable, "-S", "-c", "import time; time.sleep(600)"]
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


def test_a_worker_ends_with_its_killed_parent_though_what_that_has_forked_lives_on() -> None:
    """The forked process holds the pipe to the watcher."""
    code = (
        "import os, subprocess, sys, time\n"
        "from penstock.workflows.rows.orphans import OrphanWatcher\n"
        "watcher = OrphanWatcher()\n"
        f"worker = subprocess.Popen({SILENT!r}, start_new_session=True)\n"
        "watcher.watch(worker.pid)\n"
        "if not os.fork():\n"
        "    os.close(1)\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "os.write(1, b'forked\\n')\n"
        "worker.wait()\n"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"forked\n"
        parent.kill()
        assert parent.stdout.read() == b""


def test_closing_waits_for_no_process_that_was_forked() -> None:
    """And that process has a watcher of its own: what it closes is not the one of its parent."""
    code = (
        "import os, subprocess, sys\n"
        "from penstock.workflows.rows.orphans import OrphanWatcher\n"
        "watcher = OrphanWatcher()\n"
        f"first = subprocess.Popen({SLEEPING!r}, stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "watcher.watch(first.pid)\n"
        "ended, done = os.pipe()\n"
        "said, say = os.pipe()\n"
        "if not os.fork():\n"
        "    os.close(done)\n"
        f"    second = subprocess.Popen({SLEEPING!r}, stdout=subprocess.DEVNULL, start_new_session=True)\n"
        "    watcher.forget(first.pid)\n"
        "    watcher.watch(second.pid)\n"
        "    watcher.close()\n"
        "    print('forked', second.wait(), flush=True)\n"
        "    os.write(say, b'x')\n"
        "    os.read(ended, 1)\n"
        "    os._exit(0)\n"
        "os.read(said, 1)\n"
        "watcher.close()\n"
        "print('parent', first.wait(), flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, cwd=ROOT)
    assert done.stdout == b"forked -9\nparent -9\n"


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it needs Linux's /proc")
def test_a_worker_that_does_not_lead_its_group_yet_is_killed() -> None:
    """It makes the group itself, a moment after it was started."""
    watcher = OrphanWatcher()
    with subprocess.Popen(SLEEPING, stdout=subprocess.PIPE) as worker:
        watcher.watch(worker.pid)
        watcher.close()
        assert worker.wait() == -9


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it needs Linux's /proc")
def test_a_process_that_has_the_id_of_an_ended_worker_is_not_killed() -> None:
    """It has begun at another time."""
    times = (
        "import builtins, io, itertools\n"
        "times = itertools.count()\n"
        "builtins.open = lambda *_: io.BytesIO(b'1 (x) S ' + b'0 ' * 18 + str(next(times)).encode())\n"
    )
    command = [sys.executable, "-c", times + _PROGRAM, str(os.getpid())]
    with (
        subprocess.Popen(SLEEPING, stdout=subprocess.PIPE, start_new_session=True) as other,
        subprocess.Popen(command, stdin=subprocess.PIPE) as watcher,
    ):
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        watcher.communicate(b"%d\n" % other.pid)
        assert watcher.returncode == 0
        assert other.poll() is None
        other.kill()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="it needs Linux's /proc")
def test_what_ends_all_processes_of_a_service_does_not_end_the_watcher_first() -> None:
    """A signal to all of them; the watcher ends when this process has."""
    watcher = OrphanWatcher()
    with subprocess.Popen(SLEEPING, stdout=subprocess.PIPE, start_new_session=True) as worker:
        watcher.watch(worker.pid)
        assert watcher._process is not None
        while not _ignores_sigterm(watcher._process.pid):
            pass  # it starts
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            watcher._process.send_signal(each)
        watcher.close()
        assert worker.wait() == -9


def _ignores_sigterm(process: int) -> bool:
    ignored = Path(f"/proc/{process}/status").read_text().partition("SigIgn:")[2].split()[0]
    return bool(int(ignored, 16) & 1 << (signal.SIGTERM - 1))
