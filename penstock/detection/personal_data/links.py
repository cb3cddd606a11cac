"""Links: the preset ``urls`` (with a scheme or ``www.``), and the type ``url`` of personal data, with bare domains.

A bare domain counts if its top-level domain is seldom anything else: ``obj.name``, ``run.sh``, ``node.js`` and
``end.It`` do not count. Behind an ambiguous top-level domain, a path or a third label must confirm it. Attributes in
code do not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.patterns.built_in import BuiltInRule, judged, pattern_rule
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from penstock.detection.patterns.built_in import RuleSearch


_LINK_CHARS = r"""[^\s"'<>\[\]{}|\\^`]+"""

_WRITTEN = (
    pattern_rule("url", "[URL]", rf"://(?<=[A-Za-z]://){_LINK_CHARS}", trigger="://", grow=True),
    pattern_rule(
        "url",
        "[URL]",
        rf"[Ww](?<![A-Za-z0-9.-][Ww])(?i:ww)\.[A-Za-z0-9-]{{1,63}}\.{_LINK_CHARS}",
        trigger=r"\.(?<=[Ww]{3}\.)",
    ),
)


# Top-level domains (IANA's root zone) that are neither words nor file endings nor usual names of attributes.
_PLAIN = (
    "(?i:com|org|net|edu|gov)|mil|biz|io|co|ai|eu|uk|de|fr|nl|ch|se|dk|fi|cz|sk|hu|gr|ru|ua|cn|jp|kr|tw|hk|sg|au|nz|br|mx|ar"
    "|cl|za|ng|ke|tr|ca|es|pt|ie|lt|lv|lu|hr|si|bg|ro|ee|kz|pk|vn|th|ph|ir|eg|ae|tv|xyz|online|website|museum|travel"
)
# Those that are: they count with a third label or a path.
_AMBIGUOUS = (
    "info|name|app|dev|pro|me|us|it|is|in|at|be|to|no|so|my|id|il|pl|rs|cc|ws|gg|fm|ly|st|sh|py|la|im|sa|ma|pe|do|by|as"
    "|site|tech|store|shop|blog|cloud|page|link|live|news|world|today|space|club|social|wiki|email|media|agency|digital"
)
_PATH = r"""(?:[/?\#][^\s"'<>\[\]{}|\\^`]*)?"""
_END = StreamPattern(
    rf"\.(?:(?P<plain>{_PLAIN})|(?P<other>{_AMBIGUOUS}))(?![\w(\[=@-])(?!\.\w)(?::\d{{2,5}}(?!\d))?(?P<path>{_PATH})",
    by_re=True,
)
_HOST_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-")
_GROWTH = 64  # how far a domain's labels may reach to the left of its last
_HOST = deferred(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9]")
_DOTTED = deferred(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^\s/@]*@)?[^\s/?#:.]+(?:\.[^\s/?#:.]+)+", re.IGNORECASE)
_TRIMMED = ".,;:!?*_~…’”»›。，、；：！？）」』】〉》"
_SCHEME = deferred(r"^[a-z][a-z0-9+.-]*://")
_BEHIND_HOST = deferred(r"[/?#]")
_PLAIN_HOST = deferred(r"[\w.-]+")
_CODE = frozenset(("self", "this", "cls", "super", "obj", "module", "window", "document", "console", "os", "sys"))


def domains(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of bare domains."""
    matches, hold = _END.walk(text, start, final=final)
    traces: list[Trace] = []
    for found in matches:
        low = _grown(text, found.start())
        host = text[low : found.start()]
        labels = host.split(".")
        sure = found.group("plain") or len(labels) > 1 or len(found.group("path")) > 1
        counts = bool(sure) and _is_host(text, low, host) and labels[0] not in _CODE
        traces.append(Trace(low, found.end(), low, _trimmed(text, low, found.end()), counts))
    return traces, _grown(text, hold) if hold < len(text) else hold


def _grown(text: str, at: int) -> int:
    low = max(at - _GROWTH, 0)
    while at > low and text[at - 1] in _HOST_CHARS:
        at -= 1
    return at


def _is_host(text: str, low: int, host: str) -> bool:
    """Return whether it can be the name of a host, and stands by itself."""
    before = text[low - 1 : low]
    alone = not before or not (before.isalnum() or before in "_@/\\:$%=&#~")
    return alone and bool(_HOST.fullmatch(host)) and any(map(str.isalpha, host))


def _trimmed(text: str, low: int, high: int) -> int:
    """Return where a link ends, without the punctuation of the sentence around it."""
    unopened = text.count(")", low, high) - text.count("(", low, high)
    while high > low:
        last = text[high - 1]
        if last == ")" and unopened > 0:
            unopened -= 1
        elif last not in _TRIMMED:
            break
        high -= 1
    return high


def _without_punctuation(text: str, trace: Trace) -> Trace:
    return trace._replace(high=_trimmed(text, trace.low, trace.high))


def _dotted(text: str, trace: Trace) -> Trace:
    """Return the trace of a link; it counts if its host has a dot."""
    return trace._replace(counts=trace.counts and _DOTTED.match(text, trace.low, trace.high) is not None)


def without_hosts(rule: BuiltInRule, hosts: Container[str]) -> BuiltInRule:
    """Return a rule for links or e-mail addresses without those of some domains and of all domains below them."""

    def judge(text: str, trace: Trace) -> Trace:
        known = trace.counts and not any(one in hosts for one in _domains_of(text[trace.low : trace.high]))
        return trace._replace(counts=known)

    return judged(rule, judge)


def _domains_of(found: str) -> Iterator[str]:
    """Yield the domain of a link or an e-mail address, and those above it; none if programs differ about its host."""
    authority = _BEHIND_HOST.split(_SCHEME.sub("", found.lower()), maxsplit=1)[0].rpartition("@")[2]
    host = authority.partition(":")[0]
    labels = host.strip(".").split(".") if _PLAIN_HOST.fullmatch(host) else []
    return (".".join(labels[at:]) for at in range(len(labels)))


def _named(trigger: str, search: RuleSearch) -> BuiltInRule:
    return BuiltInRule("url", "[URL]", trigger, search)


URLS = tuple(judged(rule, _without_punctuation) for rule in _WRITTEN)
"""Links with a scheme, and those that begin with ``www.``."""

LINKS: tuple[BuiltInRule, ...] = (*(judged(rule, _dotted) for rule in URLS), _named(r"\.[A-Za-z]{2}", domains))
"""The same if the host has a dot, and bare domains."""
