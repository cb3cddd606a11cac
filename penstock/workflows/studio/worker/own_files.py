"""Which files are the user's: all but those of the Python installation, of installed packages, and of penstock."""

from __future__ import annotations

import os
import site
import sysconfig
from pathlib import Path

import penstock


def _foreign_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    found = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    found |= {*site.getsitepackages(), site.getusersitepackages(), str(Path(penstock.__file__).parent)}
    return tuple(os.path.realpath(each) + os.sep for each in found)


_FOREIGN = _foreign_folders()


def is_own(path: str) -> bool:
    """Return whether a file is a source of the user."""
    return path.endswith(".py") and not os.path.realpath(path).startswith(_FOREIGN)
