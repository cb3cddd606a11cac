"""Our guards, as an application uses them: a whole workflow is run for each text, with the guards' defaults.

What a guard found is read from what everybody gets: the edits of its record, and the scores that it reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from penstock.detection.spans import Span
from penstock.engine.values.errors import OptionError

if TYPE_CHECKING:
    from penstock import LanguageDetector, ModerationProcessor, PromptInjectionDetector
    from penstock.engine.execution.outcome import Outcome
    from penstock.processors.guards.score_search import ScoreSearch


def edited(outcome: Outcome, name: Callable[[str], str]) -> list[Span]:
    """Return what the only step of a workflow has replaced in the message's text.

    Args:
        outcome: how the workflow ended, with records.
        name: returns the type of what stood there, from what stands there now.
    """
    [record] = outcome.records
    return [Span(edit.start, edit.end, name(edit.text)) for place, edit in record.edits if place.path == ("text",)]


_LABELLED_AS = {"[PRIVATE-IP]": "ip-address"}  # data sets label private addresses, too


class Personal:
    """`PIIDetector`, which looks for every type that it finds without a model."""

    def __init__(self) -> None:
        from penstock import PIIDetector, Workflow
        from penstock.detection.personal_data.detector import EMBEDDED

        guard = PIIDetector(detection_types=EMBEDDED, redaction_method="placeholder")
        self._workflow = Workflow("quality").then(guard)

    def find(self, text: str) -> Sequence[Span]:
        """Return what it hides."""
        outcome = self._workflow.check_sync(text, records=True)
        return edited(outcome, lambda placeholder: _LABELLED_AS.get(placeholder, placeholder.strip("[]").lower()))

    def read(self, text: str) -> object:
        """Do the same without a record, as an application does, to be timed."""
        return self._workflow.check_sync(text, records=False)


def personal() -> Personal:
    """Return `PIIDetector`."""
    return Personal()


class Scoring:
    """A guard that scores texts. Its scores are those of its fact or, where it stops the run, of its tripwire."""

    def __init__(self, guard: ModerationProcessor | PromptInjectionDetector) -> None:
        from penstock import Workflow

        self._guard = guard
        self._workflow = Workflow("quality").then(guard)
        self.scores("What is the weather like?")  # its tables are loaded now, so that one without them is left out

    @property
    def thresholds(self) -> Mapping[str, float]:
        """From which score on it flags a category."""
        search = cast("ScoreSearch[object]", self._guard.search)
        return {name: search.limit(name, judged=False) for name in search.categories}

    def scores(self, text: str) -> Mapping[str, float]:
        """Return the score of each category."""
        outcome = self._workflow.check_sync(text, records=False)
        if outcome.tripwire is not None:
            return cast("Mapping[str, float]", outcome.tripwire.metadata["scores"])
        return outcome.facts.get(self._guard.scores) or {}


def injection() -> Scoring:
    """Return `PromptInjectionDetector`."""
    from penstock import PromptInjectionDetector

    return Scoring(PromptInjectionDetector())


def moderation() -> Scoring:
    """Return `ModerationProcessor`, which blocks: a warning for each text would be in the log."""
    from penstock import ModerationProcessor

    return Scoring(ModerationProcessor(strategy="block"))


class Language:
    """A `LanguageDetector`."""

    def __init__(self, guard: LanguageDetector) -> None:
        from penstock import Workflow

        self._workflow = Workflow("quality").then(guard)

    def identify(self, text: str) -> str | None:
        """Return the language that it notes; None if it does not know."""
        from penstock.processors.guards.language_detector import LANGUAGE

        code = self._workflow.check_sync(text, records=False).facts.get(LANGUAGE)
        return None if code in (None, "und") else code


def language() -> Language:
    """Return `LanguageDetector` with its defaults: below a probability of 0.7 it says that it does not know."""
    from penstock import LanguageDetector

    return Language(LanguageDetector())


def language_among(languages: Sequence[str]) -> Language:
    """Return `LanguageDetector` for those of the languages that it knows, asked for its best guess (``threshold=0``).

    If it knows fewer than two of them, it chooses among its default set.
    """
    known = [code for code in languages if _is_known(code)]
    return Language(_guessing(known if len(known) > 1 else None))


def _is_known(code: str) -> bool:
    try:
        _guessing(["de" if code == "en" else "en", code])
    except OptionError:
        return False
    return True


def _guessing(languages: Sequence[str] | None) -> LanguageDetector:
    from penstock import LanguageDetector

    return LanguageDetector(languages=languages, threshold=0.0, min_text_length=0)


class Leaks:
    """`SystemPromptScrubber` for one system prompt."""

    def __init__(self, prompt: str) -> None:
        from penstock import SystemPromptScrubber, Workflow

        guard = SystemPromptScrubber(prompts=[prompt], redaction_method="placeholder")
        self._workflow = Workflow("quality").then(guard)

    def find(self, text: str) -> Sequence[Span]:
        """Return what it hides of an answer."""
        outcome = self._workflow.check_sync(text, stage="process_output_result", records=True)
        return edited(outcome, lambda _: "system-prompt")
