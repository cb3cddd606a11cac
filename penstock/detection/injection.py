"""Prompt injection: `InjectionScorer` distinguishes attempts to take over a model from ordinary requests.

A linear model gives the score, and rules name the reasons. ``training/injection.py`` trained the model on the data sets
that are listed in the file of its weights. It recognises direct attacks. It cannot recognise an instruction that is
hidden in an e-mail or a web page and reads like any other; no detector can that does not know who may give
instructions.

The rules were written for Penstock. Their patterns read lower-case text without disguises. Each begins with a fixed
word and looks a bounded distance ahead, so the time is linear in the length of the text.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from penstock.detection.coded_data import may_speak, without_data
from penstock.detection.deferred import deferred
from penstock.detection.linear.model import load
from penstock.detection.linear.reading import hidden, readings, script, undisguised
from penstock.detection.linear.sentences import sentence_margin
from penstock.detection.patterns.triggers import alternatives
from penstock.detection.windows import Windows
from penstock.detection.words import word_set

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Set as AbstractSet


INJECTION = "injection"
JAILBREAK = "jailbreak"
TOOLS = "tool-exfiltration"
DATA = "data-exfiltration"
SYSTEM = "system-override"
ROLE = "role-manipulation"
TYPES = (INJECTION, JAILBREAK, TOOLS, DATA, SYSTEM, ROLE)


class Rule(NamedTuple):
    """A pattern of what attacks say.

    Attributes:
        name: its short name, which users see.
        type: the kind of attack that it indicates.
        pattern: the pattern.
        source: the source of the pattern, which is read without compiling it.
        certain: whether a match is enough by itself; otherwise the model must agree.
    """

    name: str
    type: str
    pattern: re.Pattern[str]
    source: str
    certain: bool = False

    def matches(self, text: str, words: AbstractSet[str]) -> bool:
        """Return whether the rule matches a text in small letters, which has these words."""
        begins = beginnings(self.source)
        if begins is not None and begins.words.isdisjoint(words) and not any(map(text.__contains__, begins.parts)):
            return False
        return self.pattern.search(text) is not None


class Beginnings(NamedTuple):
    """How the matches of a pattern begin: with one of some whole words, or with one of some strings."""

    words: frozenset[str]
    parts: tuple[str, ...]


_SAID = deferred(r"(?:[a-z0-9 '<>!]|\\[^\w\s])*")
_REPEATED = ("?", "*", "{")  # makes that what is before it may be missing
_NO_LETTER = (" ", r"\W{1", r"\b", "GAP")
_MOST_WAYS = 20


@cache
def beginnings(pattern: str) -> Beginnings | None:
    """Return how the matches of a pattern begin; None if some may begin with anything.

    It reads the letters that the branches of a pattern begin with. A text without them needs no search.
    """
    words: set[str] = set()
    parts: set[str] = set()
    for branch in alternatives(pattern):
        rest = branch.removeprefix(r"\b")
        for said, left in _ways(rest):
            word = said.rstrip()
            ends = f"{said[len(word) :]}{left}".startswith(_NO_LETTER)
            (words if ends and word.isalnum() and rest != branch else parts).add(word if ends else said)
    if not all(map(str.strip, parts)):
        return None
    return Beginnings(frozenset(words), tuple(sorted(said for said in parts if not _holds(said, parts - {said}))))


def _holds(said: str, others: Iterable[str]) -> bool:
    return any(other in said for other in others)


def _ways(pattern: str) -> list[tuple[str, str]]:
    """Return the beginning of each branch of a pattern, and the rest of the branch."""
    ways: list[tuple[str, str]] = []
    for branch in alternatives(pattern):
        found = _SAID.match(branch)
        said = found.group() if found else ""
        left = branch[len(said) :]
        inner = left[: _end_of_group(left)] if left.startswith("(?:") else ""
        after = left[len(inner) :]
        if left.startswith(_REPEATED):
            ways.append((_unescaped(said)[:-1], left))
        elif not inner or after.startswith(_REPEATED):
            ways.append((_unescaped(said), left))
        else:
            here, behind = _ways(inner[3:-1]), _ways(after)
            if len(here) * len(behind) > _MOST_WAYS:
                behind = [("", after)]
            ends = [(f"{first}{then}", rest) for first, more in here if not more for then, rest in behind]
            ends += [(first, more) for first, more in here if more]
            ways += [(f"{_unescaped(said)}{end}", rest) for end, rest in ends]
    return ways


def _unescaped(said: str) -> str:
    return re.sub(r"\\(.)", r"\1", said)


def _end_of_group(pattern: str) -> int:
    """Return where the group ends that a pattern begins with."""
    depth = 0
    for at, char in enumerate(pattern):
        if pattern[at - 1 : at] == "\\" or char not in "()":
            continue
        depth += 1 if char == "(" else -1
        if not depth:
            return at + 1
    return len(pattern)


_GAP = r"\W{1,5}(?:\w{1,20}\W{1,5}){0,5}?"  # at most five words in between
_ORDERS = (
    r"(?:instruction|rule|prompt|direction|directive|command|guideline|context|request|message|restriction|constraint"
    r"|training|programming|polic|filter|all of (?:this|that|it)|everything|(?:was|were|been|you) (?:told|said"
    r"|given))"
)
_TOLD = (
    r"(?:system prompt|system message|initial prompt|original prompt|prompt|instructions|guidelines|rules|directives"
    r"|configuration|(?:text|words?|everything|messages?|lines?) (?:above|before)|above)"
)
_WANTED = (
    r"(?:passwords?|passphrase|passcode|secrets?|secret key|api.?keys?|access.?keys?|private keys?|tokens?"
    r"|credentials"
    r"|unique id|hidden (?:text|message|code))"
)


def _rule(name: str, type_: str, pattern: str, *, certain: bool = False) -> Rule:
    return Rule(name, type_, deferred(pattern.replace("GAP", _GAP)), pattern, certain)


# Fourteen languages that the first rule does not read, from Chinese to Polish. In many the verb stands last, so both
# orders count; what is between is short and ends with the sentence.
_IGNORE_ABROAD = (
    r"(?:忽略|无视|忘记|忘掉|無視し|忘れ|무시하|무시해|잊어|잊고|תעל[םמ]|שכח|תשכח|تجاهل|انس[َ ]?|نظر ?انداز|بھول ج"
    r"|अनदेखा|भूल ज|नज़रअंदाज़|উপেক্ষা|ভুলে যা|bỏ qua|hãy quên|quên hết|quên mọi|figyelmen kívül|felejtsd el|felejts el"
    r"|unohda|jätä huomiotta|sivuuta|puuza|sahau|yok say|unut\b|görmezden gel|zignoruj|ignoruj|zapomnij)"
)
_ORDERS_ABROAD = (
    r"(?:指令|指示|规则|規則|命令|设定|設定|지시|규칙|명령|지침|הוראות|הנחיות|כללים|تعليمات|القواعد|الأوامر|ہدایات|احکام"
    r"|اصول|निर्देश|नियम|आदेश|নির্দেশ|নিয়ম|আদেশ|hướng dẫn|chỉ dẫn|chỉ thị|mệnh lệnh|quy tắc|utasítás|szabály|ohje|käsky"
    r"|säännö|säänt|maagizo|maelekezo|kanuni|talimat|kural|instrukcj|polece[nń]|zasad)"
)
_SHORTLY = r"[^.!?。！？।۔\n]{0,40}?"

RULES: tuple[Rule, ...] = (
    _rule(
        "orders to ignore what was said",
        INJECTION,
        r"\b(?:ignore|disregard|forget|neglect|overrule|discard|drop|do not (?:follow|obey)|don't (?:follow"
        rf"|obey))GAP{_ORDERS}"
        r"|\b(?:ignoriere?|vergiss|vergessen sie|missachte)GAP(?:anweisung|instruktion|regel|befehl|alle)"
        r"|\b(?:ignorez?|oubliez?)GAP(?:instructions|consignes|regles|tout)"
        r"|\b(?:ignor[ae]|olvid[ae]|dimentica|esqueca)GAP(?:instruc|istruzion|regl|regras|regole|ordenes|todo"
        r"|tudo|tutt)",
    ),
    _rule(
        "orders to ignore, in other languages",
        INJECTION,
        rf"{_IGNORE_ABROAD}{_SHORTLY}{_ORDERS_ABROAD}|{_ORDERS_ABROAD}{_SHORTLY}{_IGNORE_ABROAD}",
    ),
    _rule(
        "new orders",
        INJECTION,
        r"\b(?:new|actual|real|updated|following)GAP(?:instructions?|task|mission|objective|orders)\W{0,3}(?::"
        r"|\bis\b|\bare\b)"
        r"|\bnew (?:important )?(?:instructions|orders|rules)\b",
    ),
    _rule(
        "an answer that is dictated",
        INJECTION,
        r"\b(?:reply|respond|answer|confirm)(?: only| just)? (?:with|by)(?: saying| the words?| only)?\W{1,4}\w{1,30}"
        r"|\b(?:just|only|now|simply|instead) (?:say|print|output|write)\b",
    ),
    _rule(
        "a false end of the data",
        INJECTION,
        r"(?:[-=#%*<]{3} ?(?:/|end|stop|begin|new) ?\w{0,20}|\bend of (?:the )?(?:document|input|context|prompt"
        r"|data|text)\b)",
    ),
    _rule(
        "a special mode",
        SYSTEM,
        r"\b(?:developer|debug(?:ging)?|maintenance|admin(?:istrator|istrative)?|god|sudo|root|test(?:ing)?"
        r"|training|unrestricted"
        r"|diagnostic|dev|system) (?:mode|override|access|privileges?)\b",
    ),
    _rule(
        "a claim of authority",
        SYSTEM,
        r"\b(?:i am|i'm|this is|speaking as|as) (?:your |the |an? )?(?:new |lead |chief |system )?"
        r"(?:developer|creator|administrator|admin|programmer|owner|openai|anthropic|engineer)\b",
    ),
    _rule(
        "rules declared void",
        SYSTEM,
        r"\b(?:rules|restrictions|guidelines|policies|polic(?:y|ies)|filters?|safety|safeguards|limits"
        r"|limitations|protocols?)GAP"
        r"(?:no longer|not apply|don't apply|lifted|disabled?|removed|suspended|turned off|bypass|void|overridden)"
        r"|\b(?:bypass|override|disable|circumvent|turn off)GAP(?:rules|restrictions|guidelines|polic|filter"
        r"|safety|safeguard|limit|protocol)",
    ),
    _rule(
        "a role's label",
        SYSTEM,
        r"(?:^|\n)\W{0,4}(?:system|assistant|developer)\W{0,3}(?: prompt| message)?\s?:|[<\[](?:system|admin"
        r"|sys)[\]>]",
    ),
    _rule(
        "tokens of a chat template",
        SYSTEM,
        r"<\|(?:im_start|start_header_id|start)\|>\s{0,4}(?:system|assistant|developer|user)\b|<<sys>>"
        r"|<start_of_turn>\s{0,4}(?:model|system)"
        r"|<\|(?:system|assistant)\|>",
        certain=True,
    ),
    _rule(
        "a persona without limits",
        JAILBREAK,
        r"\bdo anything now\b|\bdan mode\b|\b(?:as|called|named|be|act like) dan\b|\bjailbr(?:eak|oken)"
        r"|\bevil.?bot\b|\b(?:un(?:filtered|censored|restricted)|amoral)\b"
        r"|\b(?:no|without(?: any)?|free (?:of|from)(?: all| any)?"
        r"|not bound by(?: any)?) (?:\w{1,20} ){0,3}(?:restrictions|limits|limitations|filters?|rules|censorship"
        r"|boundaries)\b",
    ),
    _rule(
        "refusals forbidden",
        JAILBREAK,
        r"\b(?:never|not|cannot|can't|don't|won't|without|must)GAP(?:refus|say (?:no|sorry)|apologi|warn"
        r"|disclaim|declin|reject|i can't|i cannot|i'm sorry)",
    ),
    _rule(
        "two answers, one of them free",
        JAILBREAK,
        r"\b(?:two|2|both)GAP(?:responses|answers)\b|\b(?:classic|jailbreak|dan|gpt)\]?\s?:",
    ),
    _rule(
        "ethics set aside",
        JAILBREAK,
        r"\b(?:regardless of|no|ignore|disregard|without|any|lacks?|never cares? about"
        r"|not care about)GAP(?:ethic|moral|legal|law)",
    ),
    _rule(
        "a story that allows everything",
        JAILBREAK,
        r"\b(?:hypothetical|fictional|imaginary|story|novel|movie|film|role.?play|game"
        r"|simulat\w{0,5})GAP(?:no (?:rules|laws|limits)|illegal|unethical|immoral|anything|everything)",
    ),
    _rule(
        "a new identity",
        ROLE,
        r"\byou are (?:now|no longer|going to|about to)\b|\bfrom (?:now on|this moment),? (?:on,? )?(?:you|act"
        r"|pretend|respond|answer)"
        r"|\b(?:pretend|imagine)GAP(?:you are|you're|to be|being)|\b(?:play|take on|assume|adopt"
        r"|act in)GAP(?:role|persona|identity|character)\b"
        r"|\bact (?:as|like)\b|\bdu bist (?:jetzt|nun)\b|\btu es maintenant\b|\bahora eres\b|\bimmerse yourself\b",
    ),
    _rule(
        "a character that must be kept",
        ROLE,
        r"\b(?:stay|stays|remain|remains|keep) in character\b|\bbreak(?:s|ing)? (?:the )?character\b",
    ),
    _rule(
        "a question for the orders",
        DATA,
        r"\b(?:show|reveal|print|repeat|output|display|tell|give|share|list|leak|recite|copy|quote|write"
        rf"|what (?:is|are|were)|translate|summari[sz]e|return)GAP{_TOLD}\b"
        r"|\bsystem.?prompt\b",
    ),
    _rule(
        "a question for a secret",
        DATA,
        r"\b(?:what(?:'s| is| are)?|reveal|tell|give|share|show|print|send|provide|leak|disclose|spell|write"
        rf"|say)GAP{_WANTED}\b"
        r"|\b(?:passwor[dt]|contrasena|mot de passe|senha)\b",
    ),
    _rule("the first words of its orders", DATA, r"\b(?:start|begin)(?:s|ning|ing)?\b.{0,20}\bwith\W{1,4}you are\b"),
    _rule(
        "sending data away",
        TOOLS,
        r"\b(?:send|post|upload|forward|email|mail|transmit|exfiltrate|submit|append)GAP(?:to|at"
        r"|into)\W{1,3}(?:https?:|www\.|\S{1,60}@|this (?:url|address|webhook|server))",
    ),
    _rule(
        "an address that carries data",
        TOOLS,
        r"!\[[^\]\n]{0,80}\]\(https?://[^)\s]{1,200}[?&=][^)\s]{0,200}[{\[<$]",
    ),
    _rule(
        "orders to use a tool",
        TOOLS,
        r"\b(?:call|use|invoke|run|execute|trigger)GAP(?:tool|function|plugin|api|shell|terminal|curl|wget"
        r"|webhook|os\.system|subprocess)\b",
    ),
)

CERTAIN_RULES = tuple(rule for rule in RULES if rule.certain)
TELLING_RULES = tuple(rule for rule in RULES if rule.certain or rule.type != INJECTION)
"""The rules that tell kinds of attacks apart: each attack is an injection, whatever rule says so."""

HIDDEN = "text in characters that nobody sees"
"""The name of a message in tag characters; it indicates an injection, and is certain."""


def matching(text: str, rules: Iterable[Rule] = RULES) -> list[Rule]:
    """Return the rules that match a text without disguises, in their order."""
    small, words = text.lower(), word_set(text)
    return [rule for rule in rules if rule.matches(small, words)]


WEIGHTS = Path(__file__).parent / "weights" / "injection.bin"
"""The file of the weights. Its first line is JSON with the sources of the weights and their licences."""

CERTAIN = 0.99
"""The score of what is an attack whatever else the text says."""


_DOUBTFUL = 0.1  # below that, far from any threshold, it is not worth the time to ask which kind a text would be


Channel = Literal["text", "tool"]
"""The origin of a text: ``text`` for text parts, as users write them; ``tool`` for others, such as results of tools."""

WINDOWS = Windows(least=1_000, most=2_000, overlap=200, shown=1_000)
"""How a text that goes to a model is cut. Each view of a text of 1,000 characters or more has as many."""
LATENESS = 0.3
"""The part of the margin of such a view that does not count, since the highest of a text's views decides.

