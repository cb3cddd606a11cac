"""`HookPolicies`: the guards of the policies that hooks name. A policy file is read again when it changes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from penstock.engine.processor.processor import one_of
from penstock.workflows.hooks.bodies import Unread
from penstock.workflows.hooks.guarding import HookGuard
from penstock.workflows.loading import load_workflow, shipped_policy
from penstock.workflows.policies.files import is_policy_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.engine.workflow import Workflow


def placed(reference: str, folder: str) -> str:
    """Return the name of a workflow for a process with another working folder.

    Args:
        reference: the name, as for `load_workflow`.
        folder: the folder from which paths start.
    """
    source, colon, name = reference.rpartition(":")
    if not colon or _is_path(name):
        source, colon, name = reference, "", ""
    return f"{Path(folder, os.path.expanduser(source))}{colon}{name}" if _is_path(source) else reference  # noqa: PTH111


def _is_path(source: str) -> bool:
    return source.endswith(".py") or is_policy_file(source) or "/" in source or os.sep in source


class HookPolicies:
    """The guards of policies, by product and name. They live as long as the process."""

    def __init__(self) -> None:
        self._guards: dict[tuple[str, str, str, Unread], HookGuard] = {}

    def guard(
        self, product: str, reference: str, *, folder: str, profile: str = "", unread: str = "pictures"
    ) -> HookGuard:
        """Return the guard of a product with a policy.

        Args:
            product: the name of the product.
            reference: the name of the policy, as for `load_workflow`.
            folder: the folder from which paths start.
            profile: the profile of a policy file that is named without one; empty: none.
            unread: which bodies pass that no guard can read; see `Unread`.

        Raises:
            OptionError: there is no such choice of bodies.
            LoadingError: nothing has that name, or it has problems.
            UsageError: the policy checks nothing that a hook brings.
        """
        name = placed(reference, folder)
        passing = cast("Unread", one_of("penstock hook", "--unread", unread, get_args(Unread)))
        key = (product, name, profile, passing)
        if key not in self._guards:
            self._guards[key] = HookGuard(_followed(name, profile), product, passing)
        return self._guards[key]


def _followed(reference: str, profile: str) -> Callable[[], Workflow]:
    """Return a function that returns the workflow as it is now.

    Raises:
        LoadingError: nothing has that name, or it has problems.
    """
    source, _, named = reference.rpartition(":")
    file, chosen = (source, named) if is_policy_file(source) else (shipped_policy(reference) or reference, profile)
    loaded = load_workflow(f"{file}:{chosen}" if is_policy_file(file) and chosen else reference)
    if not is_policy_file(file):
        return lambda: loaded
    from penstock.workflows.policies import PolicyFile

    policy = PolicyFile(file, profile=chosen or None)
    return lambda: policy.current
