"""`LanguageDetector`: tells which language texts are in; notes it, warns, blocks or translates. It knows no model."""

from __future__ import annotations

import itertools
import logging
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, NoReturn, Protocol, Unpack, cast, get_args, runtime_checkable

from penstock.detection.language import LanguageIdentifier, language_name
from penstock.detection.windows import Windows
from penstock.engine.processor.processor import flag
from penstock.engine.tasks import gather
from penstock.engine.values.edits import Edit
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.values.frozen import EMPTY, freeze, is_mapping
from penstock.processors.guards import _languages as languages_
from penstock.processors.guards._languages import LanguageVerdict, TranslationVerdict
from penstock.processors.guards.options import share
from penstock.processors.guards.readings import Reading, Verdict
from penstock.processors.guards.score_guard import ScoreGuard

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping, Sequence

    from penstock.detection.language import LanguageGuess
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.whole_texts import Text
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.message_list import MessageList
    from penstock.engine.values.messages import Message
    from penstock.engine.values.ports import Judge as JudgePort, Judged, Model
    from penstock.engine.values.texts import TextPlace
    from penstock.processors.guards.options import GuardOptions

log = logging.getLogger("penstock")

Strategy = Literal["detect", "translate", "block", "warn"]

LANGUAGE: Key[str] = Key("language")
"""The fact that says which language the latest user's message is in: a tag such as ``fr``, ``und`` if it is unknown."""

ANSWER_LANGUAGE: Key[str] = Key("answer_language")
"""The same about what the model said last."""

METADATA = "language_detection"
"""The key of a message's metadata under which it is told what was found."""

_OUTPUT = ("process_output_stream", "process_output_step", "process_tool_call", "process_output_result")
_TOLD = "penstock.languages"  # where a step's state keeps what messages' metadata are to say


@runtime_checkable
class Identifier(Protocol):
    """Tells which language a text is in."""

    def identify(self, text: str) -> LanguageGuess:
        """Return the language's code and how probable it is; a pair will do."""
        ...