Of 374 pieces of news and questions in 23 languages, 1,500 to 8,000 characters long, 34 were flagged with 0.2 and a last
window that was shown with 200 characters before it, however short it was; with 0.3 and `WINDOWS` one is.
"""

PASTED = 400
"""The length from which the sentences of a user are read one by one: a shorter prompt is one request."""


def shift(text: str, scripts: Mapping[str, float]) -> float:
    """Return the correction of a window's margin, by which a score means the same in each script and length.

    Args:
        text: the window.
        scripts: the correction by script.
    """
    return scripts.get(script(text), 0.0) - (LATENESS if len(text) >= WINDOWS.shown else 0.0)


def _has_rule(sentence: str) -> bool:
    return bool(matching(sentence))


class InjectionScorer:
    """Scores the six kinds of attacks; safe to share between threads. The weights are loaded at the first text.

    ``injection`` has the score of the model: the share of attacks among development texts with that margin. Another
    kind has the same score if that is 0.1 or more and a rule indicates it, and 0 otherwise. Attacks in full-width,
    look-alike, boxed or invisible characters, and in leet, rot13 or reversed text, are read without the disguise; the
    highest score counts.

    Attributes:
        channel: the origin of the texts, which decides the thresholds.
    """

    categories: tuple[str, ...] = TYPES

    def __init__(self, channel: Channel = "text") -> None:
        self.channel: Channel = channel

    @property
    def thresholds(self) -> Mapping[str, float]:
        """The score from which a kind counts; less than 1 % of the benign development texts of the channel reach it."""
        return self._limits

    @cached_property
    def _limits(self) -> Mapping[str, float]:
        by_channel = cast("Mapping[Channel, float]", load(WEIGHTS).notes["thresholds"])
        return dict.fromkeys(TYPES, by_channel[self.channel])

    @cached_property
    def _scripts(self) -> Mapping[str, float]:
        return cast("Mapping[str, float]", load(WEIGHTS).notes["scripts"])

    def __eq__(self, other: object) -> bool:
        """Return whether both are of one class and read one channel, so guards that use them can be equal."""
        return isinstance(other, InjectionScorer) and (type(self), self.channel) == (type(other), other.channel)

    def __hash__(self) -> int:
        """Hash by the class and the channel, as equality requires."""
        return hash((type(self), self.channel))

    def scores(self, text: str) -> dict[str, float]:
        """Return the score of each kind, from 0 to 1, for one window of a text."""
        texts = [text, *readings(text)]
        score = max(map(self._score, texts))
        if score >= _DOUBTFUL:
            found = [rule for each in texts for rule in matching(undisguised(each), TELLING_RULES)]
        else:
            small = [undisguised(each).lower() for each in texts]
            found = [rule for each in small for rule in CERTAIN_RULES if rule.pattern.search(each)]
        if hidden(text) or any(rule.certain for rule in found):
            score = max(score, CERTAIN)
        named = {INJECTION, *[rule.type for rule in found]}
        return {kind: score if kind in named else 0.0 for kind in TYPES}

    def _score(self, text: str) -> float:
        """Return the score of a text, or of its sentences where one of them lies higher."""
        said = without_data(text)
        if not may_speak(undisguised(said)):
            return 0.0
        model, moved = load(WEIGHTS), shift(text, self._scripts)
        margin = model.margins(said)[INJECTION] + moved
        if self.channel == "tool" or len(text) >= PASTED:
            found = sentence_margin(model, INJECTION, said, _has_rule)
            margin = margin if found is None else max(margin, found + self._scripts.get(script(text), 0.0))
        return model.score(INJECTION, margin)

    def reasons(self, text: str) -> tuple[str, ...]:
        """Return the names of the rules that match a text. They explain a score, but do not decide."""
        texts = [text, *readings(text)]
        names = [rule.name for each in texts for rule in matching(undisguised(each))]
        return tuple(dict.fromkeys([*([HIDDEN] if hidden(text) else []), *names]))
