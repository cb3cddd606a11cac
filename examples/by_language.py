"""A branch on what a guard found out: each language takes its own way, and what is unknown takes none.

Needs the extra `language` (pip install 'penstock[language]'); no model, no key.
"""

from penstock import InputContext, LanguageDetector, Message, MessageList, Workflow, processor
from penstock.engine import View

MANNERS = {"de": "Antworte auf Deutsch und duze niemanden.", "fr": "Réponds en français et vouvoie."}


detector = LanguageDetector()


def is_known(view: View) -> bool:
    """Tell whether there is a manner for the language of the last message."""
    return (view.get(detector.language) or "") in MANNERS


@processor("process_input")
def manners(ctx: InputContext) -> MessageList:
    """Tell the model how to speak to people who write in this language."""
    return ctx.message_list.replace_system(Message.system(MANNERS[ctx.get(detector.language) or ""]), tag="manners")


guard = Workflow("by-language").then(detector).branch((is_known, manners))


def main() -> None:
    """Ask in four languages."""
    for text in (
        "Wann kommt denn endlich meine Bestellung?",
        "Où est ma commande, s'il vous plaît ?",
        "When will my order arrive?",
        "4711 0815 4711 0815",
    ):
        outcome = guard.check_sync(text)
        language = outcome.fact(detector.language)
        print(f"{language}: {[message.text for message in outcome.message_list.system]}")


if __name__ == "__main__":
    main()
