"""Terms of a provider at the ends of a stream: counts and words pass unread, any other text is read."""

from __future__ import annotations

from typing import Any

import pytest

from penstock import Chunk, PIIDetector, RegexFilterProcessor
from penstock.engine.values.answer_builder import usage_of
from penstock.engine.values.terms import counts_of, is_address, is_code, is_model, is_word
from penstock.testing import run_stream

SECRET = "ada@example.com"
TERMS: dict[str, Any] = {
    "reason": SECRET,
    "finish_reason": f"refused: {SECRET}",
    "finishReason": SECRET,
    "raw_reason": f"refused: {SECRET}",
    "model": f"m for {SECRET}",
    "created": SECRET,
    "usage": {"input_tokens": 1, "details": {"billing": {"account": SECRET}}},
    "provider_headers": {"x-request-id": SECRET},
    "odd": [{"a": SECRET}],
}


@pytest.mark.parametrize("type", ["error", "abort", "finish", "step-finish", "response-metadata", "step-start"])
@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("strategy", ["redact", "block"])
def test_a_text_in_the_place_of_a_term_is_read(type: str, name: str, strategy: Any) -> None:
    """In every chunk that structures a stream, whatever stands there."""
    source = [Chunk("text-delta", "Hello.", "t"), Chunk(type, payload={name: TERMS[name]})]
    left, _ = run_stream(PIIDetector(strategy=strategy), source)
    assert SECRET not in repr(left)


def test_a_key_in_the_place_of_a_count_is_read() -> None:
    """A usage has keys of its provider."""
    left, _ = run_stream(PIIDetector(), [Chunk("finish", payload={"usage": {"details": {SECRET: 1}}})])
    assert SECRET not in repr(left)


HONEST: list[dict[str, Any]] = [
    {"reason": "tool-calls", "raw_reason": "end_turn", "usage": {"input_tokens": 1773012759, "details": {"cost": 0.1}}},
    {"model": "accounts/fireworks/models/llama-v3p1-405b-instruct", "created": 1773012759},
    {"model": "claude-3-5-sonnet-20241022", "id": "chatcmpl-9AbCdEfGhIjKlMnOp"},
    {"provider_headers": {"x-request-id": "10.0.0.5", "date": "Mon, 01 Jan 2001 00:00:00 GMT"}},
    {"provider_metadata": {"pydantic-ai": {"provider_url": "http://10.0.0.5:8000/v1"}}},
]


@pytest.mark.parametrize("payload", HONEST)
@pytest.mark.parametrize("type", ["finish", "response-metadata"])
def test_terms_stop_no_answer(payload: dict[str, Any], type: str) -> None:
    """Addresses, ids and headers of a provider are no words of the answer."""
    source = [Chunk(type, payload=payload)]
    for guard in (PIIDetector(strategy="block"), RegexFilterProcessor(presets=["urls"])):
        assert run_stream(guard, source)[0] == source


@pytest.mark.parametrize("text", ["prompt_tokens", "promptTokenCount", "ephemeral_5m_input_tokens", "MAX_TOKENS", "v1"])
def test_a_name_of_a_program_is_a_word(text: str) -> None:
    """In the spellings of providers."""
    assert is_word(text)


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        "+49 30 1234567",
        "4111-1111-1111-1111",
        "123-45-6789",
        "DE89370400440532013000",
        "sk-aB3dE9fGhIjKl",
        "a b",
    ],
)
def test_a_value_of_a_person_is_no_term(text: str) -> None:
    """No address, number, account or key has the form of a word or of a model."""
    assert not is_word(text)
    assert not is_address(text)
    assert not counts_of({text: 1})
    assert not is_model(text) or text.startswith("sk-")


def test_addresses_and_codes_have_forms() -> None:
    """A host and words; an id without spaces."""
    assert [
        is_address(a) for a in ("https://api.example.com/v1beta/openai", "http://[::1]:1", "https://x.y/?q=Ada")
    ] == [
        True,
        True,
        False,
    ]
    assert [is_code(code) for code in ("req_1a", "1m20s", "write to Ada", SECRET)] == [True, True, False, False]


def test_a_usage_holds_numbers_only() -> None:
    """Under words; a field of a wrong kind is left out."""
    usage = usage_of({"input_tokens": SECRET, "output_tokens": 3, "details": {"a": {"b": 2, SECRET: 1, "c": "x"}}})
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, dict(usage.details)) == (None, 3, {"a": {"b": 2}})
