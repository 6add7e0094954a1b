"""A number's bytes as a BINARY column.

Under ANSI, Spark's default, a cast of a number to BINARY is refused, though the engine has it in every session: the
`LEGACY` mode of a cast in its protocol. The Python API offers the session's mode and `try_cast` alone, so the cast is
made here as a node of the tree that lies below a Column. By way of hexadecimal digits, which is what is left to SQL,
a key of a bigint takes more than twice as long.
"""

from typing import Any, Final, cast

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.utils import get_active_spark_context

_WORD: Final = 8


def word_bytes(word: Column, width: int = _WORD) -> Column:
    """The `width` lowest bytes of a bigint, the most significant one first; NULL for NULL."""
    found = _legacy_cast_to_binary(word)
    return found if width == _WORD else sf.substring(found, _WORD + 1 - width, width)


def _legacy_cast_to_binary(column: Column) -> Column:
    # PySpark says here of a Spark Connect column that it has no `_jc`.
    child = cast("Any", column)._jc.node()
    jvm = cast("Any", get_active_spark_context()._jvm)
    sql = jvm.org.apache.spark.sql
    legacy, binary = (
        getattr(of, "MODULE$")
        for of in (getattr(sql.internal, "Cast$Legacy$"), getattr(sql.types, "BinaryType$"))
    )
    return ClassicColumn(sql.Column(sql.internal.Cast(child, binary, jvm.scala.Some(legacy), child.origin())))
