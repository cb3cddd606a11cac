"""The vectors of `UnicodeNormalizer`: with the reference's options, text by text and message by message."""

from __future__ import annotations

from penstock import MessageList, UnicodeNormalizer, Workflow
from tests.conformance.builtin import unicode_invented
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import constructed, options_named, read, told, write

OPTIONS = ("strip_control_chars", "preserve_emojis", "collapse_whitespace", "trim")


def run(given: Given) -> Fields:
    """Run the input stage on the text or the messages; system messages are looked at, as the reference does."""
    options = {name: value for name, value in given.options.items() if name in OPTIONS}

    def made() -> UnicodeNormalizer:
        return UnicodeNormalizer(form="NFKC", invisible="keep", system="all", **options)

    if given.method == "construct":
        return constructed(made)
    workflow = Workflow("w").then(made())
    if "text" in given.input:
        outcome = workflow.check_sync(given.input["text"])
        return {"text": outcome.text, **told(outcome)}
    messages = read(given.input["messages"])
    before = write(messages)
    outcome = workflow.check_sync(MessageList().add(messages, source="input"))
    after = {message["id"]: message for message in write(outcome.message_list)}
    shown = [after[message.id] for message in messages]
    return {"messages": shown, "input_mutated": write(messages) != before, **told(outcome)}


def projection(fields: Fields) -> Fields:
    """Texts and messages as they are; of errors the options named; of verdicts that there is one."""
    if "error" in fields:
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "tripwire" in fields:
        fields["tripwire"] = {"retry": bool(fields["tripwire"].get("retry"))}
    return fields


FAMILY = Family(
    files=("unicode_normalizer",),
    run=run,
    projections={"process_input": projection, "construct": projection},
    invented=lambda: list(unicode_invented.rows()),
    neutral={("process_input", "same_array_returned"): "lists are values: whether it is the same object tells nothing"},
    defaults={"strip_control_chars": False, "preserve_emojis": True, "collapse_whitespace": True, "trim": True},
)
