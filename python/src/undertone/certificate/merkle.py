"""Proofs that a leaf has a place in the server's log: RFC 9162, section 2.1.3.2, with SHA-256."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

__all__ = ["hash_leaf", "hash_node", "proves_inclusion"]


def hash_leaf(content: bytes) -> bytes:
    """Returns the hash of a leaf: SHA-256(0x00 || content)."""
    return hashlib.sha256(b"\0" + content).digest()


def hash_node(left: bytes, right: bytes) -> bytes:
    """Returns the hash of a node: SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\1" + left + right).digest()


def proves_inclusion(content: bytes, position: int, size: int, root: bytes, proof: Sequence[bytes]) -> bool:
    """Returns whether `proof` shows that `content` is leaf number `position` of the tree of `size` leaves with this root.

    Args:
        content: The leaf as the text that is hashed.
        position: From 0.
        size: The number of leaves.
        root: 32 bytes.
        proof: The sibling hashes, from the leaf up, 32 bytes each.
    """
    if not 0 <= position < size or any(len(sibling) != 32 for sibling in proof):
        return False
    node, last = position, size - 1
    digest = hash_leaf(content)
    for sibling in proof:
        if last == 0:
            return False
        if node & 1 or node == last:
            digest = hash_node(sibling, digest)
            while not node & 1 and node:
                node >>= 1
                last >>= 1
        else:
            digest = hash_node(digest, sibling)
        node >>= 1
        last >>= 1
    return last == 0 and digest == root
