"""What a job shows and trusts: its token at the service, its login at etcd. Never pickled, never shown."""

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from meta.etcd.connection import Credentials, Tls
from meta.etcd.environment import etcd_credentials as credentials_given
from meta.etcd.environment import etcd_tls as tls_given


@dataclass(frozen=True, slots=True)
class Access:
    """`ca_file` is whom to trust as the service, `etcd_tls` how etcd is spoken to; None: as it comes."""

    token: str | None = field(default=None, repr=False)
    ca_file: Path | None = None
    etcd_tls: Tls | None = None
    etcd_credentials: Credentials | None = field(default=None, repr=False)

    @classmethod
    def given(
        cls,
        token: str | None,
        ca_file: Path | None,
        etcd_tls: Tls | None,
        etcd_credentials: Credentials | None,
    ) -> "Access":
        """These, and for those that are None what the environment says: VNODEMAP_TOKEN, VNODEMAP_CA_FILE,
        VNODEMAP_ETCD_CA, VNODEMAP_ETCD_CERT, VNODEMAP_ETCD_KEY, VNODEMAP_ETCD_USER and VNODEMAP_ETCD_PASSWORD.

        Raises `ValueError` for a token that cannot be one, which the message does not show.
        """
        named = os.environ.get("VNODEMAP_CA_FILE")
        shown = (token or os.environ.get("VNODEMAP_TOKEN", "")).strip()
        if not (shown.isascii() and shown.isprintable()):
            raise ValueError(
                "the token (VNODEMAP_TOKEN) is none; `vnodectl token create` prints one, vnm_..."
            )
        return cls(
            shown or None,
            ca_file or (Path(named) if named else None),
            etcd_tls or tls_given(),
            etcd_credentials or credentials_given(),
        )

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    @property
    def trust(self) -> ssl.SSLContext | bool:
        """As httpx wants it. Raises `ValueError`."""
        if self.ca_file is None:
            return True
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:  # ssl's errors are such too
            raise ValueError(
                f"{self.ca_file} cannot be used ({error}); name a file with certificates (VNODEMAP_CA_FILE)"
            ) from error
