"""Forms: how much the form of a match says, and forms of other things that look alike: commands, files, versions.

Each function returns a weight of 0 to 4, or `OTHER` if the form is that of something else.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TypeAlias

from penstock.detection.deferred import deferred
from penstock.detection.places.labels import lead_of, word_set

OTHER = -9
"""The weight of a match that is something else."""


def never_open(text: str, low: int, high: int) -> bool:
    """Return False: nothing behind a match matters."""
    del text, low, high
    return False


# E-mail addresses

_FILES = word_set(
    """png jpg jpeg jfif gif webp avif bmp ico svg tif tiff heic mp3 mp4 webm ogg wav css scss js mjs jsx tsx json yaml
    yml xml txt csv tsv pdf docx xlsx pptx html htm exe dll jar whl tgz gz log lock toml ini cfg"""
)
_COMMON_ENDS = word_set(
    """com org net edu gov mil int info biz name pro mobi example test invalid local internal online store shop tech
    site cloud club world blog live news space email agency company center"""
)
_VERSION = deferred(r"v?\d[\w.-]*\.(?P<end>[^\W\d_]{3,})", re.IGNORECASE)
_PATH = deferred(r":(?:~|/(?!/)|\.{1,2}/|[\w.+-]{1,64}/|[\w.+-]{1,64}\.git\b)")
_PATH_BEGUN = deferred(r"(?::(?:/|[\w.+-]{0,64}))?\Z")
_PROTOCOLS = frozenset({"openssh.com", "libssh.org"})
_EXTENSIONS = deferred(
    r"\w*[\d-].*|zlib|keepalive|f?statvfs|hardlink|fsync|lsetstat|limits|eow|tun|ping", re.IGNORECASE
)
_LOGIN = deferred(
    r"(?:\b(?:ssh|scp|sftp|rsync|sshfs|mosh|ssh-copy-id)"
    r"(?:\s+(?:-[\w-]{1,24}(?:[ =][\w./:~-]{1,40})?|[\w~-]{0,40}[./][\w./~-]{0,60})){0,6}"
    r"|\b[a-z][a-z0-9+.-]{1,20}://[^\s/?#@<>\"'`]{0,64}[:@]?)\s{0,3}\Z",
    re.IGNORECASE,
)
_MESSAGE = deferred(
    r"<(?!\w{1,20}://)[^<>\s@]{1,90}/\Z"  # the ids of messages of GitHub are paths
    r"|(?<![^\W_])(?i:message-id|in-reply-to|references): {0,3}<\Z"
)
_SERVICES = word_set("git hg svn oauth2 x-access-token token x-oauth-basic anonymous apikey")
_LOGIN_REACH = 100
_RANDOM = 20  # characters of a local part that is a message's id


def email(text: str, low: int, high: int) -> int:
    """Return the weight of an e-mail address: a login, the name of a file, a version or a message's id is none."""
    local, _, domain = text[low:high].partition("@")
    rest, _, end = domain.lower().rpartition(".")
    version = _VERSION.fullmatch(domain)
    if not local.strip("+-") or (domain.lower() in _PROTOCOLS and _EXTENSIONS.fullmatch(local)):
        return OTHER  # a decorator in a patch: -@pytest.mark; the name of an algorithm (RFC 4251, 6)
    of_file = end in _FILES and ("." not in rest or rest[0].isdigit())
    if of_file or (version and version["end"].lower() not in _COMMON_ENDS):
        return OTHER
    before = text[max(low - _LOGIN_REACH, 0) : low]
    if before.endswith("<") and len(local) >= _RANDOM and _is_id(local) and text[high : high + 1] == ">":
        return OTHER
    if _MESSAGE.search(before):
        return OTHER
    if _PATH.match(text, high):
        return OTHER
    login = _LOGIN.search(before)
    if login and ("://" not in login.group() or local.lower() in _SERVICES or _is_key(local, login.group())):
        return OTHER
    return 2 if _is_id(local) else 4


def _is_key(local: str, before: str) -> bool:
    """Return whether the name in an address is a token, or the end of the password that follows one."""
    return ":" in before.partition("://")[2] or (len(local) >= _RANDOM and _is_id(local))


