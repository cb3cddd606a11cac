"""Secrets with a shape of their own: webhooks, key blocks, hashes of passwords, credentials in links and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import judged, pattern_rule
from penstock.detection.places.keys import names_cursor
from penstock.detection.secrets import values
from penstock.detection.secrets.public import is_example
from penstock.engine.text_guards.text_guard import MAX_HOLD

if TYPE_CHECKING:
    from penstock.detection.patterns.open_matches import Trace

WEBHOOKS = (
    r"discord(?:app)?\.com/api/webhooks/\d{17,20}/[\w-]{60,}",
    r"[\w-]+\.webhook\.office\.com/webhookb2/[\w@-]{36,}/IncomingWebhook/[\w/-]{32,}",
    r"hooks\.zapier\.com/hooks/catch/\d+/\w{6,}",
    r"chat\.googleapis\.com/v1/spaces/[\w-]+/messages\?key=[\w%-]{20,}",
    r"open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/[0-9a-f-]{36}",
    r"oapi\.dingtalk\.com/robot/send\?access_token=[0-9a-f]{64}",
    r"maker\.ifttt\.com/trigger/\w+/with/key/[\w-]{20,}",
    r"hooks\.(?:airtable|tray)\.[\w./-]{24,}",
    r"[\w.-]+\.logic\.azure\.com[\w.:/-]*\?[\w%&=.-]*sig=[\w%-]{32,}",
    r"outlook\.office(?:365)?\.com/webhook/[\w@-]{36,}/IncomingWebhook/[\w/-]{32,}",
)
"""Addresses, without their scheme, that give access to anyone who knows them."""


UNMARKED = (  # no prefix to jump to: something in the middle is, or a word nearby says whose key it is
    pattern_rule("mailchimp-key", "[API_KEY]", r"-us(?<=[0-9a-f]{32}-us)\d{1,2}(?!\w)", trigger="-us", grow=True),
    pattern_rule("telegram-key", "[API_KEY]", r":(?P<secret>AA(?<=\d{8}:AA)[\w-]{32,33})(?![\w-])", trigger=":AA"),
    pattern_rule(
        "discord-key",
        "[API_KEY]",
        r"\.(?<=[\w-]{23}\.)[\w-]{6}\.[\w-]{27,38}(?![\w-])",
        trigger=r"\.(?<=[A-Za-z0-9_-]{23}\.)",
        check=values.random,
        grow=True,
    ),
    pattern_rule(
        "truenas-key",
        "[API_KEY]",
        r"-(?<=\d-)(?![0-9a-f]{64})[A-Za-z0-9]{64}(?!\w)",
        trigger="-(?<=[0-9]-)[A-Za-z0-9]{9}",
        grow=True,
    ),
    pattern_rule("webhook", "[API_KEY]", rf"https://(?:{'|'.join(WEBHOOKS)})", trigger="https://"),
    pattern_rule(
        "azure-key",
        "[API_KEY]",
        r"Q~(?<=[A-Za-z0-9]\dQ~)[\w~.-]{31,34}(?![\w~.-])",
        trigger="Q~(?<=[0-9]Q~)",
        grow=True,
    ),
    pattern_rule(  # of a signed link: whoever has it may read the file
        "signature",
        "[API_KEY]",
        r"(?:[?&;]|(?i:x-(?:amz|goog|oss|tos|obs|cos)|q)-)(?i:sig|signature|security-token|hmac)="
        r"(?P<secret>[\w%+/~.-]{20,3900}={0,2})",
        trigger="[?&;-](?i:sig|signature|security-token|hmac)=",
        check=values.random,
    ),
    pattern_rule(
        "maxmind-key", "[API_KEY]", r"_mmk(?<=[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)(?!\w)", trigger="_mmk", grow=True
    ),
    pattern_rule(
        "airtable-key",
        "[API_KEY]",
        r"\.(?<=pat[A-Za-z0-9]{14}\.)[0-9a-f]{64}(?!\w)",
        trigger=r"\.(?<=pat[A-Za-z0-9]{14}\.)",
        grow=True,
    ),
    pattern_rule("newrelic-key", "[API_KEY]", r"NRAL(?<=[0-9a-z]{32}NRAL)(?!\w)", trigger="NRAL", grow=True),
    pattern_rule("vault-key", "[API_KEY]", r"\.atlasv1\.[\w-]{60,}", trigger=r"\.atlasv1", grow=True),
    pattern_rule(
        "thingsboard-key",
        "[API_KEY]",
        r"/api/v1/(?P<secret>[a-z0-9]{20})(?!\w)",
        trigger="/api/v1/",
        near="thingsboard",
        check=values.random,
    ),
    pattern_rule(  # of a payment: what stands before it is the id
        "stripe-key",
        "[API_KEY]",
        r"_secret_[A-Za-z0-9]{16,}(?![A-Za-z0-9])",
        trigger="_secret_[A-Za-z0-9]{9}",
        check=values.random,
        grow=True,
    ),
    pattern_rule(  # the private part of a JSON web key, or a symmetric one
        "jwk-key",
        "[API_KEY]",
        r"""[dkpq](?<![\w-].)[pqi]?["']?\s{0,4}:\s{0,4}["'](?P<secret>[\w-]{43,1400})["']""",
        trigger=r""":(?<=[dkpqi]:)|:(?<=[dkpqi]["']:)""",
        check=lambda found: values.random(found) and not values.wordy(found),
        begins=r"[dkpq](?<![A-Za-z0-9_-].)",
    ),
    pattern_rule(
        "okta-key",
        "[API_KEY]",
        r"(?<![\w-])00[\w-]{39}[A-Za-z0-9](?![\w-])",
        trigger="00(?<![A-Za-z0-9_-]00)[A-Za-z0-9_-]{9}",
        near="okta",
        check=values.random,
    ),
    pattern_rule("okta-key", "[API_KEY]", r"SSWS\s{1,8}(?P<secret>00[\w-]{39}[A-Za-z0-9])(?![\w-])", trigger="SSWS"),
    pattern_rule(
        "figma-key",
        "[API_KEY]",
        r"(?<!\w)\d{4}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?!\w)",
        trigger="-(?<=[0-9]{4}-)[0-9a-f]{8}-",
        near="figma",
    ),
)

