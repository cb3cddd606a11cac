"""`make demo`: the example runs, shows the table, and writes what it says."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_demo_draws_and_runs_the_preset(tmp_path: Path) -> None:
    """In a process of its own, from any folder."""
    script = ROOT / "examples" / "demo.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100"}
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, env=env, capture_output=True, check=False)
    out = ran.stdout.decode()
    assert ran.returncode == 0, ran.stderr.decode()
    assert "270 rows:" in out
    assert "personal-data" in out
    assert "the client gets ['Ask ', '[EMAIL], or call '" in out
    assert (ROOT / "build" / "demo" / "hygiene.mmd").read_text("utf-8").startswith("flowchart")
    assert len((ROOT / "build" / "demo" / "messages.jsonl").read_text("utf-8").splitlines()) == 270
