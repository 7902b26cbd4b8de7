"""Masks and shares of secure aggregation, written from the RFCs and without a library but Python's own.

Prints tests/vectors/secure_aggregation.json, which the crate secure-aggregation reproduces:

    python3 benches/peers/secure_aggregation.py > tests/vectors/secure_aggregation.json
"""

import hashlib
import hmac
import json
import struct

P = 2**255 - 19
D = -121665 * pow(121666, -1, P) % P


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def hkdf(salt, secret, info):
    """RFC 5869 with one block of output."""
    extracted = hmac.new(salt, secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def x25519(secret, public):
    """RFC 7748, section 5."""
    scalar = bytearray(secret)
    scalar[0] &= 248
    scalar[31] = scalar[31] & 127 | 64
    k = int.from_bytes(scalar, "little")
    x1 = int.from_bytes(public, "little") % 2**255 % P
    x2, z2, x3, z3, swap = 1, 0, x1, 1, 0
    for t in reversed(range(255)):
        bit = k >> t & 1
        if swap ^ bit:
            x2, x3, z2, z3 = x3, x2, z3, z2
        swap = bit
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        da, cb = d * a, c * b
        x3, z3 = (da + cb) ** 2 % P, x1 * (da - cb) ** 2 % P
        aa, bb = a * a % P, b * b % P
        e = aa - bb
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    if swap:
        x2, z2 = x3, z3
    return (x2 * pow(z2, -1, P) % P).to_bytes(32, "little")


def public_key(secret):
    return x25519(secret, (9).to_bytes(32, "little"))


def ed25519_public(seed):
    """RFC 8032, section 5.1.5."""
    scalar = bytearray(hashlib.sha512(seed).digest()[:32])
    scalar[0] &= 248
    scalar[31] = scalar[31] & 127 | 64
    by = 4 * pow(5, -1, P) % P
    xx = (by * by - 1) * pow(D * by * by + 1, -1, P)
    bx = pow(xx, (P + 3) // 8, P)
    if (bx * bx - xx) % P:
        bx = bx * pow(2, (P - 1) // 4, P) % P
    if bx % 2:
        bx = P - bx

    def add(one, two):
        (x1, y1), (x2, y2) = one, two
        t = D * x1 * x2 * y1 * y2 % P
        return (
            (x1 * y2 + x2 * y1) * pow(1 + t, -1, P) % P,
            (y1 * y2 + x1 * x2) * pow(1 - t, -1, P) % P,
        )

    total, power = (0, 1), (bx, by)
    for bit in range(256):
        if int.from_bytes(scalar, "little") >> bit & 1:
            total = add(total, power)
        power = add(power, power)
    return (total[1] | (total[0] & 1) << 255).to_bytes(32, "little")


def chacha20(key, size):
    """The keystream of RFC 8439 with nonce 0, from counter 0."""
    stream = b""
    for counter in range(-(-size // 64)):
        start = [*struct.unpack("<4I", b"expand 32-byte k"), *struct.unpack("<8I", key), counter, 0, 0, 0]
        state = list(start)

        def quarter(a, b, c, d):
            for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                state[x] = (state[x] + state[y]) % 2**32
                word = state[z] ^ state[x]
                state[z] = (word << turn | word >> 32 - turn) % 2**32

        for _ in range(10):
            for column in range(4):
                quarter(column, column + 4, column + 8, column + 12)
            for row in range(4):
                quarter(row, 4 + (row + 1) % 4, 8 + (row + 2) % 4, 12 + (row + 3) % 4)
        stream += struct.pack("<16I", *((a + b) % 2**32 for a, b in zip(start, state)))
    return stream[:size]


def mask(key, bits, length):
    width = 2 if bits <= 16 else 4
    stream = chacha20(key, width * length)
    words = (stream[at : at + width] for at in range(0, len(stream), width))
    return [int.from_bytes(word, "little") % 2**bits for word in words]


def pack(values, bits):
    number = sum(value << bits * at for at, value in enumerate(values))
    return number.to_bytes(-(-bits * len(values) // 8), "little")


def multiply(a, b):
    """GF(2^8) modulo x^8 + x^4 + x^3 + x^2 + 1."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11D
        b >>= 1
    return product


def evaluate(coefficients, x):
    value = 0
    for coefficient in reversed(coefficients):
        value = multiply(value, x) ^ coefficient
    return value


def bytes_of(label, size=32):
    return hashlib.shake_256(label.encode()).digest(size)


def shares(threshold, sites):
    secret = bytes_of(f"secret {threshold} {sites}")
    higher = [bytes_of(f"coefficient {power} {threshold} {sites}") for power in range(1, threshold)]
    polynomials = [[byte, *(row[at] for row in higher)] for at, byte in enumerate(secret)]
    values = [bytes(evaluate(polynomial, site + 1) for polynomial in polynomials).hex() for site in range(sites)]
    return {"kind": "shares", "threshold": threshold, "secret": secret.hex(), "shares": values}


def a_round(sites, smallest_group, colluding, bits, length, members):
    name = f"{sites} {bits}"
    manifest = bytes_of(f"manifest {name}")
    seeds = [bytes_of(f"identity {name} {site}") for site in range(sites)]
    roster = sha256(
        b"undertone secure aggregation: roster",
        manifest,
        bytes([smallest_group, colluding, sites]),
        *map(ed25519_public, seeds),
    )
    series, number = "private", 7
    slot = sha256(
        b"undertone secure aggregation: round",
        roster,
        struct.pack("<Q", len(series)),
        series.encode(),
        struct.pack("<I", number),
    )
    context = sha256(b"undertone secure aggregation: vectors", slot, struct.pack("<Q", length), bytes([bits]))
    secrets = [bytes_of(f"round {name} {site}") for site in range(sites)]
    derived = [
        {label: hkdf(context, secret, label.encode()) for label in ("mask key", "channel key", "self mask")}
        for secret in secrets
    ]
    vectors = []
    for site in range(sites):
        raw = bytes_of(f"vector {name} {site}", 4 * length)
        half = 2 ** (bits - 1) // sites
        values = struct.unpack(f"<{length}I", raw)
        vectors.append([value % (2 * half) - half for value in values])
    keys, masked = [], []
    for site in range(sites):
        if site not in members:
            masked.append(None)
            continue
        total = [a + b for a, b in zip(vectors[site], mask(derived[site]["self mask"], bits, length))]
        for peer in members:
            if peer == site:
                continue
            agreed = x25519(derived[site]["mask key"], public_key(derived[peer]["mask key"]))
            key = hkdf(context, agreed, b"pairwise mask" + bytes(sorted((site, peer))))
            if site < peer:
                keys.append({"pair": [site, peer], "key": key.hex()})
            sign = 1 if site < peer else -1
            total = [a + sign * b for a, b in zip(total, mask(key, bits, length))]
        masked.append(pack([value % 2**bits for value in total], bits).hex())
    return {
        "kind": "round",
        "manifest": manifest.hex(),
        "smallest_group": smallest_group,
        "colluding": colluding,
        "identities": [seed.hex() for seed in seeds],
        "series": series,
        "number": number,
        "bits": bits,
        "length": length,
        "slot": slot.hex(),
        "context": context.hex(),
        "secrets": [secret.hex() for secret in secrets],
        "mask_keys": [public_key(keys["mask key"]).hex() for keys in derived],
        "channel_keys": [public_key(keys["channel key"]).hex() for keys in derived],
        "commitments": [
            sha256(b"undertone secure aggregation: seed", context, bytes([site]), keys["self mask"]).hex()
            for site, keys in enumerate(derived)
        ],
        "members": members,
        "pairwise_keys": keys,
        "vectors": vectors,
        "masked": masked,
        "sum": [sum(vectors[site][at] for site in members) for at in range(length)],
    }


def check():
    """The examples of the RFCs, so that this file is not wrong by itself."""
    secret = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    point = bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c")
    assert x25519(secret, point).hex() == "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    assert ed25519_public(seed).hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert chacha20(bytes(32), 8).hex() == "76b8e0ada0f13d90"
    info = bytes.fromhex("f0f1f2f3f4f5f6f7f8f9")
    okm = hkdf(bytes(range(13)), b"\x0b" * 22, info).hex()
    assert okm == "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"


if __name__ == "__main__":
    check()
    cases = [
        shares(2, 3),
        shares(3, 5),
        shares(26, 50),
        a_round(3, 2, 0, 16, 6, [0, 1, 2]),
        a_round(4, 3, 1, 11, 5, [0, 2, 3]),
        a_round(5, 4, 1, 20, 40, [0, 1, 2, 3, 4]),
    ]
    print("{")
    print('"name": "secure_aggregation",')
    print('"source": "benches/peers/secure_aggregation.py",')
    print('"cases": [')
    print(",\n".join(json.dumps(case) for case in cases))
    print("]")
    print("}")
