"""The command as a process of its own: pipes that break, Ctrl-C, locales; few tests, for they are slow."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import penstock
from penstock.workflows.cli.terminal import MOST_COUNTED
from tests.workflows.cli.ctrl_c import heed_ctrl_c

ROOT = Path(penstock.__file__).parents[1]
COMMAND = [sys.executable, "-W", "error", "-m", "penstock"]


def started(cwd: Path, *argv: str, **env: str) -> subprocess.Popen[bytes]:
    """Start the command in that folder."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **env}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [*COMMAND, *argv],
        cwd=cwd,
        env=environment,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        preexec_fn=heed_ctrl_c,  # noqa: PLW1509 - it takes no lock
    )


def test_rows_are_answered_as_they_come(world: Path) -> None:
    """Whoever feeds the pipe line by line does not wait for its end."""
    for name in ("guard", "slow"):
        with started(world, "run", f"guards.py:{name}", "-") as process:
            for text in ("one", "two"):
                process.stdin.write(f'"{text}"\n'.encode())
                process.stdin.flush()
                assert json.loads(process.stdout.readline())["text"] == text
            process.stdin.close()
            assert process.wait() == 0


@pytest.mark.rest
def test_a_reader_that_goes_away_ends_it_quietly(world: Path) -> None:
    """As in `penstock run … | head`: no traceback, and the exit code of a broken pipe."""
    (world / "many.jsonl").write_text('"some text"\n' * 20_000)
    for name in ("guard", "slow"):
        with started(world, "run", f"guards.py:{name}", "-i", "many.jsonl") as process:
            process.stdout.readline()
            process.stdout.close()
            assert process.wait() == 141
            assert process.stderr.read() == b""


@pytest.mark.parametrize("name", ["guard", "slow"])
def test_ctrl_c_ends_it_with_what_was_done_so_far(world: Path, name) -> None:
    """Whole lines, a sentence and no traceback, also while it waits for input."""
    with started(world, "run", f"guards.py:{name}", "-") as process:
        for _ in range(3):
            process.stdin.write(b'"text"\n')
        process.stdin.flush()
        rows = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        fuse = threading.Timer(10, process.kill)
        fuse.start()
        assert process.wait() == 130
        fuse.cancel()
        assert [row["line"] for row in rows] == [1, 2, 3]
        counts, interrupted = process.stderr.read().decode().splitlines()
        assert counts.startswith("penstock: 3 rows: 3 passed in ")
        assert interrupted == "penstock: interrupted after 3 rows"
        assert process.stdout.read() == b""


STEERING = "\x1b]0;owned\x07\x1b[31mred"


@pytest.mark.parametrize("module", ["cli.app", "cli.arguments", "cli.run", "rows.reading"])
def test_ctrl_c_during_the_first_imports_ends_it_quietly(module) -> None:
    """A sentence and the exit code, as later; no traceback."""
    code = f"""
import sys
class Interrupts:
    def find_spec(self, name, path=None, target=None):
        if name == "penstock.workflows.{module}":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupts())
from penstock.workflows.cli import main
sys.exit(main(["run", "hygiene", "x"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"penstock: interrupted\n")


def test_a_log_message_cannot_control_the_terminal(world: Path, lines) -> None:
    """Whoever logs it, and whatever it quotes."""
    with started(world, "run", "guards.py:chatty", "-") as process:
        out, err = process.communicate(lines(STEERING))
    assert "saw ␛]0;owned" in err.decode()
    assert b"\x1b" not in err + out
    assert b"cannot read" not in err + out


def test_a_repeated_log_message_is_written_once_and_counted(world: Path, lines) -> None:
    """A thousand rows that fail alike are not a thousand lines; beyond a limit of messages, each is written."""
    texts = [f"text {number}" for number in range(MOST_COUNTED + 5)] + [f"text {MOST_COUNTED + 4}"]
    with started(world, "run", "guards.py:chatty", "-") as process:
        _, err = process.communicate(lines(*texts))
    logged = [line for line in err.decode().splitlines() if "failed in process_input" in line]
    assert len(logged) == 2
    assert logged[1].startswith(f"penstock: logged {len(texts) - 1:,} more times: step 'chatty' failed")
    assert err.count(f"saw text {MOST_COUNTED + 4}\n".encode()) == 2


def test_output_is_utf8_in_any_locale(world: Path) -> None:
    """Line ends too are the same everywhere."""
    with started(world, "run", "guards.py:guard", "-", PYTHONIOENCODING="latin-1") as process:
        out, _ = process.communicate('"Grüße 🙂"\n'.encode())
    assert json.loads(out.decode("utf-8"))["text"] == "Grüße 🙂"
    assert out.endswith(b"}\n")


def test_the_result_of_one_text_ends_with_a_newline(world: Path) -> None:
    """So that a shell's prompt, or the next line of a log, starts on a line of its own."""
    with started(world, "run", "guards.py:guard", "some text") as process:
        out, _ = process.communicate()
    assert out.count(b"\n") == 1
    assert out.endswith(b"}\n")


def test_rows_need_neither_rich_nor_networkx(world: Path) -> None:
    """What is not shown is not loaded: a pipe starts at once."""
    code = (
        "import sys; from penstock.workflows.cli import main; code = main(['run', 'guards.py:guard', '-']); "
        "unwanted = {'rich', 'networkx', 'tiktoken', 'penstock.processors.text'} & set(sys.modules); "
        "sys.exit(code or len(unwanted))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run([sys.executable, "-c", code], cwd=world, env=env, input=b'"a"\n', check=False)
    assert ran.returncode == 0
