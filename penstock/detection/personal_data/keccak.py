"""Keccak-256 with its original padding, as Ethereum uses it; `hashlib` has only the one that became SHA-3. Pure."""

from __future__ import annotations

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
    """Return which lane goes where in the steps rho and pi, and by how many bits it turns (FIPS 202, 3.2.2-3)."""
    made: list[tuple[int, int]] = []
    x, y = 1, 0
    for step in range(_ROUNDS):
        x, y = y, (2 * x + 3 * y) % 5
        made.append((x + 5 * y, (step + 1) * (step + 2) // 2 % 64))
    return tuple(made)


_CONSTANTS = _constants()
_WALK = _walk()


def keccak_256(data: bytes) -> bytes:
    """Return the 32 bytes of the hash."""
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