def path_may_follow(text: str, low: int, high: int) -> bool:
    """Return whether the path of a remote file may follow an address."""
    del low
    return _PATH_BEGUN.match(text, high) is not None


_ID, _ID_DIGITS = 12, 2  # characters and digits of a local part that may be an id
_NAMED = deferred(r"[^\W\d_]{2,}(?:[._+-][^\W\d_]+){0,6}[._-]?\d{0,4}|[^\W\d_]{2,}[._-]?(?:19|20)\d{2,6}")


def _is_id(local: str) -> bool:
    """Return whether it is an id: digits among letters, unless they are few and stand behind a name."""
    digits = sum(map(str.isdigit, local))
    if digits == len(local):
        return True
    return len(local) >= _ID and digits >= _ID_DIGITS and _NAMED.fullmatch(local) is None


# Numbers

_UNIT = deferred(
    r"[ \u00a0\u202f]?(?:[KMGTP]i?B\b|[Bb]ytes?\b|[mnµu]s\b|rows?\b|items?\b|tokens?\b|€|USD\b|EUR\b|GBP\b|\$|%)"
)
_UNIT_BEGUN = deferred(r"[ \u00a0\u202f]?[A-Za-zµ]{0,6}\Z")


def unit_follows(text: str, high: int) -> bool:
    """Return whether a unit of something counted stands behind a number."""
    return _UNIT.match(text, high) is not None


def unit_may_follow(text: str, low: int, high: int) -> bool:
    """Return whether a unit may follow a number."""
    del low
    return _UNIT_BEGUN.match(text, high) is not None


_AMOUNT = deferred(r"[\d .,\u00a0\u202f]+")


def is_amount(found: str) -> bool:
    """Return whether digits may be an amount: no sign but blanks, points and commas stands between them."""
    return _AMOUNT.fullmatch(found) is not None


_PARAGRAPH = deferred(r"252\.2\d\d-7\d{3}")  # a clause of the DFARS, the rules of purchases for defence: 252.227-7013


def phone(text: str, low: int, high: int) -> int:
    """Return the weight of a phone number: digits alone weigh least, a country's code most."""
    if text[low] == "+":
        return 4
    if _PARAGRAPH.fullmatch(text, low, high):
        return 0
    return 2 if text[low:high].isdigit() else 3


_USUAL_CARDS = range(15, 17)  # digits; other numbers of cards are as often ids and numbers of articles
_DINERS = 14


_HEXADECIMAL = deferred(r"\b(?=[0-9 ]{0,39}[A-F])(?:[0-9A-F]{4} ){1,8}\Z")
_ROW = 40
_MORE_HEXADECIMAL = deferred(r" [0-9A-F]{4}\b")
_HEXADECIMAL_BEGUN = deferred(r"(?: [0-9A-F]{0,4})?\Z")


def card(text: str, low: int, high: int) -> int:
    """Return the weight of a card number: in groups most; of unusual length, in one piece, nothing without a word.

    Groups within a row of hexadecimal ones are none: a reference before a number makes no such row.
    """
    found = text[low:high]
    if not found.isdigit():
        in_row = _MORE_HEXADECIMAL.match(text, high) and _HEXADECIMAL.search(text, max(low - _ROW, 0), low)
        return 0 if in_row else 4
    if len(found) in _USUAL_CARDS:
        return 3
    return 2 if len(found) == _DINERS else 0


def card_may_go_on(text: str, low: int, high: int) -> bool:
    """Return whether a unit may follow a number, or more of a row of hexadecimal groups."""
    return unit_may_follow(text, low, high) or _HEXADECIMAL_BEGUN.match(text, high) is not None


def ssn(text: str, low: int, high: int) -> int:
    """Return the weight of a social security number."""
    del text, low, high
    return 2


# Addresses of machines

