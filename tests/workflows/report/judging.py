"""A step that does to a row what its text says; the tests of reports run their rows through it."""

from typing import Any

from penstock import InputContext, Processor


class Judge(Processor[Any]):
    """Blocks bombs, flags knives, and breaks on crashes with an error that quotes the row."""

    edits = "nothing"

    def process_input(self, ctx: InputContext) -> None:
        """Judge."""
        if "bomb" in ctx.text:
            ctx.abort("no bombs")
        if "crash" in ctx.text:
            raise ValueError(ctx.text)
        if "knife" in ctx.text:
            ctx.flag("knife")
