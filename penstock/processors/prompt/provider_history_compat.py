"""`ProviderHistoryCompat`: makes a conversation with one provider fit for another. It knows rules, no format."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, cast

from penstock.engine.processor.payload import Retry
from penstock.engine.processor.processor import Processor
from penstock.engine.values.errors import OptionError
from penstock.models.conversations.names import names_of
from penstock.models.conversations.providers import recipient_of
from penstock.processors.prompt._built_in_rules import BUILT_IN
from penstock.processors.prompt.history_rules import HistoryRule, said_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.engine.processor.context import APIErrorContext, LLMRequestContext
    from penstock.engine.processor.processor import ErrorPolicy, ProcessorRole
    from penstock.engine.values.messages import Message

_SEEN = "step whose first failure was seen"


class ProviderHistoryCompat(Processor):
    """Repairs what a provider would refuse of a conversation.

    Before each call it repairs that call's prompt alone; where a provider has refused, the conversation, once for each
    call, which is then made again. It protects nothing, so its failure lets the prompt pass as it is.

    Attributes:
        built_in: the rules that are there from the start.
    """

    id = "provider-history-compat"
    role: ProcessorRole = "transform"
    on_error: ErrorPolicy = "allow"
    edits = "anything"
    built_in: ClassVar[tuple[HistoryRule, ...]] = BUILT_IN

    def __init__(
        self,
        *,
        additional_rules: Iterable[HistoryRule] = (),
        disabled_rules: Iterable[str] = (),
        id: str | None = None,
    ) -> None:
        """Check the options.

        Args:
            additional_rules: further rules; they are applied after the built-in ones, in order.
            disabled_rules: the names of built-in rules to leave out.
            id: its name in the graph.

        Raises:
            OptionError: an option that is not allowed.
        """
        if id is not None:
            self.id = id
        self.additional_rules = _rules(type(self).__name__, additional_rules)
        self.disabled_rules = names_of(type(self).__name__, "disabled_rules", disabled_rules, "built-in rules' names")
        known = [rule.name for rule in self.built_in]
        if not self.disabled_rules <= set(known):
            raise OptionError(type(self).__name__, "disabled_rules", disabled_rules, f"names out of {', '.join(known)}")
        kept = [rule for rule in self.built_in if rule.name not in self.disabled_rules]
        self._rules = (*kept, *self.additional_rules)

    def process_llm_request(self, ctx: LLMRequestContext) -> Sequence[Message] | None:
        """Apply the rules to the prompt of one model call."""
        recipient = recipient_of(ctx.model)
        before = prompt = ctx.messages
        applied: list[str] = []
        for rule in self._rules:
            made = rule.apply_to_prompt(prompt, recipient) if rule.apply_to_prompt is not None else None
            if made and tuple(made) != prompt:  # a rule that leaves nothing is not followed: nothing can be asked then
                prompt = tuple(made)
                applied.append(rule.name)
        if prompt is before:
            return None
        ctx.note(rules=applied)
        return prompt

    def process_api_error(self, ctx: APIErrorContext) -> Retry | None:
        """Repair the conversation if the error tells what is wrong with it, and have the call made again."""
        if not _is_first(ctx):
            return None
        said = said_by(ctx.error)
        messages = ctx.messages
        for rule in self._rules:
            made = rule.fix(messages) if rule.fix is not None and rule.is_about(said) else None
            if made and tuple(made) != messages:
                ctx.note(rules=[rule.name])
                ctx.state.pop(_SEEN, None)
                return Retry(messages=tuple(made))
        return None


def _is_first(ctx: APIErrorContext) -> bool:
    """Tell whether this call may be repaired: at its first failure, or when that was seen and somebody else retried."""
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
