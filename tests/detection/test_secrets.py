"""The presets ``secrets`` and ``urls``: keys by prefix and by label, blocks, links; prose and code are neither.

The keys are made up when the test runs: in one piece they would set off the scanners of whoever hosts this repository.
"""

import re
import string

import pytest

from penstock.detection.patterns.matching import Finder, FinderState
from penstock.detection.secrets.commands import COMMANDS
from penstock.engine.text_guards.text_guard import MAX_HOLD
from penstock.processors.text.regex_filter import RegexFilterProcessor, preset
from penstock.testing import run_stream

A = "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA"
HEX = "0123456789abcdef"
SECRETS = Finder(preset("secrets"))
URLS = Finder(preset("urls"))


def redacted(text: str, finder: Finder = SECRETS) -> str:
    """Return the text with what is found replaced."""
    made, at = "", 0
    for region in finder.unite(text, finder.find(text)):
        made, at = made + text[at : region.start] + region.replacement, region.end
    return made + text[at:]


@pytest.mark.parametrize(
    ("secret", "replacement"),
    [
        ("AKIA" + "IOSFODNN7QWERTYU", "[AWS_KEY]"),
        ("ASIA" + "IOSFODNN7QWERTYU", "[AWS_KEY]"),
        ("sk-" + "proj-" + A, "[API_KEY]"),
        ("sk-" + "ant-api03-" + A, "[API_KEY]"),
        ("AIza" + A + "abc", "[API_KEY]"),
        ("sk_" + "live_" + A, "[API_KEY]"),
        ("SK" + HEX * 2, "[API_KEY]"),
        ("SG." + A[:22] + "." + A + A[:11], "[API_KEY]"),
        ("hf_" + A, "[API_KEY]"),
        (HEX * 2 + "-us12", "[API_KEY]"),
        ("ghp_" + A + "abcd", "[GITHUB_TOKEN]"),
        ("github_" + "pat_" + A, "[GITHUB_TOKEN]"),
        ("glpat-" + A[:20], "[GITLAB_TOKEN]"),
        ("xoxb-" + "123456789012-" + A, "[SLACK_TOKEN]"),
        ("https://hooks.slack.com/" + "services/T0000/B0000/" + A, "[SLACK_WEBHOOK]"),
        ("npm_" + A + "abcd", "[NPM_TOKEN]"),
        ("pypi-" + A * 2, "[PYPI_TOKEN]"),
        ("eyJ" + A + ".eyJ" + A + "." + A, "[JWT]"),
        ("dp.st.dev." + A + A[:8], "[API_KEY]"),
        ("M" + A[:23] + "." + A[:6] + "." + A[:27], "[API_KEY]"),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n" + A + "\n-----END RSA PRIVATE KEY-----",
            "[PRIVATE_KEY]",
        ),
        ("-----BEGIN OPENSSH PRIVATE KEY-----\n" + A + "\n" + A, "[PRIVATE_KEY]"),
        ("bearer eyJhbGciOi.J9-x_y.z", "[BEARER_TOKEN]"),
        ("Bearer abc123", "[BEARER_TOKEN]"),
        ("Basic dXNlcjpwYXNzd29yZA==", "[BASIC_AUTH]"),
        ("API-Key: abcdefghijklmnopqrst", "[API_KEY]"),
    ],
)
def test_a_secret_is_found_wherever_it_stands(secret: str, replacement: str) -> None:
    """Alone, in a sentence, in quotes."""
    assert redacted(secret) == replacement
    assert redacted(f"use {secret} now") == f"use {replacement} now"
    assert redacted(f'"{secret}"') == f'"{replacement}"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("password: hunter2!", "password: [PASSWORD]"),
        ('"db_password" => "correct horse"', '"db_password" => "[PASSWORD]"'),
        ("client_secret = " + A, "[API_KEY]"),
        ("ENCRYPTION_KEY=" + A, "ENCRYPTION_KEY=[SECRET]"),
        ("postgres://bob:s3cr3t@db/x", "postgres://bob:[PASSWORD]@db/x"),
        ("AccountKey=" + A + "+/a==;x", "AccountKey=[API_KEY];x"),
        ("123456789:AA" + A + "b", "123456789:[API_KEY]"),
    ],
)
def test_a_value_is_known_by_its_label(text: str, expected: str) -> None:
    """The label stays, save where the reference takes it too."""
    assert redacted(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "the bearer of bad news",
        "basic training, basic authentication",
        "sk-learn-contrib-lightning-package",
        "risk-averse-people-and-other-words-123456789",
        "PEM files begin with -----BEGIN PRIVATE KEY----- and then go on",
        "password: please enter your password",
        'password = os.environ["DB_PASSWORD"]',
        "api_key = your_api_key_goes_here_now",
        "token = ${MY_TOKEN_FROM_SOMEWHERE_1}",
        "tokenizer = AutoTokenizer.from_pretrained(name)",
        "hashed_password = generate_password_hash(form)",
        "token_url = 'https://login.example.com/oauth2/token'",
        "akiaiosfodnn7example",
        "https://example.com:8000/@user",
        "The secret: be kind.",
    ],
)
def test_prose_and_code_are_no_secrets(text: str) -> None:
    """Words of English, placeholders, calls, look-ups."""
    assert redacted(text) == text