_EXAMPLES = ("pass", "password", "passwd", "pwd", "xyz", "abc", "fakepass", "mypassword", "yourpassword")


def _in_link(found: str) -> bool:
    """Return whether a link gives a password, as no example does: ``https://user:pass@…``."""
    return found[0] not in "$<{%*[(:" and "," not in found and found.lower() not in _EXAMPLES


# Characters within a key block: 3,900; an RSA key of 4,096 bits has 3,300. A stream must hold a whole block, with the
# BEGIN and END around it, which have up to 144 characters (see `_PEM`); the rest is to spare.
_LONGEST_KEY = MAX_HOLD - 196
_PEM = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_CRYPT = (
    r"\$(?:2[abxy]?|5|6|7|8|9|y|gy|1|P|H|sha1|md5|DCC2|krb5(?:asrep|tgs|pa)|apr1|argon2(?:id|i|d)|pbkdf2[\w-]{0,8})\$"
)
_HEADER = "[Bb](?i:asic|eare)(?<![A-Za-z0-9].....)"  # one search for both


def _unless_cursor(text: str, trace: Trace) -> Trace:
    """Return a trace that does not count if it is a place in a list: some services write those as web tokens."""
    return trace._replace(counts=trace.counts and not names_cursor(text, trace.low))


BLOCKS = (
    pattern_rule(
        "password-hash",
        "[PASSWORD]",
        rf"{_CRYPT}[\w./$,=+*#@:-]{{20,400}}",
        trigger=_CRYPT,
        check=values.random,
        longest=420,
    ),
    judged(
        pattern_rule(
            "jwt",
            "[JWT]",
            r"eyJ(?<![\w-]eyJ)[\w-]{8,2000}\.eyJ[\w-]{8,}(?:\.[\w-]*)?",
            trigger="eyJ(?<![A-Za-z0-9_-]eyJ)",
            check=lambda found: not is_example(found),
        ),
        _unless_cursor,
    ),
    pattern_rule(
        "private-key",
        "[PRIVATE_KEY]",
        rf"-----BEGIN {_PEM}(?:(?:[^-]|-(?!----)){{0,{_LONGEST_KEY}}}+-----END {_PEM}"
        r"|(?:[\s\\nr\"'+]{0,8}+[A-Za-z0-9+/=]{16,}+)+)",
        trigger="-----BEGIN",
    ),
    pattern_rule(
        "url-credentials",
        "[PASSWORD]",
        r"""://(?<=[A-Za-z0-9]://)[^\s/:@"'<>]{0,128}:(?P<secret>[^\s/"'<>]{3,256})@""",
        trigger="://",
        check=_in_link,
    ),
    pattern_rule(  # a token in place of the name, as in the addresses of Sentry
        "url-credentials",
        "[API_KEY]",
        r"://(?<=[A-Za-z0-9]://)(?P<secret>[A-Za-z0-9_-]{20,255})@",
        trigger="://",
        check=values.token,
    ),
    pattern_rule(  # data sources of Go
        "url-credentials",
        "[PASSWORD]",
        r"""(?<![\w./:-])[\w.-]{1,64}:(?P<secret>[^\s:@"'`/<>[\]]{3,128})@(?:tcp|unix)\(""",
        trigger=r"@(?:tcp|unix)\(",
        check=_in_link,
    ),
    pattern_rule(
        "basic-auth",
        "[BASIC_AUTH]",
        r"[Bb](?<![A-Za-z0-9][Bb])(?i:asic)\s{1,8}[A-Za-z0-9+/]{8,}={0,2}",
        trigger=_HEADER,
        check=validators.basic_credentials,
    ),
    pattern_rule(
        "private-key",
        "[PRIVATE_KEY]",
        r"Private-Lines: \d{1,3}(?:\s{1,8}[A-Za-z0-9+/=]{16,80}){1,48}",
        trigger="-Lines:",
    ),
    pattern_rule(
        "private-key",
        "[PRIVATE_KEY]",
        r"-----BEGIN OpenVPN Static key V\d-----[0-9a-fA-F\s]{32,3000}(?:-----END OpenVPN Static key V\d-----)?",
        trigger="-----BEGIN",
    ),
    pattern_rule(  # settings of Docker and npm
        "basic-auth",
        "[BASIC_AUTH]",
        r"""auth["']\s{0,4}:\s{0,4}["'](?P<secret>[A-Za-z0-9+/]{8,400}={0,2})["']""",
        trigger="auth[\"']",
        check=validators.basic_credentials,
    ),
    pattern_rule(
        "authorization",
        "[SECRET]",
        r"""uthorization["'\])]{0,2}\s{0,4}[:=,]\s{0,4}["'`]?(?:[A-Za-z-]{2,24}\s{1,3})?(?:token=|key=)?["']?"""
        r"""(?P<secret>[A-Za-z0-9+/_.:~-]{16,512}={0,2})""",
        trigger="zation",
        check=values.token,
    ),
    pattern_rule(
        "password-hash", "[PASSWORD]", r"\{S?SHA\d{0,3}\}[A-Za-z0-9+/]{24,140}={0,2}", trigger=r"\{S?SHA", check=None
    ),
    pattern_rule(
        "password-hash",
        "[PASSWORD]",
        r"pbkdf2_sha\d{1,3}\$\d{3,8}\$[A-Za-z0-9]{8,64}\$[A-Za-z0-9+/]{24,100}={0,2}",
        trigger="_sha",
    ),
    pattern_rule(  # dumps of Windows' accounts
        "password-hash",
        "[PASSWORD]",
        r":[0-9a-fA-F]{32}:[0-9a-fA-F]{32}:::",
        trigger=r":(?=[0-9a-fA-F]{32}:)",
    ),
    pattern_rule(
        "url-credentials",
        "[PASSWORD]",
        r"""jdbc:oracle:thin:[\w.$-]{1,64}/(?P<secret>[^\s/@"'<>$]{3,128})@""",
        trigger=":oracle:",
        check=_in_link,
    ),
    *(
        pattern_rule(
            "connection-key", "[API_KEY]", rf"{label}=(?P<secret>[A-Za-z0-9+/]{{32,}}={{0,2}})", trigger=f"{label}="
        )
        for label in ("AccountKey", "SharedAccessKey", "SharedSecretValue")
    ),
)
BEARER = pattern_rule(
    "bearer-token",
    "[BEARER_TOKEN]",
    r"[Bb](?<![A-Za-z0-9][Bb])(?i:earer):?\s{1,8}[A-Za-z0-9._~+/-]*[A-Za-z0-9_~+/-]=*",
    trigger=_HEADER,
    check=lambda found: validators.bearer(found) and not is_example(found),
)
