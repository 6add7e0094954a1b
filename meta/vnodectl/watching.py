"""`vnodectl watch`: a fragment's versions as etcd has them."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from meta.mapping.errors import MalformedPublication
from meta.vnodectl.client import ServiceError, path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, err, out, print_json

if TYPE_CHECKING:
    from meta.etcd.client import EtcdClient
    from meta.etcd.reader import Reading, Unreachable
    from meta.mapping.publication import Current


def watch(fragment: FragmentName, as_json: Json = False, server: Server = DEFAULT_SERVER) -> None:
    """Follow a fragment's versions through etcd as they are published. Ctrl-C ends it.

    With --json, one document a line for each. An etcd with TLS or a login wants VNODEMAP_ETCD_CA, VNODEMAP_ETCD_USER
    and VNODEMAP_ETCD_PASSWORD, as a job does.

    Example: vnodectl watch flights
    """
    # Only here: no other command needs gRPC, and it takes longer to load than they take.
    from meta.etcd.reader import KeyReader  # noqa: PLC0415
    from meta.mapping.publication import current_key  # noqa: PLC0415

    with connected(server, as_json=as_json) as api:
        api.get(path("fragments", fragment))
        etcd = api.get(path("coordination"))["etcd"]
        client = _client(etcd)
    with client, KeyReader(client, current_key(fragment, etcd["root"])) as reader:
        shown = None
        for reading in reader:
            seen = _seen(reading)
            if seen is None or seen == shown:
                continue
            shown = seen
            if as_json:
                print_json({"fragment": fragment, "version": seen.version, "phase": seen.phase})
            else:
                now = datetime.now().astimezone()
                out.print(f"{now:%H:%M:%S}  {fragment} version {seen.version} {seen.phase}")


def _client(etcd: Any) -> "EtcdClient":
    """Of the etcd that the service names. Raises `ServiceError`."""
    from meta.etcd.client import EtcdClient  # noqa: PLC0415
    from meta.etcd.environment import etcd_credentials, etcd_tls  # noqa: PLC0415

    try:
        tls, credentials = etcd_tls(), etcd_credentials()
    except ValueError as error:
        raise ServiceError(str(error), "etcd-tls") from error
    if etcd["tls"] and tls is None:
        raise ServiceError(
            "the service's etcd speaks TLS; say in VNODEMAP_ETCD_CA whose certificate to trust", "etcd-tls"
        )
    if etcd["auth"] and credentials is None:
        raise ServiceError(
            "the service's etcd wants a login; give VNODEMAP_ETCD_USER and VNODEMAP_ETCD_PASSWORD",
            "etcd-login",
        )
    try:
        return EtcdClient(etcd["endpoints"], tls=tls, credentials=credentials if etcd["auth"] else None)
    except ValueError as error:
        raise ServiceError(f"the service names an etcd that cannot be read: {error}") from error


def _seen(reading: "Reading | Unreachable") -> "Current | None":
    """What is published; None, and a word on it, where that is nothing or nothing of ours."""
    from meta.etcd.reader import Unreachable  # noqa: PLC0415
    from meta.mapping.publication import Current  # noqa: PLC0415

    if isinstance(reading, Unreachable):
        err.print(reading.reason, style="yellow", markup=False)
        return None
    try:
        return Current.decode(reading.value.value) if reading.value else None
    except MalformedPublication as error:
        err.print(f"what etcd has is not of this vnodemap: {error}", style="yellow", markup=False)
        return None
