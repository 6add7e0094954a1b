"""What `serve` shows and trusts: its TLS, and its login at etcd. Secrets come out of the environment alone."""

import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from meta.vnodectl.session import ServeError

if TYPE_CHECKING:
    from meta.etcd.connection import Credentials, Tls

KEY_PASSWORD = "VNODEMAP_TLS_KEY_PASSWORD"  # noqa: S105 - its name
ETCD_PASSWORD = "VNODEMAP_ETCD_PASSWORD"  # noqa: S105 - its name


@dataclass(frozen=True, slots=True)
class Security:
    """Options of `serve`."""

    tls_cert: Annotated[
        Path | None,
        typer.Option(
            envvar="VNODEMAP_TLS_CERT", metavar="FILE", help="Serve https with this certificate (PEM)."
        ),
    ] = None
    tls_key: Annotated[
        Path | None,
        typer.Option(
            envvar="VNODEMAP_TLS_KEY",
            metavar="FILE",
            help=f"The certificate's key, if it is not in the same file. Its password: {KEY_PASSWORD}.",
        ),
    ] = None
    insecure_http: Annotated[
        bool,
        typer.Option("--insecure-http", help="Serve others without TLS: behind a proxy that has it."),
    ] = False
    etcd_ca: Annotated[
        Path | None,
        typer.Option(
            envvar="VNODEMAP_ETCD_CA", metavar="FILE", help="Use TLS with etcd, and trust this (PEM)."
        ),
    ] = None
    etcd_cert: Annotated[
        Path | None,
        typer.Option(envvar="VNODEMAP_ETCD_CERT", metavar="FILE", help="Show etcd this certificate."),
    ] = None
    etcd_key: Annotated[
        Path | None, typer.Option(envvar="VNODEMAP_ETCD_KEY", metavar="FILE", help="That certificate's key.")
    ] = None
    etcd_user: Annotated[
        str | None,
        typer.Option(envvar="VNODEMAP_ETCD_USER", help=f"Log in at etcd. The password: {ETCD_PASSWORD}."),
    ] = None

    def tls(self) -> ssl.SSLContext | None:
        """What the service speaks TLS by; None: it does not. Raises `ServeError`."""
        if self.tls_cert is None:
            if self.tls_key is not None:
                raise ServeError("--tls-key is the key of a certificate; name that with --tls-cert")
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        _load(context, ("--tls-cert", self.tls_cert), ("--tls-key", self.tls_key))
        return context

    def etcd_tls(self) -> "Tls | None":
        """Raises `ServeError`."""
        if self.etcd_ca is None and self.etcd_cert is None and self.etcd_key is None:
            return None
        if (self.etcd_cert is None) != (self.etcd_key is None):
            raise ServeError("--etcd-cert and --etcd-key go together; name both, or neither")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.etcd_ca is not None:
            _trust(context, "--etcd-ca", self.etcd_ca)
        if self.etcd_cert is not None:
            # gRPC takes no password.
            _load(context, ("--etcd-cert", self.etcd_cert), ("--etcd-key", self.etcd_key), None)
        # Only here: gRPC takes longer to load than most commands take.
        from meta.etcd.connection import Tls  # noqa: PLC0415

        return Tls(self.etcd_ca, self.etcd_cert, self.etcd_key)

    def etcd_credentials(self) -> "Credentials | None":
        """Raises `ServeError`."""
        password = os.environ.get(ETCD_PASSWORD)
        if self.etcd_user is None:
            return None
        if not password:
            raise ServeError(f"--etcd-user {self.etcd_user} needs a password; give it in {ETCD_PASSWORD}")
        from meta.etcd.connection import Credentials  # noqa: PLC0415

        return Credentials(self.etcd_user, password)

    def check_etcd(self, endpoints: Sequence[str] | None) -> None:
        """Raises `ServeError` where these options have no etcd to be for, or an endpoint has a password in it."""
        if any("@" in endpoint for endpoint in endpoints or ()):
            raise ServeError(
                f"--etcd takes HOST:PORT alone; give the user with --etcd-user and the password in {ETCD_PASSWORD}"
            )
        if not endpoints and (self.etcd_tls() or self.etcd_user):
            raise ServeError(
                "--etcd-ca, --etcd-cert, --etcd-key and --etcd-user are for an etcd of yours; name it with --etcd"
            )


PLAIN = Security()

Named = tuple[str, Path | None]


def _trust(context: ssl.SSLContext, option: str, file: Path) -> None:
    _read(option, file)
    try:
        context.load_verify_locations(file)
    except ssl.SSLError as error:
        raise ServeError(f"{option} {file} holds no certificate in PEM form") from error


def _load(context: ssl.SSLContext, cert: Named, key: Named, password_in: str | None = KEY_PASSWORD) -> None:
    _read(*cert)
    key_option, key_file = key if key[1] is not None else cert
    encrypted = b"ENCRYPTED" in _read(key_option, key_file)
    password = os.environ.get(password_in, "") if password_in else ""
    assert cert[1] is not None
    try:
        # Without a password OpenSSL would ask for one at the terminal.
        context.load_cert_chain(cert[1], key[1], lambda: password)
    except (ssl.SSLError, ValueError) as error:
        what = _what_is_wrong(error, cert, (key_option, key_file), password_in if encrypted else "")
        raise ServeError(what) from error


def _what_is_wrong(error: Exception, cert: Named, key: Named, password_in: str | None) -> str:
    if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
        return f"{cert[0]} {cert[1]} and {key[0]} {key[1]} do not belong together; name the key of this certificate"
    if password_in is None:
        return f"{key[0]} {key[1]} is encrypted, which is not supported here; name one that is not"
    if password_in:
        return f"{key[0]} {key[1]} is encrypted, and its password is not in the environment variable {password_in}"
    return f"{cert[0]} {cert[1]} and {key[0]} {key[1]} are not a certificate and its key, each in PEM form"


def _read(option: str, file: Path | None) -> bytes:
    assert file is not None
    try:
        return file.read_bytes()
    except OSError as error:
        raise ServeError(f"{option} {file} cannot be read ({error.strerror}); name another file") from error