class LanguageDetector(ScoreGuard[LanguageVerdict]):
    """Tells which language messages are in, and notes it, warns, blocks, or has them translated.

    What is found out stands in the metadata of each message (`METADATA`) and in the fact `LANGUAGE`; the scores are the
    probabilities, by code. What is unknown is neither blocked nor translated. One that only tells (``detect``,
    ``warn``) and looks at answers, too, writes no metadata, so that streams need not wait for it.

    Attributes:
        target_languages: the languages that are looked for, as they were given.
        language: the fact under which the language is told.
    """

    id = "language-detector"
    strategies = get_args(Strategy)
    default_phase = "input"
    input_windows = Windows(least=1_000, most=2_000)
    output_windows = Windows(least=120, most=600)
    judged_threshold: ClassVar[float] = 0.7

    def __init__(
        self,
        model: Model | JudgePort[LanguageVerdict] | None = None,
        *,
        target_languages: Iterable[str] = ("en",),
        threshold: float = 0.7,
        strategy: Strategy = "detect",
        preserve_original: bool = True,
        min_text_length: int = 10,
        include_detection_details: bool = False,
        languages: Iterable[str] | None = None,
        identifier: Identifier | None = None,
        **options: Unpack[GuardOptions],
    ) -> None:
        """Check the options, and begin to load the embedded detector's model, in a thread.

        Args:
            model: asked where the embedded detector is in doubt, and to translate.
            target_languages: codes, tags or names; a text in any of them is left alone, and the first of them is what
                others are translated into. Compared by the primary subtag, and by the macro-language.
            threshold: from which probability on a language counts as known, 0 to 1.
            strategy: ``detect`` notes what is found; ``warn`` logs what is in none of the target languages; ``block``
                stops the run for it; ``translate`` puts a translation in its place, part by part.
            preserve_original: keep what was translated in the message's metadata, as ``original_content``.
            min_text_length: how many characters a text must have to be looked at.
            include_detection_details: log a line about texts in target languages too.
            languages: what the embedded detector tells apart; None: `penstock.detection.language`'s 77.
            identifier: an embedded detector of one's own.
            options: see `GuardOptions`; ``parts`` is ``("text",)`` here unless it is given.

        Raises:
            OptionError: an option that is not allowed.
            MissingExtraError: the embedded detector is used, and the extra ``language`` is not installed.
        """
        name = type(self).__name__
        self.target_languages = languages_.targets_of(name, target_languages)
        self.threshold = share(name, "threshold", threshold)
        self.preserve_original = flag(name, "preserve_original", preserve_original)
        self.min_text_length = _length(name, min_text_length)
        self.include_detection_details = flag(name, "include_detection_details", include_detection_details)
        self.languages = None if languages is None else languages_.listed(name, "languages", languages)
        translate = strategy == "translate"
        self._check_translation(name, model, translate=translate)
        asked = languages_.question(self.target_languages, translate=translate)
        verdict = TranslationVerdict if translate else LanguageVerdict
        self.set_up(model, strategy, verdict, asked, {"parts": ("text",), **options})
        self.options = {**options}
        self.identifier = identifier
        self._own = self._identifier(name, identifier)
        self.declare_scores(*self.target_languages)
        told = {"input": (LANGUAGE,), "output": (ANSWER_LANGUAGE,)}
        self.provides = (self.scores, *told.get(self.phase, (LANGUAGE, ANSWER_LANGUAGE)))
        self.language = ANSWER_LANGUAGE if self.phase == "output" else LANGUAGE
        self._claim(changes=strategy in ("block", "translate") or self.unscanned == "block")

    def _claim(self, *, changes: bool) -> None:
        """Declare what it may do: one that only tells must not hold streams back, so it leaves answers as they are."""
        watches = not changes and self.phase != "input"
        self.edits = "nothing" if watches else "spans"  # metadata of messages are edits, too
        if not changes:
            self.role, self.on_error = ("observer" if watches else "transform"), "allow"

    def _check_translation(self, name: str, model: object, *, translate: bool) -> None:
        if translate and model is None:
            raise OptionError(name, "model", model, "a Model: translating needs one")
        if translate and not self.target_languages:
            raise OptionError(name, "target_languages", (), "one language or more to translate into")

    def _identifier(self, name: str, given: Identifier | None) -> Identifier | None:
        if given is not None and not isinstance(cast("object", given), Identifier):
            raise OptionError(name, "identifier", given, "something with a method identify(text)")
        if given is not None and self.languages is not None:
            raise OptionError(name, "languages", self.languages, "left out: the identifier knows its own")
        if given is not None or not self.embedded:
            return given
        made = LanguageIdentifier(self.languages)
        made.prepare()
        return made

    # Reading windows

    def runs(self, texts: Iterable[Text], ctx: AnyContext) -> list[list[Text]]:
        """Return texts in the runs in which they are read: on the way in, all text parts of a message are one text."""
        if ctx.stage in _OUTPUT:
            return super().runs(texts, ctx)
        said: dict[str, list[Text]] = {}
        others: list[Text] = []
        for text in texts:
            if text.kind == "text":
                said.setdefault(text.place.message_id, []).append(text)
            elif not text.fixed:
                others.append(text)
        return [*said.values(), *super().runs(others, ctx)]

    def embedded_reading(self, text: str) -> Reading | None:
        """Return what the embedded detector finds in a window; None if it is not used, or the text is too short."""
        if self._own is None or self._is_short(text):
            return None
        code, confidence = self._own.identify(text)
        return self.limited(self._reading(code, confidence, "embedded"))

    def judged_reading(self, judged: Judged[LanguageVerdict], text: str) -> Reading:
        """Return what a judge says; a tag that is none counts as unknown."""
        del text
        verdict = judged.verdict
        translated = verdict.translated_text if isinstance(verdict, TranslationVerdict) else None
        tag = languages_.tag_of(verdict.iso_code)
        if tag is not None and verdict.confidence is None and translated:
            # Whoever translates a text knows what it is in; how sure it is of that, nobody said.
            return Reading({tag: 1.0}, text=translated, details=languages_.found(tag, None, "judge"))
        return self._reading(tag, verdict.confidence or 0.0, "judge")._replace(text=translated or None)

    def _reading(self, tag: str | None, confidence: float, source: str) -> Reading:
        if tag is None or not confidence:
            return Reading(details=languages_.UNKNOWN)
        known = confidence >= self.limit(tag, judged=source == "judge")
        details = languages_.found(tag, confidence, source) if known else languages_.UNKNOWN
        return Reading({tag: confidence}, details=details)

    def limited(self, reading: Reading) -> Reading:
        """Return a reading with its language flagged, if it is known and no target."""
        tag: str | None = reading.details.get("iso_code")
        if tag is None or languages_.is_among(tag, self.target_languages):
            return reading._replace(flagged=())
        return reading._replace(flagged=(tag,))

    async def read(self, text: str, ctx: AnyContext) -> Reading:
        """Return what is found out about a window: by the judge only where the embedded detector is in doubt."""
        if self._is_short(text):
            return Reading()
        own = self.embedded_reading(text)
        if own is not None and "iso_code" in own.details:
            return own
        return await super().read(text, ctx)

    def _is_short(self, text: str) -> bool:
        return len(text.strip()) < max(self.min_text_length, 1)

    # Translating

    def scan(
        self, window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[Verdict], int] | Awaitable[tuple[Sequence[Verdict], int]]:
        """Return a verdict about each window that has ended, with its translations, and where the next one begins."""
        read = super().scan(window, ctx)
        if self.strategy != "translate":
            return read
        return self._translated(cast("Awaitable[tuple[Sequence[Verdict], int]]", read), window, ctx)

    async def _translated(
        self, read: Awaitable[tuple[Sequence[Verdict], int]], window: TextWindow, ctx: AnyContext
    ) -> tuple[Sequence[Verdict], int]:
        verdicts, hold = await read
        pieces = await gather([partial(self._in_parts, window, verdict, ctx) for verdict in verdicts])
        return list(itertools.chain.from_iterable(pieces)), hold

    async def _in_parts(self, window: TextWindow, verdict: Verdict, ctx: AnyContext) -> list[Verdict]:
        """Return a verdict about each part that a window lies on, each with its own translation."""
        if not verdict.reading.flagged:
            return [verdict]
        borders = [part.start - window.base for part in window.parts]
        inner = [at for at in borders if verdict.start < at < verdict.end]
        places = list(itertools.pairwise([verdict.start, *inner, verdict.end]))
        if not inner and verdict.reading.text is not None:
            texts: list[str | None] = [verdict.reading.text]
        else:
            texts = await gather([partial(self._translation, window.text[low:high], ctx) for low, high in places])
        return [
            Verdict(low, high, verdict.reading._replace(text=_laid_out(text, window.text[low:high])))
            for (low, high), text in zip(places, texts, strict=True)
        ]

    async def _translation(self, text: str, ctx: AnyContext) -> str | None:
        """Return the translation of a part; None if the judge gives none.

        Raises:
            JudgeError: the judge gave no verdict.
        """
        if self.judge is None or not text.strip():
            return None
        verdict = (await self.judge.ask(text, ctx=ctx)).verdict
        return verdict.translated_text if isinstance(verdict, TranslationVerdict) else None

    # Acting

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits of the strategy, after facts, logs and metadata say what was found; or stop the run."""
        last: str | None = None
        for hit in hits:
            verdicts = cast("Sequence[Verdict]", hit.found)
            told = languages_.summary(verdicts, self.target_languages)
            if told is None:
                continue
            message_id = hit.window.locate(verdicts[0].start)[0].message_id
            message = ctx.message_list.get(message_id) if message_id else None
            told = _translated_before(message, told) or told
            tag = str(told.get("iso_code", languages_.UNDETERMINED))
            last = tag if last is None or message is None or message.role == "user" else last
            told |= self._translations(hit, verdicts, told)
            self._log(ctx, told)
            if message is not None:
                self._keep(ctx, message_id, told)
        if last is not None:
            ctx.put(ANSWER_LANGUAGE if ctx.stage in _OUTPUT else LANGUAGE, last)
            ctx.note(language=last)
        return super().act(hits, ctx)

    def edited(self, verdict: Verdict) -> Iterable[Edit]:
        """Return the translation as an edit, where there is one."""
        text = verdict.reading.text
        if self.strategy != "translate" or not verdict.reading.flagged or text is None:
            return ()
        return (Edit(verdict.start, verdict.end, text, "replace"),)

    def changed(self, ctx: AnyContext, edits: Mapping[TextPlace, Edits]) -> MessageList | None:
        """Return the conversation with the translations, and what was found in the metadata of the messages."""
        state: Value = ctx.state
        told: Mapping[str, Value] = state.pop(_TOLD, EMPTY) if is_mapping(state) else EMPTY
        listed = ctx.message_list
        found = map(listed.get, told if self.edits == "spans" else ())
        messages = [message for message in found if message is not None]
        changed = [
            message.with_metadata(**{METADATA: told[message.id]})
            for message in messages
            if message.metadata.get(METADATA) != told[message.id]
        ]
        if changed:
            listed = listed.replace(*changed)
        if edits:
            return listed.edit_text(edits)
        return listed if changed else None

    def block(
        self, ctx: AnyContext, categories: Iterable[str], metadata: Mapping[str, Value], why: str = ""
    ) -> NoReturn:
        """Stop the run; say in which language the text is, and which are allowed."""
        named = ", ".join(f"{language_name(tag)} ({tag})" for tag in dict.fromkeys(categories))
        allowed = ", ".join(self.target_languages) or "none"
        ctx.abort(
            f"{why}the text is in {named}; allowed: {allowed}",
            metadata={"strategy": self.strategy, **metadata, "target_languages": list(self.target_languages)},
        )

    def _translations(self, hit: Hit, verdicts: Sequence[Verdict], told: Mapping[str, Value]) -> dict[str, Value]:
        if all(verdict.reading.text is None for verdict in verdicts if verdict.reading.flagged):
            return {}
        sure = {"translation_confidence": told["confidence"]} if "confidence" in told else {}
        named = language_name(self.target_languages[0])
        about = {"original_language": told["detected_language"], "target_language": named, **sure}
        kept = {"original_content": _joined(hit.window)} if self.preserve_original else {}
        return {"translation": about, **kept}

    def warn(self, ctx: AnyContext, categories: Iterable[str]) -> None:
        """Say nothing: it was said of each text, with its language's name."""

    def _log(self, ctx: AnyContext, told: Mapping[str, Value]) -> None:
        tag, target = told.get("iso_code"), told["is_target_language"]
        if tag is None or self.strategy == "block" or (target and not self.include_detection_details):
            return
        lost = self.strategy == "translate" and "translation" not in told
        level = logging.WARNING if not target and (self.strategy == "warn" or lost) else logging.INFO
        log.log(level, "%s: %s: a text is in %s (%s)", ctx.step_path, ctx.stage, told["detected_language"], tag)

    def _keep(self, ctx: AnyContext, message_id: str, told: Mapping[str, Value]) -> None:
        state: Value = ctx.state
        if is_mapping(state):
            known: dict[str, Mapping[str, Value]] = state.setdefault(_TOLD, {})
            known[message_id] = freeze(languages_.of_both(known.get(message_id), told))


def _translated_before(message: Message | None, told: Mapping[str, Value]) -> dict[str, Value] | None:
    """Return what an earlier stage said of a message that it had translated; None if that is not what is seen now."""
    before: Value = message.metadata.get(METADATA) if message is not None else None
    if not told["is_target_language"] or not is_mapping(before) or "translation" not in before:
        return None
    return {**before}


def _laid_out(text: str | None, original: str) -> str | None:
    """Return a translation with the white space around it that the original has."""
    if text is None or not text.strip() or not original.strip():
        return None
    lead = original[: len(original) - len(original.lstrip())]
    return f"{lead}{text.strip()}{original[len(original.rstrip()) :]}"


def _joined(window: TextWindow) -> str:
    """Return a text as it was read, its parts parted by spaces."""
    places = [part.start for part in window.parts]
    ends = [*places[1:], len(window.text)]
    return " ".join(window.text[low:high] for low, high in zip(places, ends, strict=True)).strip()


def _length(name: str, given: object) -> int:
    if type(given) is not int or given < 0:
        raise OptionError(name, "min_text_length", given, "a number of characters, 0 or more")
    return given
