"""Check sums of wallets' addresses, and that every mark of the table of keys is one that can be searched for."""

from __future__ import annotations

import pytest

from penstock.detection.personal_data.wallets import base58check, bech32, ethereum, keccak_256
from penstock.detection.secrets import SECRETS


@pytest.mark.parametrize(
    ("data", "begins"),
    [
        (b"", "c5d2460186f7233c927e7db2dcc703c0"),  # as Ethereum's yellow paper has it
        (b"abc", "4e03657aea45a94fc7d47ba826c8d667"),
        (b"a" * 135, "34367dc248bbd832f4e3e69dfaac2f92"),
        (b"a" * 136, "a6c4d403279fe3e0af03729caada8374"),
    ],
)
def test_keccak_is_the_one_that_ethereum_uses(data: bytes, begins: str) -> None:
    """Of no bytes, some, one less than a block, and a block."""
    assert keccak_256(data).hex().startswith(begins)


@pytest.mark.parametrize(
    "address",
    [
        "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa",  # Bitcoin's first
        "3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy",
        "rHb9CJAWyB4rj91VRWn96DkukG4bwdtyTh",  # Ripple's first
        "DH5yaieqoZN36fDVciNyRueRGvGLR3mr7L",  # Dogecoin
    ],
)
def test_a_letter_changed_breaks_a_base58_address(address: str) -> None:
    """Its check sum says so."""
    assert base58check(address)
    assert not base58check(address[:-1] + ("a" if address[-1] != "a" else "b"))
    assert not base58check(address[:-1] + "0")


@pytest.mark.parametrize(
    "address",
    [
        "BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4",  # BIP 173
        "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4",
        "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",  # BIP 350
        "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
    ],
)
def test_bech32_addresses_are_of_one_case_and_one_sum(address: str) -> None:
    """The old sum or the new."""
    assert bech32(address)
    assert not bech32(address[:-1] + ("q" if address[-1].lower() != "q" else "p"))
    assert not bech32(address[:5].swapcase() + address[5:])


@pytest.mark.parametrize(
    "address",
    [
        "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",  # EIP-55
        "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
        "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    ],
)
def test_the_case_of_an_ethereum_address_is_its_check_sum(address: str) -> None:
    """In one case it has none."""
    assert ethereum(address)
    assert ethereum(address.lower())
    assert not ethereum(address[:2] + address[2:].swapcase())


def test_every_mark_of_a_key_can_be_searched_for() -> None:
    """No row of the tables is broken."""
    for rule in SECRETS:
        text = f"{rule.prefix}a1B2c3D4e5F6a7b8"
        traces, hold = rule.search(text, 0, final=True)
        assert 0 <= hold <= len(text)
        assert all(0 <= trace.low < trace.high <= len(text) for trace in traces)
