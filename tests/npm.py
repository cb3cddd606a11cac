"""What tests ask of programs in JavaScript: packages from npm, installed once into a folder beside the tests."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

FILES = ("package.json", "package-lock.json")
OFFLINE = re.compile(
    r"E(NOTFOUND|CONNREFUSED|CONNRESET|TIMEDOUT|AI_AGAIN|NETUNREACH|HOSTUNREACH)|ERR_SOCKET_TIMEOUT|E50\d"
)


def installed(house: Path, script: str, what: str) -> Path:
    """A script beside the packages that it needs, installed where they are not yet; skips without node or network.

    Args:
        house: the folder with the script, ``package.json`` and ``package-lock.json``.
        script: the name of the script.
        what: what cannot be tested without it.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(f"{what}: node and npm are not installed")
    files = (*FILES, script)
    key = hashlib.sha256(b"".join((house / name).read_bytes() for name in files)).hexdigest()[:16]
    cache = house / ".npm_cache" / key
    if not cache.exists():
        made = house / ".npm_cache" / f"{key}.{os.getpid()}"
        made.mkdir(parents=True)
        try:
            _install(house, made, files, what)
            made.rename(cache)  # other processes see all of it or nothing
        except OSError:
            if not cache.exists():
                raise
        finally:
            shutil.rmtree(made, ignore_errors=True)
        for old in cache.parent.iterdir():
            if not old.name.startswith(key):
                shutil.rmtree(old, ignore_errors=True) if old.is_dir() else old.unlink(missing_ok=True)
    return cache / script


def _install(house: Path, cache: Path, files: Iterable[str], what: str) -> None:
    for name in files:
        shutil.copy(house / name, cache)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
    done = subprocess.run(command, cwd=cache, capture_output=True, text=True, check=False, timeout=240)
    offline = OFFLINE.search(done.stderr)
    if done.returncode and offline:
        pytest.skip(f"{what}: npm has no network ({offline.group()})")
    assert done.returncode == 0, done.stderr
