"""Where counting and limiting tokens differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

import re

from tests.conformance.builtin import tokens_model as model
from tests.conformance.builtin.frame import Fields

SPECIAL = ("<|endoftext|>", "<|endofprompt|>")


def names_of_special_tokens_are_text(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Any text can be counted; what looks like a special token is letters and signs."""
    found = any(name in given.get("text", "") for name in SPECIAL)
    return {"tokens": model.count(options, given["text"])} if found and "error" in expected else None


# Prompts


def conversation(options: Fields, given: Fields) -> tuple[list[Fields], list[float], float]:
    """Return the messages without the system's, what each counts, and the tokens of the system's."""
    if "prompt" in given:
        system = [one["content"] for one in given["prompt"] if one["role"] == "system"]
        messages = [one for one in given["prompt"] if one["role"] != "system"]
        costs = [model.prompt(options, one) for one in messages]
    else:
        system = dict.fromkeys(given.get("system_messages", ()))  # one text is one message
        messages = [*given.get("remembered", []), *given["messages"]]
        costs = [model.stored(options, one) for one in messages]
    return messages, costs, sum(model.count(options, f"system{text}") + 3.8 for text in system)


def remaining(options: Fields, given: Fields, messages: list[Fields], taken: float, stays: list[int] | None) -> Fields:
    """Return an expectation: what stays, or the verdict that nothing can."""
    if stays is None:
        told = {"systemTokens": taken, "limit": options["limit"], "messageCount": len(messages)}
        budget = round(options["limit"] - taken - 24, 6)
        return {"tripwire": {"retry": False, "metadata": {**told, "remainingBudget": budget}}}
    if "prompt" not in given:
        return {"kept_ids": [messages[place]["id"] for place in stays]}
    places = [place for place, one in enumerate(given["prompt"]) if one["role"] != "system"]
    system = [place for place, one in enumerate(given["prompt"]) if one["role"] == "system"]
    indexes = sorted([*system, *(places[place] for place in stays)])
    return {"changed": len(indexes) < len(given["prompt"]), "kept_indexes": indexes}


def stayed(given: Fields, expected: Fields, messages: list[Fields]) -> set[int] | None:
    """Return the places of what the reference keeps; None where it keeps nothing on purpose."""
    if "kept_ids" in expected:
        return {place for place, one in enumerate(messages) if one["id"] in expected["kept_ids"]}
    if "kept_indexes" not in expected:
        return None
    rows = [place for place, one in enumerate(given["prompt"]) if one["role"] != "system"]
    return {at for at, place in enumerate(rows) if place in expected["kept_indexes"]}


def trimmed(options: Fields, given: Fields, expected: Fields, covers: str) -> Fields | None:
    """Return what is right where the reference's choice has a certain fault; None where it has not."""
    if options["trim_mode"] == "memory-only" or given["method"] not in TRIMS:
        return None
    messages, costs, taken = conversation(options, given)
    budget = options["limit"] - taken - 24
    if budget <= 0 or not messages or (theirs := stayed(given, expected, messages)) is None:
        return None
    if covers not in faults(messages, costs, budget, theirs):
        return None
    stays = model.kept(messages, costs, budget, contiguous=options["trim_mode"] == "contiguous")
    return remaining(options, given, messages, taken, stays)


TRIMS = ("process_input", "process_input_step", "process_llm_request")


def faults(messages: list[Fields], costs: list[float], budget: float, theirs: set[int]) -> set[str]:
    """Return what is wrong with a choice."""
    found = {"nothing"} if not theirs else set()
    if sum(costs[place] for place in theirs) > budget:
        found.add("too much")
    if not model.needed(messages) <= theirs or model.gap(messages, theirs):
        found.add("newest")
    for turn in model.turns(messages):
        if not model.whole(messages, turn, theirs):
            found.add("orphan")
    for group in model.grouped(messages):
        if 0 < len(theirs & set(group)) < len(group):
            found.add("parted")
    return found


