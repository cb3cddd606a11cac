"""One call of a hook in a process of its own: ``python -m …hooks.cold PRODUCT POLICY open|closed UNREAD HOLD``.

The client runs it where no server can be reached.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from penstock.engine.values.errors import PenstockError, without_text
from penstock.workflows.hooks.answering import PRODUCTS, answer
from penstock.workflows.hooks.client import not_checked
from penstock.workflows.hooks.decisions import HookAnswer
from penstock.workflows.hooks.policies import HookPolicies

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def checked(
    product: str, payload: bytes, *, fails_open: bool, check: Callable[[], Awaitable[HookAnswer]]
) -> HookAnswer:
    """Return the answer of a check; if it fails, the answer that the call was not checked.

    Args:
        product: the name of the product.
        payload: the JSON of the call.
        fails_open: whether such a call passes.
        check: the check.
    """
    try:
        return await check()
    except Exception as error:  # noqa: BLE001 - each failure is one answer
        why = str(error) if isinstance(error, PenstockError) else without_text(error)
        return HookAnswer(*not_checked(product, payload, why, fails_open=fails_open))


def main(arguments: list[str]) -> int:
    """Check the call on stdin, write the answer, and return the exit code."""
    product, reference, on_failure, unread, hold = arguments
    payload = sys.stdin.buffer.read()

    async def check() -> HookAnswer:
        guard = HookPolicies().guard(
            product,
            reference,
            folder=str(Path.cwd()),
            profile=os.environ.get("PENSTOCK_PROFILE", ""),
            unread=unread,
        )
        return await answer(PRODUCTS[product], payload, guard, holds_output=bool(hold))

    async def run() -> HookAnswer:
        return await checked(product, payload, fails_open=on_failure == "open", check=check)

    made = anyio.run(run)
    sys.stdout.buffer.write(made.out)
    sys.stderr.buffer.write(made.err)
    sys.stdout.flush()
    sys.stderr.flush()
    return made.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