@pytest.mark.parametrize("callee", [*(f"do_{letter}" for letter in string.ascii_letters), "my_password", "users"])
def test_a_call_that_takes_no_password_is_not_held(callee: str) -> None:
    """It may end with the letters that the name of a call with a password ends with."""
    text = f"x = {callee}(value): then "
    assert SECRETS.scan(text, 0, FinderState()) == ([], len(text))


@pytest.mark.parametrize("callee", ["credential", "credentials", "basicAuth", "Basic_Auth", "a.login", "my_connect"])
def test_a_call_that_takes_a_password_is_held(callee: str) -> None:
    """The second of two texts may be one."""
    assert redacted(f'x = {callee}("joe", "{A}")') == f'x = {callee}("joe", "[PASSWORD]")'
    assert SECRETS.scan(f'x = {callee}("joe", ', 0, FinderState())[1] == len(f"x = {callee}")


@pytest.mark.parametrize("callee", ["setPassword", "get_password", "set_passphrase"])
def test_a_call_that_sets_a_password_is_held(callee: str) -> None:
    """Its only text may be one."""
    assert redacted(f'x = {callee}("{A}")') == f'x = {callee}("[PASSWORD]")'
    assert SECRETS.scan(f'x = {callee}( "', 0, FinderState())[1] == len(f"x = {callee}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see https://a.example/x?y=1#z, or http://b.example.", "see [URL], or [URL]."),
        ("HTTPS://A.EXAMPLE and ftp://b.example", "[URL] and [URL]"),
        ("www.a.example", "[URL]"),
        ("(<https://a.example>)", "(<[URL]>)"),
        ("www. and awww.cute.example", "www. and awww.cute.example"),
        ("://", "://"),
    ],
)
def test_links_are_found(text: str, expected: str) -> None:
    """With a scheme, or with www."""
    assert redacted(text, URLS) == expected


def test_a_stream_may_hold_the_longest_key_block() -> None:
    """With the longest lines around it; a block that is longer than that is not found as one."""
    label = "A" * 40 + "PRIVATE KEY BLOCK-----"
    most = MAX_HOLD - 196
    block, longer = (f"-----BEGIN {label}{'<' * size}-----END {label}" for size in (most, most + 1))
    assert redacted(block) == "[PRIVATE_KEY]"
    assert redacted(longer) != "[PRIVATE_KEY]"
    assert most == 3900  # an RSA key of 4,096 bits has 3,300
    assert len(block) <= MAX_HOLD
    assert (
        run_stream(RegexFilterProcessor(presets=["secrets"], strategy="redact"), list(block))[1].text == "[PRIVATE_KEY]"
    )


@pytest.mark.parametrize(
    "text", ["It has taken so long, in other words: a chicken.", "Mit einem Wort, ein word an sich."]
)
def test_a_common_word_that_ends_as_a_name_does_is_no_reason_to_search(text: str) -> None:
    """`taken` ends as `token` does, and `word` as `password`; neither costs a search."""
    assert [rule.trigger for rule in COMMANDS if re.search(rule.trigger, text)] == []


@pytest.mark.parametrize("label", ["api_key", "API-Key", "clientSecret", "access_token", "access key id"])
@pytest.mark.parametrize(
    "text",
    [
        '{{"{}": "{}", "b": 1}}',
        "{}: '{}'",
        '{} = "{}"',
        r"{{\"{}\": \"{}\"}}",
        "&quot;{}&quot;: &quot;{}&quot;",
    ],
)
def test_a_key_in_quotes_is_found_alone(label: str, text: str) -> None:
    """Its label and both quotes stay, so that what quotes it can still be parsed."""
    key = "abcdefghij0123456789XYZ"
    assert redacted(text.format(label, key)) == text.format(label, "[API_KEY]")
