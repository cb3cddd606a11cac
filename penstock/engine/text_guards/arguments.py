"""`decides_what_runs`: tells arguments of a tool that are commands, code, paths or addresses.

Another command, path or address is another deed. So a guard stops a call rather than letting it run with such an
argument changed.
"""

from __future__ import annotations

import re

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")
_KEYS = re.compile(
    r"argv|bash|cmd|commands?|cwd|dir|directory|endpoint|entrypoint|exec|executable|expression|filename|filepath|files?"
    r"|folder|glob|host|hostname|href|paths?|pathname|program|refspec|remote|repo|repository|scripts?|shell|sql|statement"
    r"|stdin|uri|urls?|xpath"
)
"""The last words of keys whose values decide what runs."""

_LANGUAGES = frozenset({"source", "python", "javascript", "js", "shell", "bash", "sql", "program", "script"})
"""The words before *code* in such a key; a postal code is none."""

_PROGRAMS = (
    r"ansible|apt|apt-get|aws|az|bash|brew|cargo|chmod|chown|cp|crontab|curl|docker|docker-compose|dotnet|ffmpeg|gcloud|gh"
    r"|git|gradle|gsutil|helm|java|kubectl|mkdir|mongosh|mv|mvn|mysql|netstat|nmap|node|npm|npx|openssl|pg_dump|php|pip"
    r"|pip3|pnpm|poetry|psql|python|python3|redis-cli|rm|rsync|ruby|scp|sed|sftp|sh|sqlite3|ssh|ssh-copy-id|ssh-keygen"
    r"|sudo|systemctl|tar|telnet|terraform|uvx?|wget|yarn|zsh"
)
_FORMS = re.compile(
    rf"""
      [a-z][a-z0-9+.-]*://\S+                                        # an address
    | [\w.-]+@[\w.-]+:[\w./~-]+                                      # a remote of git or scp
    | (?:~|\.{{1,2}})?/[^\s/]\S* | [A-Za-z]:[\\/]\S+                 # a path
    | [\w.@+-]+(?:/[\w.@+-]+)+\.\w{{1,5}}                            # a relative one, to a file
    | (?:[A-Z_]+=\S*\s+)*(?:{_PROGRAMS})\s+(?s:.+)                  # a command
    | (?i:select\s(?s:.+)\sfrom|insert\s+into|update\s+\S+\s+set|delete\s+from|with\s+\w+\s+as)\b(?s:.*)
    | (?i:(?:create|alter|drop)\s+(?:table|view|index|user|role))\b(?s:.*)
    | \#!/(?s:.+)
    """,
    re.VERBOSE,
)


def decides_what_runs(key: str, text: str) -> bool:
    """Return whether an argument is a command, code, a path or an address: by its key, or by its form.

    Args:
        key: the key that it stands under; may be empty.
        text: the argument.
    """
    words = _WORDS.findall(key.lower() if key.isupper() else key)
    last, before = (words[-1].lower() if words else ""), (words[-2].lower() if len(words) > 1 else "source")
    if _KEYS.fullmatch(last) or (last == "code" and before in _LANGUAGES):
        return True
    return _FORMS.fullmatch(text.strip()) is not None
