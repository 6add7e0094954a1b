"""Storage keys `table_id | vnode prefix | columns`: the hash, the bytes and their ranges.

This package stands on the standard library and xxhash. `storage_keys.arrow` (numpy, pyarrow) and
`storage_keys.spark` (pyspark) hold the same hash for columns and are imported by name.
"""

from storage_keys.column import Order, decode_column, decode_whole, encode_column
from storage_keys.errors import StorageKeyError
from storage_keys.hash import hash_id, hash_row
from storage_keys.key import FORMAT_VERSION, KeyColumn, KeySchema
from storage_keys.range import KeyRange, successor, table_range, vnode_range
from storage_keys.types import KeyType, parse_type
from storage_keys.vnode import VNODE_COUNT_DEFAULT, check_vnode_count, prefix_of, prefixes_of, vnode_of

__all__ = [
    "FORMAT_VERSION",
    "VNODE_COUNT_DEFAULT",
    "KeyColumn",
    "KeyRange",
    "KeySchema",
    "KeyType",
    "Order",
    "StorageKeyError",
    "check_vnode_count",
    "decode_column",
    "decode_whole",
    "encode_column",
    "hash_id",
    "hash_row",
    "parse_type",
    "prefix_of",
    "prefixes_of",
    "successor",
    "table_range",
    "vnode_of",
    "vnode_range",
]
