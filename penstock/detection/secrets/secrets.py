"""The preset ``secrets``: keys that providers mark with a prefix, key blocks, and credentials behind a label. Data.

A provider's own description of its keys is the source of each shape; lengths are lower bounds where providers change
them. What has no mark of its own is found by the label before it, if the value is random enough to be one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import marked, shaped
from penstock.detection.secrets.labels import Value, labelled
from penstock.detection.secrets.providers import MORE_PROVIDERS, WEBHOOKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.detection.patterns.built_in import BuiltIn

_ENTROPY_OF_WORDS = 3.0  # a key in letters only has more than words joined by hyphens


def _random(found: str) -> bool:
    """Tell whether a key is more than words behind a prefix: ``sk-learn-…`` is a package."""
    return any(map(str.isdigit, found)) or (found != found.lower() and validators.entropy(found) > _ENTROPY_OF_WORDS)


def _marked(name: str, replacement: str, *rows: tuple[str, str]) -> Iterator[BuiltIn]:
    """Yield a rule for each prefix; a row is the prefixes, parted by spaces, and what must follow."""
    for prefixes, rest in rows:
        for prefix in prefixes.split():
            yield marked(name, replacement, prefix, rest, _random)


_AWS = tuple(
    marked("aws-key", "[AWS_KEY]", prefix, rest, None)
    for prefix, rest in (
        ("AKIA", "[A-Z0-9]{16}"),
        ("ASIA", "[A-Z0-9]{16}"),
        ("ABIA", "[A-Z0-9]{16}"),
        ("ACCA", "[A-Z0-9]{16}"),
        ("A3T", "[A-Z0-9]{17}"),
    )
)

_CODE_HOSTS = (
    *_marked(
        "github-token",
        "[GITHUB_TOKEN]",
        ("ghp_ gho_ ghu_ ghs_ ghr_", "[A-Za-z0-9]{30,255}"),
        ("github_pat_", r"\w{22,255}"),
    ),
    *_marked(
        "gitlab-token",
        "[GITLAB_TOKEN]",
        ("glpat- gldt- glrt- glft- glsoat- glimt- gloas- glagent- glcbt- glffct- GR1348941", r"[\w-]{20,}"),
        ("glptt-", "[0-9a-f]{40}"),
    ),
    *_marked(
        "slack-token",
        "[SLACK_TOKEN]",
        ("xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs- xoxe.xoxb- xoxe.xoxp-", "[A-Za-z0-9-]{10,}"),
        ("xapp-", "[A-Za-z0-9-]{20,}"),
    ),
    shaped(
        "slack-webhook",
        "[SLACK_WEBHOOK]",
        r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w/-]{20,}",
        trigger=r"https://hooks\.",
    ),
    *_marked("npm-token", "[NPM_TOKEN]", ("npm_", "[A-Za-z0-9]{30,}")),
    shaped(
        "npm-token",
        "[NPM_TOKEN]",
        r"""_(?:authToken|auth)\s{0,3}=\s{0,3}["']?(?P<secret>[A-Za-z0-9+/=_-]{12,})""",
        trigger="_auth",
        check=validators.token,
    ),
    *_marked("pypi-token", "[PYPI_TOKEN]", ("pypi-", r"[\w-]{50,}")),
)

