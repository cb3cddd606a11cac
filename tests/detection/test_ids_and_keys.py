"""Ids, public keys, digests and examples are no keys; secrets behind labels, in links and in groups are found whole.

Values are made up when the test runs: in one piece they would set off the scanners of whoever hosts this repository.
"""

from __future__ import annotations

import base64
import random
import string

import pytest

from penstock.detection.patterns.matching import Finder
from penstock.detection.personal_data.detector import PersonalData
from penstock.detection.places.keys import names_secret
from penstock.detection.places.labels import words_of
from penstock.processors.text.regex_filter import preset
from tests.detection.test_secrets_in_context import streamed

DICE = random.Random(37)  # noqa: S311 - made up values
KEYS = PersonalData(["api-key"])
SECRETS = Finder(preset("secrets"))


def letters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """Return random letters and digits."""
    return "".join(DICE.choice(alphabet) for _ in range(count))


def digits16(count: int) -> str:
    """Return random hexadecimal digits."""
    return letters(count, "0123456789abcdef")


def encoded(count: int) -> str:
    """Return random bytes in base64."""
    return base64.b64encode(DICE.randbytes(count)).decode()


def lines(text: str) -> str:
    """Return a text in lines of 64 characters."""
    return "\n".join(text[at : at + 64] for at in range(0, len(text), 64))


