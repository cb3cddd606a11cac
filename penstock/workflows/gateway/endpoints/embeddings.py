"""OpenAI's embeddings, and those of providers that are compatible with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from penstock.workflows.gateway.endpoints.chat import tokens_of
from penstock.workflows.gateway.endpoints.endpoint import Endpoint
from penstock.workflows.gateway.endpoints.texts import TextsSection
from penstock.workflows.gateway.tables import COUNTS, MESSAGE, SEALED, TERM, VALUE, EachItem, Obj

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.formats.wire import Json
    from penstock.workflows.gateway.sections import RequestSection

_TERMS = (
    *("model", "encoding_format", "dimensions", "service_tier", "stream"),
    *("input_type", "truncation", "output_dimension", "output_dtype"),  # Voyage
    *("task", "late_chunking", "normalized", "embedding_type"),  # Jina
    *("truncate", "truncate_prompt_tokens", "priority", "keep_alive", "add_special_tokens"),  # Ollama, vLLM
)

REQUEST = Obj({**dict.fromkeys(_TERMS, TERM), "input": MESSAGE, "user": VALUE, "provider": VALUE})
_VECTOR = Obj({"object": TERM, "index": TERM, "embedding": SEALED})
ANSWER = Obj(
    {
        **dict.fromkeys(("id", "object", "model", "created", "provider"), TERM),
        "data": EachItem(_VECTOR),
        "usage": Obj({}, COUNTS),
    }
)


class Embeddings(Endpoint):
    """OpenAI's embeddings. A verdict is an error: there is no vector of a refusal."""

    name: ClassVar = "openai-embeddings"
    paths: ClassVar = ("/v1/embeddings", "/embeddings")
    request: ClassVar = REQUEST
    answer: ClassVar = ANSWER
    has_answer: ClassVar = False

    def sections(self, body: Json) -> Sequence[RequestSection]:
        """Return the texts."""
        del body
        return (TextsSection(("input",), "user"),)

    def usage(self, data: Json) -> tuple[int, int] | None:
        """Return the tokens that were read."""
        return tokens_of(data.get("usage"), "prompt_tokens", "completion_tokens")
