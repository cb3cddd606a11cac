"""Where `LanguageDetector` differs from the reference on purpose; the reasons are in docs/differences.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from tests.conformance.builtin.calls import equal_texts_are_asked_about_once
from tests.conformance.builtin.frame import Fields

NAMED = (
    "en English,es Spanish,fr French,de German,it Italian,pt Portuguese,ru Russian,ja Japanese,ko Korean,zh Chinese,"
    "ar Arabic,hi Hindi,th Thai,vi Vietnamese,tr Turkish,pl Polish,nl Dutch,sv Swedish,da Danish,no Norwegian,"
    "fi Finnish,el Greek,he Hebrew,cs Czech,hu Hungarian,ro Romanian,bg Bulgarian,hr Croatian,sk Slovak,sl Slovenian,"
    "et Estonian,lv Latvian,lt Lithuanian,uk Ukrainian,be Belarusian,la Latin,eo Esperanto,sw Swahili,id Indonesian,"
    "ms Malay,fa Persian,ur Urdu,bn Bengali,ta Tamil,te Telugu,ca Catalan,eu Basque,gl Galician,ga Irish,cy Welsh,"
    "is Icelandic,mt Maltese,sq Albanian,mk Macedonian,sr Serbian,bs Bosnian,af Afrikaans,ka Georgian,hy Armenian,"
    "az Azerbaijani,kk Kazakh,mn Mongolian,ne Nepali,my Burmese,km Khmer,lo Lao,yi Yiddish,tl Tagalog,"
    "nb Norwegian Bokmål,nn Norwegian Nynorsk,am Amharic,gu Gujarati,pa Punjabi,mr Marathi,ml Malayalam,kn Kannada"
)
NAMES = dict(entry.split(" ", 1) for entry in NAMED.split(","))
REGIONAL = {"zh-cn": "Chinese (Simplified)", "zh-tw": "Chinese (Traditional)"}
CODES = {name.lower(): code for code, name in (NAMES | REGIONAL).items()}
TAG = re.compile(r"[A-Za-z]{2,3}(?:[-_][A-Za-z0-9]{2,8}){0,2}")
ALIKE = ({"bs", "hr", "sr"}, {"id", "ms"}, {"nb", "nn", "no"})


class Said(NamedTuple):
    """A judge's verdict; broken if it is none."""

    code: str | None = None
    confidence: float | None = None
    translated: str | None = None
    broken: bool = False


def said(entry: Fields) -> Said:
    """Return what an entry of the script says."""
    try:
        verdict = entry["object"] if "object" in entry else json.loads(entry["text"])
        code, confidence = verdict["iso_code"], verdict["confidence"]
    except (KeyError, TypeError, ValueError):
        return Said(broken=True)
    if not isinstance(code, str | None) or not isinstance(confidence, int | float | None):
        return Said(broken=True)
    if code is None and confidence is None and not verdict.get("translated_text"):
        return Said(broken=True)  # it says nothing, not even that it cannot tell
    sure = confidence if confidence is None else min(max(confidence, 0), 1)
    return Said(code, sure, verdict.get("translated_text"))


def primary(tag: str) -> str:
    """Return the code that a tag or a name stands for."""
    code = CODES.get(tag.lower(), tag.lower()).replace("_", "-").partition("-")[0]
    return next((min(group) for group in ALIKE if code in group), code)


def known(options: Fields, verdict: Said) -> bool:
    """Tell whether a verdict says which language it is."""
    if verdict.code is None or (verdict.confidence is None and not verdict.translated):
        return False
    return verdict.confidence is None or verdict.confidence >= max(options["threshold"], 1e-9)


def foreign(options: Fields, verdict: Said) -> bool:
    """Tell whether a verdict says that it is none of the targets."""
    targets = {primary(target) for target in options["target_languages"]}
    return known(options, verdict) and primary(verdict.code or "") not in targets


def text_of(message: Fields) -> str:
    """Return a message's text as guards of the reference read it."""
    content = message["content"]
    parts = " ".join(part["text"] for part in content["parts"] if part["type"] == "text").strip()
    return parts or content.get("content", "").strip()


def asked(options: Fields, given: Fields) -> list[tuple[int, Said]]:
    """Return the places of the messages that are looked at, each with the verdict about it."""
    messages, script = given.get("messages", []), given.get("model_script", [])
    least = max(options["min_text_length"], 1)
    first = len(messages) - 1 if options["last_message_only"] else 0
    places = [place for place in range(first, len(messages)) if len(text_of(messages[place])) >= least]
    return [(place, said(script[min(turn, len(script) - 1)])) for turn, place in enumerate(places)]


def detection(options: Fields, verdict: Said, before: Fields) -> Fields:
    """Return what metadata say of a verdict."""
    told = {"is_target_language": None, "target_languages": options["target_languages"]}
    if verdict.code is None or not known(options, verdict):
        return told
    sure = {} if verdict.confidence is None else {"confidence": verdict.confidence}
    code = verdict.code
    name = REGIONAL.get(code.lower()) or NAMES.get(code.lower().partition("-")[0], code)
    more = {key: before[key] for key in ("translation", "original_content") if key in before}
    if not sure and "translation" in more:
        more["translation"] = {k: v for k, v in more["translation"].items() if k != "translation_confidence"}
    target = not foreign(options, verdict)
    return {**told, "detected_language": name, "iso_code": code, **sure, "is_target_language": target, **more}


