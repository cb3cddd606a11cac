"""Whether the package's modules import only what their layer may; the layers themselves stand in pyproject.toml."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_module_has_a_layer_and_imports_only_what_is_below_it() -> None:
    """All contracts of import-linter hold; it prints the ones that do not."""
    lint_imports = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run([lint_imports, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