_HEX32 = "[0-9a-f]{32}"
_PROVIDERS: tuple[tuple[str, str, str], ...] = (  # name, prefixes, what follows
    ("anthropic", "sk-ant-", r"[\w-]{16,}"),
    ("openai", "sk-", r"(?!ant-)[\w-]{20,}"),
    ("google", "AIza", r"[\w-]{35}"),
    ("google", "ya29. GOCSPX-", r"[\w-]{20,}"),
    ("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", "[A-Za-z0-9]{10,}"),
    ("stripe", "whsec_", "[A-Za-z0-9+/=]{20,}"),
    ("twilio", "AC SK", _HEX32),
    ("sendgrid", "SG.", r"[\w-]{16,40}\.[\w-]{16,64}"),
    ("mailgun", "key-", "[0-9a-z]{32}"),
    ("huggingface", "hf_ api_org_", "[A-Za-z0-9]{30,}"),
    ("digitalocean", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{64}"),
    ("doppler", "dp.pt. dp.st. dp.ct. dp.sa. dp.said. dp.scim. dp.audit.", r"(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("shopify", "shpat_ shpca_ shppa_ shpss_ shptka_", "[0-9a-fA-F]{32}"),
    ("square", "sq0atp- sq0atb- sq0csp- sandbox-sq0atb-", r"[\w-]{22,50}"),
    ("square", "EAAA", r"[\w-]{60}"),
    ("facebook", "EAA", "[A-Za-z0-9]{60,}"),
    ("vault", "hvs. hvb. hvr.", r"[\w-]{24,}"),
    ("newrelic", "NRAK- NRII- NRIQ- NRAL- NRAA- NRSP- NRJS- NRRA-", r"[\w-]{16,}"),
    ("grafana", "glsa_", "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    ("grafana", "glc_ eyJrIjoi", "[A-Za-z0-9+/=_-]{32,}"),
    ("sourcegraph", "sgp_", "(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}"),
    ("atlassian", "ATATT3 ATCTT3", r"[\w=-]{60,}"),
    ("atlassian", "ATBB", "[A-Za-z0-9]{32}"),
    ("artifactory", "AKC AP0 AP1 AP2 AP3 AP4 AP5 AP6 AP7 AP8 AP9 APA APB APC APD APE APF", "[A-Za-z0-9]{10,}"),
    ("dropbox", "sl.", r"[\w-]{100,}"),
    ("adafruit", "aio_", "[A-Za-z0-9]{28}"),
    ("age", "AGE-SECRET-KEY-1", "[0-9A-Z]{50,}"),
    ("figma", "figd_", r"[\w-]{30,}"),
    ("crates", "cio", "[A-Za-z0-9]{32}"),
    ("appsync", "da2-", "[a-z0-9]{26}"),
    ("blynk", "oa2-client-id_", r"[\w-]{32}:[\w-]{40}"),
    ("databricks", "dapi", r"[0-9a-f]{32}(?:-\d)?"),
    ("nuget", "oy2", "[a-z0-9]{43}"),
    ("mapbox", "sk.eyJ", r"[\w-]{20,}\.[\w-]{20,}"),
    ("firecrawl", "fc-", _HEX32),
    ("ai-service", "gsk_ pplx- tvly- xai- fw_ r8_ csk- nvapi- jina_ e2b_ lsv2_pt_ lsv2_sk_ pa-", r"[\w-]{28,}"),
    (
        "service",
        (
            "lin_api_ lin_oauth_ ntn_ PMAK- sntrys_ sntryu_ dckr_pat_ dckr_oat_ rubygems_ sbp_ nfp_ HRKU- CCIPAT_ "
            "bkua_ pul- CFPAT- rdme_ tfp_ pnu_ pscale_tkn_ pscale_pw_ pscale_oauth_ fio-u- EZAK EZTK FLWSECK- "
            "FLWSECK_TEST- phc_ phx_ "
            "shippo_live_ shippo_test_ duffel_live_ duffel_test_ tk-us- kagi- xkeysib- dt0c01. rzp_live_ rzp_test_"
        ),
        r"[\w.=+-]{24,}",
    ),
)
_KEYS = tuple(
    rule
    for name, prefixes, rest in (*_PROVIDERS, *MORE_PROVIDERS)
    for rule in _marked(f"{name}-key", "[API_KEY]", (prefixes, rest))
)

_UNMARKED = (  # no prefix to jump to: something in the middle is, or a word nearby says whose key it is
    shaped("mailchimp-key", "[API_KEY]", r"-us(?<=[0-9a-f]{32}-us)\d{1,2}(?!\w)", trigger="-us", grow=True),
    shaped("telegram-key", "[API_KEY]", r":(?P<secret>AA(?<=\d{8}:AA)[\w-]{32,33})(?![\w-])", trigger=":AA"),
    shaped(
        "discord-key",
        "[API_KEY]",
        r"\.(?<=[\w-]{23}\.)[\w-]{6}\.[\w-]{27,38}(?![\w-])",
        trigger=r"\.(?<=[A-Za-z0-9_-]{23}\.)",
        check=_random,
        grow=True,
    ),
    shaped("truenas-key", "[API_KEY]", r"-(?<=\d-)[A-Za-z0-9]{64}(?!\w)", trigger="-(?<=[0-9]-)", grow=True),
    shaped("webhook", "[API_KEY]", rf"https://(?:{'|'.join(WEBHOOKS)})", trigger="https://"),
    shaped(
        "azure-key",
        "[API_KEY]",
        r"Q~(?<=[A-Za-z0-9]\dQ~)[\w~.-]{31,34}(?![\w~.-])",
        trigger="Q~(?<=[0-9]Q~)",
        grow=True,
    ),
    shaped("azure-key", "[API_KEY]", r"sig=(?P<secret>[A-Za-z0-9%+/_-]{40,}={0,2})", trigger="sig=", check=_random),
    shaped("maxmind-key", "[API_KEY]", r"_mmk(?<=[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk)(?!\w)", trigger="_mmk", grow=True),
    shaped(
        "airtable-key",
        "[API_KEY]",
        r"\.(?<=pat[A-Za-z0-9]{14}\.)[0-9a-f]{64}(?!\w)",
        trigger=r"\.(?<=pat[A-Za-z0-9]{14}\.)",
        grow=True,
    ),
    shaped("newrelic-key", "[API_KEY]", r"NRAL(?<=[0-9a-z]{32}NRAL)(?!\w)", trigger="NRAL", grow=True),
    shaped("vault-key", "[API_KEY]", r"\.atlasv1\.[\w-]{60,}", trigger=r"\.atlasv1", grow=True),
    shaped(
        "thingsboard-key", "[API_KEY]", r"/api/v1/(?P<secret>[a-z0-9]{20})(?!\w)", trigger="/api/v1/", check=_random
    ),
    shaped(
        "okta-key",
        "[API_KEY]",
        r"(?<![\w-])00[\w-]{39}[A-Za-z0-9](?![\w-])",
        trigger="00(?<![A-Za-z0-9_-]00)",
        near="okta",
        check=_random,
    ),
    shaped("okta-key", "[API_KEY]", r"SSWS\s{1,8}(?P<secret>00[\w-]{39}[A-Za-z0-9])(?![\w-])", trigger="SSWS"),
    shaped(
        "figma-key",
        "[API_KEY]",
        r"(?<!\w)\d{4}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?!\w)",
        trigger="-(?<=[0-9]{4}-)",
        near="figma",
    ),
)

_LONGEST_HEADER = 2000  # characters of a token's header; the longest ones carry a certificate
_LONGEST_KEY = 3900  # characters within a block: an RSA key of 4,096 bits has 3,300; a stream holds no more
_PEM = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_CRYPT = r"\$(?:2[abxy]?|5|6|7|y|1|apr1|argon2(?:id|i|d)|pbkdf2[\w-]{0,8})\$"
_BLOCKS = (
    shaped("password-hash", "[PASSWORD]", rf"{_CRYPT}[A-Za-z0-9./$,=+]{{20,400}}", trigger=_CRYPT, check=_random),
    shaped(
        "command-password",
        "[PASSWORD]",
        r"""-(?:u|-user)(?<=\s-u|-user)[ =]["']?[\w.@-]{1,64}:(?P<secret>[^\s"'$<{*]{4,128})""",
        trigger="-(?:u|-user)(?=[ =])",
        check=validators.password,
    ),
    shaped(
        "jwt", "[JWT]", r"eyJ(?<![\w-]eyJ)[\w-]{8,2000}\.eyJ[\w-]{8,}(?:\.[\w-]*)?", trigger="eyJ(?<![A-Za-z0-9_-]eyJ)"
    ),
    shaped(
        "private-key",
        "[PRIVATE_KEY]",
        rf"-----BEGIN {_PEM}(?:(?:[^-]|-(?!----)){{0,{_LONGEST_KEY}}}+-----END {_PEM}"
        r"|(?:[\s\\nr\"'+]{0,8}+[A-Za-z0-9+/=]{16,}+)+)",
        trigger="-----BEGIN",
    ),
    shaped(
        "url-credentials",
        "[PASSWORD]",
        r"""://(?<=[A-Za-z]://)[^\s/:@"'<>]{0,128}:(?P<secret>[^\s/@"'<>]{3,256})@""",
        trigger="://",
        check=lambda found: found[0] not in "$<{%*[(",
    ),
    shaped(
        "basic-auth",
        "[BASIC_AUTH]",
        r"[Bb](?<![A-Za-z0-9][Bb])(?i:asic)\s{1,8}[A-Za-z0-9+/]{8,}={0,2}",
        trigger="[Bb](?<![A-Za-z0-9].)(?i:asic)",
        check=validators.basic_credentials,
    ),
    *(
        shaped("connection-key", "[API_KEY]", rf"{label}=(?P<secret>[A-Za-z0-9+/]{{32,}}={{0,2}})", trigger=f"{label}=")
        for label in ("AccountKey", "SharedAccessKey", "SharedSecretValue")
    ),
)
_BEARER = shaped(
    "bearer-token",
    "[BEARER_TOKEN]",
    r"[Bb](?<![A-Za-z0-9][Bb])(?i:earer):?\s{1,8}[A-Za-z0-9._~+/-]*[A-Za-z0-9_~+/-]=*",
    trigger="[Bb](?<![A-Za-z0-9].)(?i:earer)",
    check=validators.bearer,
)

_UNQUOTED = r"""^\s"'`,;<>(){}\[\]$&|"""
_API_KEY = labelled(
    "api-key",
    "[API_KEY]",
    r"(?<![a-z0-9])(?:api|app|access|auth|secret|private|client)[ _-]?(?:key|token|secret)(?:[ _-]?id)?",
    Value(r"A-Za-z0-9_.+/=~-", r"A-Za-z0-9_.+/=~-", 20, lambda found, _: not validators.placeholder(found)),
    "key token secret",
    whole="[Aa](?<![A-Za-z0-9].)(?i:pi|pp|ccess|uth)|[CPScps](?<![A-Za-z0-9].)(?i:lient|rivate|ecret)",
)
_VALUE = labelled(
    "secret-value",
    "[SECRET]",
    r"(?:secret|token(?!iz)|(?:api|app|access|auth|private|signing|encryption|master)[ _-]?key|[_-]key|credential"
    r"|[_-]auth|[_-]sid|pin[_-]?code)[\w-]{0,24}",
    Value(_UNQUOTED, _UNQUOTED, 12, lambda found, _: validators.token(found)),
    "secret token key credential auth sid pin",
)
_MOST_SPACES = 3  # more words than that are a command or a sentence
_SIGN = re.compile(r"[\d!@#%^*?~+=]")
_PASSWORD = labelled(
    "password",
    "[PASSWORD]",
    r"(?:password|passwd|passphrase|passwort|contraseña|pwd|[_-]pass|\bpass)[\w-]{0,24}",
    Value(
        _UNQUOTED,
        r"""^"'`\n""",
        6,
        lambda found, quoted: (
            validators.password(found) and (found.count(" ") <= _MOST_SPACES if quoted else bool(_SIGN.search(found)))
        ),
    ),
    "pass pwd contraseña",
)

SECRETS: tuple[BuiltIn, ...] = (
    _API_KEY,
    _BEARER,
    *_AWS,
    *_CODE_HOSTS,
    *_KEYS,
    *_UNMARKED,
    *_BLOCKS,
    _VALUE,
    _PASSWORD,
)
"""In the reference's order, then what it has not."""
