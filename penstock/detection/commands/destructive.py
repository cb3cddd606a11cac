"""Programs that destroy data for good, by their names and arguments."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


_SQL = re.compile(
    r"\b(?:drop\s+(?:table|database|schema|index|view|user|role)|truncate\s+(?:table\s+)?[\w.\"`]+|dropdatabase|flushall"
    r"|flushdb|delete\s+from\s+[\w.\"`]+\s*(?:;|$|--))",
    re.IGNORECASE,
)
_DEVICE = re.compile(r"/dev/(?:sd|hd|vd|xvd|nvme|mmcblk|disk|mapper/)")
_CODE = re.compile(
    r"shutil\.rmtree|os\.(?:remove|unlink|rmdir|removedirs)\b|\.unlink\(|rmSync|rmdirSync|unlinkSync|fs\.(?:rm|unlink|rmdir)\b"
    r"|fs\.promises\.(?:rm|unlink)|File\.delete|FileUtils\.rm|Dir\.delete|\bunlink\s*[(\s]|\brmtree\b"
    r"|os\.system|subprocess|child_process|\bexecSync\b|\bsystem\s*\(|\beval\s*\(|\bexec\s*\(|__import__|Remove-Item"
)


def destructive_code(code: str) -> str:
    """Return why a program in another language is asked about; empty if it need not be."""
    found = _CODE.search(code)
    if found is not None:
        return "code that removes files or starts programs"
    return destructive_sql(code)


def destructive_sql(text: str) -> str:
    """Return why a statement for a database is asked about; empty if it need not be."""
    return "a statement that removes data from a database" if _SQL.search(text) else ""


def destroys(name: str, arguments: Sequence[str]) -> str:
    """Return why a program is asked about; empty if it need not be.

    Args:
        name: its name, without the folder.
        arguments: its arguments.
    """
    if name in _ALWAYS or name.startswith("mkfs"):
        return f"{name.partition('.')[0]}, which cannot be undone"
    rule = _RULES.get(name)
    reason = "" if rule is None else rule(arguments)
    if reason:
        return reason
    if name in _DATABASES:
        return destructive_sql(" ".join(arguments))
    return ""


def writes_device(path: str) -> bool:
    """Return whether a path is that of a disk."""
    return _DEVICE.match(path) is not None


_ALWAYS = words_of(
    """
    shred wipefs mkswap fdisk sfdisk parted shutdown reboot halt poweroff dropdb dropuser userdel groupdel pkill
    killall srm diskpart format-volume clear-disk
    """
)
_DATABASES = words_of(
    """
    psql mysql mariadb sqlite3 sqlite duckdb redis-cli mongo mongosh cqlsh sqlcmd clickhouse-client bq
    """
)


def flags(arguments: Sequence[str]) -> set[str]:
    """Return the options of a command: single letters, and long ones with their dashes, without values."""
    found: set[str] = set()
    for one in arguments:
        if one == "--":
            break
        if one.startswith("--"):
            found.add(one.partition("=")[0])
        elif one.startswith("-") and len(one) > 1:
            found.update(one[1:])
    return found


def _given(arguments: Sequence[str], *names: str) -> bool:
    """Return whether one of some options is given; long ones may be shortened, as most programs allow."""
    found = flags(arguments)
    return any(
        one in found or (one.startswith("--") and any(len(f) > len("--x") and one.startswith(f) for f in found))
        for one in names
    )


def _first(arguments: Sequence[str]) -> str:
    return next((one for one in arguments if not one.startswith("-")), "")


def _rm(arguments: Sequence[str]) -> str:
    if _given(arguments, "r", "R", "f", "--recursive", "--force", "--no-preserve-root"):
        return "rm with -r or -f"
    return "rm of many files" if any(re.search(r"[*?\[]", one) for one in arguments) else ""


def _git(arguments: Sequence[str]) -> str:
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        takes = rest.pop(0) in ("-C", "-c", "--git-dir", "--work-tree", "--namespace")
        rest = rest[1:] if takes else rest
    name, given, words = (rest[0] if rest else ""), flags(rest[1:]), rest[1:]
    if name == "push":
        forced = _given(words, "f", "--force", "--force-with-lease", "--mirror", "--delete", "d", "--prune")
        return "git push that overwrites" if forced or any(re.match(r"[+:]", one) for one in words) else ""
    if name == "reset" and _given(words, "--hard"):
        return "git reset --hard"
    if name == "clean" and _given(words, "f", "--force"):
        return "git clean"
    if name in ("checkout", "restore", "switch"):
        worktree = name != "restore" or "--staged" not in given or "--worktree" in given
        discards = (
            "." in words or "--" in words or name == "restore" or bool(given & {"f", "--force", "--discard-changes"})
        )
        return f"git {name} that discards changes" if discards and worktree else ""
    if name == "branch" and (given & {"D"} or {"d", "f"} <= given or {"--delete", "--force"} <= given):
        return "git branch -D"
    if name == "stash" and words[:1] and words[0] in ("drop", "clear"):
        return "git stash that drops changes"
    if name in ("filter-branch", "filter-repo", "update-ref") or (name == "reflog" and "expire" in words):
        return f"git {name}"
    return "git gc --prune" if name == "gc" and any(one.startswith("--prune") for one in words) else ""


def _find(arguments: Sequence[str]) -> str:
    return "find -delete" if "-delete" in arguments else ""


def _dd(arguments: Sequence[str]) -> str:
    return "dd, which overwrites" if any(one.startswith("of=") for one in arguments) else ""


def _change_all(name: str) -> Callable[[Sequence[str]], str]:
    return lambda arguments: f"{name} -R" if flags(arguments) & {"R", "--recursive"} else ""


def _verbs(name: str, *verbs: str) -> Callable[[Sequence[str]], str]:
    """Return the rule for a program of which some subcommands destroy: each is one word, or several in order."""

    def rule(arguments: Sequence[str]) -> str:
        words = [one for one in arguments if not one.startswith("-")]
        said = f" {' '.join(words[:4])} "
        found = next((verb for verb in verbs if f" {verb} " in said), "")
        return f"{name} {found}" if found else ""

    return rule


def _aws(arguments: Sequence[str]) -> str:
    words = [one for one in arguments if not one.startswith("-")][:3]
    removed = next((one for one in words[1:] if re.match(r"(delete|terminate|remove|purge|rb|rm)\b", one)), "")
    return f"aws {removed}" if removed else ""


def _cloud(name: str) -> Callable[[Sequence[str]], str]:
    return lambda arguments: f"{name} delete" if any(one in ("delete", "remove", "purge") for one in arguments) else ""


def _flagged(name: str, *given: str) -> Callable[[Sequence[str]], str]:
    return lambda arguments: f"{name} {found}" if (found := next((g for g in given if g in arguments), "")) else ""


def _truncate(arguments: Sequence[str]) -> str:
    return "truncate" if flags(arguments) & {"s", "--size"} else ""


def _mv(arguments: Sequence[str]) -> str:
    return "mv into /dev/null" if arguments and arguments[-1] == "/dev/null" else ""


def _kill(arguments: Sequence[str]) -> str:
    return "kill of all processes" if "-1" in arguments[1:] or list(arguments[:1]) == ["-1"] else ""


def _rsync(arguments: Sequence[str]) -> str:
    return "rsync --delete" if any(one.startswith("--del") for one in arguments) else ""


def _remove_item(arguments: Sequence[str]) -> str:
    said = " ".join(arguments).casefold()
    return "Remove-Item" if re.search(r"-r|-fo|/s|\*", said) else ""


_RULES: Mapping[str, Callable[[Sequence[str]], str]] = {
    "rm": _rm,
    "rmdir": _flagged("rmdir", "/s", "/S"),
    "git": _git,
    "find": _find,
    "fd": _flagged("fd", "--exec-batch", "-X"),
    "dd": _dd,
    "chmod": _change_all("chmod"),
    "chown": _change_all("chown"),
    "truncate": _truncate,
    "mv": _mv,
    "kill": _kill,
    "rsync": _rsync,
    "crontab": _flagged("crontab", "-r"),
    "iptables": _flagged("iptables", "-F", "--flush"),
    "history": _flagged("history", "-c"),
    "docker": _verbs(
        "docker",
        "system prune",
        "volume rm",
        "volume prune",
        "image prune",
        "container prune",
        "rm",
        "rmi",
        "compose down",
    ),
    "podman": _verbs("podman", "system prune", "system reset", "volume rm", "volume prune", "rm", "rmi"),
    "docker-compose": _verbs("docker-compose", "down", "rm"),
    "kubectl": _verbs("kubectl", "delete", "drain", "replace"),
    "oc": _verbs("oc", "delete"),
    "helm": _verbs("helm", "uninstall", "delete", "rollback"),
    "terraform": _verbs("terraform", "destroy", "apply", "state rm", "taint", "force-unlock"),
    "tofu": _verbs("tofu", "destroy", "apply", "state rm"),
    "pulumi": _verbs("pulumi", "destroy", "up", "stack rm"),
    "aws": _aws,
    "gcloud": _cloud("gcloud"),
    "az": _cloud("az"),
    "gsutil": _verbs("gsutil", "rm", "rb"),
    "gh": _verbs("gh", "repo delete", "release delete", "secret delete", "repo archive"),
    "heroku": _verbs("heroku", "apps:destroy", "pg:reset"),
    "vercel": _verbs("vercel", "remove", "rm"),
    "npm": _verbs("npm", "publish", "unpublish", "deprecate"),
    "pnpm": _verbs("pnpm", "publish"),
    "yarn": _verbs("yarn", "publish", "npm publish"),
    "cargo": _verbs("cargo", "publish", "yank"),
    "twine": _verbs("twine", "upload"),
    "uv": _verbs("uv", "publish"),
    "gem": _verbs("gem", "push", "yank"),
    "systemctl": _verbs("systemctl", "stop", "disable", "mask", "poweroff", "reboot"),
    "launchctl": _verbs("launchctl", "unload", "remove", "bootout"),
    "brew": _verbs("brew", "uninstall", "remove", "autoremove"),
    "apt": _verbs("apt", "remove", "purge", "autoremove"),
    "apt-get": _verbs("apt-get", "remove", "purge", "autoremove"),
    "manage.py": _verbs("manage.py", "flush", "reset_db"),
    "rails": _verbs("rails", "db:drop", "db:reset", "db:purge"),
    "rake": _verbs("rake", "db:drop", "db:reset", "db:purge"),
    "prisma": _verbs("prisma", "migrate reset", "db push"),
    "remove-item": _remove_item,
    "ri": _remove_item,
    "del": _remove_item,
    "erase": _remove_item,
    "rd": _remove_item,
    "clear-content": lambda arguments: "Clear-Content" if arguments else "",
    "format": lambda arguments: "format" if re.fullmatch(r"[A-Za-z]:", _first(arguments)) else "",
}
