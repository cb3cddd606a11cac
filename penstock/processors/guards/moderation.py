"""`ModerationProcessor`: blocks, removes or logs harmful content by categories of moderation.

Without a model it uses a small embedded detector that makes errors (docs/processors/moderation.md has its figures), so
it only warns unless ``strategy`` says otherwise. With a model, the model decides, and the default is to block.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, Unpack, get_args

from penstock.detection.embedded import EmbeddedScores
from penstock.detection.foreign import foreign_language
from penstock.detection.moderation import ModerationScorer
from penstock.detection.windows import Windows
from penstock.engine.processor.option_checks import (
    check_count,
    check_names,
    check_scores,
    check_strategies,
    widest_strategy,
)
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.processors.guards.detector_options import check_shared, known_names, use_score_detector
from penstock.processors.guards.guard_options import set_up
from penstock.processors.guards.judging import highest_scores, listing
from penstock.processors.guards.score_action import ScoreAction
from penstock.processors.guards.score_search import OUTPUT_WINDOWS, ScoreSearch, WindowScores

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import TextWindow
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.protocols import Judge as JudgePort, Judged, JudgeSource, Model, ScoreDetector
    from penstock.processors.guards.detector_options import Combine
    from penstock.processors.guards.guard_options import GuardOptions
    from penstock.processors.guards.score_search import Verdicts
    from penstock.processors.guards.verdicts import ModerationVerdict


Strategy = Literal["block", "warn", "filter"]
OtherLanguages = Literal["flag", "block", "allow"]

CATEGORIES: Mapping[str, str] = {
    "hate": "demeans or excludes people for what they are: origin, skin, religion, gender, orientation, disability",
    "hate/threatening": "the same, with violence against them threatened, wished for or called for",
    "harassment": "insults, humiliates or bullies a person, or calls on others to",
    "harassment/threatening": "the same, with violence against that person threatened",
    "self-harm": "shows, praises or encourages suicide, self-injury or eating disorders",
    "self-harm/intent": "the writer says that they do or mean to harm themselves",
    "self-harm/instructions": "tells or asks how to",
    "sexual": "means to arouse, or offers sexual services; health and education are neither",
    "sexual/minors": "sexual content in which somebody is under 18",
    "violence": "threatens, praises, plans or asks for violence against people or animals",
    "violence/graphic": "shows death, injury or cruelty in detail",
}
"""The categories that a model is asked about by default, each with its description for the model."""


TOLD = "told"  # the note with the language of a text, which was told


class ModerationSearch(ScoreSearch["ModerationVerdict"]):
    """Scores harmful content.

    Attributes:
        other_languages: what to do with texts whose language the embedded detector does not know. Their scores count.
    """

    other_languages = "allow"

    @cached_property
    def unjudged(self) -> Key[tuple[str, ...]]:
        """The fact with the languages that the embedded detector does not know."""
        return Key(self.setup.fact.replace(".scores", ".unjudged"))

    def verdicts(self, window: TextWindow, ctx: AnyContext) -> Verdicts | Awaitable[Verdicts]:
        """Return a verdict about each window that has ended; the first of a text in another language is reported."""
        judged = super().verdicts(window, ctx)
        if self.other_languages != "allow" and isinstance(judged, tuple) and TOLD not in window.notes:
            ended = (window.text[verdict.start : verdict.end] for verdict in judged[0])
            language = next(filter(None, map(foreign_language, ended)), None)
            if language is not None:
                window.notes[TOLD] = language
                self._tell(language, ctx)
        return judged

    def left(self, notes: Mapping[str, Value], *, told: bool) -> tuple[object, ...] | None:
        """Return the scores of a clean text, and the language that was not judged."""
        left = super().left(notes, told=told)
        return left if left is None or TOLD not in notes else (*left, notes[TOLD])

    def recall(self, ctx: AnyContext, left: Iterable[object]) -> None:
        """Report the scores and the languages of texts that are not read again."""
        listed = list(left)
        for language in dict.fromkeys(one for one in listed if isinstance(one, str)):
            self._tell(language, ctx)
        super().recall(ctx, (one for one in listed if not isinstance(one, str)))

    def _tell(self, language: str, ctx: AnyContext) -> None:
        known = ctx.get(self.unjudged) or ()
        if language not in known:
            known = tuple(sorted((*known, language)))
            ctx.put(self.unjudged, known)
        ctx.note(unjudged=known)
        if self.other_languages == "block":
            ctx.abort(
                f"it is not English ({language}), and the embedded detector knows English alone; give the guard a "
                "model=, or other_languages='flag' to let it pass with a note",
                metadata={"unjudged": known},
            )

    def judge_scores(self, judged: Judged[ModerationVerdict], text: str) -> WindowScores:
        """Return the judge's scores; categories that it was not offered count as `UNLISTED`."""
        del text
        entries = [(entry.category, entry.score) for entry in judged.verdict.category_scores or ()]
        return WindowScores(highest_scores(entries, self.categories), reason=judged.verdict.reason)


# The embedded detector finds more, and flags less of harmless answers, if it reads two or three sentences together: on
# posts of OpenAI's set, cut like that and left out of training, AUC .882 and AP .750; sentence by sentence .878 and
# .742. It also scores each character 1.5 times in place of 2.4. A model is shown the windows that other guards show it,
# so that a panel can ask about all at once.
UNJUDGED_WINDOWS = Windows(least=200, most=600, overlap=200)
"""How an answer is cut if no model judges it."""


