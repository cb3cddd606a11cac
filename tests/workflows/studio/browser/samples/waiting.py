"""A workflow that takes longer than anyone would wait."""

import anyio

from penstock import InputContext, Workflow, processor


@processor
async def wait(ctx: InputContext) -> None:
    """Wait for ten minutes."""
    await anyio.sleep(600)


flow = Workflow("waiting").then(wait)