_OPERATOR = deferred(r"(?:[=<>~^!]=|[~^]>?|@|\(=)\s?(?:\d:)?\Z")
_UPGRADE = deferred(
    r"(?i)\b(?:bump|upgrad|downgrad|updat|releas|version(?:chang|add|remov)?|migrat)\w{0,4}\b"
    r"(?:[^\n;.=]|\.(?=\w)){0,48}\Z"
)
_PRODUCT, _AGENT = deferred(r"[A-Za-z]/\Z"), deferred(r"(?<![/\w.+-])(?P<name>[A-Za-z][\w+-]{0,40})(?<!\d)/\Z")
_COORDINATES = deferred(r"\b[a-z][\w-]*(?:\.[\w-]+)+:[\w.-]+:\Z")  # of Maven: group, artifact, version
_GEM = deferred(r"(?m)^ {2,8}(?:\* )?(?P<name>[a-z][\w-]*) \(\Z")  # rails (7.1.4.1)
_EPOCH = deferred(r"[( ]\d:\Z")  # (1:1.2.13.1-1)
_RELEASE = deferred(r"(?:(?P<name>[A-Za-z]{1,24})-|\b(?i:since|prior to) )\Z")
_RELEASE_REACH = 28
_MACHINES = word_set(  # their names have addresses in them: dhcp-84.12.33.9
    """ip ipv4 host node server client user guest peer vpn dsl adsl vdsl cable dhcp ppp pppoe pool dyn dynamic static
    cpe nat gw gateway router web mail mx ns dns db proxy vm ec pc customer visitor range subnet bot tcp udp inet ip4"""
)
_FIRST_NUMBERS = frozenset(map(str, range(20)))  # of sections and releases; those of most addresses are larger
_SMALL = deferred(r"[0-3]?\d(?:\.[0-3]?\d){3}")  # so are all numbers of a section, and of one address in 1,700
_PORT = deferred(r":\d{2,5}\b")
_COMMENT = deferred(r"(?:(?<!:)//|/\*|<!--)\s{0,4}\[?\Z")  # no address in a link
_TITLE = deferred(r"(?m)^#{2,6} \Z")
_ENTRY = deferred(r"\](?: -|\()")
_HEADING, _HEADING_REACH = re.compile(r"#[ \t]*\[\Z"), 10  # of a change log, not of a line in a log
_USER = deferred(r"[\w.-]{1,32}@\Z")
_PLACED = deferred(r"\b(?i:on|at|with|by|via|server|host|against|through) \Z")  # a machine is named, no version
_SECTION = deferred(
    r"(?i)(?:\b(?:sections?|sec\.|(?:sub)?clauses?|chapters?|paragraphs?|articles?|appendix|figures?|tables?"
    r"|requirements?|oids?|policy|revision|pages?|levels?|rooms?|lessons?|exercises?|theorem|lemma|ec|enzymes?|c\+\+\d\d"
    r"|abschnitt|kapitel|absatz|ziffer|seite|raum|paragraphe|chapitre|sección|capítulo|sezione|capitolo):? |§ ?)"
    r"[\"'(]?\Z"
)
_SECTION_REACH = 16
_HUNDREDS = deferred(r"\d{3}(?!\d|\.0\b)")  # versions of four parts are smaller
_ITEM, _OUTLINE = deferred(r"(?m)^ *[#*+-]+ (?:\[[xX ]\] )?\Z"), deferred(r"1?\d(?:\.1?\d){3}")  # - [x] 11.1.2.1 Send
_ITEM_REACH = 16
_ENTRY_BEGUN = deferred(r"(?:\](?: -?)?)?\Z")
_CLIENT = deferred(r" - \S{1,64} \[\d| port \d")  # in the logs of a web server, and of a login
_CLIENT_BEGUN = deferred(r"(?: (?:-(?: \S{0,64}(?: \[?)?)?|p|po|por|port ?)?)?\Z")
_CLIENTS = word_set("client remote browser visitor customer user guest caller login forwarded")
_WIDE = 24  # bits of a prefix that is a network's


_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


