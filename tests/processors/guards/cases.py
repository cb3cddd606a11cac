"""Every guard with every strategy, without a model and with a judge who decides by the text alone."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from penstock import (
    ClassifierProcessor,
    LanguageDetector,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    Restore,
    SystemPromptScrubber,
    Workflow,
)
from penstock.models.judges import Judgement
from penstock.processors.guards.verdicts import (
    LeakVerdict,
    ModerationVerdict,
    PIIVerdict,
    RewriteVerdict,
    TranslationVerdict,
)
from tests.processors.guards.answers import TOKENS
from tests.processors.guards.invariance import PROMPT, Case


class Dice:
    """A judge whose verdict about a text depends on nothing but the text."""

    def __init__(self, make: Callable[[str, int], Any]) -> None:
        self.make = make

    async def ask(self, content: str, *, ctx: Any = None) -> Judgement[Any]:
        """Return the verdict."""
        return Judgement(self.make(content, zlib.crc32(content.encode("utf-8", "replace"))), "dice")


def moderated(text: str, drawn: int) -> ModerationVerdict:
    """Flag a window in three."""
    return ModerationVerdict.model_validate(
        {"category_scores": [{"category": "hate", "score": (drawn % 3 == 0) * 0.9}], "reason": None}
    )


def injected(text: str, drawn: int) -> RewriteVerdict:
    """Flag a window in three, and rewrite it."""
    entries = [{"type": "injection", "score": (drawn % 3 == 0) * 0.9}]
    return RewriteVerdict.model_validate(
        {"categories": entries, "reason": None, "rewritten_content": ["(better)", "", None][drawn % 7 % 3]}
    )


def translated(text: str, drawn: int) -> TranslationVerdict:
    """Take a window in two for French."""
    code = "fr" if drawn % 2 else "en"
    return TranslationVerdict.model_validate({"iso_code": code, "confidence": 0.9, "translated_text": f"<{len(text)}>"})


def named(text: str, drawn: int) -> PIIVerdict:
    """Name some word of the window that begins with a capital."""
    names = [word.strip(".,!?\"'()") for word in text.split() if word[:1].isupper()]
    values = names[drawn % 5 :: 4]
    return PIIVerdict.model_validate({"findings": [{"type": "name", "value": v, "score": 1} for v in values if v]})


def leaked(text: str, drawn: int) -> LeakVerdict:
    """Find some words of the window to be told in other words."""
    words = text.rsplit(">", maxsplit=1)[-1].split()
    values = [" ".join(words[-4:-1])] if drawn % 4 == 0 and len(words) > 6 else []
    return LeakVerdict.model_validate({"findings": [{"type": "instructions", "value": v, "score": 1} for v in values]})


def _cases() -> Iterator[tuple[str, Callable[[], Any]]]:
    for strategy in ("redact", "block", "warn", "filter"):
        yield f"pii {strategy}", partial(PIIDetector, strategy=strategy)
        yield f"pii judged {strategy}", partial(PIIDetector, Dice(named), strategy=strategy)
        scrub = partial(SystemPromptScrubber, prompts=[PROMPT], custom_patterns=[r"\b[A-Z]{4,}\b"], strategy=strategy)
        yield f"scrubber {strategy}", scrub
        yield f"scrubber judged {strategy}", partial(scrub, Dice(leaked))
    for method in ("hash", "remove", "placeholder", "token"):
        yield f"pii {method}", partial(PIIDetector, redaction_method=method)
    for method in ("placeholder", "remove"):
        yield f"scrubber {method}", partial(SystemPromptScrubber, prompts=[PROMPT], redaction_method=method)
    for strategy in ("block", "warn", "filter"):
        yield f"moderation {strategy}", partial(ModerationProcessor, strategy=strategy, threshold=0.1)
        yield f"moderation judged {strategy}", partial(ModerationProcessor, Dice(moderated), strategy=strategy)
        yield f"injection {strategy}", partial(PromptInjectionDetector, strategy=strategy, threshold=0.1, phase="all")
    yield "moderation window", partial(ModerationProcessor, Dice(moderated), strategy="filter", chunk_window=2)
    for strategy in ("block", "warn", "filter", "rewrite"):
        yield (
            f"injection judged {strategy}",
            partial(PromptInjectionDetector, Dice(injected), strategy=strategy, phase="all", embedded=False),
        )
    for strategy in ("detect", "warn", "block"):
        yield f"language {strategy}", partial(LanguageDetector, strategy=strategy, phase="all")
    for strategy in ("block", "translate"):
        yield (
            f"language judged {strategy}",
            partial(LanguageDetector, Dice(translated), strategy=strategy, phase="all", embedded=False),
        )
    yield "classifier filter", partial(ClassifierProcessor, len, lambda length, told: length % 3 or told.filter())
    yield "classifier abort", partial(ClassifierProcessor, len, lambda length, told: length % 5 or told.abort("no"))


CASES: list[Case] = [Case(name, make) for name, make in _cases()]
"""Every case, by name."""


def groups(block: Any) -> Iterator[tuple[str, Workflow]]:
    """Yield workflows of several guards, in rows, beside each other, in branches; ``block``: what those do that do."""
    pii, judged = PIIDetector, partial(PIIDetector, Dice(named))
    scrubber = partial(SystemPromptScrubber, prompts=[PROMPT])
    moderation = partial(ModerationProcessor, Dice(moderated))
    rewriting = partial(PromptInjectionDetector, Dice(injected), strategy="rewrite", phase="all", embedded=False)
    three = [judged(), scrubber(), moderation(strategy="filter")]
    yield "row", Workflow("w").then(three[0]).then(three[1]).then(three[2])
    yield "row turned round", Workflow("w").then(three[2]).then(three[1]).then(three[0])
    yield "beside", Workflow("w").parallel(*three)
    blocking = [
        pii(strategy=block, detection_types=["credit-card"]),
        scrubber(strategy="warn"),
        moderation(strategy="warn"),
    ]
    yield "beside, one blocks", Workflow("w").parallel(*blocking, pii(redaction_method="remove", id="second"))
    yield "row, last blocks", Workflow("w").then(pii(redaction_method="hash")).then(moderation(strategy=block))
    yield "row, first blocks", Workflow("w").then(moderation(strategy=block)).then(judged(strategy="filter"))
    mails = partial(pii, detection_types=["email"], redaction_method="placeholder")
    yield "two methods in a row", Workflow("w").then(mails(id="mails")).then(pii(redaction_method="hash"))
    yield "two methods beside", Workflow("w").parallel(mails(id="mails"), pii(redaction_method="mask"))
    yield "rewriting beside", Workflow("w").parallel(rewriting(), judged())
    yield "rewriting first", Workflow("w").then(rewriting()).then(judged(strategy="filter"))
    tokens = pii(redaction_method="token")
    yield "tokens", Workflow(TOKENS).then(tokens).then(Restore())
    yield (
        "tokens and others",
        Workflow(TOKENS).then(scrubber()).then(tokens).then(moderation(strategy=block)).then(Restore()),
    )
    inner = (
        Workflow("inner").parallel(judged(), scrubber(redaction_method="remove")).then(moderation(strategy="filter"))
    )
    language = LanguageDetector(strategy=block, phase="all", target_languages=["en", "fr", "de"], id="language")
    nested = Workflow("w").branch((_yes, inner), (_yes, Workflow("other").then(language)), match="all")
    yield "nested in branches", nested
    yield "nested, then more", Workflow("w").branch((_yes, inner), otherwise=tokens).then(language)


def _yes(ctx: object) -> bool:
    return True


GROUPS: dict[str, Workflow] = dict(groups("block"))
"""Every group, by name."""

TWINS: dict[str, Workflow] = dict(groups("warn"))
"""The same groups, in which those warn that block."""