ED25519 = "AAAAC3NzaC1lZDI1NTE5AAAAI" + encoded(32).rstrip("=")
PUBLIC = (
    f"ssh-ed25519 {ED25519} ada@laptop",
    f'"deploy_key": "ssh-ed25519 {ED25519}"',
    f"SSH key: ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{encoded(300)}",
    f"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA{encoded(32)}\n-----END PUBLIC KEY-----",
    f"-----BEGIN CERTIFICATE-----\n{lines('MIID' + encoded(600))}\n-----END CERTIFICATE-----",
    f"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n{lines('mQINBF' + encoded(400))}\n-----END PGP PUBLIC KEY BLOCK-----",
    f"[Peer]\nPublicKey = {encoded(32)}",
    f"the public key is {encoded(32)}",
    f"gpg: using RSA key {digits16(40).upper()}",
    f"SHA256:{encoded(32).rstrip('=')} is the fingerprint of the key",
    f'{{"kty":"EC","x":"{letters(43)}","y":"{letters(43)}","kid":"{letters(43)}"}}',
)
DIGESTS = (
    f'"node_modules/jsonwebtoken": {{"integrity": "sha512-{encoded(64)}"}}',
    f"github.com/golang-jwt/jwt/v5 v5.2.1/go.mod h1:{encoded(32)}",
    f'vendorHash = "sha256-{encoded(32)}";',
    f'name = "secrecy"\nchecksum = "{digits16(64)}"',
    f"keyring==25.2.1 --hash=sha256:{digits16(64)}",
    f"image: ghcr.io/acme/auth@sha256:{digits16(64)}",
    f"docker pull acme/api:{digits16(40)}",
    f"uses: actions/create-github-app-token@{digits16(40)}",
    f"<script nonce='{letters(32)}'>",
    f"key: Linux-build-{digits16(64)}",
)
EXAMPLES = (
    "aws_access_key_id = AKIAIOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "STRIPE_SECRET_KEY=sk_test_" + "x" * 24,
    "stripe.api_key = 'sk_test_" + "4eC39HqLyjWDarjtT1zdp7dc'",
    "ANTHROPIC_API_KEY=sk-ant-api03-your-key-here",
    "https://hooks.slack.com/" + "services/T00000000/B00000000/" + "X" * 24,
)
IDS = (
    f'"id": "pi_3{letters(23)}"',
    f'"authorization": "pi_3{letters(23)}"',
    f"The API returned chatcmpl-{letters(29)}",
    f'"fileId": "1{letters(32)}"',
    f'"nextPageToken": "{letters(60)}"',
    f"https://api.example.com/items?page_token={letters(40)}&limit=10",
    f'"next_cursor": "{letters(40)}"',
    f'"nextSyncToken": "{encoded(21)}"',
    f'"cart_token": "{digits16(32)}"',
    f'"csrf_token": "{letters(40)}"',
    f'"ClientRequestToken": "{letters(32)}"',
    f"Idempotency-Key: {letters(32)}",
    f'"VersionId": "{letters(32)}"',
    f'ETag: "{letters(27)}"',
    f"x-request-id: {letters(24)}",
    f"https://shop.example.com/?gclid={letters(60)}",
    f"https://docs.example.com/d/{letters(44)}/edit",
    f'"offset": "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJib3JkZXIiOjEyMzQ1Nn0.{letters(43)}"',
    f'"user_key": "{digits16(8)}-{digits16(4)}-{digits16(4)}-{digits16(4)}-{digits16(12)}"',
    f'"token": "tok_1{letters(23)}"',
    f'"account_sid": "AC{digits16(32)}"',
    f'"sid": "SK{digits16(32)}"',
    f"token {letters(32)}.png",
    f"Snapshot {letters(24)} was created.",
    "boarding pass: AB1234",
    "wallet: leather brown small slim modern simple classic elegant premium durable compact gift",
    "user\tpassword\nbob\tnone",
    f'client.get("{letters(32)}")',
    f'getClient("{letters(32)}")',
    f'new OAuth2Client("{letters(32)}")',
    f'deleteApi("{letters(32)}")',
    f"clé publique : {encoded(32)}",
    f"Fremdschlüssel: {letters(32)}",
    f"公開鍵: {letters(32)}",
    f'{{"password_hint": {{"value": "{letters(32)}"}}}}',
    f"arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-{letters(6)}",
)
LABELLED = (
    ("Password={}", "Tr0ub4dor&3abcde"),
    ("login?user=joe&password={}&next=/home", "hunter2x"),
    ("<a href='/?password={}&amp;next=1'>", "Tr0ub4dor&3abcde"),
    ("Server=db;User Id=sa;Password={};Database=x", "S3cr3t!x"),
    ("password: {}", "P4$$w0rd!x"),
    ("password: {}", "P@ss(word)1"),
    ('{{"password": "{}"}}', "it's-4-secret"),
    ("define('DB_PASSWORD', '{}');", "Gr4nite-Hill"),
    ('setenv("API_TOKEN", "{}")', letters(24)),
    ("token: 12|{}", letters(40)),
    ("**Password:** {}", "Tr0ub4dor&3"),
    ("password → {}", "Tr0ub4dor&3"),
    ("my pw is {}", "hunter2x"),
    ("log in as admin with password {} today", "Tr0ub4dor&3"),
    ("ALTER USER bob WITH PASSWORD '{}';", "Tr0ub4dor&3"),
    ("requests.get(url, auth=('bob', '{}'))", "Tr0ub4dor&3"),
    ("WIFI:S:Home;T:WPA;P:{};;", "Tr0ub4dor&3"),
    ("पासवर्ड: {}", "Abc!2345xyz"),
    ("le mot de passe du compte admin est {}", "Soleil!2024"),
    ("la contraseña del administrador es {}", "Girasol#99"),
    ("Passwort für das WLAN: {}", "Regen&Bogen7"),
    ("the password for the admin account is {}", "Blue!Giraffe"),
    ("kind: Secret\ndata:\n  password: {}\n", "TXlTZWNyZXRQYXNz"),
    ("apiVersion: v1\ndata:\n  user: YWRtaW4=\n  conn: {}\nkind: Secret", "Z3Jhbml0ZS1oaWxs"),
    ("My recovery phrase is {}.", "legal winner thank year wave sausage worth useful legal winner thank yellow"),
    ("la clé API est {}", "yXSsBeFHz4risQmod5G3oEvwRnoJwlVX"),
    ("here is my token:\n{}", letters(40)),
    ("APIキーは{}", letters(32)),
    ("<td>API key</td><td>{}</td>", letters(40)),
    ('{{"name": "API_KEY", "value": "{}"}}', letters(40)),
    ("tavily = '{}'", letters(32)),
    ('{{"api_key": {{"value": "{}"}}}}', letters(32)),
    ('const c = new Client("{}")', letters(32)),
    ("await client.login('{}')", letters(32)),
    ("sdk = acme.AcmeClient('{}')", letters(32)),
    ("text: {}", "live_" + letters(40)),
    ('{{"message": "{}"}}', "rpa_" + letters(31) + "7"),
    ("jeton d'accès : {}", letters(32)),
    ("アクセスキー: {}", letters(32)),
    ("<clé_api>{}</clé_api>", letters(32)),
    ("the access code is {}", letters(32)),
    ("mot de passe {}", letters(32)),
    ("{}", "acme_sk_" + letters(32)),
    ("{}", "pi_3" + letters(23) + "_secret_" + letters(25)),
    ('{{"kty":"RSA","d":"{}"}}', letters(342)),
    (f"key_{digits16(48)}\n{{}}", "key_" + digits16(48)),
    (f"{letters(40)}\n{{}}", "rpa_" + letters(31) + "7"),
    (f"commit {digits16(40)}\n{{}}", "live_" + letters(40)),
    ("https://x.example/hook/{}", "key_" + digits16(48)),
    ("key: prod/{}", "live_" + letters(40)),
    ("id 0a1b2c3d  password:\n{}", "XkGwWSNZt5kuwZ!"),
)
LINKS = (
    ("https://b.s3.amazonaws.com/a?X-Amz-Credential=ASIA{}%2F20260101%2Fs3&X-Amz-Signature={}", digits16(64)),
    ("https://b.s3.amazonaws.com/a?AWSAccessKeyId=AKIA{}&Expires=1&Signature={}", letters(26) + "%3D"),
    ("https://b.s3.amazonaws.com/a?X-Amz-Date={}&X-Amz-Security-Token={}", "IQoJb3JpZ2lu" + letters(300)),
    ("https://storage.googleapis.com/b/a?X-Goog-Date={}&X-Goog-Signature={}", digits16(512)),
    ("https://x.blob.core.windows.net/c/f?sv=2024-11-04&sr={}&sig={}", letters(43) + "%3D"),
    ("https://d1.cloudfront.net/f?Expires=1&Key-Pair-Id=K{}&Signature={}", letters(200) + "~-__"),
    ("postgres://bob{}:{}@db.example.com/x", "S3cr3t!x"),
    ("postgresql+psycopg2://bob{}:{}@10.0.0.5:5432/x", "p%40ss-W0rd"),
    ("mongodb://bob{}:{}@db.example.com/x", "S3cr@t!x"),
    ("bob{}:{}@tcp(127.0.0.1:3306)/db", "S3cr3t!x"),
    ("https://joe{}:{}@host.example.com", letters(20)),
)


