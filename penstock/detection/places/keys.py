"""The table of evidence for secrets: labels that say that a random-looking value is one, and labels of other things.

A label is read from its end, as English names things: a *page token* is a token, an *access key id* is an id. The words
before *token* and *key* decide: a token that resumes a list, repeats a request, or belongs to a form or a cart opens
nothing by itself. A token of a session or of a login does.

The words are from the documentation of APIs and from everyday configuration; none is taken from a data set.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from penstock.detection.places.labels import REACH, lead_of, word_set, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence


SECRETS = word_set(
    """secret secrets password passwords passwd pass passphrase passcode passwort kennwort pwd pw psk pin credential
    credentials creds cred auth authorization authentication bearer jwt api pat cookie cookies salt signing webhook
    dsn sas crumb geheimnis secreto segredo segreto contraseña senha wachtwoord hasło heslo jelszó lösenord
    adgangskode salasana parola şifre пароль секрет 密码 密碼 秘密 パスワード シークレット 비밀번호 비밀"""
)
"""Names of secrets."""

TOKENS = word_set("token tokens jeton jetons токен 令牌 トークン 토큰 टोकन")
KEYS = word_set(
    """key keys apikey schlüssel schluessel clé clef clave llave chave chiave sleutel klucz klíč nyckel nøgle nøkkel
    avain kulcs anahtar ключ 密钥 密鑰 秘钥 金鑰 キー 키 مفتاح कुंजी"""
)
"""Names of tokens and keys: secrets, unless the word before says what else they are."""

CURSORS = word_set(
    """page pages paging pagination next prev previous continuation continue sync cursor resume resumption start delta
    skip scroll offset change changes since until list position sequence forward backward history watermark
    checkpoint batch query result results idempotency idempotent request dedup deduplication retry cart checkout
    basket order csrf xsrf antiforgery forgery authenticity verification captcha form nonce task execution lock
    fence fencing cancellation cancel placeholder end eos bos pad stop input output prompt total max min completion
    cached reasoning unk"""
)
"""Before *token*: it resumes a list, repeats a request, belongs to a form or an order, or is a token of a text."""

THINGS = word_set(
    """public pub publishable site verify verification verifying encryption-context idempotency dedup deduplication
    sort partition primary foreign cache object row rows range hash hashed shard group grouping index lookup map
    dict dictionary i18n translation locale message issue ticket item record entity event feature flag config
    configuration setting settings property attribute tag label sequence order storage-object image file blob s3
    asset hot short shortcut keyboard arrow enter license-plate column field slot leaf edge change unique composite
    candidate natural surrogate document openpgp pgp gpg host recv"""
)
"""Before *key*: it names a thing, or it is public."""

TICKETS = word_set("boarding season day travel bus train ski museum press gate hall parking rail metro backstage")
"""Before *pass*: it lets a person in, not a program."""

_SIGNERS = word_set("gpg pgp openpgp keyserver")

OTHERS = word_set(
    """page pages continue resume skip since id ids uid uids uuid uuids guid guids ulid kid jti sid etag etags cursor
    cursors version versions ver revision revisions rev hash hashes digest digests checksum checksums crc sha md
    blake integrity sri nonce fingerprint fingerprints thumbprint commit tree oid ref refs reference references slug
    path paths file filename files name names url urls uri urls href link links src arn urn location address host
    hostname endpoint domain type types kind count counts size length expires expiry expiration expire ttl at on
    date time timestamp created updated modified index offset position marker bookmark continuation next prev
    previous after before sequence seq number status state issuer subject audience scope scopes thread message
    request trace span parent correlation job image avatar icon photo thumbnail blob label tag tags title
    description text comment policy policies provider method algorithm alg field handle receipt header column prefix
    suffix version rotation reset strength length minimum maximum manager store hint format template placeholder
    required enabled disabled valid verified changed updated go narhash"""
)
"""Names of what is no secret: ids, hashes, versions, cursors, addresses, times, and facts about a secret."""

_TAILS = word_set(
    """value values val string str raw base64 b64 encoded plain prod production dev development staging stage stg test
    testing live sandbox new old current default local env here is are was now below follows primary secondary
    backup the a an my your our this that for of to and with"""
)
"""At the end of a label they say nothing."""

_IDS = re.compile(r"(?!.*(?:grid|paid|said|void))[a-z0-9]{0,10}(?:id|hash|sha|checksum|etag|cursor|version)")
_COMPOUND = re.compile(r"(.*?)(key|token|secret|password|passwd|pwd|cookie|schlüssel)s?")
_COOKIES = re.compile(r"(?i)phpsessid|jsessionid|asp\.?net_?sessionid|connect\.?sid|cookie\b.{0,60}$")
# Within the name of a resource, behind that of an image (its tag), and behind the algorithm of a digest.
_NAMES_IT = re.compile(
    r"""\b(?:arn|did):[\w-]*:\S*$|/[\w.-]{1,64}:$|(?i:\bh1|\bsha-?\d{1,3}|\bmd5|\bnonce)[:=-]\s?["']?$"""
)
_NAMED = (["amz", "credential"], ["goog", "credential"])  # they name the key that signed a link
_SECRET_IDS = (("secret", "id"), ("access", "key", "id"))
_HASHED = word_set("password passwd pwd pass passwort")
_CUE = re.compile(
    r"(?i)(?:(?<![a-z])(?:api|access|auth|secret|private)?keys?(?![a-z])|token|secret|bearer|credential|creds|passw|webhook"
    r"|(?<![a-z])o?auth(?:entication|orization|enticate)?(?![a-z0-9])|\s-u(?=\s)|crumb|cookie|jwt|dsn|schlüssel"
    r"|\bcl[eé]\b|jeton|clave|llave|chave|chiave|sleutel|klucz|klíč|nyckel|nøgle|avain|anahtar|ключ|токен|секрет"
    r"|密[钥鑰码碼]|秘[钥密]|令牌|金鑰|キー|トークン|シークレット|키|토큰|비밀|مفتاح|कुंजी|टोकन)\w*"
)
_ROWS = word_set(
    """user customer member person contact order product item row record object entity primary foreign partition sort
    parent tenant group event document message node"""
)
_PLACES = word_set("cursor cursors offset page pages next prev previous continuation continue resume after before sync")
# Each word for a secret has one of these in it.
_STEMS = word_set(
    """key token secret auth bearer credential cred pass pwd pw psk pin webhook crumb cookie jwt dsn pat api sas salt
    signing sess appid code= -u schl cle clé clef clave llave chave chiave sleutel klucz klíč nyckel nøgle nøkkel
    avain kulcs anahtar jeton geheim segret segred senha wacht kenn has hes jels lösen adgang salas parol şifre ключ
    токен секрет пароль 密 秘 令牌 金鑰 キー トークン シークレット パスワード 키 토큰 비밀 مفتاح कुंजी टोकन"""
)
_CLAUSE = re.compile(r"\n\s*\n|-----|[{}&;]|</(?:tr|p|li|div|h\d)>|<br")
_ENTRY = re.compile(rf"{_CLAUSE.pattern}|<|[\"']\s{{0,4}},|,\s{{0,4}}[\"']|\],")
_IN_ADDRESS = re.compile(r"[?&](?:code|appid)=$")  # what a link gives access with, though the names do not say so
_REACH = 60


