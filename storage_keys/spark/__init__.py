"""H, vnodes and storage keys as native Spark Columns: no Python runs in an executor, but where `is_native` says no."""

from storage_keys.spark.column import signed_column
from storage_keys.spark.column_type import quoted, types_of
from storage_keys.spark.hash import hash_column, prefix_column, vnode_column
from storage_keys.spark.key import is_native, prefix_of_key, storage_key_column

__all__ = [
    "hash_column",
    "is_native",
    "prefix_column",
    "prefix_of_key",
    "quoted",
    "signed_column",
    "storage_key_column",
    "types_of",
    "vnode_column",
]