@pytest.mark.parametrize("text", [*PUBLIC, *DIGESTS, *EXAMPLES, *IDS])
def test_what_is_public_or_an_id_is_no_key(text: str) -> None:
    """By its form, or by its label; for personal data and for the preset."""
    assert [text[span.start : span.end] for span in KEYS.find(text)] == []
    assert SECRETS.find(text) == []


@pytest.mark.parametrize(("text", "secret"), LABELLED)
def test_a_secret_is_found_whole(text: str, secret: str) -> None:
    """To its last sign, and no further."""
    written = text.format(secret)
    ends = [written[: span.end] for span in KEYS.find(written)]
    assert any(end.endswith(secret) for end in ends), ends
    assert SECRETS.find(written)


@pytest.mark.parametrize(("text", "secret"), LINKS)
def test_of_a_link_only_the_secret_is_hidden(text: str, secret: str) -> None:
    """Its address, and the name of the key that signed it, stay."""
    written = text.format(letters(16, string.ascii_uppercase), secret)
    assert [written[span.start : span.end] for span in KEYS.find(written)] == [secret]


@pytest.mark.parametrize(
    "address",
    ["postgres://bob:{}@db.example.com/x", "ftp://bob:{}@ftp.example.com/a", "https://{}@o123.ingest.example.com/456"],
)
def test_the_secret_in_an_address_is_no_e_mail_address(address: str) -> None:
    """A password, with or without signs, and a token in place of the name."""
    for secret in ("S3cr3tx9", "S3cr3t!x") if ":{}" in address else (digits16(32),):
        found = PersonalData(["email", "api-key"]).find(address.format(secret))
        assert [span.type for span in found] == ["api-key"]


@pytest.mark.parametrize("text", [*PUBLIC, *DIGESTS, *EXAMPLES, *IDS, *(text.format(one) for text, one in LABELLED)])
def test_an_id_or_a_key_is_told_however_the_text_is_cut(text: str) -> None:
    """Letter by letter, and in two at some places."""
    whole = f"so {text}\nand then (or not) more, x: y"
    expected = KEYS.find(whole)
    assert streamed(whole, range(1, len(whole))) == expected
    for cut in range(1, len(whole), 7):
        assert streamed(whole, [cut]) == expected, cut


@pytest.mark.parametrize(
    ("label", "said"),
    [
        *((label, True) for label in ("access_token", "sessionToken", "API key 2", "client-secret", "OPENAI_APIKEY")),
        *((label, True) for label in ("secret_id", "password_hash", "AuthToken value", "clé API", "API-Schlüssel")),
        *((label, False) for label in ("page_token", "nextSyncToken", "csrf token", "Idempotency-Key", "publicKey")),
        *((label, False) for label in ("key_id", "sessionId", "token_type", "sha256", "etag", "gclid", "ClientToken")),
        *((label, True) for label in ("アクセスキー", "访问令牌", "токен доступа", "clave secreta", "recovery code")),
        *((label, False) for label in ("secret name", "token type", "clé publique", "公開鍵", "password hint")),
        *((label, None) for label in ("colour", "", "42", "text", "message", "zip code")),
    ],
)
def test_the_last_words_of_a_label_decide(label: str, said: bool | None) -> None:
    """As in English: a page token is a token of pages, an id of a key is an id."""
    assert names_secret(words_of(label)) is said
