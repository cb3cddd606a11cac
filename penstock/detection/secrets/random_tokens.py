"""Random tokens: keys of providers that no table lists.

A random-looking value alone is an id. It counts if its label or the words before it are those of a secret (see
`says_secret`), if it begins with the word for one (``acme_sk_…``), if it stands behind the name of a service whose keys
have no form, or if a client is made or logged in with it (``Client("…")``). Behind a label of something else it never
does, nor within long data.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import RUN, BuiltInRule, pattern_rule
from penstock.detection.patterns.kinds import DIGIT, LETTER, SIGN, kinds
from penstock.detection.patterns.open_matches import StreamPattern, Trace
from penstock.detection.places.keys import knows_word, may_say_secret, names_secret, says_secret
from penstock.detection.places.labels import HeaderWords, words_of
from penstock.detection.secrets import values
from penstock.detection.secrets.public import is_example, is_public

if TYPE_CHECKING:
    import regex

    from penstock.detection.patterns.open_matches import Scan

_LEAST, _MOST = 20, 120  # characters; longer runs are data, or keys that a label or a prefix tells
_READ = _MOST + 8  # no more characters than that are read from one place on
_SHAPE = (
    rf"(?<![A-Za-z0-9_+/%@\\-])(?!0[xX])(?P<run>[A-Za-z0-9_-]{{{_LEAST},{_MOST}}})(?![A-Za-z0-9_+/-])"
    r"(?P<file>\.[a-z][a-z0-9]{1,4}(?![\w.-]))?"
)
_RUN = StreamPattern(_SHAPE, by_re=True)
_REACH, _HASH_REACH = 60, 24  # how far before a token, or what could be a hash, the words that explain it may stand
_NAMED_HASH = deferred(
    r"(?:[A-Za-z][A-Za-z0-9]{0,15}[-_]){1,4}(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})"
)  # of a cache
_HASH = deferred(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}", re.IGNORECASE)
_UUID = deferred(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
# Services whose keys are bare hashes, UUIDs or letters. The name must be the label, or stand before one.
_SERVICE = deferred(
    r"""(?ix) \b (?:abstractapi|abuseipdb|agora|airbrake|alchemy|algolia|alphavantage|amplitude|anthropic|apify
    |apollo|appcenter|appveyor|assemblyai|auth0|azure|bandwidth|basecamp|baseten|bitbucket|bitly|brightdata
    |browserbase|browserstack|bugsnag|buildkite|bunny(?:cdn)?|cartesia|censys|cerebras|circle[ _-]?ci|clearbit
    |clicksend|clickup|cloudflare|cloudinary|cloudsmith|codacy|code[ _-]?climate|codecov|cohere|coinapi|coinbase
    |coingecko|coinmarketcap|contentful|cosmic|coveralls|currencylayer|dashscope|datadog|deepgram|deepinfra|deepl
    |deepseek|discogs|disqus|drone[ _-]?ci|elevenlabs|etherscan|eventbrite|exa(?:ai)?|fastly|finnhub|firecrawl
    |fixer(?:io)?|foursquare|freshdesk|fullcontact|gemini|geocod(?:io|ify)|giphy|gitea|gitee|gitter|gladia
    |greynoise|groq|gumroad|helicone|helius|hereapi|heroku|heygen|honeycomb|huggingface|hunter(?:io)?|hypertrack
    |ideogram|imgur|infura|instana|intercom|ipinfo|ipstack|jenkins|keen(?:io)?|klaviyo|kraken|kucoin|lambdatest
    |langfuse|langsmith|last\.?fm|lightstep|livekit|logdna|loggly|logz(?:io)?|looker|mailjet|mapquest|marketstack
    |mattermost|meraki|messagebird|mistral|mixpanel|moonshot|moralis|nasa|netlify|newsapi|nexmo|novita
    |numverify|nylas|omdb|onesignal|openai|opencage|openrouter|openweather(?:map)?|opsgenie|oxylabs|pagerduty
    |pastebin|pexels|pinata|pinecone|pipedrive|pixabay|plivo|polygon(?:io)?|portkey|postmark|pubnub
    |pusher|qdrant|quandl|quay|quicknode|rapidapi|rebrandly|recurly|replicate|riot|rollbar|runpod|sambanova
    |sauce(?:labs)?|scraperapi|scrapingbee|securitytrails|sendbird|sendgrid|sendinblue|serp(?:api|er)|serper
    |shodan|shotstack|siliconflow|sinch|skybiometry|snyk|spark[ _-]?post|speechmatics|splunk|spoonacular|spotify
    |stability|storyblok|strava|sumo[ _-]?logic|tatum|tavily|teamwork|telesign|thingspeak|tiingo|tmdb|todoist
    |togetherai|tomtom|travis|trello|tumblr|twelvedata|twitch|unsplash|upstash|urlscan|vapi|vimeo|virustotal
    |visualcrossing|vonage|voyage(?:ai)?|vultr|wakatime|wandb|weatherapi|weatherbit|weatherstack|weaviate
    |weights[ ]?and[ ]?biases|wistia|wordnik|wrike|xai|yelp|youtube|zapier|zendesk|zenrows|zerobounce|zhipu|zilliz
    |zoho|zoom|zyte) (?![a-z])
    [\w. -]{0,24} (?: ["'\])]{0,2} \s{0,4} (?: [:=]{1,2}>? | , | \s ) \s{0,4} [("'`]{0,2} | \s ) $"""
)
_NO_SPACES = "\u2e80"  # from here on are the scripts of East Asia, which put no space before a value
_START = 3  # letters; a quick look at them spares most searches for a service
_LETTERS = deferred(f"[a-z]{{{_START},}}")
_STARTS = frozenset(name[:_START] for name in _LETTERS.findall(_SERVICE.pattern))
_LEAST_MIXED = 24
_OWN_PREFIX = deferred(
    r"(?:[a-z][a-z0-9]{0,11}[_-]){0,2}(?:sk|pat|api|key|apikey|secret|token|oat|sat|live|prod)[_-](?=[A-Za-z0-9_-]{16})"
)
# The client of a service that is made with a token, or logged in with one.
_CLIENT = deferred(
    r"""(?:(?<!\w)(?!OAuth)[A-Z]\w{0,40}?(?<!OAuth)(?<!OAuth2)(?:Client|SDK|Sdk|API|Api)"""
    r"""|(?<![A-Za-z0-9])(?:Client|SDK|login|log_in|logIn|signIn|sign_in|auth|authenticate|authorize|bearer))"""
    r"""\(\s{0,12}["'`]$"""
)
_CLIENT_GAP = 14  # characters between the bracket of a call and its first argument
_DOTTED = deferred(r"[A-Za-z0-9_-]{20}\.$")  # a later part of what is one value with dots, as a web token is
_BLOCK = deferred(r"[A-Za-z0-9+/=]{40}\r?\n[ \t>]*$")  # the line before is data, too
_PART = deferred(r"[A-Za-z0-9]+")
_PART_LEAST = 13  # characters of the longest part between hyphens: those of slugs and of UUIDs are shorter
_NO_DIGITS = str.maketrans("", "", string.digits)
_DIGITS, _TURNS = 3, 4  # digits; places where a digit stands beside another character
_BITS_MIXED, _BITS_CUED = 3.9, 3.0  # per character: random letters and digits of 24 characters have 4.3, hex 3.4


def random_tokens(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of random tokens."""
    runs, hold = _RUN.walk(text, start, final=final, longest=_READ)
    return [Trace(*found.span(), *found.span("run"), _counts(text, found)) for found in runs], hold


def _names_token(label: str) -> bool:
    return names_secret(words_of(label)) is True


def _counts(text: str, run: regex.Match[str]) -> bool:
    at, found = run.start("run"), run.group("run")
    if run.group("file") or (at and text[at - 1].isalnum() and text[at - 1] < _NO_SPACES):  # a letter of another script
        return False
    if _DOTTED.search(text, max(at - _REACH, 0), at) or text.startswith(".eyJ", run.end("run")):
        return False
    bits = validators.entropy(found)
    mixed = len(found) >= _LEAST_MIXED and bits >= _BITS_MIXED and found not in (found.lower(), found.upper())
    digits = len(found) - len(found.translate(_NO_DIGITS))
    if not digits or values.placeholder(found) or not (mixed or (digits >= _DIGITS and _turns(found) >= _TURNS)):
        return False
    if bits < _BITS_CUED or values.wordy(found) or is_public(found) or _NAMED_HASH.fullmatch(found):
        return False
    starts_client = mixed and _starts_client(text, at)
    if not (may_say_secret(text, at) or starts_client or _OWN_PREFIX.match(found) or _is_of_service(text, at)):
        return False
    could_be_hash = _HASH.fullmatch(found) is not None
    said = says_secret(text, at, _HASH_REACH if could_be_hash else _REACH)
    if said is False or _BLOCK.search(text, max(at - _REACH, 0), at):
        return False
    if max(map(len, _PART.findall(found))) < _PART_LEAST:
        return _UUID.fullmatch(found) is not None and _is_of_service(text, at)
    if found.upper() == found.lower():
        return False
    if said or starts_client or _is_of_service(text, at):
        return True
    return mixed and _OWN_PREFIX.match(found) is not None


def _is_of_service(text: str, at: int) -> bool:
    """Return whether a value stands behind the name of a service."""
    near = text[max(at - _REACH, 0) : at]
    starts = {word[:_START] for word in _LETTERS.findall(near.lower())}
    return not starts.isdisjoint(_STARTS) and _SERVICE.search(near) is not None


def _starts_client(text: str, at: int) -> bool:
    """Return whether a value is the first argument with which a client is made or logged in."""
    return (
        text.find("(", max(at - _CLIENT_GAP, 0), at) >= 0 and _CLIENT.search(text, max(at - _REACH, 0), at) is not None
    )


def _turns(found: str) -> int:
    """Return at how many places a digit stands beside another character."""
    read = kinds(found).replace(SIGN, LETTER)
    return read.count(DIGIT + LETTER) + read.count(LETTER + DIGIT)


RANDOM_TOKENS: tuple[BuiltInRule, ...] = (
    pattern_rule(
        "api-key",
        "[API_KEY]",
        r"[sp]k[-_](?<![A-Za-z0-9_-]...)(?:live|test|proj)[-_][A-Za-z0-9]{16,}(?![A-Za-z0-9])",
        trigger="k[-_](?:live|test|proj)[-_]",
        check=lambda found: not is_example(found),
    ),
    BuiltInRule(
        "random-token", "[SECRET]", RUN, random_tokens, headers=HeaderWords(knows_word, _names_token, digits=False)
    ),
)
"""Secrets without a prefix or a label, and those whose prefix alone is enough."""