def _address(found: str) -> _Address | None:
    bare = found.partition("/")[0].partition("%")[0]
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def public_address(text: str, low: int, high: int) -> int:
    """Return the weight of an IP address: private, loopback, link-local and documentation ones are nobody's.

    Neither are networks and versions with four parts. An address of documentation that stands where a client's does
    is read as one.
    """
    found = text[low:high]
    address = _address(found)
    if address is None or address.is_multicast:
        return OTHER
    if not address.is_global and not _is_example_of_client(address, text, low, high):
        return OTHER
    if isinstance(address, ipaddress.IPv6Address):
        return 3 if _is_assigned(address) or "." in found or _WRITTEN_OUT.match(found) else OTHER
    if found.partition("/")[0].endswith(".0.0") or _is_network(found):
        return OTHER
    is_item = _OUTLINE.fullmatch(found) and _ITEM.search(text, max(low - _ITEM_REACH, 0), low)
    if is_item and text.startswith(" ", high):  # its title is behind it; in a list of addresses, there is none
        return 0
    return _of_version(text, low, high)


_ASSIGNED = [*map(ipaddress.IPv6Network, ("2000::/3", "64:ff9b::/96"))]
"""The networks of which public addresses are, and those that hold one of IPv4 (RFC 4291, RFC 6052)."""


_WRITTEN_OUT = deferred(
    r"(?=(?:[\da-fA-F]{1,2}:)*(?:[\da-fA-F]{3,4}:(?:[\da-fA-F]{1,2}:)*){5})(?:[\da-fA-F]{1,4}:){7}[\da-fA-F]"
)
"""Eight groups, most of them long: nothing else looks so, be the network assigned or not; an EUI-64 has short ones."""


def _is_assigned(address: ipaddress.IPv6Address) -> bool:
    """Return whether an address can be a machine's; slices of lists (``[::2]``) and names in C++ look like others."""
    return any(address in network for network in _ASSIGNED)


def _is_network(found: str) -> bool:
    """Return whether a prefix makes it a network; the address of a machine may have one, too."""
    prefix = found.partition("/")[2]
    if not prefix or int(prefix) > _WIDE:
        return False
    return ipaddress.ip_interface(found).network.network_address == _address(found)


