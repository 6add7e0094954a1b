"""`vnodectl watch` with an etcd that wants to be shown something."""

from pathlib import Path
from typing import Any

import pytest

from meta.vnodectl import watching
from meta.vnodectl.client import ServiceError

ETCD = {"endpoints": ["127.0.0.1:1"], "root": "/v", "tls": False, "auth": False}


@pytest.mark.parametrize(
    ("etcd", "named"),
    [({"tls": True}, "VNODEMAP_ETCD_CA"), ({"auth": True}, "VNODEMAP_ETCD_USER")],
)
def test_what_etcd_wants_comes_out_of_the_environment(
    etcd: dict[str, Any], named: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for variable in ("CA", "CERT", "KEY", "USER", "PASSWORD"):
        monkeypatch.delenv(f"VNODEMAP_ETCD_{variable}", raising=False)
    with pytest.raises(ServiceError, match=named):
        watching._client({**ETCD, **etcd})
    (tmp_path / "ca.pem").touch()
    monkeypatch.setenv("VNODEMAP_ETCD_CA", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("VNODEMAP_ETCD_USER", "alice")
    monkeypatch.setenv("VNODEMAP_ETCD_PASSWORD", "secret")
    watching._client({**ETCD, **etcd}).close()
