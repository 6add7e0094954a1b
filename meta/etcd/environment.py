"""How a reader of etcd is let in, out of its environment: jobs and `vnodectl watch`."""

import os
from pathlib import Path

from meta.etcd.connection import Credentials, Tls


def etcd_tls() -> Tls | None:
    """VNODEMAP_ETCD_CA, VNODEMAP_ETCD_CERT and VNODEMAP_ETCD_KEY; None without any of them. Raises `ValueError`."""
    named = ("VNODEMAP_ETCD_CA", "VNODEMAP_ETCD_CERT", "VNODEMAP_ETCD_KEY")
    try:
        tls = Tls(*map(_file, named))
    except ValueError as error:
        raise ValueError(f"{error} ({', '.join(named)})") from error
    return None if tls == Tls() else tls


def etcd_credentials() -> Credentials | None:
    """VNODEMAP_ETCD_USER and VNODEMAP_ETCD_PASSWORD; None without both of them."""
    user, password = os.environ.get("VNODEMAP_ETCD_USER"), os.environ.get("VNODEMAP_ETCD_PASSWORD")
    return Credentials(user, password) if user and password else None


def _file(name: str) -> Path | None:
    value = os.environ.get(name)
    return Path(value) if value else None