def lines(options: Fields, verdicts: list[Said]) -> list[Fields]:
    """Return the log lines about verdicts."""
    found: list[Fields] = []
    for verdict in verdicts:
        if known(options, verdict) and (foreign(options, verdict) or options["include_detection_details"]):
            lost = options["strategy"] == "translate" and not verdict.translated
            warns = foreign(options, verdict) and (options["strategy"] == "warn" or lost)
            found.append({"level": "warn" if warns else "info", "text": f"({verdict.code})"})
    return found


def what_the_judge_said_is_told(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Metadata and log lines say what the judge said, of what it did not say nothing; regions are their language."""
    verdicts = asked(options, given)
    stops = options["strategy"] == "block" and any(foreign(options, verdict) for _, verdict in verdicts)
    failed = any(verdict.broken for _, verdict in verdicts)
    strict = failed and options["error_strategy"] == "strict"
    if not verdicts or stops or (strict and "tripwire" in expected):
        return None
    rest = {name: value for name, value in expected.items() if name not in ("tripwire", "messages")}
    if strict:
        return {**{name: rest[name] for name in rest if name != "logs"}, "tripwire": {"reason": "the call failed"}}
    if failed:
        return {**rest, "messages": given["messages"], "logs": []}
    messages = [*expected.get("messages", given["messages"])]
    for place, verdict in verdicts:
        content = messages[place]["content"]
        metadata = content.get("metadata", {})
        told = detection(options, verdict, metadata.get("language_detection", {}))
        messages[place] = {
            **messages[place],
            "content": {**content, "metadata": {**metadata, "language_detection": told}},
        }
    return {**rest, "messages": messages, "logs": lines(options, [verdict for _, verdict in verdicts])}


def a_target_must_be_a_language(options: Fields, given: Fields, _expected: Fields) -> Fields | None:
    """What names no language is refused when it is built: no text could ever be in it."""
    names = options["target_languages"]
    unknown = [name for name in names if name.lower() not in CODES and not TAG.fullmatch(name)]
    empty = options["strategy"] == "translate" and not names
    return {"error": "target_languages"} if given["method"] == "process_input" and (unknown or empty) else None


def blank_text_says_nothing(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A judge is not asked about what has no text, whatever the least length is."""
    blank = {message["id"] for message in given.get("messages", []) if not text_of(message)}
    if not blank or options["min_text_length"] > 0 or "messages" not in expected:
        return None
    texts = [text for text in expected["analyzed"] if text.strip()]
    messages = [next(old for old in given["messages"] if old["id"] == row["id"]) if row["id"] in blank else row
                for row in expected["messages"]]  # fmt: skip
    verdicts = [verdict for _, verdict in asked(options, given)]
    logs = lines(options, verdicts)
    return {**expected, "messages": messages, "analyzed": texts, "llm_calls": len(texts), "logs": logs}


def parts_are_translated_one_by_one(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """Each text part has its own translation, and every other part stays."""
    verdicts = asked(options, given)
    if options["strategy"] != "translate" or len(verdicts) != 1 or not foreign(options, verdicts[0][1]):
        return None
    place, script = verdicts[0][0], given["model_script"]
    parts = given["messages"][place]["content"]["parts"]
    texts = [part["text"] for part in parts if part["type"] == "text" and part["text"].strip()]
    if len(texts) < 2:
        return None
    turns = iter(range(1, len(texts) + 1))
    new = [
        {**part, "text": said(script[min(next(turns), len(script) - 1)]).translated or part["text"]}
        if part["type"] == "text" and part["text"].strip()
        else part
        for part in parts
    ]
    messages = [*expected["messages"]]
    messages[place] = {**messages[place], "content": {**messages[place]["content"], "parts": new}}
    analyzed = [*expected["analyzed"], *texts]
    return {**expected, "messages": messages, "analyzed": analyzed, "llm_calls": len(analyzed)}


def messages_are_judged_beside_each_other(options: Fields, given: Fields, expected: Fields) -> Fields | None:
    """A verdict waits for no message before it, and names every language that it is about."""
    verdicts = asked(options, given)
    if "tripwire" not in expected or len(verdicts) < 2:
        return None
    if options["strategy"] != "block" or any(verdict.broken for _, verdict in verdicts):
        found: list[str] = []
    else:
        found = list(dict.fromkeys(f"({v.code})" for _, v in verdicts if foreign(options, v)))
    texts = [text_of(given["messages"][place]) for place, _ in verdicts]
    reason = re.sub(r"\([A-Za-z-]+\)", " ".join(found), expected["tripwire"]["reason"]) if found else "failed"
    verdict = {**expected["tripwire"], "reason": reason}
    return {**expected, "tripwire": verdict, "analyzed": texts, "llm_calls": len(texts)}


RULES: tuple[Callable[[Fields, Fields, Fields], Fields | None], ...] = (
    what_the_judge_said_is_told,
    a_target_must_be_a_language,
    blank_text_says_nothing,
    parts_are_translated_one_by_one,
    messages_are_judged_beside_each_other,
    equal_texts_are_asked_about_once,
)
