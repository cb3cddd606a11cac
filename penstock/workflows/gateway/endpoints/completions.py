"""OpenAI's completions of a text, which servers of open models have, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from penstock.formats.wire import is_array, is_object
from penstock.workflows.gateway.endpoints.chat import (
    DONE,
    FRAME,
    VENDORS,
    ChatCompletions,
    choices_of,
    head_as,
    head_of,
)
from penstock.workflows.gateway.endpoints.endpoint import index_in
from penstock.workflows.gateway.endpoints.texts import TextsSection
from penstock.workflows.gateway.frames import written
from penstock.workflows.gateway.json_text import write_json
from penstock.workflows.gateway.tables import (
    COUNTS,
    MESSAGE,
    REASONING,
    TERM,
    TEXT,
    TOKENS,
    VALUE,
    EachItem,
    Field,
    Obj,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.engine.values.model import ToolSpec
    from penstock.formats.wire import Json, Value
    from penstock.workflows.gateway.endpoints.endpoint import Refusal, SentEvents
    from penstock.workflows.gateway.sections import RequestSection
    from penstock.workflows.gateway.tables import Place

_TERMS = (
    *("model", "stream", "n", "best_of", "echo", "logprobs", "temperature", "top_p", "max_tokens", "seed"),
    *("presence_penalty", "frequency_penalty", "logit_bias", "service_tier"),
)

REQUEST = Obj(
    {
        **dict.fromkeys(VENDORS, VALUE),
        **dict.fromkeys(_TERMS, TERM),
        **dict.fromkeys(("stop", "user", "metadata", "response_format"), VALUE),
        "prompt": MESSAGE,
        "suffix": MESSAGE,
        "stream_options": Obj({}, TERM),
    }
)
_AGAIN = Field("refused", "spells the prompt again")
_CHOICE = Obj(
    {
        **dict.fromkeys(("index", "finish_reason"), TERM),
        "text": TEXT,
        "reasoning": REASONING,
        "logprobs": TOKENS,
        "token_ids": TOKENS,
        **dict.fromkeys(("stop_reason", "matched_stop"), VALUE),
        **dict.fromkeys(("prompt_logprobs", "prompt_token_ids"), _AGAIN),
        "content_filter_results": Obj({}, Obj({}, COUNTS)),
    }
)
ANSWER = Obj({**FRAME, "choices": EachItem(_CHOICE)})
_KIND = "text_completion"


class Completions(ChatCompletions):
    """OpenAI's completions."""

    name: ClassVar = "openai-completions"
    paths: ClassVar = ("/v1/completions", "/completions")
    request: ClassVar = REQUEST
    answer: ClassVar = ANSWER
    events: ClassVar = {"": ANSWER}

    def sections(self, body: Json) -> Sequence[RequestSection]:
        """Return the prompts, and the text behind them."""
        return [TextsSection((name,), "user") for name in ("prompt", "suffix") if body.get(name) is not None]

    def tools(self, body: Json) -> Mapping[int, ToolSpec]:
        """Return nothing: there are no tools."""
        del body
        return {}

    def block(self, place: Place, data: Json) -> str:
        """Return the choice's index, and whether it is a thought."""
        path = place.path
        choice: Json = data["choices"][path[1]]
        index = index_in(choice, "index", cast("int", path[1]))
        return f"{index}.{'reasoning' if path[-1] == 'reasoning' else 'text'}"

    def tokens(self, value: Value) -> str | None:
        """Return the text that the tokens spell; None if words are beside them that the model did not choose."""
        if not value:
            return ""
        if not is_object(value) or not set(value) <= _LISTS or not all(map(_is_list, value.values())):
            return None
        tokens: list[Value] = value.get("tokens") or []
        numbers: list[Value] = [*(value.get("token_logprobs") or []), *(value.get("text_offset") or [])]
        tops: list[Value] = value.get("top_logprobs") or []
        plain = len(tops) <= len(tokens) and all(one is None or isinstance(one, (int, float)) for one in numbers)
        if not plain or not all(isinstance(token, str) for token in tokens):
            return None
        return "".join(tokens) if all(map(_is_choice, tops, tokens)) else None

    def refusal(self, refusal: Refusal, model: str) -> Json:
        """Return a completion whose text is the refusal."""
        usage = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        return {**head_as(_KIND, model), "choices": [_refused(refusal, 0)], "usage": usage}

    def refusal_events(self, refusal: Refusal, sent: SentEvents) -> Sequence[bytes]:
        """Return a chunk with the refusal, which ends the choice, and the end of the stream."""
        index: Value = next((choice.get("index", 0) for choice in choices_of(sent.last)), 0)
        return written("", write_json({**head_of(sent, _KIND), "choices": [_refused(refusal, index)]})), DONE


_LISTS = frozenset({"tokens", "token_logprobs", "top_logprobs", "text_offset"})


def _is_list(value: Value) -> bool:
    return value is None or is_array(value)


def _is_choice(tops: Value, token: str) -> bool:
    """Return whether the likeliest tokens are the chosen one, and no other."""
    return tops is None or (
        is_object(tops) and set(tops) <= {token} and all(isinstance(number, (int, float)) for number in tops.values())
    )


def _refused(refusal: Refusal, index: Value) -> Json:
    return {"index": index, "text": refusal.text, "logprobs": None, "finish_reason": "content_filter"}
