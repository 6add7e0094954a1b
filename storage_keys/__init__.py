"""Storage keys `table_id | vnode prefix | columns`: the hash, the bytes and their ranges.

This package stands on the standard library and xxhash. `storage_keys.arrow` (numpy, pyarrow) and
`storage_keys.spark` (pyspark) hold the same hash for columns and are imported by name.
"""
