"""Files that hold secrets, and the settings of coding agents, by their paths."""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SECRET_FILES = (
    ".env",
    ".env.*",
    "*.env",
    ".envrc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".npmrc",
    ".pypirc",
    ".htpasswd",
    ".git-credentials",
    ".vault-token",
    ".terraformrc",
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    "*.pem",
    "*.p12",
    "*.pfx",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.tfstate",
    "*.tfstate.backup",
    "credentials.json",
    "client_secret*.json",
    "service-account*.json",
    "service_account*.json",
    "secrets.y*ml",
    "secrets.json",
    "secrets.toml",
    "*.agekey",
    ".aws/credentials",
    ".aws/config",
    ".azure/*",
    ".config/gcloud/*",
    ".config/gh/hosts.yml",
    ".docker/config.json",
    ".kube/config",
    ".gnupg/*",
    ".ssh/*",
    ".cargo/credentials*",
    ".gem/credentials",
    ".claude/.credentials.json",
    ".codex/auth.json",
    "etc/shadow",
    "proc/*/environ",
)
"""Patterns of files with secrets: of the file's name, or, with a slash, of the end of its path."""

HARMLESS_FILES = (
    "*.example",
    "*.sample",
    "*.template",
    "*.dist",
    "*.defaults",
    "*.schema",
    "*.pub",
    "example.env",
    "sample.env",
    "template.env",
    ".ssh/known_hosts",
    ".ssh/config",
    "cacert.pem",
    "ca.pem",
    "ca-bundle.pem",
    "*.crt.pem",
)
"""Patterns of files that fit one of `SECRET_FILES` and hold none."""

AGENT_SETTINGS = (
    ".claude/settings*.json",
    ".claude.json",
    "claude/managed-settings.json",
    ".codex/config.toml",
    ".codex/hooks.json",
    ".codex/hooks/*",
    ".claude/hooks/*",
)
"""Patterns of the settings of coding agents, where an agent could take its own hooks out."""

_NAMES = tuple(name for name in SECRET_FILES if not any(char in name for char in "*?["))


def normal(path: str) -> str:
    """Return a path in lower case with plain slashes, without ``.``, ``..`` and doubled slashes."""
    plain = path.replace("\\", "/").casefold()
    return posixpath.normpath(plain) if plain else ""


@lru_cache(maxsize=4_096)
def is_secret_file(path: str, more: tuple[str, ...] = (), harmless: tuple[str, ...] = ()) -> bool:
    """Return whether a path is that of a file with secrets.

    Args:
        path: the path.
        more: further patterns of such files.
        harmless: further patterns of files that are none.
    """
    found = normal(path)
    return _fits(found, (*SECRET_FILES, *more)) and not _fits(found, (*HARMLESS_FILES, *harmless))


def names_secret_files(pattern: str, more: tuple[str, ...] = (), harmless: tuple[str, ...] = ()) -> bool:
    """Return whether the shell could replace a pattern (``.e*``) by a file with secrets."""
    if is_secret_file(pattern, more, harmless):
        return True
    folder, _, last = normal(pattern).rpartition("/")
    for name in (*_NAMES, *(one for one in more if not re.search(r"[*?\[]", one))):
        parent, _, base = name.rpartition("/")
        hidden = base.startswith(".") and last[:1] in ("*", "?")  # they stand for no leading dot
        if not hidden and fnmatchcase(base, last) and (not parent or _fits(folder, (parent,)) or "*" in folder):
            return True
    return False


@lru_cache(maxsize=4_096)
def is_agent_settings(path: str) -> bool:
    """Return whether a path is that of the settings of a coding agent."""
    return _fits(normal(path), AGENT_SETTINGS)


def _fits(path: str, patterns: Iterable[str]) -> bool:
    name = path.rpartition("/")[2]
    for pattern in patterns:
        one = pattern.casefold()
        if "/" not in one:
            if fnmatchcase(name, one):
                return True
        elif fnmatchcase(path, one) or fnmatchcase(path, f"*/{one}"):
            return True
    return False
