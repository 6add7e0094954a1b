"""From loopback to a TLS service with tokens, as docs/security.md says; and what `serve` refuses on the way."""

import json
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import trustme
from typer.testing import CliRunner, Result

from deploy.process import ServiceProcess
from meta.vnodectl import service
from meta.vnodectl.client import ServiceError
from meta.vnodectl.main import app
from meta.vnodectl.security import ETCD_PASSWORD, KEY_PASSWORD, Security
from meta.vnodectl.session import ServeError
from meta.vnodectl.tokens import seconds
from meta.vnodectl.upkeep import BY_DEFAULT


@dataclass(frozen=True)
class Files:
    ca: Path
    cert: Path
    key: Path


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder, ca = tmp_path_factory.mktemp("tls"), trustme.CA()
    issued = ca.issue_cert("127.0.0.1", "localhost")
    found = Files(folder / "ca.pem", folder / "cert.pem", folder / "key.pem")
    ca.cert_pem.write_to_path(found.ca)
    issued.cert_chain_pems[0].write_to_path(found.cert)
    issued.private_key_pem.write_to_path(found.key)
    return found


def vnodectl(*arguments: str | Path, **environment: str) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)


def made(data_dir: Path, name: str, role: str) -> str:
    result = vnodectl("token", "create", name, "--role", role, "--data-dir", data_dir)
    assert result.exit_code == 0, result.output
    (token,) = result.stdout.splitlines()
    assert token not in result.stderr
    return token


def refused(data_dir: Path, host: str = "127.0.0.1", etcd: list[str] | None = None, **options: object) -> str:
    """What `serve` says, asked in this process, which is quicker."""
    with pytest.raises(ServeError) as caught:
        service.run(data_dir, host, 0, None, etcd, BY_DEFAULT, Security(**options))
    return str(caught.value)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secure") / "data"


@pytest.fixture(scope="module")
def admin(data_dir: Path) -> str:
    return made(data_dir, "ann", "admin")


@pytest.fixture(scope="module")
def secure(data_dir: Path, admin: str, files: Files) -> Iterator[ServiceProcess]:
    settings = {"VNODEMAP_TLS_CERT": str(files.cert), "VNODEMAP_TLS_KEY": str(files.key)}
    with ServiceProcess(data_dir, settings=settings, ca_file=files.ca) as running:
        yield running


def test_a_service_with_tls_and_tokens_is_used_by_vnodectl(
    secure: ServiceProcess, admin: str, files: Files, data_dir: Path, eventually: Callable[..., None]
) -> None:
    at = {"VNODEMAP_SERVER": secure.url, "VNODEMAP_CA_FILE": str(files.ca)}
    assert secure.url.startswith("https://")
    operator = vnodectl(
        "token", "create", "ci", "--role", "operator", "--expires", "90d", **at, VNODEMAP_TOKEN=admin
    )
    (token,) = operator.stdout.splitlines()
    as_ci = {**at, "VNODEMAP_TOKEN": f"{token}\n"}
    assert vnodectl("worker", "add", "w1", "--units", "2", **as_ci).exit_code == 0
    assert "w1" in vnodectl("worker", "list", **as_ci).stdout
    with pytest.raises(ServiceError, match="needs the role admin, and the token ci has the role operator"):
        raise _failure(vnodectl("token", "list", **as_ci))
    with pytest.raises(ServiceError, match="vnodectl token create"):
        raise _failure(vnodectl("worker", "list", **at, VNODEMAP_TOKEN=""))
    with pytest.raises(ServiceError, match="--ca-file"):
        raise _failure(vnodectl("worker", "list", **{**as_ci, "VNODEMAP_CA_FILE": ""}))
    listed = json.loads(vnodectl("token", "list", "--json", **at, VNODEMAP_TOKEN=admin).stdout)["items"]
    assert {entry["name"] for entry in listed} >= {"ann", "ci"}
    token_id = token.split("_")[1]
    assert vnodectl("token", "revoke", token_id, **at, VNODEMAP_TOKEN=admin).exit_code == 0

    def check() -> None:
        assert isinstance(vnodectl("worker", "list", **as_ci).exception, ServiceError)

    eventually(check)
    for file in (data_dir / "service.json", data_dir / "service.log"):
        for shown in (token, admin):
            assert shown.split("_", 2)[2] not in file.read_text()


