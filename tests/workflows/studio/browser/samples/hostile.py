"""Names and docs that would run scripts, or control a terminal, if a page did not escape them."""

from penstock import InputContext, Processor, Workflow

SCRIPT = "<img src=x onerror=\"window.hacked='doc'\">\x1b[31m"


class Hostile(Processor):
    role = "guard"

    def __init__(self) -> None:
        self.id = "<img src=x onerror=\"window.hacked='id'\">"

    def process_input(self, ctx: InputContext) -> None:
        print("<script>window.hacked = 'log'</script>\x1b]0;title\x07")  # noqa: T201  what is logged is shown, too
        if "stop" in ctx.text:
            ctx.abort("<script>window.hacked = 'reason'</script>\x1b[2J")


Hostile.__doc__ = SCRIPT
flow = Workflow("<b onmouseover=\"window.hacked='name'\">hostile<b>").then(Hostile())
