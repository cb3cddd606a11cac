"""`UnicodeNormalizer`: normalises texts, so that the guards after it read the same text as people see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast, get_args

from penstock.detection.unicode.normalizing import (
    Confusables,
    Form,
    Invisible,
    Profile,
    Whitespace,
    is_normal,
    normalize,
    pieces,
)
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.known import PlaceEdits
from penstock.engine.text_guards.reporting import add_counts
from penstock.engine.text_guards.scope import choose_texts
from penstock.engine.text_guards.text_guard import TextGuard
from penstock.engine.text_guards.window import moved
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key
from penstock.engine.workers import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.engine.processor.context import AnyContext
    from penstock.engine.processor.processor import EditsClaim
    from penstock.engine.text_guards.reading import Text
    from penstock.engine.text_guards.scope import Phase, SystemMessages
    from penstock.engine.values.edits import Edit

_PROSE = frozenset({"text", "reasoning"})
_WORDS = {"form": Form, "invisible": Invisible, "confusables": Confusables, "whitespace": Whitespace}
_FLAGS = ("keep_layout", "trim", "strip_control_chars", "preserve_emojis")


class UnicodeNormalizer(TextGuard):
    """Brings texts to a normal form and removes invisible characters. Attachments are never changed.

    Its failure blocks: it stands before guards, which must not be given a text that it could not normalize.

    Attributes:
        findings: the fact with how much of each kind was found in the run, for example ``{"zero-width": 3, "NFC": 1}``:
            characters for invisible ones, spans for normal forms and white space.
    """

    id = "unicode-normalizer"
    judges_alone = True
    role = "transform"
    on_error = "block"
    edits: EditsClaim | None = "spans"
    stages: Iterable[str] | None = None

    def __init__(
        self,
        *,
        form: Form = "NFC",
        invisible: Invisible = "strip",
        whitespace: Whitespace = "keep",
        confusables: Confusables = "off",
        keep_layout: bool = True,
        trim: bool = False,
        collapse_whitespace: bool | None = None,
        strip_control_chars: bool = False,
        preserve_emojis: bool = True,
        phase: Phase = "input",
        parts: Iterable[str] | None = None,
        history: bool = False,
        system: SystemMessages = "client",
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            form: the normal form: ``NFC`` (the default), ``NFKC``, which also folds full-width, styled and other
                compatibility characters, or ``keep``.
            invisible: what happens to invisible characters: ``strip`` (the default), ``mark`` (``[zero-width x2]``) or
                ``keep``. Joiners and selectors that an emoji or a script needs stay.
            whitespace: how white space is tidied, in text and reasoning only; ``keep`` by default. See
                `penstock.detection.unicode.normalizing.whitespace_edits`.
            confusables: ``off`` (the default), ``detect`` counts letters that look like ASCII ones, ``fold`` replaces
                them.
            keep_layout: whether white space in fenced code and at the start of lines stays; True by default.
            trim: whether white space is removed from both ends of each text; False by default.
            collapse_whitespace: the option of the reference system: True is ``whitespace="collapse-all",
                keep_layout=False``, False is ``whitespace="keep"``; None (the default) leaves both as they are given.
            strip_control_chars: whether C0 and C1 controls except TAB, LF and CR are deleted, whatever ``invisible``
                says; False by default.
            preserve_emojis: whether the joiners, selectors and tags that emoji consist of stay; True by default.
            phase: where it works: ``input`` (the default: the caller's messages and tools' results), ``output``
                (answers and tool calls) or ``all``.
            parts: the kinds of message parts that are normalized; None (the default) for all that carry text.
            history: whether the whole conversation is normalized again before each model call; False by default.
            system: which system messages are normalized, too: those that a ``client`` sent (the default), ``all`` or
                ``none``.
            id: the name of the step in the graph.

        Raises:
            OptionError: an option is not allowed, or none of them does anything.
        """
        if id is not None:
            self.id = id
        if collapse_whitespace is not None:
            if whitespace != "keep":
                raise OptionError(
                    type(self).__name__, "collapse_whitespace", collapse_whitespace, "None beside whitespace="
                )
            flag(type(self).__name__, "collapse_whitespace", collapse_whitespace)
            whitespace, keep_layout = ("collapse-all", False) if collapse_whitespace else ("keep", keep_layout)
        self.profile = _checked(
            type(self).__name__,
            Profile(form, invisible, confusables, whitespace, keep_layout, trim, strip_control_chars, preserve_emojis),
        )
        choose_texts(self, phase, parts, history=history, system=system, usual="allow")
        if (
            type(self).process_output_stream is TextGuard.process_output_stream
        ):  # else a subclass handles streams itself
            self.stages = tuple(stage for stage in self.stages or () if stage != "process_output_stream")
        self.edits = "spans" if self.profile.edits else "nothing"
        self.findings = Key[Mapping[str, int]](f"{self.id}.found")
        self.provides = (self.findings,)

    def option(self, name: str) -> object:
        """Return an option as it was given, or as other options set it."""
        if name == "collapse_whitespace":
            return None  # it is whitespace= and keep_layout= now
        return getattr(self.profile, name) if hasattr(self.profile, name) else super().option(name)

    async def judged(self, ctx: AnyContext, texts: list[Text]) -> PlaceEdits:
        """Return the edits that normalize the texts; counts go to the record and the fact."""
        unsettled = [text for text in texts if not (text.fixed or is_normal(text.text, self.profile))]
        edits = PlaceEdits()
        counts: Counter[str] = Counter()
        for text in unsettled:
            made: list[Edit] = []
            for start, piece in pieces(text.text, self.profile):
                found = normalize(piece, self.profile, prose=text.kind in _PROSE)
                if found.counts:
                    counts.update(found.counts)
                    edits.held.add(text.place)
                made.extend(cast("Edit", moved(edit, start)) for edit in found.edits)
                checkpoint()
            if made:
                edits[text.place] = tuple(made)
                edits.held.add(text.place)
        if counts:
            ctx.note(found=dict(counts))
            add_counts(ctx, self.findings, counts)
        return edits


def _checked(processor: str, profile: Profile) -> Profile:
    for option, words in _WORDS.items():
        one_of(processor, option, getattr(profile, option), get_args(words))
    for option in _FLAGS:
        flag(processor, option, getattr(profile, option))
    if not profile.edits and profile.confusables == "off":
        raise OptionError(processor, "form", profile.form, "NFC or NFKC, or another option must do something")
    return profile
