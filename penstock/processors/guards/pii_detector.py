"""`PIIDetector`: finds personal data, and hides it, filters it out, warns of it, or stops the run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, NoReturn, Unpack, cast, get_args

from penstock.detection.windows import Windows
from penstock.engine.processor.processor import flag
from penstock.processors.guards import pii_types
from penstock.processors.guards.options import share
from penstock.processors.guards.redaction import Method, keyed_hash, mask, placeholder
from penstock.processors.guards.span_guard import SpanGuard, hidden
from penstock.processors.guards.vault import VAULT, Numbering, Vault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.detection.spans import Span
    from penstock.engine.processor.context import AnyContext
    from penstock.engine.text_guards.window import Hit, TextWindow
    from penstock.engine.values.edits import Edit
    from penstock.engine.values.frozen import Value
    from penstock.engine.values.ports import Judge, Judged, Model
    from penstock.processors.guards.findings import Said
    from penstock.processors.guards.options import GuardOptions
    from penstock.processors.guards.pii_types import PIIType
    from penstock.processors.guards.pii_verdict import PIIVerdict

Strategy = Literal["redact", "block", "warn", "filter"]

_NUMBERING = "penstock.numbering"  # where a step's state keeps who gives out tokens, while it acts
_PROCESS_KEY = os.urandom(32)
"""The key of hashes where none is given: as long as the process lives, equal values have equal hashes."""


class PIIDetector(SpanGuard["PIIVerdict"]):
    """Finds personal data in texts of every kind, and in tools' arguments and results.

    What has a shape is found by patterns and check sums, first and always; a model, if there is one, finds what does
    not: names, addresses, types of one's own. What it names is searched for in the text.

    Attributes:
        found: the fact under which it tells how often which type was found in the run: ``{"email": 2}``.
    """

    id = "pii-detector"
    strategies = get_args(Strategy)

    def __init__(
        self,
        model: Model | Judge[PIIVerdict] | None = None,
        *,
        detection_types: Iterable[str | PIIType] | None = None,
        threshold: float = 0.6,
        strategy: Strategy = "redact",
        redaction_method: Method | Mapping[str, Method] = "mask",
        preserve_format: bool = True,
        hash_key: bytes | str | None = None,
        hash_length: int = 16,
        include_detections: bool = False,
        buffer_size: int = 600,
        **options: Unpack[GuardOptions],
    ) -> None:
        """Check the options.

        Args:
            model: asked about names, addresses, dates of birth and types of one's own without a pattern; never about
                anything else.
            detection_types: what is looked for: names, or `PIIType`s of one's own; None: all that can be found.
            threshold: how sure a model must be, 0 to 1; what a pattern finds counts always.
            strategy: ``redact`` hides what is found, ``block`` stops the run, ``warn`` reports only, ``filter`` leaves
                out the message, or, of an answer, the sentence.
            redaction_method: ``mask`` stars it out, ``hash`` puts a keyed hash, ``remove`` nothing, ``placeholder`` the
                type's name, ``token`` a number that `Restore` turns back (``[EMAIL_1]``); one for all, or by type, with
                ``*`` for the others.
            preserve_format: leave a mask readable in part: the last digits of a number, the ends of a name.
            hash_key: the key of hashes; None: one of the process's own.
            hash_length: how many hexadecimal digits a hash has, 4 to 64.
            include_detections: say in the reason how much was found.
            buffer_size: how many characters of a text are shown to the model at a time, at most, 80 or more.
            options: see `GuardOptions`.

        Raises:
            OptionError: an option that is not allowed, or a type that only a model can find where there is none.
        """
        name = type(self).__name__
        embedded = flag(name, "embedded", options.get("embedded", True))
        self.looked = pii_types.wanted(name, detection_types, model=model is not None, embedded=embedded)
        self.detection_types = None if detection_types is None else self.looked.given
        self.threshold = share(name, "threshold", threshold)
        self.redaction_method = redaction_method
        self._methods = pii_types.methods(name, redaction_method, self.looked.types)
        self.preserve_format = flag(name, "preserve_format", preserve_format)
        self._hash_key = pii_types.hash_key(name, hash_key) or _PROCESS_KEY
        self.hash_length = pii_types.hash_length(name, hash_length)
        self.include_detections = flag(name, "include_detections", include_detections)
        self.buffer_size = pii_types.buffer_size(name, buffer_size)
        self.windows = Windows(least=40, most=self.buffer_size, overlap=min(200, self.buffer_size))
        self.set_up(model, strategy, _verdict(model), pii_types.question(self.looked), options)
        if not self.looked.judged:
            self.judge, self.awaits = None, False
        self.lookback = max(self.lookback, self.looked.detector.lookback)
        self.declare_found(*self.looked.types)
        if strategy == "redact" and "token" in self._methods.values():
            self.provides = (*self.provides, VAULT)

    def embedded_scan(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what patterns find in a window, and up to where that is decided."""
        try:
            return self.looked.detector.scan(window.text, start, notes, final=window.final, key=window.key)
        except TimeoutError as error:
            ctx.note(timeout=str(error))
            raise

    def encoded_scan(
        self, window: TextWindow, start: int, notes: dict[str, Value], ctx: AnyContext
    ) -> tuple[Sequence[Span], int]:
        """Return what patterns find behind a code."""
        del ctx
        return self.looked.detector.encoded.scan(window.text, start, notes, final=window.final)

    def shown(self, text: str, ctx: AnyContext) -> str:
        """Return a window as the model is shown it: what patterns find in it is hidden."""
        del ctx
        return hidden(text, self.looked.detector.find(text)) if self.embedded else text

    def said(self, judged: Judged[PIIVerdict]) -> Iterable[Said]:
        """Return what the model says that a window holds."""
        return pii_types.said(judged.verdict, self.looked.types)

    def replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what is to stand in place of a value of that type."""
        method = self._methods.get(type, self._methods["*"])
        if method == "mask":
            return mask(type, text, preserve_format=self.preserve_format)
        if method == "hash":
            return keyed_hash(text, self._hash_key, self.hash_length)
        if method == "placeholder":
            return placeholder(type)
        return self._numbering(ctx).token(type, text) if method == "token" else ""

    def act(self, hits: Sequence[Hit], ctx: AnyContext) -> Sequence[Iterable[Edit]]:
        """Return the edits of the strategy, or stop the run; what tokens were given for goes into the run's vault."""
        if VAULT not in self.provides:
            return super().act(hits, ctx)
        ctx.state.pop(_NUMBERING, None)
        made = super().act(hits, ctx)
        numbering: Numbering | None = ctx.state.pop(_NUMBERING, None)
        if numbering is not None:
            ctx.put(VAULT, numbering.vault())
        return made

    def _numbering(self, ctx: AnyContext) -> Numbering:
        """Return who gives out tokens in this call; the conversation is read once a call for those that stand there.

        The run's own answers are not: of a stream they are not all there yet, and its tokens are to be the same.
        """
        numbering: Numbering | None = ctx.state.get(_NUMBERING)
        if numbering is None:
            own = {message.id for message in ctx.message_list.response}
            texts = (message.text for message in ctx.message_list.all if message.id not in own)
            numbering = ctx.state[_NUMBERING] = Numbering(ctx.get(VAULT) or Vault(), texts)
        return numbering

    def encoded_replacement(self, text: str, type: str, ctx: AnyContext) -> str:
        """Return what is to stand in place of a code: a mask that kept its form would leave letters that say it."""
        if self._methods.get(type, self._methods["*"]) == "mask":
            return mask(type, text, preserve_format=False)
        return self.replacement(text, type, ctx)

    def block(
        self, ctx: AnyContext, categories: Iterable[str], metadata: Mapping[str, Value], why: str = ""
    ) -> NoReturn:
        """Stop the run; with ``include_detections``, say how much was found."""
        found = [*categories]
        counted = f"{len(found)} found; " if self.include_detections else ""
        super().block(ctx, found, metadata, f"{counted}{why}")


def _verdict(model: object) -> type[PIIVerdict]:
    """Return the form of a judge's verdicts; what stands for it where there is no judge is never looked at."""
    if model is None:
        return cast("type[PIIVerdict]", object)
    from penstock.processors.guards.pii_verdict import PIIVerdict

    return PIIVerdict