_EXAMPLES = [*map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32"))]
"""Networks of documentation (RFC 5737, RFC 3849)."""


def _is_example_of_client(address: _Address, text: str, low: int, high: int) -> bool:
    if not any(address in network for network in _EXAMPLES):
        return False
    named = not _CLIENTS.isdisjoint(lead_of(text, low).words)
    return named or _CLIENT.match(text, high) is not None


def private_address(text: str, low: int, high: int) -> int:
    """Return the weight of an address that `public_address` leaves out because it is nobody's."""
    address = _address(text[low:high])
    if address is None or (address.is_global and not address.is_multicast):
        return OTHER
    return _of_version(text, low, high)


def _of_version(text: str, low: int, high: int) -> int:
    before = text[max(low - _HEADING_REACH, 0) : low]
    if before.endswith("[") and _ENTRY.match(text, high) and (text[high + 1] == "(" or _HEADING.search(before)):
        return OTHER
    if _PRODUCT.search(before) and text[low:high].endswith(".0"):
        return OTHER
    if _HUNDREDS.search(text, low, high):
        return 3
    if _is_counted(text, low, high) or _is_packaged(text, low, high):
        return 0
    if _PLACED.search(before) or (before.endswith("@") and _is_login(text, low)):
        return 3
    upgraded = _UPGRADE.search(text, max(low - _LOGIN_REACH, 0), low) is not None
    return 0 if upgraded or _OPERATOR.search(before) else 3


def _is_counted(text: str, low: int, high: int) -> bool:
    """Return whether it is the number of a section or of a release, by the words before it and its first number."""
    is_small = _SMALL.fullmatch(text, low, high) is not None
    if text[low:high].partition(".")[0] not in _FIRST_NUMBERS and not is_small:
        return False
    if "/" in text[low:high] or _PORT.match(text, high):
        return False
    near = max(low - _HEADING_REACH, 0)
    if _SECTION.search(text, max(low - _SECTION_REACH, 0), low) or _TITLE.search(text, near, low):
        return True
    if is_small and _COMMENT.search(text, near, low):
        return True
    release = _RELEASE.search(text, max(low - _RELEASE_REACH, 0), low)
    return release is not None and (release["name"] or "").lower() not in _MACHINES


def _is_packaged(text: str, low: int, high: int) -> bool:
    """Return whether it is the version of a package, as managers of packages and programs write it."""
    since = max(low - _LOGIN_REACH, 0)
    if _COORDINATES.search(text, since, low):
        return True
    behind = text[high : high + 1]
    agent = _AGENT.search(text, since, low) if text[low:high].partition(".")[0] in _FIRST_NUMBERS else None
    if agent is not None and behind in _BEHIND_AGENT and agent["name"].lower() not in _MACHINES:
        return True
    if _SMALL.fullmatch(text, low, high) is None or behind not in (")", "-"):
        return False
    gem = _GEM.search(text, since, low) if behind == ")" else None
    return _EPOCH.search(text, since, low) is not None or (gem is not None and gem["name"].lower() not in _MACHINES)


_BEHIND_AGENT = ("", " ", ";", ")", "\n", '"')


def _is_login(text: str, at: int) -> bool:
    """Return whether the name of a user for a remote machine stands before a place."""
    before = text[max(at - _LOGIN_REACH, 0) : at]
    user = _USER.search(before)
    return user is not None and _LOGIN.search(before, 0, user.start()) is not None


def entry_may_follow(text: str, low: int, high: int) -> bool:
    """Return whether more text may show that an address is a version in a change log, or a client in a log."""
    return (
        _ENTRY_BEGUN.match(text, high) is not None
        if text[low - 1 : low] == "["
        else _CLIENT_BEGUN.match(text, high) is not None
    )


_CONTAINERS = ("02:42:", "0a:58:")  # Docker; OVN and Kubernetes' plugins
_LINE_BEFORE, _LINE_BEHIND = 72, 24  # characters of a line that show what wrote it
_TOLD = deferred(r"(?i)\b(?:my|our|his|her|their|mein\w*|unser\w*|[^\W\d_]{2,}['\u2019]s)\b")  # whose it is
_DEVICE_BEFORE = deferred(
    # the value of a key or a setting, or a cell
    r"(?:[\"'] ?[:=] ?\\?[\"']|=\\?[\"']?|[,;\t|]\"?|[\t|] |[^:\s] {2,}|\. \.? ?: )\Z"
    r"|(?:\) at|[\da-fA-F]{2} >) \Z"
    r"|(?i:\b(?:ether|lladdr|hwaddr|hw-?addr(?:ess)?|macaddr(?:ess)?|permaddr|bssid|chassis ?id|dhcp\w{0,12}|arp|vlan"
    r"|hardware ethernet|cell \d\d - address"
    r"|(?:eth|en[opsx]?|wl(?:an|[px])?|br|bond|veth|tap|gi|te|fa|ge|xe|ae|po|port|lan)-?\d[\w/.:-]{0,12})\b[^\n]{0,64}\Z)"
)
_DEVICE_BEHIND = deferred(
    r"\"?(?: {2,}\S|,\S|;\S| ?[\t|]| \[ether| (?:brd|via|dev)\b| on (?:en|eth|wl)| > [\da-fA-F]{2}:)"
)


def mac(text: str, low: int, high: int) -> int:
    """Return the weight of the address of a network card.

    That of a container is no card's. What devices and their tools write is nobody's: in tables, logs, settings and the
    values of keys. In prose it is somebody's, and where the line says whose it is.
    """
    is_containers = text[low:high].replace("-", ":").lower().startswith(_CONTAINERS)
    return OTHER if is_containers or _is_of_device(text, low, high) else 3


def device_mac(text: str, low: int, high: int) -> int:
    """Return the weight of an address that `mac` leaves out."""
    return 3 if mac(text, low, high) < 0 else OTHER


def device_may_follow(text: str, low: int, high: int) -> bool:
    """Return whether more of the line may show that a device wrote an address."""
    del low
    return len(text) - high < _LINE_BEHIND and text.find("\n", high) < 0


def _is_of_device(text: str, low: int, high: int) -> bool:
    line = max(text.rfind("\n", max(low - _LINE_BEFORE, 0), low) + 1, low - _LINE_BEFORE, 0)
    if _TOLD.search(text, line, low):
        return False
    return bool(_DEVICE_BEFORE.search(text, line, low) or _DEVICE_BEHIND.match(text, high, high + _LINE_BEHIND))
