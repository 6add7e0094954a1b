"""H, vnodes and storage keys of whole Arrow columns, without a Python loop over rows."""

from storage_keys.arrow.column_type import arrow_type
from storage_keys.arrow.hash import hash_columns, prefixes, vnodes
from storage_keys.arrow.keys import decode_keys, prefixes_of_keys, storage_keys

__all__ = [
    "arrow_type",
    "decode_keys",
    "hash_columns",
    "prefixes",
    "prefixes_of_keys",
    "storage_keys",
    "vnodes",
]
