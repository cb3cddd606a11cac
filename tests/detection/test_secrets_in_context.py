"""Secrets that are known by what stands around them, and names in code and examples that are none.

Keys are made up when the test runs: in one piece they would set off the scanners of whoever hosts this repository.
"""

from __future__ import annotations

import base64
import random
import string

import pytest

from penstock.detection.personal_data.detector import PersonalData
from penstock.detection.secrets import values

DICE = random.Random(17)  # noqa: S311 - made up keys
KEYS = PersonalData(["api-key"])


def letters(count: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    """Return random letters and digits."""
    return "".join(DICE.choice(alphabet) for _ in range(count))


def digits16(count: int) -> str:
    """Return random hexadecimal digits."""
    return letters(count, "0123456789abcdef")


def encoded(count: int) -> str:
    """Return random bytes in base64."""
    return base64.b64encode(DICE.randbytes(count)).decode()


def uuid() -> str:
    """Return a random UUID."""
    return "-".join(digits16(count) for count in (8, 4, 4, 4, 12))


HEX32, HEX40, MIXED, B64 = digits16(32), digits16(40), letters(40), encoded(32)
BOB = base64.b64encode(b"bob:S3cretDock").decode()
COMMANDS = (
    ("mysql -u root -p{} shop", "S3cr3tPw!"),
    ("mysqldump -uadmin -p'{}' db > x.sql", "h0rse-Battery"),
    ("sshpass -p '{}' ssh root@10.0.0.3", "Tr0ub4dor&3"),
    ("docker login -u bob -p {} registry.example.com", "dckr!Pass99"),
    ("curl -u alice:{} https://x.example", "Wond3rl@nd"),
    ("Connect-Thing -Username admin -Password {}", "Sup3rS3cret"),
    ("redis-cli -h cache -a {} ping", "r3d1sS3cret"),
    ("(ConvertTo-SecureString '{}' -AsPlainText -Force)", "Spring#2024"),
    ("smbclient //srv/share -U 'ACME/joe%{}'", "Summ3r!x"),
    ("mongo --username root --password {} admin", "m0ng0Pw!1"),
    ("xfreerdp /u:joe /p:{} /v:srv", "RdpPw!2024"),
    ("tool run -u joe -p {} now", "Tr1cky!Pw"),
    ("deploy --token {}", MIXED),
    ("deploy --token={}", MIXED),
    ("export SLACK_SIGNING={}", HEX32),
)
SENTENCES = (
    ('The password is "{}"', "hunter42!"),
    ("my password is {}.", "Blue!Giraffe7"),
    ("the password for the admin account is {}", "Z3bra!Crossing"),
    ("Das Passwort lautet {}", "Gew1tter!9"),
    ("le mot de passe est {}", "Soleil!2024"),
    ("la contraseña es {}", "Girasol#99"),
    ("wachtwoord: {}", "F1etsbel!"),
    ("pw: {}", "hT5!kq99xZ"),
    ("пароль: {}", "Zima2024!"),
    ("密码:{}", "Abc!2345xyz"),
    ("My API key is {}.", MIXED),
)
CONFIGURATION = (
    ("login bob password {}", "hunter2!x"),
    ("Use login bob password {} there", "hunter2x"),
    ("password:\n{}==", "Tr0ub4dor"),
    ("old_password,new_password\n{},\n", "hunter2x"),
    ("user,password,email,password\nbob,{},,\n", "hunter2x"),
    ("machine imap login bob port imaps password {}", "hunter2!x"),
    ("PASSWORD=\n{}", "hunter2!x"),
    ("Unseal Key 1: {}", B64),
    ("Unseal Key 5 (will be hidden): {}", B64),
    ("PresharedKey = {}", B64),
    ('psk="{}"', "C0ffee&Cr3am"),
    ('203.0.113.1 : PSK "{}"', "Ips3c-Sh4red!"),
    ('#define WIFI_PSK "{}"', "Ips3c-Sh4red!"),
    ("crypto isakmp key {} address 10.0.0.1", "C1scoK3y!"),
    ("tunnel pre-shared-key {}", "Abc!789xyz"),
    ("username joe password 7 {}", "0822455D0A16544541"),
    ("machine api.example.com login bob password {}", "n3trcPw!"),
    ("Cookie: sessionid={}; theme=dark", letters(32, string.ascii_lowercase + string.digits)),
    ("Authorization: GenieKey {}", uuid()),
    ('<add key="Password" value="{}"/>', "XmlPw!99x"),
    ("<password>{}</password>", "XmlPw!99x"),
    ('"auth": "{}"', BOB),
    ('new NetworkCredential("jo@example.com", "{}");', "vzihlaquknriqlht"),
    ("jdbc:oracle:thin:scott/{}@db:1521", "T1gerPw"),
    ("heroku auth token {}", uuid()),
    ('algolia = "{}"', HEX32),
    ("ENCRYPTION_SALT={}", MIXED),
    ("api_key = {}", MIXED),
    ('"Client Secret" : "{}"', MIXED),
)
WHOLE = (  # all of it is the secret
    "$8$TnGX$" + letters(43),
    "{SSHA}" + encoded(24),
    "pbkdf2_sha256$260000$" + letters(22) + "$" + B64,
    "-----BEGIN " + "OpenVPN Static key V1-----\n" + HEX32 + "\n" + HEX32 + "\n-----END OpenVPN Static key V1-----",
    "ory_" + "pat_" + MIXED,
    "cfut_" + MIXED,
    "ctx7sk-" + uuid(),
    "bb_" + "live_" + letters(30),
    "key_" + digits16(48),
    "rzp_" + "live_" + letters(14),
    "dt0s" + "01." + letters(30),
    "hcaik_" + MIXED,
)
HARMLESS = (
    "the telnet login will handle password aging, or a script does",
    "after login you see password reset options",
    "a login without password works once",
    "password\tinclude\t\tsu\nsession\t\toptional\tpam_keyinit.so force\n",
    ":pwd\tediting.txt\t/*:pwd*\n:py3do\tif_pyth.txt\t/*:py3do*\n",
    "password,Password,Passwort\nforgot_it,Forgot it,Vergessen1\n",
    "password;Passwort;mot de passe\nwindow7;Fenster7;fenêtre\n",
    "SMTP_PASSWORD=\nSTRIPE_KEY=sk_test_xxx\n",
    "auth:\n  password:\n  db_host: db-17.internal\n",
    'implementation("io.jsonwebtoken:jjwt-api:0.12.6")',
    "Culture=neutral, PublicKeyToken=b77a5c561934e089",
    "const passwordPrompt = 'npm password: ';",
    "passwordTooltip = 'Use 12 characters'",
    "token: Sicherheitsschlüssel\napi_key: API-Zugangsschlüssel",
    "uint256 public tokenSupply = initialSupply;",
    "this.authToken = authTokenFromStore;",
    "accessToken = response.data.accessToken",
    "private_key = serialization.load_pem_private_key",
    "def sign(self, private_key: CERTIFICATE_PRIVATE_KEY_TYPES) -> bytes: ...",
    "credential: AuthCredential",
    "sort_key='created_at_desc_2'",
    "private_key_path: /etc/ssl/private/server2.key",
    "apiKey: YOUR_API_KEY_GOES_HERE",
    "api_key = '<YOUR_API_KEY>'",
    "token: ${{ secrets.GITHUB_TOKEN }}",
    "password: !vault |",
    "password = 'changeme'",
    "if password == confirm_password2:",
    "postgres://user:password@localhost/db",
    "https://user:pass@example.com/",
    "docker run -p 8080:80 nginx",
    "docker run -u 1000:1000 img",
    "mysql -u root -p mydatabase",
    "ssh -p 2222 user@host",
    "curl -u $USER:$PASS https://x.example",
    "curl -u username:password https://x.example",
    "nmap -p 1-65535 10.0.0.1",
    "--token TOKEN --password PASSWORD",
    "-Password $securePassword",
    "perldoc -u Some::Modulename",
    "The key is to stay calm. The secret is out.",
    "the password is wrong, your password is required",
    "the password is 8-character long",
    "The primary key is customer_account_2",
    f"git commit {HEX40}",
    f"gpg --keyserver hkps://keys.openpgp.org --recv-keys {HEX40.upper()}",
    f"integrity sha512-{encoded(64)}",
    f"<img src='data:image/png;base64,iVBORw0KGgo{letters(80)}'>",
    f"spotify has a public key with the fingerprint {HEX40}",
)


def found(text: str) -> list[str]:
    """Return the secrets that are found in a text."""
    return [text[span.start : span.end] for span in KEYS.find(text)]


@pytest.mark.parametrize(("text", "secret"), [*COMMANDS, *SENTENCES, *CONFIGURATION])
def test_a_secret_is_known_by_what_stands_around_it(text: str, secret: str) -> None:
    """It is hidden, and nothing of it is left, alone and within other text."""
    for written in (text.format(secret), f"so {text.format(secret)}\nand then more"):
        hidden = found(written)
        assert len(hidden) == 1, hidden
        assert secret in hidden[0]


@pytest.mark.parametrize("secret", WHOLE)
def test_a_secret_is_known_by_its_form(secret: str) -> None:
    """By a prefix, or by its parts."""
    assert found(f"see {secret} there") == [secret]


@pytest.mark.parametrize("text", HARMLESS)
def test_code_examples_and_sentences_are_no_secrets(text: str) -> None:
    """Names in code, placeholders, ports, check sums, images."""
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [*(text.format(secret) for text, secret in (*COMMANDS, *SENTENCES, *CONFIGURATION)), *WHOLE, *HARMLESS],
)
def test_a_secret_is_found_however_the_text_is_cut(text: str) -> None:
    """Letter by letter, and in two at every place."""
    whole = f"so {text}\nand then (or not) more, x: y"
    expected = KEYS.find(whole)
    assert streamed(whole, range(1, len(whole))) == expected
    for cut in range(1, len(whole)):
        assert streamed(whole, [cut]) == expected, cut


def streamed(text: str, cuts: range | list[int]) -> list[object]:
    """Return what is found in a text that comes in pieces."""
    notes: dict[str, object] = {}
    decided: list[object] = []
    start = 0
    for cut in [*cuts, len(text)]:
        before = max(start - KEYS.lookback, 0)
        spans, hold = KEYS.scan(text[before:cut], start - before, notes, final=cut == len(text))
        decided += [
            span._replace(start=span.start + before, end=span.end + before) for span in spans if span.end <= hold
        ]
        start = before + hold
    return decided


@pytest.mark.parametrize("name", ["initialSupply", "customer_account_id_2", "config.db.token", "/etc/ssl/server2.pem"])
def test_a_name_in_code_is_an_identifier(name: str) -> None:
    """Words in any case, joined as code joins them, with few digits."""
    assert values.identifier(name)


@pytest.mark.parametrize("secret", ["aB3dE5gH7jK9mN1p", "vzihlaquknriqlht", "Winter2023!", "f7Kq29ZxTb81LmWv4RsN"])
def test_random_letters_are_no_identifier(secret: str) -> None:
    """Too many digits, too short parts, signs, or letters that follow one another as in no word."""
    assert not values.identifier(secret)
