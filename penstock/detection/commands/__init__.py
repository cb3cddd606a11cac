"""Shell commands: read as a shell reads them, and searched for destructive programs and for files with secrets."""

from penstock.detection.commands.files import is_agent_settings, is_secret_file
from penstock.detection.commands.findings import (
    CommandFinding,
    FilePatterns,
    FindingKind,
    find_in_code,
    find_in_command,
    find_in_patch,
    find_in_path,
)

__all__ = [
    "CommandFinding",
    "FilePatterns",
    "FindingKind",
    "find_in_code",
    "find_in_command",
    "find_in_patch",
    "find_in_path",
    "is_agent_settings",
    "is_secret_file",
]
