"""A branch on a fact: a system message in the language of the user's message.

Needs the extra `language` (pip install 'penstock[language]'), no model and no key.
"""

from penstock import (
    InputContext,
    LanguageDetector,
    Message,
    MessageList,
    Workflow,
    processor,
)
from penstock.engine import View

SYSTEM_MESSAGES = {
    "de": "Antworte auf Deutsch und duze niemanden.",
    "fr": "Réponds en français et vouvoie.",
}


detector = LanguageDetector()


def is_known(view: View) -> bool:
    """Return whether there is a system message for the last message's language."""
    return (view.get(detector.language) or "") in SYSTEM_MESSAGES


@processor("process_input")
def address(ctx: InputContext) -> MessageList:
    """Tell the model how to address people who write in this language."""
    return ctx.message_list.replace_system(
        Message.system(SYSTEM_MESSAGES[ctx.get(detector.language) or ""]),
        tag="address",
    )


guard = Workflow("by-language").then(detector).branch((is_known, address))


def main() -> None:
    """Check four messages: German, French, English, and one without words."""
    for text in (
        "Wann kommt denn endlich meine Bestellung?",
        "Où est ma commande, s'il vous plaît ?",
        "When will my order arrive?",
        "4711 0815 4711 0815",
    ):
        outcome = guard.check_sync(text)
        language = outcome.fact(detector.language)
        print(f"{language}: {[one.text for one in outcome.message_list.system]}")


if __name__ == "__main__":
    main()
