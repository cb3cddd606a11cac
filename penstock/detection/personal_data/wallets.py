"""Crypto wallets: addresses whose check sums are right (Base58Check, Bech32, Bech32m, Ethereum's letter case)."""

from __future__ import annotations

import hashlib

from penstock.detection.patterns.built_in import RUN, BuiltInRule, pattern_rule

_RATE = 136  # bytes taken in at a time (1,600 bits of state less twice 256)
_LANE = (1 << 64) - 1
_ROUNDS = 24


def _constants() -> tuple[int, ...]:
    """Return the round constants: bits of a linear feedback shift register (FIPS 202, 3.2.5)."""
    made: list[int] = []
    register = 1
    for _ in range(_ROUNDS):
        constant = 0
        for power in range(7):
            constant |= (register & 1) << ((1 << power) - 1)
            register = (register << 1) ^ (0x171 if register & 0x80 else 0)
        made.append(constant)
    return tuple(made)


def _walk() -> tuple[tuple[int, int], ...]:
    """Return where each lane goes in the steps rho and pi, and by how many bits it is rotated (FIPS 202, 3.2.2-3)."""
    made: list[tuple[int, int]] = []
    x, y = 1, 0
    for step in range(_ROUNDS):
        x, y = y, (2 * x + 3 * y) % 5
        made.append((x + 5 * y, (step + 1) * (step + 2) // 2 % 64))
    return tuple(made)


_CONSTANTS = _constants()
_WALK = _walk()


def keccak_256(data: bytes) -> bytes:
    """Return the 32 bytes of the Keccak-256 hash with its original padding, as Ethereum uses it.

    `hashlib` has only the padding that became SHA-3.
    """
    padded = bytearray(data) + b"\x01"
    padded += bytes(-len(padded) % _RATE)
    padded[-1] |= 0x80
    lanes = [0] * 25
    for begin in range(0, len(padded), _RATE):
        for lane in range(_RATE // 8):
            at = begin + 8 * lane
            lanes[lane] ^= int.from_bytes(padded[at : at + 8], "little")
        for constant in _CONSTANTS:
            lanes = _round(lanes, constant)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


def _round(lanes: list[int], constant: int) -> list[int]:
    parities = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
    mixed = [parities[(x - 1) % 5] ^ _turned(parities[(x + 1) % 5], 1) for x in range(5)]
    lanes = [lane ^ mixed[at % 5] for at, lane in enumerate(lanes)]
    carried = lanes[1]
    for to, bits in _WALK:
        carried, lanes[to] = lanes[to], _turned(carried, bits)
    made = [lanes[at] ^ (~lanes[at - at % 5 + (at + 1) % 5] & lanes[at - at % 5 + (at + 2) % 5]) for at in range(25)]
    made[0] ^= constant
    return made


def _turned(lane: int, bits: int) -> int:
    return ((lane << bits) | (lane >> (64 - bits))) & _LANE


_BITCOIN = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_RIPPLE = "rpshnaf39wBUDNEGHJKLM4PQRST7VWXYZ2bcdeCg65jkm8oFqi1tuvAxyz"
_PAYLOADS = (25, 26)  # bytes with the check sum: a version of one byte (Zcash: two), and a hash of twenty
_BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
_GENERATOR = (0x3B6A57B2, 0x26508E6D, 0x1EA119FA, 0x3D4233DD, 0x2A1462B3)
_BECH32_SUMS = (1, 0x2BC830A3)  # Bech32 (BIP 173), Bech32m (BIP 350)
_SAME = 3  # different digits of an address; fewer are an example
# Human-readable parts of addresses (SLIP-0173): Bitcoin, Litecoin, Cardano, Cosmos and its kin, and others.
_CHAINS = (
    "bcrt|bc|tb|ltc|tltc|addr_test|addr|stake|cosmos|osmo|terra|juno|inj|akash|kava|secret|stars|celestia|dydx|sei|zs|erd"
    "|one|bnb|thor|axelar|neutron|noble|persistence|stride|evmos|fetch|grb|dgb|vtc|fc"
)


def base58check(text: str) -> bool:
    """Return whether it is an address in Base58Check, in Bitcoin's or Ripple's alphabet."""
    alphabet = _RIPPLE if text[:1] == "r" else _BITCOIN
    number = 0
    for char in text:
        digit = alphabet.find(char)
        if digit < 0:
            return False
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip(alphabet[0]))
    raw = bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")
    body, check = raw[:-4], raw[-4:]
    return len(raw) in _PAYLOADS and hashlib.sha256(hashlib.sha256(body).digest()).digest()[:4] == check


def bech32(text: str) -> bool:
    """Return whether the check sum of a word in Bech32 or Bech32m is right; its letters are of one case."""
    plain = text.lower()
    chain, _, data = plain.rpartition("1")
    if text not in (plain, text.upper()) or not chain or not set(data) <= set(_BECH32):
        return False
    values = [*(ord(char) >> 5 for char in chain), 0, *(ord(char) & 31 for char in chain)]
    total = 1
    for value in (*values, *map(_BECH32.index, data)):
        top = total >> 25
        total = (total & 0x1FFFFFF) << 5 ^ value
        for bit, part in enumerate(_GENERATOR):
            total ^= part if top >> bit & 1 else 0
    return total in _BECH32_SUMS


def ethereum(text: str) -> bool:
    """Return whether it is an Ethereum address: in one case, or in the case that its check sum requires (EIP-55)."""
    digits = text[2:]
    plain = digits.lower()
    if len(set(plain)) <= _SAME:
        return False
    if digits in (plain, digits.upper()):
        return True
    summed = keccak_256(plain.encode()).hex()
    return all(
        char.isupper() == (digit in "89abcdef") for char, digit in zip(digits, summed, strict=False) if char > "9"
    )


WALLETS: tuple[BuiltInRule, ...] = (
    pattern_rule(
        "crypto-wallet",
        "[CRYPTO_WALLET]",
        rf"[123DLMTXmnrt](?<![A-Za-z0-9].)[{_BITCOIN}]{{24,34}}(?![A-Za-z0-9])",
        trigger=RUN,
        check=base58check,
        longest=36,
        by_re=True,
    ),
    pattern_rule(
        "crypto-wallet",
        "[CRYPTO_WALLET]",
        r"0[xX](?<![A-Za-z0-9]..)[0-9A-Fa-f]{40}(?![A-Za-z0-9])",
        trigger="0[xX][0-9A-Fa-f]{4}",
        check=ethereum,
        longest=43,
    ),
    pattern_rule(
        "crypto-wallet",
        "[CRYPTO_WALLET]",
        rf"(?i)(?<![a-z0-9])(?:{_CHAINS})1[{_BECH32}]{{25,110}}(?![a-z0-9])",
        trigger=rf"1[{_BECH32}{_BECH32.upper()}]{{16}}",
        check=bech32,
        longest=126,
        by_re=True,
    ),
)
"""Bitcoin and what has its form (Litecoin, Dogecoin, Dash, Zcash, Tron, Ripple), Ethereum, and Bech32 addresses."""
