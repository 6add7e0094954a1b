"""The protobuf messages of etcd v3 that this package exchanges.

Source: etcd 3.5, api/etcdserverpb/rpc.proto and api/mvccpb/kv.proto. They are built here from a table, in a
pool and a package of their own: generated code refuses an older protobuf runtime than its compiler's, and the
other etcd clients register the same file and symbol names in the default pool, where the second one fails.
"""

from typing import Any, NamedTuple

from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
    descriptor_pool,
    message_factory,
)

_PACKAGE = "vnodemap.etcd"

# Message: "number name type", `*` for repeated, `?` for a oneof, which is sent even if it is zero (a `mod_revision`
# of 0 means "absent"). Nothing else may be: an empty `range_end`, if it is sent, means "all keys from here on".
# Enumerations are int32, which is the same on the wire.
_TABLE = {
    "ResponseHeader": "1 cluster_id uint64, 2 member_id uint64, 3 revision int64, 4 raft_term uint64",
    "KeyValue": "1 key bytes, 2 create_revision int64, 3 mod_revision int64, 5 value bytes, 6 lease int64",
    "RangeRequest": "1 key bytes, 2 range_end bytes, 3 limit int64, 8 keys_only bool",
    "RangeResponse": "1 header ResponseHeader, 2 kvs *KeyValue, 3 more bool",
    "PutRequest": "1 key bytes, 2 value bytes, 3 lease int64",
    "PutResponse": "1 header ResponseHeader",
    "DeleteRangeRequest": "1 key bytes, 2 range_end bytes",
    "DeleteRangeResponse": "1 header ResponseHeader, 2 deleted int64",
    "Compare": "1 result int32, 2 target int32, 3 key bytes, 6 mod_revision ?int64",
    "RequestOp": "2 request_put PutRequest, 3 request_delete_range DeleteRangeRequest",
    "TxnRequest": "1 compare *Compare, 2 success *RequestOp",
    "TxnResponse": "1 header ResponseHeader, 2 succeeded bool",
    "LeaseGrantRequest": "1 TTL int64",
    "LeaseGrantResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64",
    "LeaseRevokeRequest": "1 ID int64",
    "LeaseRevokeResponse": "1 header ResponseHeader",
    "LeaseKeepAliveRequest": "1 ID int64",
    "LeaseKeepAliveResponse": "1 header ResponseHeader, 2 ID int64, 3 TTL int64",
    "Event": "1 type int32, 2 kv KeyValue",
    "WatchCreateRequest": "1 key bytes, 2 range_end bytes, 3 start_revision int64",
    "WatchRequest": "1 create_request WatchCreateRequest",
    "WatchResponse": (
        "1 header ResponseHeader, 2 watch_id int64, 3 created bool, 4 canceled bool, "
        "5 compact_revision int64, 6 cancel_reason string, 11 events *Event"
    ),
    "AuthenticateRequest": "1 name string, 2 password string",
    "AuthenticateResponse": "1 header ResponseHeader, 2 token string",
}


class Rpc(NamedTuple):
    """A method of etcd's and the message it answers with."""

    path: str
    response: str


RANGE = Rpc("/etcdserverpb.KV/Range", "RangeResponse")
PUT = Rpc("/etcdserverpb.KV/Put", "PutResponse")
DELETE_RANGE = Rpc("/etcdserverpb.KV/DeleteRange", "DeleteRangeResponse")
TXN = Rpc("/etcdserverpb.KV/Txn", "TxnResponse")
LEASE_GRANT = Rpc("/etcdserverpb.Lease/LeaseGrant", "LeaseGrantResponse")
LEASE_REVOKE = Rpc("/etcdserverpb.Lease/LeaseRevoke", "LeaseRevokeResponse")
LEASE_KEEP_ALIVE = Rpc("/etcdserverpb.Lease/LeaseKeepAlive", "LeaseKeepAliveResponse")
WATCH = Rpc("/etcdserverpb.Watch/Watch", "WatchResponse")
AUTHENTICATE = Rpc("/etcdserverpb.Auth/Authenticate", "AuthenticateResponse")

COMPARE_EQUAL = 0
COMPARE_MOD = 2
EVENT_DELETE = 1


def _field(name: str, number: str, kind: str) -> Any:
    field = descriptor_pb2.FieldDescriptorProto(name=name, number=int(number))
    field.label = field.LABEL_REPEATED if kind.startswith("*") else field.LABEL_OPTIONAL
    kind = kind.lstrip("*?")
    if kind in _TABLE:
        field.type, field.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    else:
        field.type = getattr(field, f"TYPE_{kind.upper()}")
    return field


def _message_classes() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="vnodemap/etcd.proto", package=_PACKAGE, syntax="proto3")
    for message, fields in _TABLE.items():
        descriptor = file.message_type.add(name=message)
        for number, name, kind in (each.split() for each in fields.split(", ")):
            field = _field(name, number, kind)
            if kind.startswith("?"):
                field.oneof_index = len(descriptor.oneof_decl)
                descriptor.oneof_decl.add(name=f"{name}_union")
            descriptor.field.append(field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = {name: pool.FindMessageTypeByName(f"{_PACKAGE}.{name}") for name in _TABLE}
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


_CLASSES = _message_classes()


def message(kind: str, /, **fields: Any) -> Any:
    """A new message of the type `kind` with these fields."""
    return _CLASSES[kind](**fields)


def parser(kind: str) -> Any:
    """The function from bytes to a message of the type `kind`."""
    return _CLASSES[kind].FromString
