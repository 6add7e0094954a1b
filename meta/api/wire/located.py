"""Located keys on the wire."""

from typing import Annotated, Any, Self

from pydantic import ConfigDict, Field

from meta.api.wire.base import Request, Response
from meta.locating import Located

TableId = Annotated[int, Field(ge=0, lt=2**32, strict=True)]


class LocateIn(Request):
    """`key`: one value for each column of the distribution key, in order, in the forms of `vnodectl key`.

    Decimals are strings, binary is `{"hex": "00ff"}`, dates are `"2013-01-31"`, timestamps and intervals integers.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": ["N14228"]}]})

    key: Annotated[list[Any], Field(max_length=32)]
    table_id: Annotated[
        TableId | None, Field(description="only this table's range; by default all of the fragment's tables")
    ] = None


class TableRangeOut(Response):
    """The storage keys with the key's vnode prefix, hexadecimal: from `start`, without `end`; null is no end."""

    table_id: int
    start: str
    end: str | None


class LocatedOut(Response):
    """`prefix` is the top 16 bits of the hash, which storage keys begin with after the table id."""

    hash: int
    prefix: int
    vnode: int
    unit: int
    worker: str
    version: int
    ranges: list[TableRangeOut]

    @classmethod
    def of(cls, located: Located) -> Self:
        return cls(
            hash=located.hash,
            prefix=located.prefix,
            vnode=located.vnode,
            unit=located.unit.id,
            worker=located.unit.worker,
            version=located.version,
            ranges=[
                TableRangeOut(
                    table_id=table_id,
                    start=keys.start.hex(),
                    end=None if keys.end is None else keys.end.hex(),
                )
                for table_id, keys in located.ranges
            ],
        )