def names_secret(words: Sequence[str]) -> bool | None:
    """Return whether a label is that of a secret; None if it says nothing.

    Args:
        words: the words of the label, in small letters, in order.
    """
    rest = [word for word in words if not word.isdigit()]
    while len(rest) > 1 and rest[-1] in _TAILS:
        rest.pop()
    if not rest:
        return None
    head, before = rest[-1], rest[:-1]
    compound = _COMPOUND.fullmatch(head)
    if compound and compound.group(1):
        head, before = compound.group(2), [*before, compound.group(1)]
    if (*before, head) == ("client", "token") or rest[-2:] in _NAMED:
        return False
    owner = before[-1] if before else ""
    if head in TOKENS:
        return CURSORS.isdisjoint(before[-3:]) and not owner.endswith(("page", "sync", "csrf", "skip"))
    if head in KEYS:
        return THINGS.isdisjoint(before[-2:]) and _SIGNERS.isdisjoint(before) and not owner.endswith(("public", "site"))
    if head == "pass" and owner in TICKETS:
        return False
    if head in SECRETS or any(tuple(rest[-len(ending) :]) == ending for ending in _SECRET_IDS):
        return True
    if head in OTHERS or _IDS.fullmatch(head):
        return head == "hash" and not _HASHED.isdisjoint(before)
    return names_secret(before) or None


def names_row(words: Sequence[str]) -> bool:
    """Return whether a label is that of the key of a row in a table, such as ``user_key``."""
    return tuple(words[-1:]) == ("key",) and not _ROWS.isdisjoint(words[-2:-1])


def names_cursor(text: str, at: int) -> bool:
    """Return whether the label of a value is that of a place in a list, such as ``cursor`` and ``next_page_token``.

    Args:
        text: the text.
        at: where the value begins.
    """
    lead = lead_of(text, at)
    return lead.labelled and names_secret(lead.words) is False and not _PLACES.isdisjoint(lead.words[-3:])


def may_say_secret(text: str, at: int) -> bool:
    """Return whether a word for a secret may stand near a value: `says_secret` is never True without one."""
    near = text[max(at - REACH, 0) : at].lower()
    return any(stem in near for stem in _STEMS)


def says_secret(text: str, at: int, reach: int = _REACH) -> bool | None:
    """Return whether the place of a value says that it is a secret, or that it is none; None if it says neither.

    Its key or label decides. Without one the words right before it do, then those before them in the same clause.

    Args:
        text: the text.
        at: where the value begins.
        reach: how many characters before it words may stand, if they are no label.
    """
    lead = lead_of(text, at)
    near = text[max(at - REACH, 0) : at]
    if lead.labelled and (_COOKIES.search(near) or _IN_ADDRESS.search(near)):
        return True
    if _NAMES_IT.search(near):
        return False
    said = names_secret(lead.words)
    if said is False or (said and lead.labelled):
        return said
    clause = near[-reach:].rstrip()
    named_apart = _TAILS.issuperset(lead.words)  # {"name": "API_KEY", "value": "…"}
    boundary = _ENTRY if lead.labelled and not named_apart else _CLAUSE
    clause = clause[max((found.end() for found in boundary.finditer(clause)), default=0) :]
    cues = [found.end() for found in _CUE.finditer(clause)]
    return names_secret(words_of(clause[: cues[-1]])) is not False if cues else None
