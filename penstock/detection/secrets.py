"""API keys, tokens and passwords: provider prefixes, key blocks, labelled values, and random-looking tokens.

`SECRETS` is the preset ``secrets``. The shapes come from the providers' own documentation of their keys; lengths are
lower bounds where providers change them. A value without a prefix of its own is found by the label before it, if it is
random enough to be a secret.

`RANDOM_TOKENS` finds keys of providers that no table lists. A token counts if it mixes digits, capitals and small
letters as no word, name or identifier does; behind words about keys, if it mixes digits and letters. Hashes,
identifiers and long data do not count.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import regex

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import RUN, BuiltInRule, pattern_rule, prefix_rule
from penstock.detection.patterns.open_matches import Scan, StreamPattern, Trace
from penstock.engine.text_guards.text_guard import MAX_HOLD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.detection.patterns.open_matches import Scan


_SEPARATOR = re.compile(r"(?<![:=!])(?:[:=]{1,3}+>?|!==?)(?![:=])")  # more of them are a line that is drawn
_QUOTE = re.compile(r"""\s{0,12}+(["'`]?)""")
_BEHIND = r"""["'\])]{0,2}\s{0,12}"""  # what may part a label from its separator
_WINDOW = 72  # how far before its separator a label may begin
_LONGEST = 128  # characters of a value that are looked at


@dataclass(frozen=True, slots=True)
class LabelledValue:
    """How a value after a label must look.

    Attributes:
        bare: the characters of a value without quotes, as the inside of a character class.
        quoted: the characters of a value in quotes.
        least: how many characters it must have.
        check: decides whether a value counts; its second argument says whether the value stood in quotes.
    """

    bare: str
    quoted: str
    least: int
    check: Callable[[str, bool], bool]


class _Labelled:
    """Searches for the values of one label.

    ``whole`` is searched for at the end of a text, if the label is part of the finding.
    """

    def __init__(self, label: str, value: LabelledValue, whole: StreamPattern | None, stems: Sequence[str]) -> None:
        self._stems = stems
        self._label = re.compile(rf"(?i)(?:{label}){_BEHIND}$", re.ASCII)
        self._bare = re.compile(f"[{value.bare}]{{0,{_LONGEST}}}+")
        self._quoted = re.compile(f"[{value.quoted}]{{0,{_LONGEST}}}+")
        self._rest = re.compile(f"[{value.bare}]*")
        self._value = value
        self._whole = whole

    def search(self, text: str, start: int, *, final: bool) -> Scan:
        """Return the traces of assignments, and the place from which on they may change."""
        traces: list[Trace] = []
        hold = len(text) if final or self._whole is None else self._whole.open_at(text, start)
        reach = 0
        plain = text[max(start - _WINDOW, 0) :].lower()
        if not any(stem in plain for stem in self._stems):  # the cheaper question comes first
            return traces, hold
        for separator in _SEPARATOR.finditer(text, start):
            at = separator.start()
            found = self._behind(text, separator.end(), final=final) if at >= reach else None
            label = self._label.search(text, max(at - _WINDOW, 0), at) if found else None
            if found is None or label is None:
                continue
            begin, end, bare = found
            reach = _end(self._rest, text, end) if bare else end  # read once for each value: it may be long
            low = at if self._whole is None else label.start()
            if reach > len(text) or (reach == len(text) and not final):
                return traces, min(hold, low)
            traces.append(Trace(low, reach, begin if self._whole is None else low, reach))
        return traces, hold

    def _behind(self, text: str, at: int, *, final: bool) -> tuple[int, int, bool] | None:
        """Return where a value after a separator begins and ends, and whether it has no quotes.

        The end lies beyond the text if more of it must be seen.
        """
        opening = _QUOTE.match(text, at)
        mark, begin = (opening.group(1), opening.end()) if opening else ("", at)
        end = _end(self._quoted if mark else self._bare, text, begin)
        if end == len(text) and not final:
            return begin, end + 1, False
        if end - begin < self._value.least or (mark and text[end : end + 1] not in (mark, "")):
            if not mark or self._whole is None:
                return None
            end = _end(self._bare, text, begin)
            if end - begin < self._value.least:
                return None
        if not self._value.check(text[begin:end], bool(mark)) or text[end : end + 1] in ("(", "["):
            return None
        return begin, end, not mark


def _end(run: re.Pattern[str], text: str, at: int) -> int:
    found = run.match(text, at)
    return found.end() if found else at


def labelled(
    name: str, replacement: str, label: str, value: LabelledValue, stems: str, *, whole: str = ""
) -> BuiltInRule:
    """Return the rule for a value after a label and a separator.

    Args:
        name: the name of what it finds.
        replacement: what replaces it.
        label: a pattern, in any case.
        value: how the value must look.
        stems: words, separated by spaces; each label contains one of them.
        whole: the trigger with which a label begins, if the label is part of the finding; empty otherwise.
    """
    before = StreamPattern(rf"(?:{label}){_BEHIND}(?:[:=]|!=)", regex.ASCII | regex.IGNORECASE) if whole else None
    trigger = f"[:=]|{whole}" if whole else "[:=]"
    return BuiltInRule(name, replacement, trigger, _Labelled(label, value, before, stems.split()).search)


UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

MORE_PROVIDERS: tuple[tuple[str, str, str], ...] = (  # name, prefixes, what follows
    # clouds and hosts
    ("aws", "ABSK", "[A-Za-z0-9+/]{100,}={0,2}"),
    ("aws", "amzn.mws.", UUID),
    ("aws", "AQoDYXdz IQoJb3JpZ2lu", "[A-Za-z0-9+/=]{100,}"),
    ("alibaba", "LTAI", "[A-Za-z0-9]{12,26}"),
    ("tencent", "AKID", "[A-Za-z0-9]{13,40}"),
    ("volcengine", "AKLT", "[A-Za-z0-9_-]{20,}"),
    ("yandex", "AQVN YCAJE YCM", r"[\w-]{20,}"),
    ("yandex", "t1.9eu", r"[\w.=-]{40,}"),
    ("cloudflare", "v1.0-", "[0-9a-f]{24}-[0-9a-f]{146}"),
    ("fly", "FlyV1 fo1_ fm1r_ fm2_", r"[\w+/=,-]{32,}"),
    ("render", "rnd_", "[A-Za-z0-9]{24,}"),
    ("netlify", "nfc_ nfo_ nfu_ nfb_", "[A-Za-z0-9]{36,}"),
    ("vercel", "vcp_ vci_ vca_ vcr_ vck_", "[A-Za-z0-9]{24,}"),
    ("openshift", "sha256~", r"[\w-]{43}"),
    ("scaleway", "SCW", "[A-Z0-9]{17}"),
    ("upcloud", "ucat_", "[A-Za-z0-9]{20,}"),
    ("tailscale", "tskey- tskey-auth- tskey-api- tskey-client- tskey-scim- tskey-webhook-", r"[\w-]{12,}"),
    ("ngrok", "cr_ ak_", "[A-Za-z0-9]{24,}"),
    ("dynatrace", "dt0s01. dt0s02. dt0s03. dt0s08. dt0s16.", r"[\w.-]{24,}"),
    # code and builds
    ("circleci", "CCIPRJ_ CCIPAT_", r"\w{22,}"),
    ("buildkite", "bkct_ bkaj_ bkpt_ bkpat_", "[A-Za-z0-9-]{24,}"),
    ("sonar", "squ_ sqp_ sqa_ sqco_", "[0-9a-f]{40}"),
    ("snyk", "snyk_uat. snyk_sat.", r"[\w.-]{20,}"),
    ("jfrog", "cmVmdGtu", "[A-Za-z0-9]{40,}"),
    ("clojars", "CLOJARS_", "[0-9a-f]{60}"),
    ("packagist", "packagist_uut_ packagist_ort_ packagist_oat_", "[A-Za-z0-9]{40,}"),
    ("octopus", "API-", "[A-Z0-9]{26,}"),
    ("harness", "pat. sat.", r"[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    ("infracost", "ico-", "[A-Za-z0-9]{32}"),
    ("wakatime", "waka_", UUID),
    ("posthog", "phs_ phr_", "[A-Za-z0-9]{32,}"),
    ("launchdarkly", "sdk- mob- api- rel-", UUID),
    ("sentry", "sntrya_ sntryi_", r"[\w=.-]{24,}"),
    ("prefect", "pnb_", "[A-Za-z0-9]{30,}"),
    ("openvsx", "ovsxp_ ovsxat_", UUID),
    # work
    ("notion", "secret_", "[A-Za-z0-9]{43}"),
    ("linear", "lin_wh_", "[A-Za-z0-9]{32,}"),
    ("hubspot", "pat-na1- pat-na2- pat-eu1- pat-ap1-", UUID),
    ("trello", "ATTA", "[0-9a-f]{64}"),
    ("zuplo", "zpka_", r"\w{24,}"),
    ("slack", "xwfp- xoxc- xoxd-", r"[\w%.-]{20,}"),
    ("intercom", "dG9rOj", "[A-Za-z0-9+/=_-]{24,}"),
    ("rootly", "rootly_", "[0-9a-f]{64}"),
    ("onepassword", "ops_eyJ", r"[\w=-]{60,}"),
    ("onepassword", "A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}"),
    ("settlemint", "sm_aat_ sm_pat_ sm_sat_", "[A-Za-z0-9]{16,}"),
    # money
    ("stripe", "sk_org_live_ sk_org_test_ rk_org_live_ pk_live_ pk_test_", "[A-Za-z0-9]{14,}"),
    ("paypal", "access_token$production$ access_token$sandbox$", r"[0-9a-z]{16}\$[0-9a-f]{32}"),
    ("plaid", "access-sandbox- access-development- access-production-", UUID),
    ("gocardless", "live_ sandbox_", r"[\w-]{40}"),
    ("lob", "live_ test_ live_pub_ test_pub_", "[0-9a-f]{31,35}"),
    ("flutterwave", "FLWPUBK- FLWPUBK_TEST- FLWSECK_TEST", "[0-9A-Za-z-]{12,}"),
    ("adyen", "AQE", r"[\w+/=.-]{60,}"),
    ("mercadopago", "APP_USR- TEST-", r"[0-9a-z-]{40,}"),
    ("braintree", "production_ sandbox_", "[a-z0-9]{8}_[a-z0-9]{16}"),
    ("checkout", "sk_ sk_test_ sk_sbox_", rf"(?:{UUID}|[a-z0-9]{{26,28}})"),
    ("polar", "polar_oat_ polar_pat_ polar_at_u_", r"\w{24,}"),
    ("paddle", "pdl_live_apikey_ pdl_sdbx_apikey_ pdl_ntfset_", r"\w{24,}"),
    # mail and messages
    ("mailchimp", "md-", r"[\w-]{22}"),
    ("sendinblue", "xsmtpsib-", "[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("mailgun", "pubkey-", "[0-9a-f]{32}"),
    ("resend", "re_", r"[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}"),
    ("mailersend", "mlsn.", "[0-9a-f]{60,}"),
    ("telnyx", "KEY0", r"[0-9A-F]{30,}_\w{20,}"),
    # models
    ("anthropic", "sk-ant-admin01- sk-ant-oat01- sk-ant-sid01-", r"[\w-]{20,}"),
    ("openrouter", "sk-or-v1- sk-or-", "[0-9a-f]{40,}"),
    ("langfuse", "sk-lf- pk-lf-", UUID),
    ("elevenlabs", "sk_", "[0-9a-f]{48}"),
    ("pinecone", "pcsk_", r"\w{40,}"),
    ("together", "tgp_v1_", r"[\w-]{30,}"),
    ("apify", "apify_api_ apify_proxy_", "[A-Za-z0-9]{30,}"),
    ("runpod", "rpa_", "[A-Za-z0-9]{30,}"),
    ("mem0", "m0-", "[A-Za-z0-9]{30,}"),
    ("wandb", "wandb_v1_", r"\w{40,}"),
    ("google", "AQ.Ab8", r"[\w-]{40,}"),
    ("google", "1//0", r"[\w-]{40,}"),
    ("google", "6L", r"(?=[\w-]*[A-Z])(?=[\w-]*[a-z])[\w-]{38}"),
    # data
    ("supabase", "sb_secret_ sb_publishable_", r"[\w-]{24,}"),
    ("planetscale", "pscale_api_", r"[\w.=-]{32,}"),
    ("neon", "napi_ npg_", "[A-Za-z0-9]{12,}"),
    ("confluent", "cflt", "[A-Za-z0-9+/]{60}"),
    ("mongodb", "mdb_sa_sk_", r"[\w-]{40}"),
    ("ubidots", "BBFF- BBUS-", "[A-Za-z0-9]{30}"),
    ("mapbox", "pk.eyJ tk.eyJ", r"[\w-]{20,}\.[\w-]{20,}"),
    ("statsig", "secret- console-", "[A-Za-z0-9]{40,}"),
    ("segment", "sgp_", "[A-Za-z0-9]{64}"),
    ("sourcegraph", "sgd_ slk_ sgph_", r"\w{40,}"),
    ("elastic", "essu_", "[A-Za-z0-9+/=]{60,}"),
    ("salesforce", "00D", r"[A-Za-z0-9]{12,15}![\w.]{60,}"),
    ("salesforce", "3MVG9", r"[\w.]{60,}"),
    ("facebook", "EAACEdEose0cBA", "[A-Za-z0-9]{20,}"),
    ("instagram", "IGQV IGAA", r"[\w-]{60,}"),
    ("twitter", "AAAAAAAAAAAAAAAAAAAAA", r"[\w%]{40,}"),
    ("linkedin", "WPL_AP1.", r"[\w.=+/-]{14,}"),
    ("adobe", "p8e-", "[A-Za-z0-9]{32}"),
    ("zoho", "1000.", r"[0-9a-f]{32}\.[0-9a-f]{32}"),
    ("persona", "persona_sandbox_ persona_production_", UUID),
    ("intra42", "s-s4t2ud- s-s4t2af-", "[0-9a-f]{64}"),
    ("nightfall", "NF-", "[A-Za-z0-9]{32}"),
)

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


_ENTROPY_OF_WORDS = 3.0  # a key in letters only has more than words joined by hyphens


def _random(found: str) -> bool:
    """Return whether a key is more than words after a prefix: ``sk-learn-…`` is a package."""
    return any(map(str.isdigit, found)) or (found != found.lower() and validators.entropy(found) > _ENTROPY_OF_WORDS)


def _marked(name: str, replacement: str, *rows: tuple[str, str]) -> Iterator[BuiltInRule]:
    """Yield a rule for each prefix. A row has the prefixes, separated by spaces, and what must follow."""
    for prefixes, rest in rows:
        for prefix in prefixes.split():
            yield prefix_rule(name, replacement, prefix, rest, _random)


_AWS = tuple(
    prefix_rule("aws-key", "[AWS_KEY]", prefix, rest, None)
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
    pattern_rule(
        "slack-webhook",
        "[SLACK_WEBHOOK]",
        r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w/-]{20,}",
        trigger=r"https://hooks\.",
    ),
    *_marked("npm-token", "[NPM_TOKEN]", ("npm_", "[A-Za-z0-9]{30,}")),
    pattern_rule(
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
    pattern_rule("mailchimp-key", "[API_KEY]", r"-us(?<=[0-9a-f]{32}-us)\d{1,2}(?!\w)", trigger="-us", grow=True),
    pattern_rule("telegram-key", "[API_KEY]", r":(?P<secret>AA(?<=\d{8}:AA)[\w-]{32,33})(?![\w-])", trigger=":AA"),
    pattern_rule(
        "discord-key",
        "[API_KEY]",
        r"\.(?<=[\w-]{23}\.)[\w-]{6}\.[\w-]{27,38}(?![\w-])",
        trigger=r"\.(?<=[A-Za-z0-9_-]{23}\.)",
        check=_random,
        grow=True,
    ),
    pattern_rule("truenas-key", "[API_KEY]", r"-(?<=\d-)[A-Za-z0-9]{64}(?!\w)", trigger="-(?<=[0-9]-)", grow=True),
    pattern_rule("webhook", "[API_KEY]", rf"https://(?:{'|'.join(WEBHOOKS)})", trigger="https://"),
    pattern_rule(
        "azure-key",
        "[API_KEY]",
        r"Q~(?<=[A-Za-z0-9]\dQ~)[\w~.-]{31,34}(?![\w~.-])",
        trigger="Q~(?<=[0-9]Q~)",
        grow=True,
    ),
    pattern_rule(
        "azure-key", "[API_KEY]", r"sig=(?P<secret>[A-Za-z0-9%+/_-]{40,}={0,2})", trigger="sig=", check=_random
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
        "thingsboard-key", "[API_KEY]", r"/api/v1/(?P<secret>[a-z0-9]{20})(?!\w)", trigger="/api/v1/", check=_random
    ),
    pattern_rule(
        "okta-key",
        "[API_KEY]",
        r"(?<![\w-])00[\w-]{39}[A-Za-z0-9](?![\w-])",
        trigger="00(?<![A-Za-z0-9_-]00)",
        near="okta",
        check=_random,
    ),
    pattern_rule("okta-key", "[API_KEY]", r"SSWS\s{1,8}(?P<secret>00[\w-]{39}[A-Za-z0-9])(?![\w-])", trigger="SSWS"),
    pattern_rule(
        "figma-key",
        "[API_KEY]",
        r"(?<!\w)\d{4}-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?!\w)",
        trigger="-(?<=[0-9]{4}-)",
        near="figma",
    ),
)

# Characters within a key block: 3,900; an RSA key of 4,096 bits has 3,300. A stream must hold a whole block, with the
# BEGIN and END around it, which have up to 144 characters (see `_PEM`); the rest is to spare.
_LONGEST_KEY = MAX_HOLD - 196
_PEM = "[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_CRYPT = r"\$(?:2[abxy]?|5|6|7|y|1|apr1|argon2(?:id|i|d)|pbkdf2[\w-]{0,8})\$"
_BLOCKS = (
    pattern_rule("password-hash", "[PASSWORD]", rf"{_CRYPT}[A-Za-z0-9./$,=+]{{20,400}}", trigger=_CRYPT, check=_random),
    pattern_rule(
        "command-password",
        "[PASSWORD]",
        r"""-(?:u|-user)(?<=\s-u|-user)[ =]["']?[\w.@-]{1,64}:(?P<secret>[^\s"'$<{*]{4,128})""",
        trigger="-(?:u|-user)(?=[ =])",
        check=validators.password,
    ),
    pattern_rule(
        "jwt", "[JWT]", r"eyJ(?<![\w-]eyJ)[\w-]{8,2000}\.eyJ[\w-]{8,}(?:\.[\w-]*)?", trigger="eyJ(?<![A-Za-z0-9_-]eyJ)"
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
        r"""://(?<=[A-Za-z]://)[^\s/:@"'<>]{0,128}:(?P<secret>[^\s/@"'<>]{3,256})@""",
        trigger="://",
        check=lambda found: found[0] not in "$<{%*[(",
    ),
    pattern_rule(
        "basic-auth",
        "[BASIC_AUTH]",
        r"[Bb](?<![A-Za-z0-9][Bb])(?i:asic)\s{1,8}[A-Za-z0-9+/]{8,}={0,2}",
        trigger="[Bb](?<![A-Za-z0-9].)(?i:asic)",
        check=validators.basic_credentials,
    ),
    *(
        pattern_rule(
            "connection-key", "[API_KEY]", rf"{label}=(?P<secret>[A-Za-z0-9+/]{{32,}}={{0,2}})", trigger=f"{label}="
        )
        for label in ("AccountKey", "SharedAccessKey", "SharedSecretValue")
    ),
)
_BEARER = pattern_rule(
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
    LabelledValue(r"A-Za-z0-9_.+/=~-", r"A-Za-z0-9_.+/=~-", 20, lambda found, _: not validators.placeholder(found)),
    "key token secret",
    whole="[Aa](?<![A-Za-z0-9].)(?i:pi|pp|ccess|uth)|[CPScps](?<![A-Za-z0-9].)(?i:lient|rivate|ecret)",
)
_VALUE = labelled(
    "secret-value",
    "[SECRET]",
    r"(?:secret|token(?!iz)|(?:api|app|access|auth|private|signing|encryption|master)[ _-]?key|[_-]key|credential"
    r"|[_-]auth|[_-]sid|pin[_-]?code)[\w-]{0,24}",
    LabelledValue(_UNQUOTED, _UNQUOTED, 12, lambda found, _: validators.token(found)),
    "secret token key credential auth sid pin",
)
_MOST_SPACES = 3  # more words than that are a command or a sentence
_SIGN = re.compile(r"[\d!@#%^*?~+=]")
_PASSWORD = labelled(
    "password",
    "[PASSWORD]",
    r"(?:password|passwd|passphrase|passwort|contraseña|pwd|[_-]pass|\bpass)[\w-]{0,24}",
    LabelledValue(
        _UNQUOTED,
        r"""^"'`\n""",
        6,
        lambda found, quoted: (
            validators.password(found) and (found.count(" ") <= _MOST_SPACES if quoted else bool(_SIGN.search(found)))
        ),
    ),
    "pass pwd contraseña",
)

SECRETS: tuple[BuiltInRule, ...] = (
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
"""The rules in the order of the reference, then those that it does not have."""


_LEAST, _MOST = 20, 256  # characters; longer runs are data, not keys
_RUN = StreamPattern(rf"(?<![\w+/%@\\-])(?!0[xX])[A-Za-z0-9_-]{{{_LEAST},{_MOST}}}(?![A-Za-z0-9_+/-])", flags=0)
_REACH, _HASH_REACH = 60, 24  # how far before a token, or what could be a hash, the words that explain it may stand
_CUE = re.compile(r"(?i)key|token|secret|auth|bearer|api\b|_api|credential|\blogin|passw|webhook|\s-u |publish|crumb")
_HASH = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}", re.IGNORECASE)
_PART = re.compile(r"[A-Za-z0-9]+")
_LEAST_MIXED = 24
_PART_LEAST = 13  # characters of the longest part between hyphens: those of slugs and of UUIDs are shorter
_DIGITS, _TURNS = 3, 4  # digits; places where a digit stands beside another character
_BITS_MIXED, _BITS_CUED = 3.9, 3.0  # per character: random letters and digits of 24 characters have 4.3, hex 3.4
# The fifty commonest pairs of letters in English, from memory of published counts; half of a text's pairs, and one in
# fourteen of random letters'.
_COMMON = frozenset(
    [
        "th",
        "he",
        "in",
        "er",
        "an",
        "re",
        "on",
        "at",
        "en",
        "nd",
        "ti",
        "es",
        "or",
        "te",
        "of",
        "ed",
        "is",
        "it",
        "al",
        "ar",
        "st",
        "to",
        "nt",
        "ng",
        "se",
        "ha",
        "as",
        "ou",
        "io",
        "le",
        "ve",
        "co",
        "me",
        "de",
        "hi",
        "ri",
        "ro",
        "ic",
        "ne",
        "ea",
        "ra",
        "ce",
        "li",
        "ch",
        "ll",
        "be",
        "ma",
        "si",
        "om",
        "ur",
    ]
)
_WORDY = 0.3
_PAIR = re.compile(r"(?=([a-z]{2}))")


def random_tokens(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of random tokens."""
    matches, hold = _RUN.walk(text, start, final=final)
    return [Trace(*found.span(), *found.span(), _counts(text, found.start(), found.group())) for found in matches], hold


def _counts(text: str, at: int, found: str) -> bool:
    if sum(map(str.isdigit, found)) < _DIGITS or validators.placeholder(found) or _turns(found) < _TURNS:
        return False
    if max(map(len, _PART.findall(found)), default=0) < _PART_LEAST or _wordy(found):
        return False
    bits = validators.entropy(found)
    if len(found) >= _LEAST_MIXED and bits >= _BITS_MIXED and found not in (found.lower(), found.upper()):
        return True
    reach = _HASH_REACH if _HASH.fullmatch(found) else _REACH
    cued = bits >= _BITS_CUED and _CUE.search(text, max(at - reach, 0), at) is not None
    return cued and (found != found.upper() or found != found.lower())


def _turns(found: str) -> int:
    """Return at how many places a digit stands beside another character."""
    return sum(one.isdigit() != two.isdigit() for one, two in itertools.pairwise(found))


def _wordy(found: str) -> bool:
    """Return whether the letters follow one another as those of words do."""
    pairs = _PAIR.findall(found.lower())
    return len(pairs) > _TURNS and sum(pair in _COMMON for pair in pairs) > _WORDY * len(pairs)


RANDOM_TOKENS: tuple[BuiltInRule, ...] = (
    pattern_rule(
        "api-key",
        "[API_KEY]",
        r"[sp]k[-_](?<![A-Za-z0-9_-]...)(?:live|test|proj)[-_][A-Za-z0-9]{16,}(?![A-Za-z0-9])",
        trigger="k[-_](?:live|test|proj)[-_]",
    ),
    BuiltInRule("random-token", "[SECRET]", RUN, random_tokens),
)
"""Secrets without a prefix or a label, and those whose prefix alone is enough."""
