"""Small guards whose verdicts one can count by hand."""

from penstock import Edit, Processor, Workflow


class Scored(Processor):
    """Blocks texts whose number reaches a threshold: ``"0.7 some text"`` has the score 0.7."""

    id = "scored"
    edits = "nothing"

    def __init__(self, threshold: float = 0.5, *, blocks: bool = True) -> None:
        self.threshold = threshold
        self.blocks = blocks

    def process_input(self, ctx):
        score = float(ctx.text.split()[0])
        ctx.note(scores={"bad": score, "worse": score / 2})
        if score >= self.threshold:
            if self.blocks:
                ctx.abort("bad", metadata={"categories": {"bad": score}})
            ctx.flag("bad")


class Words(Processor):
    """Hides the word ``secret``."""

    id = "words"
    edits = "spans"

    def process_input(self, ctx):
        found = {
            place: [Edit(text.index("secret"), text.index("secret") + 6, "[X]", "redact")]
            for place, text in ctx.message_list.texts(ctx.messages)
            if "secret" in text
        }
        return ctx.message_list.edit_text(found) if found else None


class Breaks(Processor):
    """Fails on texts with ``crash``."""

    id = "breaks"
    edits = "nothing"

    def process_input(self, ctx):
        if "crash" in ctx.text:
            raise ValueError(ctx.text)


scored = Workflow("scored").then(Scored())
strict = Workflow("strict").then(Scored(0.2))
words = Workflow("words").then(Words())
