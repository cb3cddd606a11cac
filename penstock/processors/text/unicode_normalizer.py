"""`UnicodeNormalizer`: brings texts into one shape, so that guards behind it see what readers see. No pattern in it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, get_args

from penstock.detection.unicode.normalizing import Confusables, Form, Invisible, Profile, Whitespace, normalize
from penstock.engine.processor.processor import flag, one_of
from penstock.engine.text_guards.reporting import add_counts
from penstock.engine.text_guards.whole_texts import WholeTexts
from penstock.engine.values.errors import OptionError
from penstock.engine.values.facts import Key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.engine.processor.context import Context
    from penstock.engine.processor.processor import EditsClaim
    from penstock.engine.text_guards.whole_texts import Phase, Text
    from penstock.engine.values.edits import Edits
    from penstock.engine.values.texts import TextPlace

_PROSE = frozenset({"text", "reasoning"})
_WORDS = {"form": Form, "invisible": Invisible, "confusables": Confusables, "whitespace": Whitespace}
_FLAGS = ("keep_layout", "trim", "strip_control_chars", "preserve_emojis")


class UnicodeNormalizer(WholeTexts):
    """Brings texts to a normal form and takes away what nobody sees. Attachments are never touched.

    Its failure blocks: it stands before guards, and they must not be shown a text that it could not bring into shape.

    Attributes:
        findings: the fact under which it tells how much of what kind it found in the run, for example
            ``{"zero-width": 3, "NFC": 1}``. Characters for what cannot be seen, spans for forms and white space.
    """

    id = "unicode-normalizer"
    role = "transform"
    on_error = "block"
    edits: EditsClaim | None = "spans"

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
        system: bool = False,
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            form: the normal form; NFKC also folds full-width, styled and other compatibility characters.
            invisible: what becomes of characters that cannot be seen: ``strip``, ``mark`` (``[zero-width x2]``) or
                ``keep``. Joiners and selectors that an emoji or a script needs stay.
            whitespace: see `penstock.detection.unicode.normalizing.whitespace_edits`; only in text and reasoning.
            confusables: ``detect`` counts letters that pass for ASCII ones, ``fold`` replaces them.
            keep_layout: white space in fenced code and at the start of lines stays.
            trim: take white space from both ends of each text.
            collapse_whitespace: the reference's option: True is ``whitespace="collapse-all", keep_layout=False``,
                False is ``whitespace="keep"``; None leaves both as they are given.
            strip_control_chars: delete C0 and C1 controls but TAB, LF and CR, whatever ``invisible`` says.
            preserve_emojis: keep the joiners, selectors and tags that emoji consist of.
            phase: ``input`` (what goes to the model: the caller's messages and tools' results), ``output`` (what comes
                from it: answers and calls to tools) or ``all``.
            parts: the kinds of parts to look into; all that carry text but ``data`` by default.
            history: look at the whole conversation before each model call too.
            system: look at system messages too.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed, or none that does anything.
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
        self.place(phase, parts, history=history, system=system)
        self.edits = "spans" if self.profile.edits else "nothing"
        self.findings: Key[Mapping[str, int]] = Key(f"{self.id}.found")
        self.provides = (self.findings,)

    def option(self, name: str) -> object:
        """Return an option as it was given, or as others made it."""
        if name == "collapse_whitespace":
            return None  # it is whitespace= and keep_layout= now
        return getattr(self.profile, name) if hasattr(self.profile, name) else super().option(name)

    def edits_of(self, ctx: Context[Any], texts: list[Text]) -> Mapping[TextPlace, Edits]:
        """Return the edits that bring the texts into shape; tell what was found in the record and as a fact."""
        edits: dict[TextPlace, Edits] = {}
        counts: Counter[str] = Counter()
        for text in texts:
            if text.fixed:
                continue
            found = normalize(text.text, self.profile, prose=text.kind in _PROSE)
            counts.update(found.counts)
            if found.edits:
                edits[text.place] = found.edits
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
