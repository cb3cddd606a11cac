"""The table of evidence for secrets: labels that say that a random-looking value is one, and labels of other things.

A label is read from its end, as English names things: a *page token* is a token, an *access key id* is an id. The words
before *token* and *key* decide: a token that resumes a list, repeats a request, or belongs to a form or a cart opens
nothing by itself. A token of a session or of a login does.

The words are from the documentation of APIs and from everyday configuration; none is taken from a data set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.detection.deferred import deferred
from penstock.detection.places.labels import REACH, lead_of, word_set, words_of

if TYPE_CHECKING:
    from collections.abc import Sequence


PASSWORDS = word_set(
    """password passwords passwd passphrase passcode passwort kennwort passe contraseña senha wachtwoord hasło heslo
    jelszó lösenord adgangskode salasana parola şifre пароль 密码 密碼 パスワード 비밀번호"""
)
"""Names of passwords."""

SECRETS = PASSWORDS | word_set(
    """secret secrets pass pwd pw psk pin credential credentials creds cred auth authorization authentication bearer jwt
    api pat cookie cookies salt signing webhook dsn sas crumb geheimnis secreto segredo segreto секрет 秘密 シークレット
    비밀"""
)
"""Names of secrets."""

TOKENS = word_set("token tokens jeton jetons токен 令牌 トークン 토큰 टोकन")
KEYS = word_set(
    """key keys apikey schlüssel schluessel clé clef clave llave chave chiave sleutel klucz klíč nyckel nøgle nøkkel
    avain kulcs anahtar ключ 密钥 密鑰 秘钥 金鑰 私钥 鍵 キー 키 مفتاح कुंजी"""
)
"""Names of tokens and keys: secrets, unless the word before says what else they are."""

_CODES = word_set("access auth authorization authentication recovery backup activation security unlock")
"""Before *code*: whoever has it may come in."""

CURSORS = word_set(
    """page pages paging pagination next prev previous continuation continue sync cursor resume resumption start delta
    skip scroll offset change changes since until list position sequence forward backward history watermark
    checkpoint batch query result results idempotency idempotent request dedup deduplication retry cart checkout
    basket order csrf xsrf antiforgery forgery authenticity verification captcha form nonce task execution lock
    fence fencing cancellation cancel placeholder end eos bos pad stop input output prompt total max min completion
    cached reasoning unk"""
)
"""Before *token*: it resumes a list, repeats a request, belongs to a form or an order, or is a token of a text."""

_KNOWN = word_set(
    """public publique pública publica pubblica publiczny publiek publieke öffentlich öffentlicher публичный открытый
    公開 公开 公 공개 primary primaire primaria primária primär foreign fremd étrangère foránea estrangeira esterna
    первичный внешний 主 外部 外 기본 외래"""
)
"""Beside *key*: all may know it, or it is that of a row."""

THINGS = _KNOWN | word_set(
    """pub publishable site verify verification verifying encryption-context idempotency dedup deduplication
    sort partition cache object row rows range hash hashed shard group grouping index lookup map
    dict dictionary i18n translation locale message issue ticket item record entity event feature flag config
    configuration setting settings property attribute tag label sequence order storage-object image file blob s3
    asset hot short shortcut keyboard arrow enter license-plate column field slot leaf edge change unique composite
    candidate natural surrogate document openpgp pgp gpg host recv"""
)
"""Before *key*: it names a thing, or it is public."""

TICKETS = word_set("boarding season day travel bus train ski museum press gate hall parking rail metro backstage")
"""Before *pass*: it lets a person in, not a program."""

_SIGNERS = word_set("gpg pgp openpgp keyserver")

TEXTS = word_set(
    """text comment title description message error status state header host hostname column provider method type kind
    hint field format template prompt tooltip caption heading warning notice question instructions help button regex
    regexp pattern rule rules"""
)
"""Names of texts and of facts: a secret may stand there, and facts about one are none."""

OTHERS = _KNOWN | word_set(
    """page pages continue resume skip since id ids uid uids uuid uuids guid guids ulid kid jti sid etag etags cursor
    cursors version versions ver revision revisions rev hash hashes digest digests checksum checksums crc sha md
    blake integrity sri nonce fingerprint fingerprints thumbprint commit tree oid ref refs reference references slug
    path paths file filename files name names url urls uri href link links src arn urn location address endpoint
    domain types count counts size length expires expiry expiration expire ttl at on date time timestamp created
    updated modified index offset position marker bookmark continuation next prev previous after before sequence seq
    number issuer subject audience scope scopes thread request trace span parent correlation job image avatar icon
    photo thumbnail blob label tag tags policy policies algorithm alg handle receipt prefix suffix rotation reset
    strength minimum maximum manager store placeholder required enabled disabled valid verified changed go narhash"""
)
"""Names of what is no secret: ids, hashes, versions, cursors, addresses, times, and facts about a secret."""

_TAILS = word_set(
    """value values val string str raw base64 b64 encoded plain prod production dev development staging stage stg test
    testing live sandbox new old current default local env here is are was now below follows primary secondary
    backup the a an my your our this that for of to and with"""
)
"""At the end of a label they say nothing."""

_IDS = deferred(r"(?!.*(?:grid|paid|said|void))[a-z0-9]{0,10}(?:id|hash|sha|checksum|etag|cursor|version)")
_ENGLISH = word_set("key token secret password passwd pwd cookie")
_FOREIGN = (
    PASSWORDS | TOKENS | KEYS | word_set("geheimnis secreto segredo segreto секрет 秘密 シークレット 비밀")
) - word_set("password passwords passwd passphrase passcode token tokens key keys apikey parola")
_COMPOUND = deferred(rf"(.*?)({'|'.join(sorted(_ENGLISH | _FOREIGN, key=len, reverse=True))})s?")
_COMPOUND_ENDS = tuple(word + end for word in _ENGLISH | _FOREIGN for end in ("", "s"))
_COOKIES = deferred(r"(?i)phpsessid|jsessionid|asp\.?net_?sessionid|connect\.?sid|cookie\b.{0,60}$")
# Within the name of a resource, behind that of an image (its tag) or of a file in a list of sums, and behind the
# algorithm of a digest.
_NAMES_IT = deferred(
    r"""[0-9a-f]{32} [ *]\S{0,37}[^\s:=]\n$"""
    r"""|\b(?:arn|did):[\w-]*:\S*$|/[\w.-]{1,64}:$|(?i:\bh1|\bsha-?\d{1,3}|\bmd5|\bnonce)[:=-]\s?["']?$"""
)
_NAMED = (["amz", "credential"], ["goog", "credential"])  # they name the key that signed a link
_SECRET_IDS = (("secret", "id"), ("access", "key", "id"))
_HASHED = word_set("password passwd pwd pass passwort")
_SHORT = 6  # letters; other words have fewer of them within
_APART = sorted(word for word in _FOREIGN if word.isascii() and len(word) < _SHORT)
_CUE = deferred(
    r"(?i)(?:(?<![a-z])(?:api|access|auth|secret|private)?keys?(?![a-z])|token|secret|bearer|credential|creds|passw|webhook"
    r"|(?<![a-z])o?auth(?:entication|orization|enticate)?(?![a-z0-9])|\s-u(?=\s)|crumb|cookie|jwt|dsn|(?<![a-z])pwd?(?![a-z])"
    rf"|(?:{'|'.join(sorted(_CODES))})[ _-]code(?![a-z])"
    rf"|{'|'.join(sorted(_FOREIGN.difference(_APART)))}|(?<![^\W_])(?:{'|'.join(_APART)})s?(?![^\W_]))\w*"
)
_ROWS = word_set(
    """user customer member person contact order product item row record object entity primary foreign partition sort
    parent tenant group event document message node"""
)
_POSITIONS = word_set("cursor cursors offset page pages next prev previous continuation continue resume sync")
# Each word for a secret has one of these in it.
_STEMS = _FOREIGN | word_set(
    """key token secret auth bearer credential cred pass pwd pw psk pin webhook crumb cookie jwt dsn pat api sas salt
    signing sess appid code -u parola"""
)
_CLAUSE = deferred(r"\n\s*\n|-----|[{}&;]|</(?:tr|p|li|div|h\d)>|<br")
_ENTRY = deferred(rf"{_CLAUSE.pattern}|<|[\"']\s{{0,4}},|,\s{{0,4}}[\"']|\],")
_IN_ADDRESS = deferred(r"[?&](?:code|appid)=$")  # what a link gives access with, though the names do not say so
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
    compound = _COMPOUND.fullmatch(head) if head.endswith(_COMPOUND_ENDS) else None
    if compound and compound.group(1):
        head, before = compound.group(2), [*before, compound.group(1)]
    if (*before, head) == ("client", "token") or rest[-2:] in _NAMED:
        return False
    if head in TEXTS:
        return False if names_secret(before) else None
    if head in TOKENS or head in KEYS:
        return _opens(head, before)
    if any(tuple(rest[-len(ending) :]) == ending for ending in _SECRET_IDS):
        return True
    said = _said_by(head, before[-1] if before else "")
    if said is None:
        return names_secret(before) or None
    return said or (head == "hash" and not _HASHED.isdisjoint(before))


