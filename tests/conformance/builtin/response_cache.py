"""The vectors of `ResponseCache`: model calls one after the other, over one cache that is looked into."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import anyio

from penstock import Chunk, ResponseCache, Run, Workflow, parse_messages
from penstock.engine import ModelRequest
from penstock.engine.values.answer_builder import Assembly
from penstock.engine.values.errors import OptionError, StepFailedError
from tests.conformance.builtin import cache_invented, cache_rules
from tests.conformance.builtin.cache_rules import SAID, complete, rest_of
from tests.conformance.builtin.frame import Family, Fields, Given
from tests.conformance.builtin.shapes import chunk, options_named, recorded, streamed, told

ANSWERS = "penstock:response:"
_HASH = re.compile(r"<sha256/\d+>|[0-9a-f]{8,}")
_HEAD = re.compile(r"^(mastra:agent-response|penstock:response):")


class Model(NamedTuple):
    """What a cache looks at of a model."""

    name: str
    identity: Mapping[str, Any]


class Watched:
    """A cache that notes what is done to it, and may fail at it."""

    def __init__(self, fails_on: str | None) -> None:
        self.kept: dict[str, str] = {}
        self.used: list[str] = []
        self.ttls: list[float | None] = []
        self._fails_on = fails_on

    async def get(self, key: str) -> str | None:
        """Return what is kept."""
        if self._fails_on == "get":
            raise OSError("get")
        self.used.append(key)
        return self.kept.get(key)

    async def set(self, key: str, value: str, *, ttl: float | None = None) -> None:
        """Keep it."""
        self.used.append(key)
        self.ttls.append(ttl)
        if self._fails_on == "set":
            raise OSError("set")
        self.kept[key] = value


class Session:
    """Calls one after the other."""

    def __init__(self, options: Fields, fails_on: str | None) -> None:
        self.cache = Watched(fails_on)
        self.workflow = Workflow("w").then(ResponseCache(self.cache, **made(options)))
        self.calls: list[Fields] = []
        self.keys: list[str] = []
        self.ttls: list[float] = []

    async def call(self, given: Fields) -> Fields:
        """Make one call, a run of its own; return how a verdict ended it."""
        cache = self.cache
        before, cache.used, cache.ttls = dict.fromkeys(self.keys), [], []
        context = {"resource_id": given.get("resource"), "response_cache": given.get("override") or {}}
        run = self.workflow.start(request_context=context)
        async with run:
            answer = await ask(run, given)
            if run.tripwire is not None:
                return told(await run.process_output_result())
        self.keys += cache.used[:1]
        self.ttls += [ttl for ttl in cache.ttls if ttl is not None]
        key = cache.used[0] if cache.used else None
        index = None if key is None else [*dict.fromkeys([*before, key])].index(key)
        hit = {"chunks": [recorded(piece) for piece in answer]} if answer else {}
        ttl = next(iter(cache.ttls), None)
        self.calls.append(
            {"hit": bool(answer), "ttl_seconds": ttl, "stored": key in cache.kept, "key_index": index, **hit}
        )
        return {}


async def ask(run: Run, given: Fields) -> tuple[Chunk, ...]:
    """Play a model call; return what answered in its place."""
    model = given.get("model") or cache_rules.MODEL
    asked = Model(f"{model.get('provider')}/{model.get('modelId')}", model)
    prompt = parse_messages(given["prompt"], "ai-sdk-model")
    request = ModelRequest(prompt, provider_options=rest_of(given))
    for _ in range(given.get("step", 0) + 1):
        await run.process_input_step()
    outcome = await run.process_llm_request(prompt, request=request, model=asked)
    if outcome.blocked or outcome.answer is not None:
        return outcome.answer or ()
    request = ModelRequest(outcome.messages, provider_options=request.provider_options)
    chunks = [chunk(row) for row in given.get("chunks", SAID)]
    said = Assembly()
    for piece in chunks:
        said.add(piece)
    await run.process_llm_response(
        [said.message] if said.message.parts else None, chunks=chunks, request=request, model=asked
    )
    return ()


def made(options: Fields) -> Fields:
    """Return the options as ours; a template stands for a function that makes keys."""
    given = {name: value for name, value in options.items() if name in cache_rules.OPTIONS}
    return {**given, "key": key_function(options["key_fn"])} if options.get("key_fn") else given


def key_function(template: str) -> Callable[[Any], str]:
    """Return the function that a template stands for."""

    def key(about: Any) -> str:
        if template == "raises":
            raise ValueError(template)
        return template.format(step=about.step_number, scope=about.scope, agent=about.agent_id, model=about.model)

    return key


def run(given: Given) -> Fields:
    """Make all calls of the session."""
    try:
        session = Session(given.options, given.input.get("cache_fails_on"))
    except OptionError as error:
        return {"error": str(error)}
    if given.method == "construct":
        return {}

    async def play() -> Fields:
        for call in given.input["calls"]:
            verdict = await session.call(call)
            if verdict:
                return verdict
        return {}

    try:
        verdict = anyio.run(play)
    except StepFailedError as error:  # a processor that breaks is no cache
        return {"error": str(error)}
    ttls = [round(ttl * 1000) for ttl in session.ttls]
    stored = [] if given.input.get("cache_fails_on") == "set" else ttls
    return {"calls": session.calls, "key_shape": session.keys, "set_ttl_ms": stored, **verdict}


def projection(fields: Fields) -> Fields:
    """Hits, what was kept and for how long, which keys are the same; of a key its form: whose, and how many hashes.

    For how long something would be kept that is not is no result.
    """
    if "error" in fields:
        fields["error"] = options_named(fields["error"], cache_rules.OPTIONS)
    if "key_shape" in fields:
        fields["key_shape"] = [_HASH.sub("#", _HEAD.sub("", key)) for key in fields["key_shape"]]
    for call in fields.get("calls", []):
        if not call["stored"]:
            call.pop("ttl_seconds", None)
        if "chunks" in call:
            call["chunks"] = streamed(call["chunks"])
    return fields


FAMILY = Family(
    files=("response_cache",),
    run=run,
    projections={"cache_session": projection, "construct": projection},
    rules=(
        cache_rules.a_key_of_ones_own_stays_within_its_scope,
        cache_rules.all_of_a_request_is_in_its_key,
        cache_rules.what_could_never_be_a_hit_is_not_written,
        cache_rules.calls_of_tools_are_not_given_again,
        cache_rules.a_kept_answer_says_so,
        cache_rules.what_is_empty_or_over_at_once_is_refused,
    ),
    defaults=complete,
    invented=cache_invented.rows,
)
