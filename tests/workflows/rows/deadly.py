"""A workflow with an async step, whose rows can kill the process that checks them."""

import os
import signal

import anyio

from penstock import InputContext, Processor, Workflow


class Deadly(Processor):
    """Kills its process if the text says so."""

    edits = "nothing"

    async def process_input(self, ctx: InputContext) -> None:
        """Wait a moment, as for a model."""
        await anyio.sleep(0.001)
        if ctx.text == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if ctx.text == "bomb":
            ctx.abort("no bombs")


guard = Workflow("deadly").then(Deadly())
