"""`ProviderHistoryCompat`: makes a conversation with one provider acceptable to another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from penstock.engine.processor.payload import Retry
from penstock.engine.processor.processor import Processor
from penstock.engine.values.errors import OptionError
from penstock.models.conversations import names_of
from penstock.processors.prompt.history_rules import BUILT_IN, HistoryRule, error_texts
from penstock.processors.prompt.recipient import recipient_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import APIErrorContext, LLMRequestContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.messages import Message

_SEEN = "step whose first failure was seen"


class ProviderHistoryCompat(Processor):
    """Repairs parts of a conversation that a provider would refuse.

    Before each call, it repairs the prompt of that call only. After a refusal, it repairs the conversation and retries
    the call, once for each call. If the processor itself fails, the prompt is sent as it is (``on_error`` is
    ``allow``).

    Args:
        additional_rules: further rules, applied after the built-in ones, in order.
        disabled_rules: the names of built-in rules to leave out.
        id: the name in graphs and records. Default ``provider-history-compat``.

    Attributes:
        built_in: the built-in rules, in the order in which they are applied.

    Raises:
        OptionError: ``additional_rules`` is not a list of `HistoryRule`, or ``disabled_rules`` has an unknown name.
    """

    id = "provider-history-compat"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    offloadable = True
    edits = "anything"
    built_in: ClassVar[tuple[HistoryRule, ...]] = BUILT_IN

    def __init__(
        self,
        *,
        additional_rules: Iterable[HistoryRule] = (),
        disabled_rules: Iterable[str] = (),
        id: str | None = None,
    ) -> None:
        if id is not None:
            self.id = id
        self.additional_rules = _rules(type(self).__name__, additional_rules)
        self.disabled_rules = names_of(type(self).__name__, "disabled_rules", disabled_rules, "built-in rules' names")
        known = [rule.name for rule in self.built_in]
        if not self.disabled_rules <= set(known):
            raise OptionError(type(self).__name__, "disabled_rules", disabled_rules, f"names out of {', '.join(known)}")
        enabled = [rule for rule in self.built_in if rule.name not in self.disabled_rules]
        self._rules = (*enabled, *self.additional_rules)

    def process_llm_request(self, ctx: LLMRequestContext) -> Sequence[Message] | None:
        """Apply the rules to the prompt of one model call."""
        recipient = recipient_of(ctx.model)
        before = prompt = ctx.messages
        applied: list[str] = []
        for rule in self._rules:
            made = rule.apply_to_prompt(prompt, recipient) if rule.apply_to_prompt is not None else None
            if (
                made and tuple(made) != prompt
            ):  # a rule that leaves no message is not applied: a prompt must not be empty
                prompt = tuple(made)
                applied.append(rule.name)
        if prompt is before:
            return None
        ctx.note(rules=applied)
        return prompt

    def process_api_error(self, ctx: APIErrorContext) -> Retry | None:
        """Repair the conversation and retry, if a rule is about the error."""
        if not _is_first(ctx):
            return None
        texts = error_texts(ctx.error)
        messages = ctx.messages
        for rule in self._rules:
            made = rule.fix(messages) if rule.fix is not None and rule.is_about(texts) else None
            if made and tuple(made) != messages:
                ctx.note(rules=[rule.name])
                ctx.state.pop(_SEEN, None)
                return Retry(messages=tuple(made))
        return None


def _is_first(ctx: APIErrorContext) -> bool:
    """Return whether this call may be repaired: at its first failure, or if another processor retried that one."""
    if ctx.retry_count == 0:
        ctx.state[_SEEN] = ctx.step_number
    return bool(ctx.state.get(_SEEN) == ctx.step_number)


def _rules(processor: str, given: object) -> tuple[HistoryRule, ...]:
    rules = _listed(given)
    if not all(isinstance(rule, HistoryRule) for rule in rules):
        raise OptionError(processor, "additional_rules", given, "a list of HistoryRule")
    return cast("tuple[HistoryRule, ...]", rules)


def _listed(given: object) -> tuple[object, ...]:
    return tuple(cast("Iterable[object]", given)) if isinstance(given, Iterable) else (None,)
