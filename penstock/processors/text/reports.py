"""What a pattern filter tells its user about a text that it acted on, as values; they know no processor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """One match, or matches that overlap and were replaced as one.

    Attributes:
        rule: the rule's name; of several, the one whose replacement stands there.
        index: where it begins, in code points.
        length: how long it is.
        replacement: what stands in its place; None where nothing was replaced.
        overlapping_rules: the names of all rules that had a part in it, where there was more than one.
        value: the matched text; None unless ``include_redacted_values`` is set.
    """

    rule: str
    index: int
    length: int
    replacement: str | None = None
    overlapping_rules: tuple[str, ...] = ()
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """What `RegexFilterProcessor` found in one text; what ``on_violation`` is called with.

    Attributes:
        processor_id: the processor's id.
        message: a sentence for people, which names the rules.
        strategy: what was done about it: ``block``, ``redact`` or ``warn``.
        stage: the stage it happened in.
        message_id: the message's id; empty for a tool's arguments or result.
        part: the index of the part in the message.
        field: what the text is: ``text``, ``arguments``, ``result``, ``title`` ….
        matches: what was found, in order.
    """

    processor_id: str
    message: str
    strategy: str
    stage: str
    message_id: str
    part: int
    field: str
    matches: tuple[PatternMatch, ...]
