"""Vnodes and vnode prefixes.

The stored prefix is the top 16 bits of H, the finest vnode there can be; a vnode of any count is one run of
prefixes, so a count changes without rewriting a key.
"""

from typing import Final

from storage_keys.errors import BadVnodeCount, MalformedKey, ValueOutOfRange

PREFIX_BITS: Final = 16
PREFIX_COUNT: Final = 1 << PREFIX_BITS
VNODE_COUNT_DEFAULT: Final = 256

_UNEVEN_COUNT_MAX: Final = 4096


def check_vnode_count(vnode_count: int) -> None:
    """Refuse a count other than 1..4096 or a power of two up to 65536."""
    power_of_two = vnode_count & (vnode_count - 1) == 0
    # Above 4,096 other counts are lumpy: 40,000 vnodes would share 65,536 prefixes as ones and twos.
    if not 1 <= vnode_count <= (PREFIX_COUNT if power_of_two else _UNEVEN_COUNT_MAX):
        raise BadVnodeCount(vnode_count)


def prefix_of(hash_: int) -> int:
    """The vnode prefix, 0..65535, of a signed or unsigned 64-bit hash."""
    return hash_ >> (64 - PREFIX_BITS) & (PREFIX_COUNT - 1)


def vnode_of(prefix: int, vnode_count: int) -> int:
    """The vnode that a prefix falls into when there are `vnode_count`."""
    return prefix * vnode_count >> PREFIX_BITS


def prefixes_of(first_vnode: int, last_vnode: int, vnode_count: int) -> tuple[int, int]:
    """The first and the last prefix of a run of vnodes, both inclusive, as are the vnodes."""
    check_vnode_count(vnode_count)
    for vnode in (first_vnode, last_vnode):
        if not 0 <= vnode < vnode_count:
            raise ValueOutOfRange("a vnode", vnode, 0, vnode_count - 1)
    if first_vnode > last_vnode:
        raise MalformedKey(f"a run of vnodes cannot go from {first_vnode} down to {last_vnode}; swap them")
    return _first_prefix(first_vnode, vnode_count), _first_prefix(last_vnode + 1, vnode_count) - 1


def _first_prefix(vnode: int, vnode_count: int) -> int:
    return -(-vnode * PREFIX_COUNT // vnode_count)
