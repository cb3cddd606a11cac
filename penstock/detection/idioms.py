"""`as_meant`: removes words that only sound harmful: idioms, quotations that are condemned, names of one's own group.

Each rule looks at the words around a violent or hateful word: *kill the process*, *calling them vermin is wrong*,
*proud dyke here*. The rules are for English and were written for Penstock. They are searched for only in texts that a
model scores as harmful. They remove that word or quotation alone: the rest of the text is judged as it stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.detection.deferred import deferred

if TYPE_CHECKING:
    import re


class Idiom(NamedTuple):
    """Words that mean something else than they say.

    Attributes:
        pattern: the words; they are in small letters.
        meant: the words that tell the meaning.
    """

    pattern: re.Pattern[str]
    meant: str


_SOME = (
    r"(?:(?:an?|the|this|that|these|those|all|any|every|each|its|my|your|our|his|her|their|some)\s)?(?:[\w-]+\s){0,2}?"
)
_PROGRAMS = (
    r"(?:process(?:es)?|tasks?|jobs?|threads?|servers?|terminals?|tabs?|sessions?|apps?|programs?|daemons?|ports?"
    r"|containers?|pods?|scripts?|quer(?:y|ies)|connections?|instances?|workers?|replicas?|nodes?|switch|command)\b"
)
_PESTS = (
    r"(?:weeds?|mou?lds?|bacteria|germs?|virus(?:es)?|mosquito(?:e?s)?|ants?|cockroach(?:es)?|fleas?|lice|moss|algae"
    r"|fung(?:us|i)|cells?|tumou?rs?|time|mood|vibe|lights?|engine|battery|boss|bosses|goblins?|zombies?|dragons?)\b"
)
_THINGS = (
    r"(?:deadlines?|back|feet|foot|head|knees?|legs?|shoes|heels|suspense|heat|traffic|commute|homework|weather|waiting"
    r"|wait|workout|hill|boredom|curiosity|cold|meetings?|hangover|allerg(?:y|ies)|stairs|prices?|rent|bills?)"
)
_FOLK = r"my\s(?:boss|mom|mum|mother|dad|father|teacher|manager|editor|coach|roommate|landlord|client|sister|brother)"
_FOOD = (
    r"(?:burger|pizza|coffee|tea|beer|pint|curry|steak|sandwich|drink|nap|chocolate|cake|ice\scream|taco|bagel|snack"
    r"|breakfast|lunch|dinner|holiday|vacation|good\snight(?:['’]s\ssleep)?)"
)
_TESTS = r"(?:exams?|tests?|quiz|interview|audition|presentation|midterms?|finals?|class|set|speech|talk)"


def _idiom(pattern: str, meant: str) -> Idiom:
    return Idiom(deferred(rf"\b(?:{pattern})"), meant)


IDIOMS: tuple[Idiom, ...] = (
    _idiom(
        rf"{_THINGS}(?:\s\w+)?\s?(?:is|are|was|were|['’]s|['’]re)\s(?:\w+\s)?(?:killing|murdering)\sme\b", "it is hard"
    ),
    _idiom(rf"(?:kill|murder)(?:s|ed|ing)?\s{_SOME}(?:{_PROGRAMS}|{_PESTS})", "stop it"),
    _idiom(
        r"kill\s(?:switch|ring)|oom\skiller|killall|kill\s-\d+|sigkill|fork\sbombs?|bath\sbombs?|photo\s?bomb(?:s|ed)?",
        "it",
    ),
    _idiom(
        r"(?:reap|orphan|spawn|fork)(?:s|ed|ing)?\s(?:the\s|its\s|all\s)?(?:parent|child|children|zombies?)\b", "end it"
    ),
    _idiom(rf"{_PROGRAMS}\s(?:has\s|have\s|was\s|were\s|is\s|are\s|got\s)?(?:died|killed|dies)\b", "it ended"),
    _idiom(rf"(?:attack|kill)s?\s(?:\w+\s){{0,2}}{_PESTS}(?:\sand\s(?:kill|destroy)s?\s(?:them|it))?", "acts on it"),
    _idiom(
        r"shoot\s(?:(?:me|us|him|her|them|over|(?:my|your|the|our)\s\w+)\s)?(?:an?|the|your)\s(?:quick\s)?(?:e-?mail|mail|text|message|note|line|dm)\b",
        "send it",
    ),
    _idiom(
        r"(?:take|took|taking|have|had)\s(?:a|another)\s(?:stab|shot|crack)\sat\b|(?:best|good|another)\sshot\b",
        "try it",
    ),
    _idiom(
        rf"(?:could|would|['’]d)\s(?:murder|kill\sfor|die\sfor)\s(?:an?|some|another|that)\s(?:\w+\s)?{_FOOD}\b",
        "like some tea",
    ),
    _idiom(r"(?:is|are|was|were|['’]s|['’]re|looks?|tastes?)\s(?:just\s)?to\sdie\sfor\b", "is very good"),
    _idiom(
        rf"{_FOLK}\s?(?:is\sgoing\sto|is\sgonna|will|would|['’]ll|['’]d)\s(?:kill|murder|strangle)\sme\b",
        "I will explain it",
    ),
    _idiom(r"kill(?:ed|ing)?\stwo\sbirds\swith\sone\sstone\b|(?:beat|flog)(?:ing)?\sa\sdead\shorse\b", "do it"),
    _idiom(
        r"(?:silver|magic)\sbullets?\b|(?:bite|dodged?|bit)\s(?:the|a)\sbullet\b|bullet\spoints?\b|smoking\sgun\b", "it"
    ),
    _idiom(
        r"break\sa\sleg\b|jump(?:ed)?\sthe\sgun\b|drop\sdead\sgorgeous\b|pull(?:ed)?\sthe\strigger\son\sthe\b",
        "go well",
    ),
    _idiom(r"hit\s(?:me|us)\s(?:up|with|back)\b|hit\sthe\s(?:gym|road|sack|books|nail|spot|ground|town)\b", "write"),
    _idiom(
        r"(?:hang|nail|pin)\s(?:up\s)?(?:these|those|the|this|some|my|our|your|them|it)\s?(?:pictures?|paintings?|posters?|curtains?|laundry|coats?|lights?|frames?|to\sthe\swall)\b",
        "put it",
    ),
    _idiom(r"(?:kill(?:ed|ing|s)?|slay(?:ed|ing|s)?|crush(?:ed|ing)?|smash(?:ed|ing)?|nail(?:ed|ing)?)\sit\b", "do it"),
    _idiom(
        rf"(?:bomb|kill|slay|crush|smash|nail|flunk)(?:ed|ing|s)?\s(?:in\s)?(?:my|the|an?|that|this|his|her|our|their)\s(?:[\w-]+\s)?{_TESTS}\b",
        "do the test",
    ),
    _idiom(r"comedians?\s(?:bombed|killed)(?:\sand\s(?:then\s)?(?:bombed|killed))?\b", "show went on"),
    _idiom(
        r"(?:nearly\s|almost\s|just\s)?(?:died|dying)\s(?:laughing|of\slaughter|of\sboredom|of\sembarrassment)\b",
        "laughing",
    ),
    _idiom(r"dying\sto\s(?:see|know|try|hear|meet|read|visit|play|watch)\b", "eager to see"),
    _idiom(
        r"(?:workout|run|hike|hill|climb|leg\sday|practice)\s(?:\w+\s)?(?:destroyed|killed|murdered)\s(?:me|my\s\w+)\b",
        "it was hard",
    ),
    _idiom(
        r"(?:got|were|was|get)\s(?:slaughtered|massacred|destroyed|murdered)\s(?:in|by)\s(?:the\s)?(?:\w+\s){0,2}(?:half|game|match|polls|set|quarter|final)\b",
        "lost",
    ),
    _idiom(
        r"call(?:s|ed|ing)?\s(?:myself|ourselves|themselves)\s(?:an?\s)?(?:queers?|dykes?|fag(?:got)?s?|crip(?:ple)?s?|fat|sluts?|autists?)\b",
        "call it so",
    ),
    _idiom(r"(?:boss|bad)\s(?:ass\s)?bitch(?:es)?\b|nasty\swom[ae]n\band\sproud", "strong woman"),
    _idiom(r"(?:my|real|day\sone|us|realest)\snigg(?:as?|az)\b", "my friends"),
    _idiom(
        r"(?:battery|phone|laptop|server|car|engine|plant|tank)\s(?:just\s)?(?:died|dies|is\sdead|was\sdead|kills\sthe\s\w+)\b",
        "it stopped",
    ),
)

# A quotation, or what somebody says, thinks or calls somebody; then what condemns it, in the same sentence or the next.
_QUOTED = deferred(r"[\"“„«]\s?[^\"“”„«»\n]{2,300}[\"”“»]|(?<!\w)['‘][^'‘’\n]{6,300}['’](?!\w)")
_REST = r"(?:(?!\bbut\b)[^.!?,;:\n])*"  # of a clause
_SAYING = (
    r"(?:say(?:s|ing)?|said|claim(?:s|ing|ed)?|think(?:s|ing)?|believe[sd]?|call(?:s|ing|ed)?|tell(?:s|ing)?|told|tweeted"
    r"|mock(?:s|ed|ing)?)"
)
_BAD = (
    r"(?:wrong|racist|sexist|homophobic|transphobic|antisemitic|anti-semitic|islamophobic|ableist|misogynist(?:ic)?|bigoted"
    r"|hateful|shameful|disgraceful|unacceptable|(?:not|never)\s(?:ok|okay|acceptable|funny|right|true)|false|abuse|abusive)"
)
_REPORTED = deferred(
    rf"\b(?:(?:it|this|that)(?:\sis|['’]s)\s{_BAD}\sto\s{_SAYING}"
    rf"|(?:stop|never|do\snot|don['’]t|nobody\sshould(?:\sever)?|no\sone\sshould(?:\sever)?|refuse\sto)\s(?:be\s)?{_SAYING}"
    rf"|(?:against|disagree\swith|work\swith|shame\son|fight|ashamed\sof|tired\sof)\s(?:\w+\s)?(?:people|anyone|everyone|everybody|those)\swho\s{_SAYING}"
    rf"|respond\s(?:to\s(?:\w+\s){{1,3}})?when\s(?:\w+\s){{1,3}}{_SAYING}"
    rf"|(?:fired|banned|suspended|jailed|sentenced|fined)\s(?:because|for|after)\s(?:\w+\s){{0,3}}{_SAYING}"
    rf"|(?:in\sjail|kicked\soff|kicked\sout|arrested|blocked|reported)\b[^.!?\n]{{0,60}}?\sfor\s(?:{_SAYING}|wishing|writing|posting)"
    r"|(?:lost|have|has|had)\s(?:all\s|no\s|any\s)?respect\sfor\s(?:you|him|her|people|those|anyone)\s(?:who|when|because|since)"
    rf"|how\sdare\s(?:you|he|she|they)\s{_SAYING}"
    r"|(?:you|they|he|she)\s(?:can['’]?t|cannot)\s(?:seriously\s|really\s|honestly\s)(?:think|believe|say|mean)"
    r"|(?:why|how)\s(?:would|could|can)\s(?:you|anyone|somebody|someone)\s(?:ever\s)?(?:think|say|believe)"
    rf"|what\smakes\s(?:you|people|him|her|them)\ssay)\b{_REST}"
    r"|\bif\syou(?:['’]re)?\s(?:say|tell|think|believe|call|writ|tweet)\w*\b[^.!?\n]{3,160}?\b(?:bigot|racist|sexist|homophobe"
    r"|misogynist|don['’]t\sexpect|shame|unfollow|blocked)\b"
    r"|\b(?:say|writ|threaten|tweet|call|shout|chant|claim|post)ing\b[^.!?\n]{3,160}?\s(?:shows?|says\sa\slot|will\sget\syou"
    r"|gets\syou|makes\syou)\b"
)
_ACCUSED = deferred(
    rf"(?<!\bi\s)(?<!\bwe\s)\b(?:(?:people|anyone|everyone|those)\swho\s{_SAYING}|{_SAYING})\s[^.!?;:\n]{{3,160}}?\s(?:is|are|was|should\sbe)\s"
    rf"(?:just\s|simply\s|so\s|deeply\s)?(?:{_BAD}|ashamed|banned|dangerous)\b"
)
_CONDEMNS = deferred(
    rf"\b(?:(?:is|are|was|were|['’]s)\s(?:an?\s|so\s|deeply\s)?(?:\w+\s)?{_BAD}|condemn(?:s|ed)?|forbid(?:s|den)?|prohibit(?:s|ed)?"
    r"|report(?:ed)?\s(?:it|them|him|her|that|this)|(?:we|i)\sreported|to\sthe\spolice|(?:is|are)\sa\s(?:\w+\s)?(?:lie|slur|crime|myth|threat)"
    r"|(?:a|serious)\s(?:\w+\s)?threat|no\splace|not\stolerate|hurts|harm(?:ful|s)?|slurs?|propaganda|slogan|graffiti|chants?|jailed"
    r"|banned|fined|fired|block(?:ed)?\s(?:and|them|him)|never\sdid|took\sme\syears|what\scan\si\sdo|support\sher|support\shim"
    r"|moved\shouse|bigots?|respect\sfor|(?:horrible|terrible|awful|bad)\sperson|in\sjail|kicked\soff|what\smakes\syou|how\sdare|not\sok(?:ay)?|disagree|quot(?:es|ed)|shows?\show|what\sit\sdid)\b"
)
_NOT_CONDEMNED = deferred(
    r"\b(?:not|n['’]t|isn['’]t|never)\s(?:\w+\s)?(?:racist|sexist|homophobic|wrong|hateful|a\s(?:crime|lie|slur))\b"
    r"|\b(?:true|truth|right\sabout|facts?)\b"
)
_SENTENCE = deferred(r"[^.!?\n]*[.!?\n]*\s*")

# Names of a group, which are harmless where the speaker belongs to the group and talks about nobody else.
_OWN = deferred(
    r"\b(?:as\sa|i['’]m|i\sam|we(?:\sare|['’]re)|my\s(?:fellow|gay|queer|black|jewish|trans)|proud(?:ly)?|pride"
    r"|my\s(?:community|people)|theory|(?:myself|ourselves))\b"
)
_NAMES = deferred(
    r"\b(?:queer|dykes?|fag(?:got)?s?|tranny|crips?|cripples?|fat|slut|gay|lesbians?|trans|autist(?:ic)?"
    r"|black|jew(?:s|ish)?|muslims?|redneck|nasty|queens?)\b"
)
_OTHERS = deferred(
    r"\b(?:you|your|they|them|their|those|he|she|him|hate[sd]?|kill|die|should|shoot|disgusting|filthy|stupid|ugly|rape[sd]?"
    r"|beat|burn|worthless|sick|wrong|must|deserve)\b"
)


def as_meant(text: str) -> str:
    """Return a text with plain words for its idioms, and without the quotations that it condemns.

    Everything else stays as it is. If no rule applies, the text itself is returned.
    """
    small = text.lower()
    for idiom in IDIOMS:
        small = idiom.pattern.sub(idiom.meant, small)
    small = _without_condemned(small)
    small = _SENTENCE.sub(lambda found: _with_own_names(found.group()), small)
    return text if small == text.lower() else small


def _without_condemned(text: str) -> str:
    """Return a text without quotations and reported speech that it condemns."""
    if _NOT_CONDEMNED.search(text):
        return text
    if _CONDEMNS.search(text):
        text = _QUOTED.sub("it", text)
    return _ACCUSED.sub("that is wrong", _REPORTED.sub("that is wrong", text))


def _with_own_names(sentence: str) -> str:
    """Return a sentence with a plain word for the names that the speaker gives the own group."""
    if _NAMES.search(sentence) and _OWN.search(sentence) and not _OTHERS.search(sentence):
        return _NAMES.sub("nice", sentence)
    return sentence