def test_a_token_made_beside_the_running_service_counts_at_once(
    secure: ServiceProcess, files: Files, data_dir: Path, admin: str
) -> None:
    reader = made(data_dir, "bob", "reader")
    environment = {"VNODEMAP_SERVER": secure.url, "VNODEMAP_CA_FILE": str(files.ca), "VNODEMAP_TOKEN": reader}
    assert vnodectl("worker", "list", **environment).exit_code == 0


def test_answers_do_not_say_what_serves(secure: ServiceProcess, files: Files) -> None:
    import ssl  # noqa: PLC0415

    response = httpx.get(f"{secure.url}/v1/workers", verify=ssl.create_default_context(cafile=files.ca))
    assert response.status_code == 401
    assert "server" not in response.headers


def test_what_is_new_is_for_this_user_alone(secure: ServiceProcess, data_dir: Path) -> None:
    assert stat.S_IMODE(data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE((data_dir / "meta.db").stat().st_mode) == 0o600
    assert set(json.loads((data_dir / "service.json").read_text())) <= {"url", "etcd", "pid", "root"}


def test_serve_listens_for_others_only_with_tls_and_a_token(tmp_path: Path, files: Files) -> None:
    assert "--tls-cert" in refused(tmp_path, "0.0.0.0")
    for options in ({"tls_cert": files.cert, "tls_key": files.key}, {"insecure_http": True}):
        said = refused(tmp_path, "0.0.0.0", **options)
        assert said.startswith("0.0.0.0 is not a loopback address, and this service has no token yet")
        assert "vnodectl token create NAME --role admin --data-dir DIR" in said
    assert not (tmp_path / "etcd").exists()


def test_serve_says_what_is_wrong_with_the_tls_files(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = tmp_path / "locked.pem"
    locked.write_bytes(key.private_bytes(pem, pkcs8, serialization.BestAvailableEncryption(b"right")))
    other = tmp_path / "other.pem"
    trustme.CA().issue_cert("127.0.0.1").private_key_pem.write_to_path(other)
    assert "name that with --tls-cert" in refused(tmp_path, tls_key=files.key)
    missing = refused(tmp_path, tls_cert=tmp_path / "none.pem", tls_key=files.key)
    assert (
        missing
        == f"--tls-cert {tmp_path}/none.pem cannot be read (No such file or directory); name another file"
    )
    assert "do not belong together" in refused(tmp_path, tls_cert=files.cert, tls_key=other)
    assert "each in PEM form" in refused(tmp_path, tls_cert=files.cert)
    for password in ("", "wrong"):
        monkeypatch.setenv(KEY_PASSWORD, password)
        assert KEY_PASSWORD in refused(tmp_path, tls_cert=files.cert, tls_key=locked)
    monkeypatch.setenv(KEY_PASSWORD, "right")
    assert Security(tls_cert=files.cert, tls_key=locked).tls()


def test_serve_says_what_is_wrong_with_the_etcd_options(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = ["127.0.0.1:1"]
    assert "name it with --etcd" in refused(tmp_path, etcd_ca=files.ca)
    assert "go together" in refused(tmp_path, etcd=at, etcd_cert=files.cert)
    assert "--etcd-ca" in refused(tmp_path, etcd=at, etcd_ca=files.key)
    assert ETCD_PASSWORD in refused(tmp_path, etcd=at, etcd_user="vnodemap")
    said = refused(tmp_path, etcd=["root:hidden@127.0.0.1:1"])
    assert "hidden" not in said
    assert ETCD_PASSWORD in said


def test_token_is_refused_in_words(tmp_path: Path) -> None:
    for arguments, words in (
        (("token", "create", "local", "--role", "admin", "--data-dir", tmp_path), "choose another"),
        (("token", "create", "A B", "--role", "admin", "--data-dir", tmp_path), "name"),
        (("token", "revoke", "0" * 16, "--data-dir", tmp_path), "vnodectl token list"),
        (("token", "list", "--data-dir", tmp_path, "--database", "sqlite://"), "name one"),
    ):
        failure = vnodectl(*arguments).exception
        assert isinstance(failure, ServeError)
        assert words in str(failure)
    assert vnodectl("token", "create", "a", "--role", "god").exit_code == 2


@pytest.mark.parametrize(("text", "expected"), [("90d", 7_776_000), ("1s", 1), ("2h", 7200), ("5m", 300)])
def test_a_span(text: str, expected: int) -> None:
    assert seconds(text) == expected


def _failure(result: Result) -> BaseException:
    assert result.exception is not None, result.output
    return result.exception
