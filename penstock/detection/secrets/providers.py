"""Keys with the prefix of a provider: the prefix of each provider, and the form of the rest.

The rows come from the providers' own documentation of their keys.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import BuiltInRule, judged, pattern_rule, prefix_rule
from penstock.detection.places.keys import says_secret
from penstock.detection.secrets.public import is_example
from penstock.detection.secrets.values import random

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.detection.patterns.open_matches import Trace

UUID = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_HEX32 = "[0-9a-f]{32}"

PROVIDERS: tuple[tuple[str, str, str], ...] = (  # name, prefixes, what follows
    ("anthropic", "sk-ant-", r"[\w-]{16,}"),
    ("openai", "sk-", r"(?!ant-)[\w-]{20,}"),
    ("google", "AIza", r"[\w-]{35}"),
    ("google", "ya29. GOCSPX-", r"[\w-]{20,}"),
    ("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", "[A-Za-z0-9]{10,}"),
    ("stripe", "whsec_", "[A-Za-z0-9+/=]{20,}"),
    ("twilio", "SK", _HEX32),
    ("sendgrid", "SG.", r"[\w-]{16,40}\.[\w-]{16,64}"),
    ("mailgun", "key-", "[0-9a-z]{32}"),
    ("huggingface", "hf_ api_org_", "[A-Za-z0-9]{30,}"),
    ("digitalocean", "dop_v1_ doo_v1_ dor_v1_", "[0-9a-f]{64}"),
    ("doppler", "dp.", r"(?:pt\.|st\.|ct\.|sa\.|said\.|scim\.|audit\.)(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("shopify", "shp", r"(?:at_|ca_|pa_|ss_|tka_)[0-9a-fA-F]{32}"),
    ("square", "sq0atp- sq0atb- sq0csp- sandbox-sq0atb-", r"[\w-]{22,50}"),
    ("square", "EAAA", r"[\w-]{60}"),
    ("facebook", "EAA", "[A-Za-z0-9]{60,}"),
    ("vault", "hvs. hvb. hvr.", r"[\w-]{24,}"),
    ("newrelic", "NR", r"(?:AK-|II-|IQ-|AL-|AA-|SP-|JS-|RA-)[\w-]{16,}"),
    ("grafana", "glsa_", "[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    ("grafana", "glc_ eyJrIjoi", "[A-Za-z0-9+/=_-]{32,}"),
    ("sourcegraph", "sgp_", "(?:[0-9a-fA-F]{16}_|local_)?[0-9a-fA-F]{40}"),
    ("atlassian", "ATATT3 ATCTT3", r"[\w=-]{60,}"),
    ("atlassian", "ATBB", "[A-Za-z0-9]{32}"),
    ("artifactory", "AKC", "[A-Za-z0-9]{10,}"),
    ("artifactory", "AP", "[0-9A-F][A-Za-z0-9]{10,}"),
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
            "lin_api_ lin_oauth_ ntn_ PMAK- dckr_pat_ dckr_oat_ rubygems_ sbp_ nfp_ HRKU- CCIPAT_ "
            "bkua_ pul- CFPAT- rdme_ tfp_ pnu_ pscale_tkn_ pscale_pw_ pscale_oauth_ fio-u- EZAK EZTK FLWSECK- "
            "FLWSECK_TEST- phc_ phx_ "
            "shippo_live_ shippo_test_ duffel_live_ duffel_test_ tk-us- kagi- xkeysib- dt0c01. rzp_live_ rzp_test_"
        ),
        r"[\w.=+-]{24,}",
    ),
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
    ("netlify", "nf", r"(?:c_|o_|u_|b_)[A-Za-z0-9]{36,}"),
    ("vercel", "vc", r"(?:p_|i_|a_|r_|k_)[A-Za-z0-9]{24,}"),
    ("openshift", "sha256~", r"[\w-]{43}"),
    ("scaleway", "SCW", "[A-Z0-9]{17}"),
    ("upcloud", "ucat_", "[A-Za-z0-9]{20,}"),
    ("tailscale", "tskey-", r"[\w-]{12,}"),
    ("ngrok", "cr_ ak_", "[A-Za-z0-9]{24,}"),
    ("dynatrace", "dt0s", r"(?:01\.|02\.|03\.|08\.|16\.)[\w.-]{24,}"),
    # code and builds
    ("circleci", "CCIP", r"(?:RJ_|AT_)\w{22,}"),
    ("buildkite", "bk", r"(?:ct_|aj_|pt_|pat_)[A-Za-z0-9-]{24,}"),
    ("sonar", "squ_ sqp_ sqa_ sqco_", "[0-9a-f]{40}"),
    ("snyk", "snyk_uat. snyk_sat.", r"[\w.-]{20,}"),
    ("jfrog", "cmVmdGtu", "[A-Za-z0-9]{40,}"),
    ("clojars", "CLOJARS_", "[0-9a-f]{60}"),
    ("packagist", "packagist_", r"(?:uut_|ort_|oat_)[A-Za-z0-9]{40,}"),
    ("octopus", "API-", "[A-Z0-9]{26,}"),
    ("harness", "pat. sat.", r"[\w-]{22}\.[0-9a-f]{24}\.[A-Za-z0-9]{20}"),
    ("infracost", "ico-", "[A-Za-z0-9]{32}"),
    ("wakatime", "waka_", UUID),
    ("posthog", "phs_ phr_", "[A-Za-z0-9]{32,}"),
    ("launchdarkly", "sdk- mob- api- rel-", UUID),
    ("sentry", "sntry", r"[aisu]_[\w+=.-]{24,}"),
    ("prefect", "pnb_", "[A-Za-z0-9]{30,}"),
    ("openvsx", "ovsxp_ ovsxat_", UUID),
    # work
    ("notion", "secret_", "[A-Za-z0-9]{43}"),
    ("linear", "lin_wh_", "[A-Za-z0-9]{32,}"),
    ("hubspot", "pat-", rf"(?:na1-|na2-|eu1-|ap1-){UUID}"),
    ("trello", "ATTA", "[0-9a-f]{64}"),
    ("zuplo", "zpka_", r"\w{24,}"),
    ("slack", "xwfp- xoxc- xoxd-", r"[\w%.-]{20,}"),
    ("intercom", "dG9rOj", "[A-Za-z0-9+/=_-]{24,}"),
    ("rootly", "rootly_", "[0-9a-f]{64}"),
    ("onepassword", "ops_eyJ", r"[\w=-]{60,}"),
    ("onepassword", "A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}"),
    ("settlemint", "sm_", r"(?:aat_|pat_|sat_)[A-Za-z0-9]{16,}"),
    # money
    ("stripe", "sk_org_live_ sk_org_test_ rk_org_live_ pk_live_ pk_test_", "[A-Za-z0-9]{14,}"),
    ("paypal", "access_token$production$ access_token$sandbox$", r"[0-9a-z]{16}\$[0-9a-f]{32}"),
    ("plaid", "access-", rf"(?:sandbox-|development-|production-){UUID}"),
    ("gocardless", "live_ sandbox_", r"[\w-]{40}"),
    ("lob", "live_ test_ live_pub_ test_pub_", "[0-9a-f]{31,35}"),
    ("flutterwave", "FLW", r"(?:PUBK-|PUBK_TEST-|SECK_TEST)[0-9A-Za-z-]{12,}"),
    ("adyen", "AQE", r"[\w+/=.-]{60,}"),
    ("mercadopago", "APP_USR- TEST-", r"[0-9a-z-]{40,}"),
    ("braintree", "production_ sandbox_", "[a-z0-9]{8}_[a-z0-9]{16}"),
    ("checkout", "sk_ sk_test_ sk_sbox_", rf"(?:{UUID}|[a-z0-9]{{26,28}})"),
    ("polar", "polar_", r"(?:oat_|pat_|at_u_)\w{24,}"),
    ("paddle", "pdl_", r"(?:live_apikey_|sdbx_apikey_|ntfset_)\w{24,}"),
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
    ("cartesia", "sk_car_", "[A-Za-z0-9]{20,}"),
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
    # more clouds and hosts
    ("vault", "s.", r"(?=[A-Za-z]{0,22}\d[A-Za-z]{0,22}\d)[A-Za-z0-9]{24}"),
    ("vault", "b.AAAAAQ", r"[\w-]{60,}"),
    ("cloudflare", "cfut_ cfat_ cfk_", "[A-Za-z0-9]{32,}"),
    ("login-with-amazon", "amzn1.oa2-cs.v1.", "[0-9a-f]{64}"),
    ("deno", "ddp_ ddw_ ddo_", "[A-Za-z0-9]{36}"),
    ("cockroach", "CCDB1_", r"\w{40,}"),
    ("infisical", "st.", r"[0-9a-f]{24}\.[0-9a-f]{32}\.[0-9a-f]{32}"),
    ("netbird", "nbp_", "[A-Za-z0-9]{36}"),
    ("defined-networking", "dnkey-", r"[\w=-]{26,}"),
    ("portainer", "ptr_", r"[\w+/=-]{40,}"),
    ("rancher", "token-", r"[a-z0-9]{5}:[a-z0-9]{54}"),
    ("qovery", "qov_", r"\w{24,}"),
    ("ory", "ory_", r"(?:pat_|at_|ac_|rt_|st_)[\w.-]{24,}"),
    # more code, builds and monitoring
    ("gitlab", "_gitlab_session=", r"[\w-]{20,}"),
    ("atlassian", "ATOA", r"[\w=-]{60,}"),
    ("depot", "depot_project_ depot_org_", "[0-9a-f]{40,}"),
    ("devcycle", "dvc_", r"(?:server_|client_|mobile_)\w{20,}"),
    ("trigger", "tr_", r"(?:dev_|prod_|pat_|stg_)\w{20,}"),
    ("inngest", "signkey-", r"(?:prod-|test-|branch-)[0-9a-f]{32,}"),
    ("logfire", "pylf_v1_ pylf_v2_", r"\w{30,}"),
    ("honeycomb", "hc", r"(?:aik_|bik_|xik_|amk_)\w{24,}"),
    ("axiom", "xa", rf"(?:at-|pt-|it-){UUID}"),
    ("coralogix", "cx", r"(?:tp_|up_|th_)\w{24,}"),
    ("firehydrant", "fhb-", "[0-9a-f]{32,}"),
    ("incident", "inc_", "[0-9a-f]{64}"),
    ("pagerduty", "pdus+ pdeu+", r"[\w+-]{16,}"),
    ("pagerduty", "u+", r"(?=[\w-]*\d)[\w-]{18}"),
    ("socket", "sktsec_", r"\w{30,}"),
    ("permit", "permit_key_", "[A-Za-z0-9]{60,}"),
    ("dbt", "dbtc_ dbtu_", r"[\w=-]{30,}"),
    ("hex", "hxtp_ hxtw_", r"\w{40,}"),
    ("stackhawk", "hawk.", r"[\w-]{20}\.[\w-]{20}"),
    ("n8n", "n8n_api_", "[0-9a-f]{60,}"),
    ("val-town", "vtwn_", r"\w{24,}"),
    ("cypress", "cypress_", r"\w{24,}"),
    ("unkey", "unkey_", r"\w{20,}"),
    # more work, money and messages
    ("clickup", "pk_", r"\d{6,9}_[A-Z0-9]{32}"),
    ("figma", "figoh_ figor_", r"[\w-]{30,}"),
    ("calendly", "cal_live_ cal_test_", "[0-9a-f]{32}"),
    ("retool", "retool_", r"\w{24,}"),
    ("nylas", "nyk_v0_", "[A-Za-z0-9]{40,}"),
    ("razorpay", "rzp_live_ rzp_test_", "[A-Za-z0-9]{14}"),
    ("xendit", "xnd_production_ xnd_development_", "[A-Za-z0-9+/=]{40,}"),
    ("mercury", "secret-token:", r"[\w%.-]{24,}"),
    ("circle", "LIVE_API_KEY: TEST_API_KEY: SAND_API_KEY:", "[0-9a-f]{32}:[0-9a-f]{32}"),
    ("klarna", "klarna_live_api_ klarna_test_api_", r"[\w+/=-]{30,}"),
    ("mollie", "live_ test_ access_", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{30}"),
    ("onfido", "api_", r"(?:live\.|sandbox\.|live_us\.|sandbox_us\.)[\w.-]{24,}"),
    ("pubnub", "sec-c-", r"[A-Za-z0-9-]{36,}"),
    ("stytch", "secret-live- secret-test-", r"[\w=-]{32,}"),
    ("openmeter", "om_", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{32}"),
    ("discord", "mfa.", r"[\w-]{80,}"),
    ("brave", "BSA", r"(?=[\w-]*\d)[\w-]{28}"),
    # more models and their tools
    ("cursor", "crsr_", "[0-9a-f]{60,}"),
    ("retell", "key_", "(?=[0-9]*[a-f])(?:[0-9a-f]{28}|[0-9a-f]{48}|[0-9a-f]{64}|[0-9a-f]{128})"),
    ("helicone", "sk-helicone- pk-helicone-", r"[\w-]{20,}"),
    ("llamacloud", "llx-", r"\w{40,}"),
    ("humanloop", "hl_sk_", "[0-9a-f]{40,}"),
    ("daytona", "dtn_", "[0-9a-f]{60,}"),
    ("browserbase", "bb_live_", r"\w{20,}"),
    ("composio", "ak_", r"(?=[A-Za-z]*\d)[\w-]{20}"),
    ("context7", "ctx7sk-", UUID),
    ("xata", "xau_", r"\w{30,}"),
    ("turbopuffer", "tpuf_", r"\w{24,}"),
    ("black-forest-labs", "bfl_", r"\w{28,}"),
    ("modal", "ak- as-", r"(?=[A-Za-z]*\d)[A-Za-z0-9]{22}"),
    ("steel", "ste-", "[A-Za-z0-9]{50,}"),
    ("friendli", "flp_", "[A-Za-z0-9]{40,}"),
    ("letta", "sk-let-", "[A-Za-z0-9=]{40,}"),
    ("tinybird", "p.eyJ", r"[\w-]{20,}\.[\w-]{20,}"),
    ("teamcity", "eyJ0eXAiOiAiVENWMiJ9.", r"[\w-]{20,}\.[\w-]{20,}"),
)


_OF_IDS = deferred(
    r"SK|6L|AP|AKC|AQE|s\.|00D|re_|ak_|cr_|om_|sm_|pa-|tr_|api_|key_|rnd_|rpa_|live_|test_|access_|st\.|pat\.|sat\.|ste-"
)
"""Prefixes that ids have, too: behind the label of an id they are no key."""


_DATA = deferred(r"(?<=[^:]/)\Z|(?<![^\s\"])(?:[A-Za-z0-9+/]{4}){15,19}\r?\n\Z")
"""Before a part of a path, and before a line of wrapped base64; signs such as ``_`` are in no base64."""
_DATA_REACH = 80


def _unless_data(text: str, trace: Trace) -> Trace:
    if _DATA.search(text, max(trace.low - _DATA_REACH, 0), trace.low):
        return trace._replace(counts=False)
    return _unless_id(text, trace)


def _unless_id(text: str, trace: Trace) -> Trace:
    return trace._replace(counts=trace.counts and says_secret(text, trace.low) is not False)


def _marked(name: str, replacement: str, *rows: tuple[str, str]) -> Iterator[BuiltInRule]:
    """Yield a rule for each prefix. A row has the prefixes, separated by spaces, and the pattern that must follow."""
    for prefixes, rest in rows:
        for prefix in prefixes.split():
            rule = prefix_rule(name, replacement, prefix, rest, random)
            yield judged(rule, _unless_data if prefix.isalnum() else _unless_id) if _OF_IDS.fullmatch(prefix) else rule


_SIGNED = deferred(r"(?i)(?:x-amz-credential|awsaccesskeyid)(?:=|%3d|\\u003d)$")
_SIGNED_REACH = 24


def _unless_signed(text: str, trace: Trace) -> Trace:
    """Return a trace that does not count in a signed link: it names the key there, and the signature is the secret."""
    signed = _SIGNED.search(text, max(trace.low - _SIGNED_REACH, 0), trace.low)
    return trace._replace(counts=trace.counts and signed is None)


AWS = tuple(
    judged(
        prefix_rule("aws-key", "[AWS_KEY]", prefix, rest, lambda found: not is_example(found)),
        _unless_signed,
    )
    for prefix, rest in (
        ("AKIA", "[A-Z0-9]{16}"),
        ("ASIA", "[A-Z0-9]{16}"),
        ("ABIA", "[A-Z0-9]{16}"),
        ("ACCA", "[A-Z0-9]{16}"),
        ("A3T", "[A-Z0-9]{17}"),
    )
)

CODE_HOSTS = (
    *_marked(
        "github-token",
        "[GITHUB_TOKEN]",
        ("gh", "[pousr]_[A-Za-z0-9]{30,255}"),
        ("github_pat_", r"\w{22,255}"),
    ),
    *_marked(
        "gitlab-token",
        "[GITLAB_TOKEN]",
        ("gl", r"(?:pat|dt|rt|ft|soat|imt|oas|agent|cbt|ffct|rtr|wt)-[\w-]{20,}(?:\.\w{2}\.\w{7,9})?"),
        ("GR1348941", r"[\w-]{20,}"),
        ("glptt-", "[0-9a-f]{40}"),
    ),
    *_marked(
        "slack-token",
        "[SLACK_TOKEN]",
        ("xox", r"(?:[abeoprs]-|e\.xox[bp]-)[A-Za-z0-9-]{10,}"),
        ("xapp-", "[A-Za-z0-9-]{20,}"),
    ),
    pattern_rule(
        "slack-webhook",
        "[SLACK_WEBHOOK]",
        r"https://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/[\w/-]{20,}",
        trigger=r"https://hooks\.",
        check=lambda found: not is_example(found),
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

KEYS = tuple(
    rule for name, prefixes, rest in PROVIDERS for rule in _marked(f"{name}-key", "[API_KEY]", (prefixes, rest))
)