def _opens(head: str, before: Sequence[str]) -> bool:
    """Return whether a token or a key is a secret, by the words before it."""
    owner = before[-1] if before else ""
    if head in TOKENS:
        if tuple(before[-2:]) == ("public", "key"):  # of an assembly
            return False
        return CURSORS.isdisjoint(before[-3:]) and not owner.endswith(("page", "sync", "csrf", "skip"))
    return THINGS.isdisjoint(before[-2:]) and _SIGNERS.isdisjoint(before) and not owner.endswith(("public", "site"))


def _said_by(head: str, owner: str) -> bool | None:
    """Return whether the last word of a label names a secret; ``owner`` is the word before it."""
    if head == "pass" and owner in TICKETS:
        return False
    if head in SECRETS or (head == "code" and owner in _CODES):
        return True
    return False if head in OTHERS or _IDS.fullmatch(head) else None


def knows_word(word: str) -> bool:
    """Return whether a word may be one of a label of a secret."""
    return word in SECRETS or word in _CODES or word.endswith(_COMPOUND_ENDS)


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
    return lead.labelled and names_secret(lead.words) is False and not _POSITIONS.isdisjoint(lead.words[-3:])


def may_say_secret(text: str, at: int) -> bool:
    """Return whether a word for a secret may stand near a value: `says_secret` is never True without one."""
    near = text[max(at - REACH, 0) : at].lower()
    return any(map(near.__contains__, _STEMS))


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
    if lead.labelled and lead.head in TEXTS:
        return None
    clause = near[-reach:].rstrip()
    named_apart = _TAILS.issuperset(lead.words)  # {"name": "API_KEY", "value": "…"}
    boundary = _ENTRY if lead.labelled and not named_apart else _CLAUSE
    clause = clause[max((found.end() for found in boundary.finditer(clause)), default=0) :]
    cues = [found.end() for found in _CUE.finditer(clause)]
    return names_secret(words_of(clause[: cues[-1]])) is not False if cues else None
