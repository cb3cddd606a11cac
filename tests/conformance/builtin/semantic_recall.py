"""The vectors of recall: what is searched for, what comes back and where, what is indexed, what indexes are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anyio

from penstock import MessageList, Run, Workflow
from penstock.engine.values.errors import OptionError
from penstock.models.embedders import CachedEmbedder, index_name
from penstock.processors.memory import SemanticRecall
from tests.conformance.builtin.frame import Family, Fields, Given, Row
from tests.conformance.builtin.semantic_recall_rules import (
    a_vector_is_no_copy_of_its_text,
    an_index_name_tells_models_apart,
    messages_are_embedded_together,
    other_threads_are_quoted_as_data,
    query_and_index_use_one_text,
)
from tests.conformance.builtin.shapes import constructed, options_named, read, told
from tests.processors.memory.shelf import KeywordEmbedder, Shelf

OPTIONS = ("top_k", "message_range", "scope", "threshold", "index_name")


def run(given: Given) -> Fields:
    """Run one of the methods that the vectors have."""
    if given.method == "default_index_name":
        return {"index_name": index_name(given.input["model_id"])}
    if given.method == "construct":
        return constructed(lambda: processor(given, Shelf(), KeywordEmbedder()))
    try:
        return anyio.run(recalled if given.method == "process_input" else indexed, given)
    except OptionError as error:
        return {"error": str(error)}


def processor(given: Given, shelf: Shelf, embedder: Any) -> SemanticRecall:
    """Return the processor that the options mean; what the context says of it is an option of ours."""
    config = (given.input.get("context") or {}).get("config") or {}
    named = {name: given.options[name] for name in OPTIONS}
    return SemanticRecall(shelf, embedder, read_only=bool(config.get("readOnly")), **named)


def broken(given: Given) -> set[str]:
    """Return which methods of the store fail."""
    flags = {
        "vector_fails": ("query_vectors", "upsert_vectors"),
        "storage_fails": ("messages_by_id", "messages_around", "thread"),
    }
    return {method for flag, methods in flags.items() if given.input.get(flag) for method in methods}


def start(given: Given, recall: SemanticRecall) -> Run:
    """Return a run with the context of the row."""
    context = given.input.get("context") or {}
    named = {"thread_id": (context.get("thread") or {}).get("id"), "resource_id": context.get("resource")}
    known = {name: value for name, value in named.items() if value}
    return Workflow("w").then(recall).start(request_context=known)


async def recalled(given: Given) -> Fields:
    """Run what stands before a model call, on a store that holds what the row says."""
    shelf, embedder = Shelf(), KeywordEmbedder(fails=bool(given.input.get("embedder_fails")))
    recall = processor(given, shelf, embedder)
    shelf.put(*read(given.input.get("stored") or []))
    indexed_ids = given.input.get("indexed_ids", list(shelf.rows))
    for row in [shelf.rows[id_].message for id_ in indexed_ids if id_ in shelf.rows]:
        entry = {"vector": embedder.vector(row.text), "message_id": row.id, "thread_id": row.thread_id}
        await shelf.upsert_vectors(recall.index_name, [entry_of(row.id, entry, row.resource_id)])
    shelf.upserts, shelf.broken = [], broken(given)
    present = read(given.input.get("already_in_list") or [])
    listed = MessageList(present, source="memory").add(read(given.input.get("messages") or []), source="input")
    async with start(given, recall) as run:
        outcome = await run.process_input(listed)
        outcome = await run.process_input_step() if not outcome.blocked else outcome
        known = {message.id for message in present}
        after = run.message_list
        return {
            "ids": [message.id for message in after.conversation if message not in after.of("context")],
            "recalled_ids": [message.id for message in after.remembered if message.id not in known],
            "memory_system_messages": [message.text for message in after.tagged("memory")],
            "quoted": [message.text for message in after.of("context")],
            "embedded_queries": [text for call in embedder.calls for text in call],
            "vector_queries": shelf.queries,
            **told(outcome),
        }


def entry_of(id_: str, entry: Fields, resource_id: str | None) -> Any:
    """Return an entry of the index."""
    from penstock.engine.values.stored import VectorEntry

    return VectorEntry(id_, resource_id=resource_id or "", **entry)


async def indexed(given: Given) -> Fields:
    """Run what stands behind the answer; the embedder's cache is one that both processors share."""
    shelf, embedder = Shelf(), KeywordEmbedder(fails=bool(given.input.get("embedder_fails")))
    shelf.broken = broken(given)
    shared = CachedEmbedder(embedder)
    found: Fields = {}
    for _ in range(2 if given.input.get("run_twice_with_new_instance") else 1):
        recall = processor(given, shelf, shared)
        listed = MessageList(read(given.input.get("remembered") or []), source="memory")
        listed = listed.add(read(given.input.get("messages") or []), source="input")
        listed = listed.add(read(given.input.get("response") or []), source="response")
        async with start(given, recall) as run:
            run.message_list = listed
            found = {**told(await run.process_output_result())}
    upserts = [
        {
            "ids": [entry.id for entry in entries],
            "metadata": [
                {name: getattr(entry, name) for name in ("message_id", "thread_id", "resource_id")} for entry in entries
            ],
            "vectors": [list(entry.vector) for entry in entries],
        }
        for entries in shelf.upserts
    ]
    return {"upserts": upserts, "embed_calls": embedder.calls, **found}


def projection(fields: Fields) -> Fields:
    """As it is; of errors the options named, of an index's name all but the library's."""
    if isinstance(fields.get("error"), str):
        fields["error"] = options_named(fields["error"], OPTIONS)
    if "index_name" in fields:
        fields["index_name"] = fields["index_name"].partition("_memory_")[2]
    return fields


def invented() -> Sequence[Row]:
    """Return rows as others may have been recorded; what the reference does is after its spec."""
    from tests.conformance.builtin.semantic_recall_invented import rows

    return rows(FAMILY)


FAMILY = Family(
    files=("semantic_recall",),
    run=run,
    projections={
        "process_input": projection,
        "process_output_result": projection,
        "construct": projection,
        "default_index_name": projection,
    },
    rules=(
        query_and_index_use_one_text,
        other_threads_are_quoted_as_data,
        messages_are_embedded_together,
        a_vector_is_no_copy_of_its_text,
        an_index_name_tells_models_apart,
    ),
    neutral={
        ("process_input", "index_created"): "an index is made at its first use, of the length of what comes; "
        "nobody asks for it",
    },
    defaults={"top_k": 4, "message_range": 1, "scope": "resource", "threshold": None, "index_name": None},
    invented=invented,
)
