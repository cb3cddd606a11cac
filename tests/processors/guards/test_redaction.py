"""How values are hidden, and the vault that numbers them."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from penstock import PIIDetector, Workflow
from penstock.processors.guards.pii_action import keyed_hash, mask, placeholder
from penstock.processors.guards.restore import LONGEST_TOKEN, TOKEN, Numbering, Vault, token_name


@pytest.mark.parametrize(
    ("type", "value", "hidden"),
    [
        ("email", "john.doe@example.com", "j******e@*******.com"),
        ("email", "joe@mail.example.co.uk", "j*e@****.example.co.uk"),
        ("email", "ab@x.io", "***@*.io"),
        ("email", "ab@localhost", "***@***"),
        ("email", "a@b@c", "*****"),
        ("phone", "(555) 123-4567", "(XXX) XXX-4567"),
        ("phone", "555-1234 x99", "XXX-XXXX x99"),
        ("credit-card", "4111-1111-1111-1111", "****-****-****-1111"),
        ("ssn", "123-45-6789", "***-**-6789"),
        ("ssn", "6789", "****"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "********-****-****-****-************"),
        ("crypto-wallet", "0x52908400098527886E0F7030069857D2E4169EE7", f"0x52{'*' * 34}9EE7"),
        ("crypto-wallet", "12345678", "********"),
        ("iban", "DE89 3704 0044 0532 0130 00", f"DE{'*' * 21}0 00"),
        ("iban", "DE8937", "******"),
        ("ip-address", "192.168.10.254", "1************4"),
        ("passport", "AB1234567", "A*******7"),
        ("name", "Zoë", "***"),
        ("name", "J😀n", "***"),
        ("name", "", ""),
    ],
)
def test_a_mask_keeps_the_form_of_a_value(type: str, value: str, hidden: str) -> None:
    """And never all of it."""
    assert mask(type, value) == hidden


def test_a_mask_without_form_says_little_of_the_length() -> None:
    """At most eight stars."""
    assert mask("email", "john.doe@example.com", preserve_format=False) == "********"
    assert mask("name", "Zoë", preserve_format=False) == "***"


def test_hashes_depend_on_their_key() -> None:
    """So nobody can go through all phone numbers to find one's."""
    one, two = (keyed_hash("123-45-6789", key, 12) for key in (b"k", b"l"))
    assert one != two
    assert one == keyed_hash("123-45-6789", b"k", 12)
    assert len(one) == len("[HASH:]") + 12


def test_a_placeholder_is_the_types_name() -> None:
    """In capitals."""
    assert placeholder("date-of-birth") == "[DATE-OF-BIRTH]"


def test_equal_values_have_one_token_and_others_the_next() -> None:
    """By type."""
    vault, first = Vault().kept("email", "a@b.io")
    vault, second = vault.kept("email", "c@d.io")
    vault, phone = vault.kept("phone", "+49 30 1234567")
    again, same = vault.kept("email", "a@b.io")
    assert (first, second, phone, same) == ("[EMAIL_1]", "[EMAIL_2]", "[PHONE_1]", "[EMAIL_1]")
    assert again is vault
    assert vault.restored("x [EMAIL_2] [EMAIL_3] [PHONE_1]") == "x c@d.io [EMAIL_3] +49 30 1234567"


def test_numbers_that_stand_in_the_texts_are_not_given_out() -> None:
    """They are an earlier run's, or somebody wrote them."""
    numbering = Numbering(Vault(), ["see [EMAIL_7] and [PHONE_9]"])
    assert numbering.token("email", "a@b.io") == "[EMAIL_8]"
    assert numbering.vault().values == {"[EMAIL_8]": "a@b.io"}


def test_a_vault_shows_none_of_its_values() -> None:
    """Not in logs, records or errors."""
    vault, _ = Vault().kept("email", "a@b.io")
    assert repr(vault) == str(vault) == f"{vault}" == "Vault(1 values)"


@pytest.mark.parametrize("type", ["email", "credit-card", "Ausweis Nr. ß", "9 lives", "x" * 80, "身份证"])
def test_every_type_has_a_token_that_can_be_recognised(type: str) -> None:
    """Whatever its name."""
    _, token = Vault().kept(type, "v")
    assert TOKEN.fullmatch(token)
    assert len(token) <= LONGEST_TOKEN
    assert token_name(type) in token


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("end", ["", '"', "\\", '\\"', "\n"])
def test_a_mask_leaves_json_in_json_whole(depth: int, end: str) -> None:
    """It keeps no backslash at an end of a value, which would escape the mask or what stands behind it."""
    text = json.dumps({"k": f"say password: Tr0ub4dor&3xyz{end} ok"})
    for _ in range(depth):
        text = json.dumps({"in": text})
    once = Workflow("w").then(PIIDetector()).start_sync().process_output_result(text).text
    assert "Tr0ub4dor" not in once
    for _ in range(depth):
        once = json.loads(once)["in"]
    assert json.loads(once)["k"].startswith("say password: ")


@pytest.mark.parametrize("method", ["mask", "placeholder"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_half_of_an_escape_is_left(depth: int, method: Literal["mask", "placeholder"]) -> None:
    """The first letter of an address may be written as an escape, with several backslashes in JSON within JSON."""
    workflow = Workflow("w").then(PIIDetector(redaction_method=method))
    text = json.dumps({"k": "say éann@example.com ok"})
    for _ in range(depth):
        text = json.dumps({"in": text})
    once = workflow.start_sync().process_output_result(text).text
    with workflow.start_sync().process_output_stream([*text]) as chunks:
        assert "".join(chunk.text for chunk in chunks) == once
    for _ in range(depth):
        once = json.loads(once)["in"]
    assert json.loads(once)["k"].startswith("say ")
    assert "example" not in once
