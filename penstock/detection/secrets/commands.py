"""Secrets without a separator: on command lines, in configuration, in calls, and in sentences.

``mysql -pSECRET``, ``curl -u name:secret``, ``--password secret``; ``login joe password secret``; ``login("joe",
"secret")``; ``the password is "secret"``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.patterns.built_in import BuiltInRule, pattern_rule
from penstock.detection.patterns.open_matches import StreamPattern, Trace
from penstock.detection.places.keys import names_secret
from penstock.detection.places.labels import words_of
from penstock.detection.secrets import values

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.detection.patterns.open_matches import Scan

_LONGEST = 300  # characters that a rule reads from one place on, at most
_REACH = 100  # characters before a value that are looked at; less than `LOOKBACK`
_DIGIT_OR_SIGN = deferred(r"[\d!@#%^*?~+=&]")
_NUMBERS = deferred(r"[\d.,:/-]*(?:/tcp|/udp)?")
# A value on a command line: what stands in quotes, or what ends at a space. Variables and templates are none.
_ARGUMENT = (
    r"""(?:'(?P<one>[^'\n]{4,128})'|"(?P<two>[^"\n]{4,128})"|(?P<bare>[^\s"'`$<{\[(*|&;,\\-][^\s"'`<>|;]{3,128}))"""
)


def _rule(
    name: str,
    pattern: str,
    trigger: str,
    counts: Callable[[str, str, str, bool], bool],
    replacement: str = "[PASSWORD]",
    end: str = "",
) -> BuiltInRule:
    """Return a rule for a value with groups of an `_ARGUMENT`, one at least; a group ``option`` may be before it.

    ``counts`` decides from the text before, the option, the value, and whether that stands in quotes. The characters of
    ``end`` do not belong to a value if it ends with them and has no quotes.
    """
    shape = StreamPattern(pattern)

    def search(text: str, start: int, *, final: bool) -> Scan:
        matches, hold = shape.walk(text, start, final=final, longest=_LONGEST)
        traces: list[Trace] = []
        for found in matches:
            groups = found.groupdict()
            group = next(each for each in ("one", "two", "bare") if groups.get(each) is not None)
            value, low = groups[group], found.start(group)
            if group == "bare":
                value = value.rstrip(end)
            before = text[max(found.start() - _REACH, 0) : found.start()]
            option = groups.get("option") or ""
            secret = len(value) >= _SHORTEST and counts(before, option, value, group != "bare")
            traces.append(Trace(found.start(), found.end(), low, low + len(value), secret))
        return traces, hold

    return BuiltInRule(name, replacement, trigger, search)


_SHORTEST = 4


def _is_argument(found: str) -> bool:
    """Return whether a value behind an option that takes a password is one."""
    return values.password(found) and not _NUMBERS.fullmatch(found)


def _has_sign(found: str) -> bool:
    return _DIGIT_OR_SIGN.search(found.rstrip(".,:!?)")) is not None


_SECRET_OPTION = deferred(
    r"(?i)-?(?:[\w.-]*[-_.])?(?:\w*password|passwd|pass|\w*passphrase|pwd|storepass|keypass|srcstorepass|deststorepass"
    r"|srckeypass|token|secret|\w*api-?key|access-?key|secret-?key|auth-?key|auth-?token|psk)"
)
_LONG_TOKEN = deferred(r"(?i)token|key")
_LEAST_TOKEN = 12
# Commands whose option takes a password, by the option.
_TAKES = {
    option: deferred(rf"(?i)(?:^|[\s/\\\"'`(;|&])(?:{commands})\b[^\n|;]*$")
    for option, commands in {
        "p": r"sshpass|docker\s+login|podman\s+login|helm\s+(?:registry\s+login|repo)|mysql\w*|mariadb\w*|psexec\w*"
        r"|az\s+login|oc\s+login|crackmapexec|cme|nxc|netexec|evil-winrm|twine|mongo\w*|wmiexec\w*|smb\w+|7z\w*|rar"
        r"|unrar|tsh|cadaver|ftp|lftp|winrs|sqlplus|expect|hydra|vncviewer|xfreerdp|rdesktop|rcon|mcrcon|ibmcloud",
        "P": r"sqlcmd|bcp|osql|isql|zip|unzip|mosquitto_\w+|ipmitool|kinit|ssh-keygen|tsql|pg\w*",
        "a": r"redis-cli|valkey-cli|keydb-cli|ipmitool|memcached",
        "w": r"ldap\w+|vncpasswd",
        "k": r"openssl|gpg",
        "pw": r"plink|pscp|psftp|putty|bw",
        "hp": r"rar|unrar|winrar",
        "authpasswd": r"mpc|nmap",
    }.items()
}
_ATTACHED = ("p", "hp", "P", "a")
_NAME_GIVEN = deferred(r"\s(?:-[uUl]|--?(?:user|username|login|name))[ =]?[\"']?[^\s\"']+[\"']?\s+$", re.IGNORECASE)
_LOGIN = deferred(r"""["']?(?:[\w.@/\\-]{1,64})(?:%|:)(?P<secret>[^\s"']{4,128})""")


def _follows(before: str, option: str, found: str, quoted: bool) -> bool:  # noqa: FBT001 - see `_rule`
    """Return whether a value behind an option is a secret."""
    if option in _TAKES and _TAKES[option].search(before):
        return _is_argument(found) and (quoted or _has_sign(found) or len(found) >= _LEAST_TOKEN)
    if option in ("p", "P") and _NAME_GIVEN.search(before):
        return _is_argument(found) and _has_sign(found)
    if not _SECRET_OPTION.fullmatch(option):
        return False
    if _LONG_TOKEN.search(option):
        return len(found) >= _LEAST_TOKEN and values.token(found)
    return _is_argument(found) and (quoted or _has_sign(found))


def _attached(before: str, option: str, found: str, quoted: bool) -> bool:  # noqa: FBT001 - see `_rule`
    """Return whether the text behind the letter of an option, without a space, is a password."""
    return _TAKES[option].search(before) is not None and _is_argument(found) and (quoted or _has_sign(found))


def _login(found: str) -> bool:
    """Return whether it is the password of ``name:password``; ``1000:1000`` and ``Some::Module`` are none."""
    return values.password(found) and not _NUMBERS.fullmatch(found) and found[0] != ":"


_OPTION = "-(?<![A-Za-z0-9_-]-)"
_OPTION_NAME = "-?[A-Za-z][A-Za-z._-]{0,32}"
_COMMAND_LINES = (
    _rule(
        "command-password",
        rf"{_OPTION}(?P<option>{_OPTION_NAME})\s{{1,4}}{_ARGUMENT}",
        rf"{_OPTION}{_OPTION_NAME}(?=\s)",
        _follows,
    ),
    _rule(
        "command-password",
        rf"{_OPTION}(?P<option>{'|'.join(_ATTACHED)}){_ARGUMENT}",
        rf"{_OPTION}(?:{'|'.join(_ATTACHED)})(?=\S)",
        _attached,
    ),
    pattern_rule(
        "command-password",
        "[PASSWORD]",
        r"""-(?:u|U|-user)(?<=\s-u|\s-U|-user)[ =]{1,2}["']?[\w.@/\\-]{1,64}[:%](?P<secret>[^\s"'$<{*]{4,128})""",
        trigger="-(?:[uU]|-user)(?=[ =])",
        check=_login,
    ),
    pattern_rule(
        "command-password",
        "[PASSWORD]",
        r"""/p:(?<=\s/p:)["']?(?P<secret>[^\s"'$<{*]{4,128})""",
        trigger="/p:",
        check=_is_argument,
    ),
    pattern_rule(
        "command-password",
        "[PASSWORD]",
        r"""ConvertTo-SecureString\s{1,4}(?:-String\s{1,4})?["'](?P<secret>[^"'$\n]{4,128})["']""",
        trigger="-SecureString",
        check=_is_argument,
    ),
)

_NETRC = deferred(  # one on a line of its own may be a sentence: login and password …
    r"(?:(?:\bmachine\s+\S+|\bdefault|\b(?:port|account)\s+\S+|[\n\"'`]|\A)\s*)"
    r"\blogin\s+(?!(?:and|or|with|without|your|to)\b)\S+\s+(?:(?:port|account)\s+\S+\s+)*\Z"
)


def _in_netrc(before: str, option: str, found: str, quoted: bool) -> bool:  # noqa: ARG001, FBT001 - see `_rule`
    """Return whether the word behind *password* is one: a login of one word stands before that, as in ``.netrc``.

    Wherever else a login stands, it has a digit: *login handles password-aging*.
    """
    plain = values.wordy(found) and not _has_sign(found)
    named = _NETRC.search(before) is not None or ("login " in before and any(map(str.isdigit, found)))
    return named and values.password(found) and not plain


_CONFIGURATION = (
    _rule(
        "password",
        r"password\s{1,8}(?P<bare>[^\s\"'`<>(){}]{4,128})(?!\S)",
        r"wor(?:d|t)(?<=[ns]wor[dt])(?=\s)",
        _in_netrc,
    ),
    pattern_rule(  # routers and switches
        "password",
        "[PASSWORD]",
        r"password\s[0-9]\s(?P<secret>[^\s\"'<>]{6,128})(?!\S)",
        trigger=r"wor(?:d|t)(?<=[ns]wor[dt])(?=\s)",
        check=lambda found: values.password(found) and not _NUMBERS.fullmatch(found) and _has_sign(found),
        longest=150,
    ),
    pattern_rule(
        "password",
        "[PASSWORD]",
        r"""(?:pre-shared-key|ike-key|key-string|snmp-server\scommunity|authentication-key)\s{1,4}"""
        r"""(?:(?:ascii-text|local|remote|address)\s{1,4})?["']?(?P<secret>[^\s"'<>$(]{5,128})""",
        trigger=r"-(?:shared-key|key|string|server)(?=\s)",
        check=lambda found: values.password(found) and _has_sign(found),
    ),
    pattern_rule(
        "password",
        "[PASSWORD]",
        r"key\s{1,4}(?P<secret>[^\s\"'<>$(]{5,128})\s{1,4}address\s",
        trigger=r"key(?=\s)",
        check=lambda found: values.password(found) and _has_sign(found),
        longest=150,
    ),
    pattern_rule(  # ipsec.secrets
        "password",
        "[PASSWORD]",
        r"""(?<![^\W_])PSK\s{1,4}"(?P<secret>[^"\n]{4,128})\"""",
        trigger=r"PSK(?<![^\W_]PSK)(?=\s)",  # its letters come first, so that texts without them cost nothing
        check=lambda found: not values.placeholder(found),
    ),
    pattern_rule(
        "secret-value",
        "[SECRET]",
        r">(?<=(?:(?i:password|passwd)|[Pp]wd|[Ss]ecret|[Tt]oken|[kK]ey)>)\s{0,8}(?P<secret>[^<>\s]{5,256})\s{0,8}</",
        trigger=">(?<=[dDtnyYT]>)",
        check=lambda found: values.password(found) and not values.identifier(found) and _has_sign(found),
        longest=280,
    ),
)

# What looks behind has no optional letter: a partial search then takes a word that shares the next one for open.
_CALLEE = (
    r"(?:[Cc]redential|[Cc]redentials|[Bb]asic[Aa]uth|[Bb]asic_[Aa]uth|[Aa]uthentication|\.login|\.auth|_connect"
    r"|\.connect|getConnection|PDO|\bauth=)"
)
_QUOTED = r"""["'][^"'\n]{0,80}["']"""
_CODEC = deferred(r"(?i)(?:base|utf|sha|md|aes|rs|hs|es|ps|latin|iso|x)-?\d[\w-]*")
_CALL_ARGUMENTS = (  # define('DB_PASSWORD', '…')
    r"""\((?=["'])["'](?P<option>[\w.-]{1,64})["'],\s{0,12}"""
    r"""(?:'(?P<one>[^'\n]{4,128})'|"(?P<two>[^"\n]{4,128})")(?=\s{0,4}[,)])"""
)
_MOST_WORDS = 4  # of the name of a token


def _named(before: str, option: str, found: str, quoted: bool) -> bool:  # noqa: ARG001, FBT001 - see `_rule`
    """Return whether the second argument of a call is a secret, by the first one."""
    if not names_secret(words_of(option)) or not _is_argument(found) or not _has_sign(found):
        return False
    if _CODEC.fullmatch(found):
        return False
    return values.token(found) if _LONG_TOKEN.search(option) else found.count(" ") < _MOST_WORDS


_CALLS = (
    _rule("password", _CALL_ARGUMENTS, r"\((?=[\"'])", _named),
    pattern_rule(
        "password",
        "[PASSWORD]",
        rf"""\((?<={_CALLEE}\()\s{{0,8}}(?:[\w.$]{{1,40}},\s{{0,8}})?{_QUOTED}(?:,\s{{0,16}}{_QUOTED})?,\s{{0,16}}"""
        r"""["'](?P<secret>[^"'\s<>${]{5,128})["']\s{0,4}[,)]""",
        trigger=r"\((?<=(?:al|ls|th|on|in|ct|DO|h=)\()",
        check=lambda found: (
            values.password(found) and (_has_sign(found) or not values.wordy(found)) and "." not in found
        ),
        longest=400,
    ),
    pattern_rule(
        "password",
        "[PASSWORD]",
        r"""\((?<=[sg](?:et|et_)(?i:password|passphrase)\()\s{0,4}["'](?P<secret>[^"'\s<>${]{5,128})["']\s{0,4}\)""",
        trigger=r"\((?<=[de]\()",
        check=lambda found: values.password(found) and _has_sign(found),
        longest=150,
    ),
)

# Words of a sentence between the name of a secret and its value.
_FOR = (
    r"\s{1,3}(?:(?:for|to|of|на|для|от|für|vom|von|zum|zur|im|des|de|du|del|della|dello|do|da|dos|pour|para|per|voor|van"
    r"|til|till|dla|od)\s|d['’]|(?:de|pour)\sl['’]|dell['’])[^\n.:;!?=]{1,40}?"
)
_VERB = (
    r"\s{1,3}(?:is|was|are|will\sbe|should\sbe|set\sto|changed\sto|reset\sto|ist|lautet|war|est|es|é|è|era|sera|to|är|er"
    r"|jest)(?:\s(?:now|simply|just|currently|still|jetzt|ahora|agora|ora))?:?"
    r"|\s{0,3}(?:->|→|[-–—](?=\s))"
)
_IS = rf"(?:{_FOR}(?:{_VERB}|:)|{_VERB})\s{{1,3}}"
_SAID = (
    r"""(?:["'`“„«‘](?P<one>[^"'`”“»’\n]{4,128})["'`”“»’]"""
    r"""|(?P<bare>[^\s"'`“„«<>${\[(*][^\s"'`<>]{3,128}))"""
)
_END = ".,:;?)"
_PARTICLE = "[はが是为為는은가]"
# The same in scripts without blanks: the value is of ASCII, and the sentence goes on right behind it.
_SAID_UNPARTED = (
    r"""[ :：]{0,2}(?:["'`“„«‘「『](?P<one>[^"'`”“»’」』\n]{4,128})["'`”“»’」』]"""
    r"""|(?P<bare>[!#%&+-;=?-Z\]-_a-z|~][!#-&(-;=?-_a-~]{3,128}))"""
)


def _said_password(before: str, option: str, found: str, quoted: bool) -> bool:  # noqa: ARG001, FBT001 - see `_rule`
    """Return whether a sentence gives a password; ``the password is wrong`` does not."""
    if not values.password(found):
        return False
    if quoted:
        return " " not in found and (_has_sign(found) or not _STATE.fullmatch(found))
    kinds = any(map(str.isdigit, found)), any(map(str.isalpha, found)), _PUNCTUATION.search(found[1:-1]) is not None
    return kinds[1] and (kinds[2] if not kinds[0] else kinds[2] or not _MEASURE.fullmatch(found))


def _beside(before: str, option: str, found: str, quoted: bool) -> bool:  # noqa: ARG001, FBT001 - see `_rule`
    """Return whether a value right behind the word mixes letters, digits and signs, and is no address."""
    is_address = "@" in found and "." in found.rpartition("@")[2]
    return not quoted and values.password(found) and not is_address and _ALL_KINDS.match(found) is not None


_ALL_KINDS = deferred(r"(?=.{8})(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])(?=.+[!@#$%^&*].)")
_STATE = deferred(r"(?i)\w*(?:ed|ing|valid|rrect|wrong|weak|strong|short|long|empty|blank|none|null|same|quired)")
_PUNCTUATION = deferred(r"[!@#$%^&*?~+=]")
_MEASURE = deferred(r"(?i)\d+[a-z-]+|[a-z]+-?\d{1,2}|\d+(?:st|nd|rd|th)|.*\d+\+?\)?|[A-Z]+-\d+", re.ASCII)


def _said_token(before: str, option: str, found: str, quoted: bool) -> bool:  # noqa: ARG001, FBT001 - see `_rule`
    """Return whether a sentence gives a token; ``the key is customer_id`` and ``the page token is …`` do not."""
    if names_secret(words_of(before + option)[-_MOST_WORDS:]) is False:
        return False
    return len(found) >= _LEAST_TOKEN and values.token(found) and any(map(str.isdigit, found))


# Triggers with a letter that is rare in other texts are quicker; "taken" and "word" are no reason to search.
_SENTENCES = (
    _rule(  # "log in with password …": the value must look like nothing else
        "password",
        rf"[Pp]assword[ \t]{{1,3}}{_SAID}",
        r"wor(?:d|t)(?<=[ns]wor[dt])(?=\s)",
        _beside,
        end=_END,
    ),
    pattern_rule(
        "password",
        "[PASSWORD]",
        r"(?:PASSWORD|IDENTIFIED\sBY)\s{1,3}'(?P<secret>[^'\s]{4,128})'",
        trigger=r"WORD(?=\s)|ED(?=\s)",
        check=_is_argument,
        longest=160,
    ),
    pattern_rule(  # what the codes of wireless networks hold
        "password", "[PASSWORD]", r"WIFI:[^\n]{0,80}?\bP:(?P<secret>[^;\n]{4,64});", trigger="WIFI:", check=_is_argument
    ),
    *(
        _rule("password", rf"{name}{_IS}{_SAID}", trigger, _said_password, end=_END)
        for name, trigger in (
            ("[Pp]assword", r"wor(?:d|t)(?<=[ns]wor[dt])(?=\s)"),
            ("(?:[Pp]ass|[Kk]enn)wort", r"wor(?:d|t)(?<=[ns]wor[dt])(?=\s)"),
            ("passe", r"passe(?=\s)"),
            ("[Pp]ass(?:phrase|code)", r"ass(?:phrase|code)(?=\s)"),
            ("(?<![A-Za-z])[Pp][Ww]", r"[Pp](?i:w)"),
            ("(?<![A-Za-z])[Pp][Ww][Dd]", r"[Pp](?i:wd)"),
            ("[Cc]ontrase(?:ñ|n)a", "ontrase"),
            ("[Ss]enha", r"enha(?=\s)"),
            ("[Ww]achtwoord", r"achtwoord(?=\s)"),
            ("[Hh]asło", r"asło(?=\s)"),
            ("[Ll]ösenordet", r"ordet(?<=senordet)(?=\s)"),
            ("[Пп]ароль", r"ароль(?=\s)"),
        )
    ),
    _rule(
        "password",
        rf"{_PARTICLE}(?<=(?:パスワード|暗証番号|密码|密碼|비밀번호).){_SAID_UNPARTED}",
        f"{_PARTICLE}(?<=(?:ド|号|码|碼|호).)",
        _said_password,
        end=_END,
    ),
    *(
        _rule("secret-value", rf"(?P<option>{name}){_IS}{_SAID}", trigger, _said_token, "[SECRET]", _END)
        for name, trigger in (
            ("key", r"key(?=\s)"),
            ("Key", r"Key(?=\s)"),
            ("[Tt]oken", r"ken(?<=oken)(?=\s)"),
            ("[Ss]ecret", r"cret(?=\s)"),
        )
    ),
)

COMMANDS: tuple[BuiltInRule, ...] = (*_COMMAND_LINES, *_CONFIGURATION, *_CALLS, *_SENTENCES)
"""Secrets on command lines, in configuration, in calls and in sentences."""
