"""Storage keys `table_id | vnode prefix | columns`: the hash, the bytes and their ranges.

This package stands on the standard library and xxhash. The sub-packages hold the hash and the keys of whole
columns, and are imported by name: `storage_keys.arrow` (numpy, pyarrow), which decodes as well, and
`storage_keys.spark` (pyspark).
"""