def a_prompt_is_never_empty(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Where nothing fits, the run stops and says so."""
    return trimmed(options, given, expected, "nothing")


def every_stage_keeps_the_limit(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Whoever runs one stage only has a budget, too."""
    return trimmed(options, given, expected, "too much")


def the_newest_question_and_its_run_stay(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A model that does not see what it was asked, or what its tools found last, answers something else."""
    return trimmed(options, given, expected, "newest")


def an_answer_does_not_stand_without_its_question(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """An answer brings the user message before it along, and that one its answers, or all go."""
    return trimmed(options, given, expected, "orphan")


def calls_and_results_stay_together(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A call in one message and its result in another are one, in every stage."""
    return trimmed(options, given, expected, "parted")


def memory_gives_up_answers_with_their_questions(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """What is left of memory does not begin with an answer to what is gone."""
    if options["trim_mode"] != "memory-only" or "kept_ids" not in expected:
        return None
    remembered, messages = given.get("remembered", []), [*given.get("remembered", []), *given.get("messages", [])]
    kept = set(expected["kept_ids"])
    free = {one["id"] for one in remembered}
    gone = {one["id"] for one in messages} - kept
    for group in model.grouped(messages):
        ids, asked = {messages[at]["id"] for at in group}, model.question(messages, group)
        if ids <= free and any(messages[at]["id"] in gone for at in asked):
            kept -= ids
    return {**expected, "kept_ids": [one for one in expected["kept_ids"] if one in kept]}


def a_limit_is_a_number_of_tokens(options: Fields, _given: Fields, _expected: Fields) -> Fields | None:
    """A limit that is none is refused, in every mode."""
    limit = options.get("limit", 0)
    return {"error": "limit"} if type(limit) is not int or limit < 0 else None


# Answers


def fitting(options: Fields, text: str, limit: int) -> str:
    """Return the longest beginning of a text that keeps to the limit, white space at its end left off."""
    if model.count(options, text) <= limit:
        return text
    return next(text[:size].rstrip() for size in range(len(text), -1, -1) if model.count(options, text[:size]) <= limit)


def a_stream_is_cut_where_the_limit_is(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """The text so far is counted, and a chunk that goes beyond the limit is cut; an answer in one piece is not lost."""
    if given["method"] != "process_output_stream" or options["count_mode"] == "part" or objects(given):
        return None
    if answers_are_free(options):
        return None
    texts = [one["payload"]["text"] if one["type"] == "text-delta" else "" for one in given["chunks"]]
    so_far = ["".join(texts[: size + 1]) for size in range(len(texts))]
    whole = so_far[-1] if so_far else ""
    at = next((place for place, text in enumerate(so_far) if passed(options, text)), None)
    if at is None and model.count(options, whole) > options["limit"]:
        at = len(texts)  # the end tells
    if at is None:
        return {**expected, "returns": ["emit"] * len(texts), "custom_chunks": []}
    tokens = model.count(options, so_far[min(at, len(texts) - 1)])
    if options["strategy"] == "abort":
        return {**expected, "returns": ["emit"] * at + [verdict(options, tokens)], "custom_chunks": []}
    returns = shown(given, fitting(options, whole, options["limit"]))
    return {**expected, "returns": returns, "custom_chunks": [notice(options, tokens)]}


def objects(given: Fields) -> list[Fields]:
    """Return the snapshots of a structured answer."""
    return [one for one in given["chunks"] if one["type"] == "object"]


def shown(given: Fields, text: str) -> list[object]:
    """Return chunk by chunk what of it is in the text that goes out: all, nothing, or its beginning."""
    returns: list[object] = []
    for one in given["chunks"]:
        piece = one["payload"]["text"] if one["type"] == "text-delta" else ""
        size = next(size for size in range(len(piece), -1, -1) if text.startswith(piece[:size]))
        text = text[size:]
        returns.append("emit" if size == len(piece) else {"emit": piece[:size]} if size else "drop")
    return returns


def notice(options: Fields, tokens: int) -> Fields:
    """Return the chunk that tells of a cut."""
    return {"type": NOTICE, "data": {"limit": options["limit"], "tokens": tokens}, "transient": True}


NOTICE = "data-token-limit-reached"


def passed(options: Fields, text: str) -> bool:
    """Tell whether a text is over the limit, whatever follows: all but its last word is at it."""
    limit = options["limit"]
    if options["counter"] == "heuristic" or model.count(options, text) <= limit:
        return model.count(options, text) > limit
    whole = [one.start() for one in re.finditer(r"(?<=[^\W_])(?=\s)", text)][-1:] or [0]
    return model.count(options, text[: whole[0]]) + bool(text[whole[0] :].strip()) > limit


def verdict(options: Fields, tokens: int) -> Fields:
    """Return the verdict on an answer that is too long."""
    return {"tripwire": f"{options['limit']} {tokens}"}


def a_part_is_cut_at_the_limit(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A chunk that is too long by itself is cut, not lost."""
    if given["method"] != "process_output_stream" or (options["count_mode"], options["strategy"]) != PARTS:
        return None
    texts = [one["payload"]["text"] for one in given["chunks"] if one["type"] == "text-delta"]
    over = [model.count(options, text) for text in texts if model.count(options, text) > options["limit"]]
    text = "".join(fitting(options, text, options["limit"]) for text in texts)
    told = [notice(options, over[0])] if over else []
    return {**expected, "returns": shown(given, text), "custom_chunks": told}


PARTS = ("part", "truncate")


def a_snapshot_takes_the_place_of_the_last(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Snapshots of a structured answer are counted each alone, not all together."""
    if "chunks" not in given or not (found := objects(given)) or len(found) < len(given["chunks"]):
        return None
    counts = [model.count(options, model.compact(one["object"])) for one in found]
    over = [place for place, tokens in enumerate(counts) if tokens > options["limit"]]
    if over and options["strategy"] == "abort":
        returns = [*["emit"] * over[0], verdict(options, counts[over[0]])]
        return {**expected, "returns": returns, "custom_chunks": []}
    returns = ["drop" if place in over else "emit" for place in range(len(found))]
    told = [notice(options, counts[over[0]])] if over else []
    return {**expected, "returns": returns, "custom_chunks": told}


def an_answer_is_cut_at_the_last_whole_character(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """All of the budget is used, no character is halved, and parts that are cut to nothing are gone."""
    if given["method"] != "process_output_result" or "messages" not in expected or answers_are_free(options):
        return None
    left, messages = options["limit"], []
    for message in given["messages"]:
        parts = []
        for part in message["content"].get("parts", ()):
            if message["role"] != "assistant" or part["type"] != "text":
                parts.append(part)
                continue
            text = fitting(options, part["text"], left) if left >= 0 else ""
            left = left - model.count(options, text) if text == part["text"] else -1
            if text or not part["text"]:
                parts.append({**part, "text": text})
        if parts or not message["content"].get("parts"):
            messages.append({**message, "content": {**message["content"], "parts": parts}})
    return {**expected, "messages": messages}


def answers_are_free(options: Fields) -> bool:
    """Tell whether only the prompt has a budget."""
    return bool(options["trim_mode"] == "memory-only")


COUNTS = (names_of_special_tokens_are_text,)
LIMITS = (
    a_limit_is_a_number_of_tokens,
    a_prompt_is_never_empty,
    the_newest_question_and_its_run_stay,
    an_answer_does_not_stand_without_its_question,
    calls_and_results_stay_together,
    every_stage_keeps_the_limit,
    memory_gives_up_answers_with_their_questions,
    a_snapshot_takes_the_place_of_the_last,
    a_part_is_cut_at_the_limit,
    a_stream_is_cut_where_the_limit_is,
    an_answer_is_cut_at_the_last_whole_character,
)
