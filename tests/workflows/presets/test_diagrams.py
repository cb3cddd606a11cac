"""What the presets look like: a preset is drawn as what it will do, so a change of the picture is one of the promise.

``PENSTOCK_UPDATE_SNAPSHOTS=1 pytest tests/workflows/presets/test_diagrams.py`` writes the snapshots anew; look at the
difference.
"""

import os
from pathlib import Path

import pytest

from penstock.workflows.presets import PRESETS

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_is_drawn_as_it_was(name: str) -> None:
    """With its defaults, for a terminal: steps, what they may do, what they tell, and where they run."""
    file = SNAPSHOTS / f"{name}.text"
    drawn = str(PRESETS[name]()) + "\n"
    if os.environ.get("PENSTOCK_UPDATE_SNAPSHOTS"):
        file.parent.mkdir(exist_ok=True)
        file.write_text(drawn, "utf-8")
    assert drawn == file.read_text("utf-8")


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_can_be_drawn_and_validated_by_its_name(name: str, run) -> None:
    """On the command line."""
    assert run("draw", name).out.splitlines()[0] == name
    assert run("validate", name).code == 0
