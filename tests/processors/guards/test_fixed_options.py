"""Built-in guards: options are fixed when the guard is made, and overriding what belongs to a component is an error."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import penstock
from penstock import (
    ClassifierProcessor,
    LanguageDetector,
    ModerationProcessor,
    PIIDetector,
    PromptInjectionDetector,
    RegexFilterProcessor,
    Restore,
    SystemPromptScrubber,
    TextGuard,
    UnicodeNormalizer,
)
from penstock.engine.values.errors import ProcessorError
from penstock.processors.guards.guard_options import GuardOptions


def _answer(text: str) -> int:
    return len(text)


MAKERS: dict[type[TextGuard], Callable[[Any], TextGuard]] = {
    PIIDetector: lambda made: made(),
    ModerationProcessor: lambda made: made(),
    PromptInjectionDetector: lambda made: made(),
    LanguageDetector: lambda made: made(),
    SystemPromptScrubber: lambda made: made(),
    Restore: lambda made: made(),
    UnicodeNormalizer: lambda made: made(),
    ClassifierProcessor: lambda made: made(_answer, lambda *_: None),
    RegexFilterProcessor: lambda made: made(presets=["pii"]),
}


def _options() -> Iterator[tuple[type[TextGuard], str]]:
    for guard in MAKERS:
        names = [name for name in inspect.signature(guard).parameters if name != "options"]
        shared = GuardOptions.__annotations__ if "options" in inspect.signature(guard).parameters else ()
        yield from ((guard, name) for name in (*names, *shared))


def test_the_guards_here_are_all_that_there_are() -> None:
    """A new one is tested, too."""
    exported = [getattr(penstock, name) for name in penstock.__all__]
    guards = {one for one in exported if isinstance(one, type) and issubclass(one, TextGuard)}
    assert guards - {TextGuard} == {*MAKERS}


@pytest.mark.parametrize(("guard", "option"), list(_options()), ids=lambda part: getattr(part, "__name__", part))
def test_setting_an_option_of_a_guard_that_is_made_says_to_make_another(guard: type[TextGuard], option: str) -> None:
    """Its components have read it, so it would have no effect, and would let texts pass."""
    made = MAKERS[guard](guard)
    before = dict(vars(made))
    with pytest.raises(ProcessorError, match=rf"{option} is fixed .*make another one: {guard.__name__}\({option}=…\)"):
        setattr(made, option, "block")
    assert vars(made) == before


def test_a_subclass_cannot_set_an_option_behind_the_constructor_either() -> None:
    """What it gives the constructor, and attributes of its own, are its affair."""

    class Behind(PIIDetector):
        def __init__(self) -> None:
            super().__init__()
            self.strategy = "block"

    class Before(PIIDetector):
        strategy_of_mine = "block"

        def __init__(self) -> None:
            super().__init__(strategy="block", on_detection=self.on_detection)
            self.seen = 0

        def on_detection(self, detection: object) -> None:
            self.seen += 1

    with pytest.raises(ProcessorError, match="strategy is fixed when the guard is made"):
        Behind()
    outcome = penstock.Workflow("w").then(guard := Before()).check_sync("mail me: jo@example.org")
    assert outcome.blocked
    assert guard.seen == 1


HOOKS = {
    PIIDetector: "block calls default_phase encoded_replacement find_encoded_spans find_spans in_pieces is_begun "
    "is_quiet judge judge_view judged_values looked overrides possible quiet_spans removes_messages replacement report "
    "runs searches strategies wants warn windows without_flagged without_messages",
    SystemPromptScrubber: "block find_spans judge judge_view judged_values replacement searches wants warn",
    ModerationProcessor: "apply_limits ask_detector block combined confirmable detect detected detector_limit "
    "edits_for judge judge_scores judge_window judged_threshold limit limits own output_windows read_judged runs says "
    "score_window strategies unjudged_windows verdicts warn",
    PromptInjectionDetector: "block default_phase detect edits_for judge_scores score_window verdicts warn",
    LanguageDetector: "block certain detect detected judge_scores judge_window limit runs score_window warn",
    ClassifierProcessor: "judge output_windows runs without_messages",
    RegexFilterProcessor: "finder overrides runs",
    Restore: "overrides runs",
    UnicodeNormalizer: "runs",
}
"""What a subclass of each guard could override, or an instance could set, while guards were not made of components."""


@pytest.mark.parametrize("guard", HOOKS, ids=lambda guard: guard.__name__)
def test_overriding_what_belongs_to_a_component_is_an_error_that_names_the_component(guard: type[TextGuard]) -> None:
    """It would not be called: the subclass is refused when it is made or placed, and so is the instance."""
    for name in HOOKS[guard].split():
        own: Any = type("Own", (guard,), {name: lambda *_, **__: ()})
        with pytest.raises(ProcessorError, match=f": {name} on the guard itself has no effect; it belongs to "):
            penstock.Workflow("w").then(MAKERS[guard](own))
        with pytest.raises(ProcessorError, match=f": {name} (is fixed when|on the guard itself has no effect)"):
            _place_with(MAKERS[guard](guard), name)


def _place_with(made: TextGuard, name: str) -> None:
    """Set an attribute, and place the guard; only one of both is refused if the name was one of each guard."""
    setattr(made, name, None)
    penstock.Workflow("w").then(made)


def test_what_is_called_on_the_guard_itself_can_be_overridden() -> None:
    """A subclass may search otherwise, or act otherwise."""

    class Ours(PIIDetector):
        def scan(self, window: Any, ctx: Any) -> Any:
            return (), len(window.text)

    outcome = penstock.Workflow("w").then(Ours()).check_sync("mail me: jo@example.org")
    assert [message.text for message in outcome.messages] == ["mail me: jo@example.org"]
