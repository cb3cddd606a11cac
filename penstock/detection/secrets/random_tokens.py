"""Random tokens: keys of providers that no table lists.

A token counts if it mixes digits, capitals and small letters as no word, name or identifier does. Behind words about
keys it counts if it mixes digits and letters, and behind the name of a service, as a value, if it is a hash or a UUID
too. Other hashes, identifiers, long data and images do not count.
"""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from penstock.detection.patterns import validators
from penstock.detection.patterns.built_in import RUN, BuiltInRule, pattern_rule
from penstock.detection.patterns.open_matches import StreamPattern, Trace
from penstock.detection.secrets import values

if TYPE_CHECKING:
    from penstock.detection.patterns.open_matches import Scan

_LEAST, _MOST = 20, 256  # characters; longer runs are data, not keys
_SHAPE = rf"(?<![A-Za-z0-9_+/%@\\-])(?!0[xX])[A-Za-z0-9_-]{{{_LEAST},{_MOST}}}(?![A-Za-z0-9_+/-])"
_RUN = StreamPattern(_SHAPE, by_re=True)
_REACH, _HASH_REACH = 60, 24  # how far before a token, or what could be a hash, the words that explain it may stand
_CUE = re.compile(r"(?i)key|token|secret|auth|bearer|api\b|_api|credential|\blogin|passw|webhook|\s-u |publish|crumb")
_HASH = re.compile(r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128}", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_PUBLIC = re.compile(
    r"(?i)recv-keys?|keyserver|fingerprint|keybase|\b[gp]gp\b|commit|checksum|\bsha-?\d|\bmd5|digest|etag|revision"
    r"|integrity|\bblob|public[ _-]?key|key[ _-]?id\b|primary[ _-]?key|cache[ _-]?key|\btx\b|transaction"
)
_IMAGE = re.compile(r"base64,\s?$")
# Services whose keys are bare hashes, UUIDs or letters. The name must be the label, or stand before one.
_SERVICE = re.compile(
    r"""(?ix) \b (?:abstractapi|abuseipdb|agora|airbrake|alchemy|algolia|amplitude|apollo|appcenter|appveyor|assemblyai
    |auth0|azure|bandwidth|basecamp|bitbucket|bitly|brightdata|browserstack|bugsnag|buildkite|bunny(?:cdn)?|cartesia
    |circle[ _-]?ci|clearbit|clickup|clicksend|cloudflare|cloudinary|cloudsmith|codacy|code[ _-]?climate|codecov|cohere
    |coinapi|coinbase|coinmarketcap|contentful|cosmic|coveralls|currencylayer|datadog|deepgram|deepl|deepseek|discogs
    |disqus|drone[ _-]?ci|elevenlabs|etherscan|eventbrite|exa(?:ai)?|fastly|finnhub|fixer(?:io)?|foursquare|freshdesk
    |fullcontact|geocod(?:io|ify)|giphy|gitea|gitee|gitter|gumroad|hereapi|heroku|honeycomb|hunter(?:io)?|hypertrack
    |imgur|infura|instana|intercom|ipinfo|ipstack|jenkins|keen(?:io)?|klaviyo|kraken|kucoin|last\.?fm|lambdatest
    |lightstep|logdna|loggly|logz(?:io)?|looker|mailjet|mapquest|marketstack|mattermost|meraki|messagebird|mistral
    |mixpanel|moralis|nasa|netlify|newsapi|nexmo|novita|numverify|nylas|omdb|onesignal|openai|opencage|openweather
    (?:map)?|opsgenie|pagerduty|pastebin|pexels|pinata|pipedrive|pixabay|plivo|polygon(?:io)?|postmark|pubnub|pusher
    |quandl|quay|rapidapi|rebrandly|recurly|replicate|riot|rollbar|sauce(?:labs)?|scraperapi|scrapingbee|securitytrails
    |sendbird|sendinblue|serp(?:api|er)|shodan|shotstack|sinch|skybiometry|snyk|spark[ _-]?post|splunk|spoonacular
    |spotify|stability|storyblok|strava|sumo[ _-]?logic|tatum|teamwork|telesign|thingspeak|tiingo|tmdb|todoist|tomtom
    |travis|trello|tumblr|twelvedata|twitch|unsplash|urlscan|virustotal|vimeo|visualcrossing|vonage|vultr|wakatime
    |weatherapi|weatherbit|weatherstack|weights[ ]?and[ ]?biases|wandb|wistia|wordnik|wrike|yelp|youtube|zapier
    |zendesk|zenrows|zerobounce|zoho|zoom) (?![a-z])
    [\w. -]{0,24} (?: ["'\])]{0,2} \s{0,4} (?: [:=]{1,2}>? | , | \s ) \s{0,4} [("'`]{0,2} | \s ) $"""
)
_LEAST_MIXED = 24
_PART = re.compile(r"[A-Za-z0-9]+")
_PART_LEAST = 13  # characters of the longest part between hyphens: those of slugs and of UUIDs are shorter
_DIGITS, _TURNS = 3, 4  # digits; places where a digit stands beside another character
_BITS_MIXED, _BITS_CUED = 3.9, 3.0  # per character: random letters and digits of 24 characters have 4.3, hex 3.4


def random_tokens(text: str, start: int, *, final: bool) -> Scan:
    """Return the traces of random tokens."""
    runs, hold = _RUN.walk(text, start, final=final)
    return [_trace(text, *found.span()) for found in runs], hold


def _trace(text: str, low: int, high: int) -> Trace:
    return Trace(low, high, low, high, _counts(text, low, text[low:high]))


def _counts(text: str, at: int, found: str) -> bool:
    if at and text[at - 1].isalnum():  # a letter of another script
        return False
    if sum(map(str.isdigit, found)) < _DIGITS or validators.placeholder(found) or _turns(found) < _TURNS:
        return False
    bits = validators.entropy(found)
    if bits < _BITS_CUED or values.wordy(found):
        return False
    if max(map(len, _PART.findall(found)), default=0) < _PART_LEAST:
        return _UUID.fullmatch(found) is not None and _is_of_service(text, at)
    if len(found) >= _LEAST_MIXED and bits >= _BITS_MIXED and found not in (found.lower(), found.upper()):
        return _IMAGE.search(text, max(at - _HASH_REACH, 0), at) is None
    if found.upper() == found.lower():
        return False
    could_be_hash = _HASH.fullmatch(found) is not None
    reach = _HASH_REACH if could_be_hash else _REACH
    if _CUE.search(text, max(at - reach, 0), at):
        return not could_be_hash or _PUBLIC.search(text, max(at - _REACH, 0), at) is None
    return _is_of_service(text, at)


def _is_of_service(text: str, at: int) -> bool:
    """Return whether a value stands behind the name of a service."""
    before = text[max(at - _REACH, 0) : at]
    return _SERVICE.search(before) is not None and _PUBLIC.search(before) is None


def _turns(found: str) -> int:
    """Return at how many places a digit stands beside another character."""
    return sum(one.isdigit() != two.isdigit() for one, two in itertools.pairwise(found))


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
