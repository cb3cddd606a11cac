"""Links: the preset ``urls`` (with a scheme or ``www.``), and the type ``url`` of personal data, with bare domains.

A bare domain counts if its top-level domain is seldom anything else: ``obj.name``, ``run.sh``, ``node.js`` and
``end.It`` do not count. Behind an ambiguous top-level domain, a path or a third label must confirm it. Attributes in
code do not count.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.patterns.built_in import BuiltInRule, pattern_rule
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace

if TYPE_CHECKING:
    from penstock.detection.patterns.built_in import RuleSearch


_LINK_CHARS = r"""[^\s"'<>\[\]{}|\\^`]+"""

URLS = (
    pattern_rule("url", "[URL]", rf"://(?<=[A-Za-z]://){_LINK_CHARS}", trigger="://", grow=True),
    pattern_rule(
        "url",
        "[URL]",
        rf"[Ww](?<![A-Za-z0-9.-][Ww])(?i:ww)\.[A-Za-z0-9-]{{1,63}}\.{_LINK_CHARS}",
        trigger=r"\.(?<=[Ww]{3}\.)",
    ),
)
"""What the reference counts as a link, and links with other schemes or none."""


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
    rf"\.(?:(?P<plain>{_PLAIN})|(?P<other>{_AMBIGUOUS}))(?![\w(\[=@-])(?!\.\w)(?::\d{{2,5}}(?!\d))?(?P<path>{_PATH})"
)
_HOST_CHARS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-")
_GROWTH = 64  # how far a domain's labels may reach to the left of its last
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?\.)*[A-Za-z0-9][A-Za-z0-9-]*[A-Za-z0-9]")
_DOTTED = re.compile(r"(?:[a-z][a-z0-9+.-]*://)?(?:[^\s/@]*@)?[^\s/?#:.]+(?:\.[^\s/?#:.]+)+", re.IGNORECASE)
_TRIMMED = ".,;:!?*_"
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
    while high > low:
        last = text[high - 1]
        unopened = last == ")" and "(" not in text[low:high]
        if last not in _TRIMMED and not unopened:
            break
        high -= 1
    return high


def _of(rule: BuiltInRule) -> BuiltInRule:
    """Return a rule for links as one for links to hosts with a dot, without the punctuation of the sentence."""

    def search(text: str, start: int, *, final: bool) -> Scan:
        traces, hold = rule.search(text, start, final=final)
        return [_judged(text, trace) for trace in traces], hold

    return _named(rule.trigger, search)


def _judged(text: str, trace: Trace) -> Trace:
    high = _trimmed(text, trace.low, trace.high)
    counts = trace.counts and _DOTTED.match(text, trace.low, high) is not None
    return Trace(trace.start, trace.end, trace.low, high, counts)


def _named(trigger: str, search: RuleSearch) -> BuiltInRule:
    return BuiltInRule("url", "[URL]", trigger, search)


LINKS: tuple[BuiltInRule, ...] = (*map(_of, URLS), _named(r"\.[A-Za-z]{2}", domains))
"""Links with a scheme, links that begin with ``www.``, and bare domains."""
