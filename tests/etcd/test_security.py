"""TLS, users, and both together."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trustme

from meta.etcd.client import EtcdClient
from meta.etcd.connection import Credentials, Tls
from meta.etcd.environment import etcd_tls
from meta.etcd.errors import PermissionDenied, Unauthenticated, Unavailable
from meta.etcd.reader import KeyReader, Reading

if TYPE_CHECKING:
    from tests.etcd.conftest import Server


@pytest.fixture(params=["plain", "tls"])
def guarded(
    request: pytest.FixtureRequest,
    make_server: "Callable[..., Server]",
    authority: tuple[Tls, tuple[str, ...]],
) -> "Server":
    """A server that wants a login, whose tokens live for a second at most."""
    trust, flags = authority if request.param == "tls" else (None, ())
    server = make_server(*flags, "--auth-token-ttl", "1", tls=trust)
    server.start()
    server.require_login()
    return server


def test_a_trusted_server_is_talked_to_over_tls(
    make_server: "Callable[..., Server]", authority: tuple[Tls, tuple[str, ...]], soon: Callable[..., Any]
) -> None:
    trust, flags = authority
    server = make_server(*flags, tls=trust)
    server.start()
    with EtcdClient([server.endpoint], tls=trust) as client:
        start = client.put("/a", b"1")
        assert client.get("/a").value == b"1"
        with client.watch("/a", start_revision=start) as watch:
            assert soon(lambda: next(watch)).revision == start


def test_an_untrusted_server_is_unavailable(
    make_server: "Callable[..., Server]", authority: tuple[Tls, tuple[str, ...]], tmp_path: Path
) -> None:
    trust, flags = authority
    server = make_server(*flags, tls=trust)
    server.start()
    trustme.CA().cert_pem.write_to_path(tmp_path / "other.pem")
    other = Tls(ca_file=tmp_path / "other.pem")
    with EtcdClient([server.endpoint], tls=other) as client, pytest.raises(Unavailable, match="certificate"):
        client.get("/a")


def test_a_server_may_want_to_know_the_client_by_certificate(
    make_server: "Callable[..., Server]", tmp_path: Path
) -> None:
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    for name in ("127.0.0.1", "client"):
        issued = ca.issue_cert(name)
        issued.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    files = {name: str(tmp_path / name) for name in ("ca.pem", "127.0.0.1.pem", "127.0.0.1.key")}
    known = Tls(tmp_path / "ca.pem", tmp_path / "client.pem", tmp_path / "client.key")
    server = make_server(
        *("--cert-file", files["127.0.0.1.pem"], "--key-file", files["127.0.0.1.key"]),
        *("--client-cert-auth", "--trusted-ca-file", files["ca.pem"]),
        tls=known,
    )
    server.start()
    with EtcdClient([server.endpoint], tls=known) as client:
        assert client.put("/a", b"1")
    stranger = Tls(ca_file=tmp_path / "ca.pem")
    with EtcdClient([server.endpoint], tls=stranger) as client, pytest.raises(Unavailable):
        client.get("/a")


def test_a_user_does_what_its_role_permits(guarded: "Server", soon: Callable[..., Any]) -> None:
    with EtcdClient([guarded.endpoint], tls=guarded.tls, credentials=guarded.alice) as alice:
        start = alice.put("/open/a", b"1")
        assert alice.get("/open/a").value == b"1"
        assert alice.range("/open/").revision == start
        with alice.watch("/open/", prefix=True, start_revision=start) as watch:
            assert soon(lambda: next(watch)).revision == start
        lease = alice.grant(ttl_s=60)
        assert alice.keep_alive(lease.id) == 60


def test_what_is_not_permitted_is_denied_also_to_a_watch(guarded: "Server", soon: Callable[..., Any]) -> None:
    with EtcdClient([guarded.endpoint], tls=guarded.tls, credentials=guarded.alice) as alice:
        for denied in (
            lambda: alice.get("/closed"),
            lambda: alice.put("/closed", b""),
            lambda: alice.range("/"),
            lambda: next(alice.watch("/closed", start_revision=1)),
            lambda: next(alice.watch("/", prefix=True, start_revision=1)),
        ):
            with pytest.raises(PermissionDenied, match="Grant the user's role") as refusal:
                soon(denied)
            assert refusal.value.user == "alice"


def test_whoever_cannot_log_in_is_told_so(guarded: "Server", soon: Callable[..., Any]) -> None:
    for credentials in (Credentials("alice", "wrong"), Credentials("nobody", "secret"), None):
        with EtcdClient([guarded.endpoint], tls=guarded.tls, credentials=credentials) as client:
            for attempt in (lambda: client.get("/open/a"), lambda: client.put("/open/a", b"")):
                with pytest.raises(Unauthenticated):
                    attempt()


def test_a_watch_without_a_login_is_denied(guarded: "Server", soon: Callable[..., Any]) -> None:
    with (
        EtcdClient([guarded.endpoint], tls=guarded.tls) as client,
        pytest.raises((PermissionDenied, Unauthenticated)),
    ):
        soon(lambda: next(client.watch("/open/a", start_revision=1)))


@pytest.mark.parametrize("guarded", ["tls"], indirect=True)
def test_a_token_that_ended_is_renewed(guarded: "Server", soon: Callable[..., Any]) -> None:
    clients = [EtcdClient([guarded.endpoint], tls=guarded.tls, credentials=guarded.alice) for _ in range(4)]
    reader, writer, watcher, lessee = clients
    start = writer.put("/open/a", b"1")
    lease = lessee.grant(ttl_s=60)
    assert reader.get("/open/a")
    assert watcher.get("/open/a")
    # etcd's own clock: this lease ends when the tokens, which nobody used meanwhile, have long ended.
    clock = writer.grant(ttl_s=3)
    written = writer.put("/open/clock", b"", lease=clock.id)
    with writer.watch("/open/clock", start_revision=written + 1) as ended:
        soon(lambda: next(ended))
    assert reader.get("/open/a").value == b"1"
    assert soon(lambda: next(watcher.watch("/open/a", start_revision=start))).revision == start
    assert lessee.keep_alive(lease.id)
    assert writer.put("/open/a", b"2")
    for client in clients:
        client.close()


def test_a_restarted_server_knows_no_token_and_gives_new_ones(
    guarded: "Server", until: Callable[..., Any], soon: Callable[..., Any]
) -> None:
    with (
        EtcdClient([guarded.endpoint], tls=guarded.tls, credentials=guarded.alice) as alice,
        KeyReader(alice, "/open/a", poll_ms=600_000, away_ms=20) as reader,
    ):
        readings = iter(reader)
        alice.put("/open/a", b"1")
        until(readings, lambda fact: isinstance(fact, Reading) and fact.value)
        guarded.end()
        guarded.start()
        until(readings, lambda fact: isinstance(fact, Reading) and fact.value)
        alice.put("/open/a", b"2")
        until(readings, lambda fact: isinstance(fact, Reading) and fact.value.value == b"2")


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(Credentials("alice", "secret"))


@pytest.mark.parametrize(("certificate", "key"), [("client.pem", None), (None, "client.key")])
def test_half_a_client_certificate_is_refused_before_grpc_aborts_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificate: str | None, key: str | None
) -> None:
    for variable, name in (("VNODEMAP_ETCD_CERT", certificate), ("VNODEMAP_ETCD_KEY", key)):
        if name is not None:
            (tmp_path / name).write_text("pem")
            monkeypatch.setenv(variable, str(tmp_path / name))
    with pytest.raises(ValueError, match=r"its key go together.*VNODEMAP_ETCD_KEY"):
        etcd_tls()


def test_a_file_that_is_not_there_is_named_with_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VNODEMAP_ETCD_CA", "/nowhere.pem")
    with pytest.raises(ValueError, match=r"/nowhere\.pem cannot be read .*VNODEMAP_ETCD_CA"):
        etcd_tls()