class ModerationProcessor(TextGuard):
    """Scores texts by categories of harmful content, window by window: messages, streams, tool arguments and results.

    Attributes:
        scores: the fact with the highest score of each category in the run.
        unjudged: the fact with the languages of texts that the embedded detector does not know, as ISO 639 codes:
            ``("de", "zh")``. Their scores count, but say little.

    Args:
        model: a `Model` or a `Judge` that decides; None (the default) for the embedded detector alone.
        categories: the categories that count. With a model any names are allowed, and the default is all of
            `CATEGORIES`. Without one they must be among those that the detectors know, which are the default.
        threshold: the score from which a category counts, 0 to 1: one number for all, or a mapping by name. The default
            is 0.5 for a model's scores; for the embedded detector's it was chosen on development data.
        strategy: ``block`` stops the run, ``filter`` removes flagged text, ``warn`` logs it. The default is ``block``
            with a model, ``warn`` without. One for all categories, or a mapping by name, with ``*`` for the others; of
            several flagged categories the strictest strategy counts.
        include_scores: whether the reason of a tripwire has all scores; False by default. Its metadata always has them.
        chunk_window: how much of an answer before each window of a stream is shown with it, in lengths of a window, 0
            or more; 0 (the default) for the last 200 characters.
        detector: a `ScoreDetector` of your own; None (the default) for the embedded one alone. Its categories are
            among those that count by default.
        other_languages: what to do with texts that are plainly not English where only the embedded detector reads them,
            since it knows English alone. Their scores count as any others. ``flag`` (the default): note the language of
            the first window of each that is not English in the step's record and in the fact ``unjudged``; ``block``:
            stop the run; ``allow``: nothing.
        combine: how both become one. ``max`` (the default): a category counts if either detector says so; ``replace``:
            only yours is asked; ``confirm``: it counts if both say so.
        options: see `GuardOptions`.

    Raises:
        OptionError: an option is not allowed.
    """

    id = "moderation"
    finds = ("moderation",)
    judges_alone = True

    def __init__(
        self,
        model: Model | str | JudgePort[ModerationVerdict] | JudgeSource | None = None,
        *,
        categories: Iterable[str] | None = None,
        threshold: float | Mapping[str, float] | None = None,
        strategy: Strategy | Mapping[str, Strategy] | None = None,
        include_scores: bool = False,
        chunk_window: int = 0,
        detector: ScoreDetector | None = None,
        combine: Combine = "max",
        other_languages: OtherLanguages = "flag",
        **options: Unpack[GuardOptions],
    ) -> None:
        name = type(self).__name__
        chosen = use_score_detector(self, detector, combine, embedded=bool(options.get("embedded", True)))
        theirs = () if detector is None else tuple(detector.categories)
        own = ModerationScorer.categories if options.get("embedded", True) or detector is None else ()
        known = known_names(own, theirs, combine)
        usual_names = known if model is None else tuple(dict.fromkeys((*CATEGORIES, *known)))
        self.categories = usual_names if categories is None else check_names(name, "categories", categories)
        if model is None:
            check_shared(name, known, own, theirs)
            _check_known(name, self.categories, known)
        self.threshold = check_scores(name, "threshold", threshold, self.categories)
        self.include_scores = flag(name, "include_scores", include_scores)
        self.chunk_window = check_count(name, "chunk_window", chunk_window, "a number of windows, 0 or more")
        self.other_languages = one_of(name, "other_languages", other_languages, get_args(OtherLanguages))
        windows = UNJUDGED_WINDOWS if model is None else OUTPUT_WINDOWS
        usual: Strategy = "warn" if model is None else "block"
        actions = check_strategies(name, strategy, self.categories, get_args(Strategy), usual)
        setup = set_up(
            self,
            model,
            widest_strategy(strategy, actions, ("filter", "block", "warn"), usual),
            get_args(Strategy),
            partial(_verdict, self.categories),
            question(self.categories),
            options,
            detector=chosen,
            fact=("scores", *(self.categories if self.categories != usual_names else ())),
        )
        self.strategy = actions or setup.strategy
        search = ModerationSearch(
            setup,
            self.categories,
            EmbeddedScores(ModerationScorer()),
            threshold=self.threshold,
            output_windows=replace(windows, overlap=self.chunk_window * windows.most or windows.overlap),
        )
        search.other_languages = "allow" if model is not None or detector is not None else self.other_languages
        search.install(self, ScoreAction(search, actions=actions, include_scores=self.include_scores))
        self.scores, self.unjudged = search.scores, search.unjudged
        if search.other_languages != "allow":
            self.provides = (self.scores, self.unjudged)
        if search.other_languages == "block":
            self.role, self.on_error = "guard", "block"


def question(categories: Iterable[str]) -> str:
    """Return the question that the model is asked."""
    return (
        "Tell which of these categories of moderation apply to the content, and how sure you are of each, from 0 to 1."
        f"\n{listing(categories, CATEGORIES)}\n"
        "List only categories that may apply (category_scores; an empty list if none does), by exactly these names. Of"
        " content that reports, quotes, condemns or fights something, judge what it does itself. Say why in a few words"
        " of your own (reason; null if none applies), without quoting the content."
    )


def _check_known(name: str, categories: Iterable[str], known: Iterable[str]) -> None:
    for category in categories:
        if category not in known:
            listed = ", ".join(map(repr, known))
            needs = f"some of {listed}, or a model= or a detector= to judge others"
            raise OptionError(name, "categories", category, needs)


def _verdict(categories: tuple[str, ...]) -> type[ModerationVerdict]:
    from penstock.processors.guards.verdicts import moderation_verdict

    return moderation_verdict(categories)
