"""Tokens without a service, in its database: for the first one, and where nobody has an admin's any more."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from meta.api.wire.tokens import NewTokenOut, TokenIn, TokenOut
from meta.callers.access import LOCAL, AccessRole, Caller
from meta.callers.tokens import Tokens
from meta.errors import MetaError
from meta.hearing import Hearing
from meta.vnodectl.session import ServeError
from meta.vnodectl.storage import embedded_url, make_folder, now_ms, opened

# Who has the database may do everything, as on a service without tokens.
WHO = Caller(LOCAL, AccessRole.ADMIN)
LIST_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Direct:
    """The service's answers, without the service. Each method raises `ServeError`."""

    use_cases: Tokens

    def create(self, request: Mapping[str, Any]) -> Any:
        try:
            wanted = TokenIn.model_validate(request)
        except ValidationError as error:
            (first, *_) = error.errors()
            raise ServeError(f"{first['loc'][0]}: {first['msg']}") from error
        with _in_words():
            token, shown = self.use_cases.create(
                wanted.name, wanted.role, expires_in_s=wanted.expires_in_s, by=WHO
            )
        return NewTokenOut.of(token, shown).model_dump(mode="json")

    def all(self) -> list[Any]:
        return [TokenOut.of(token).model_dump(mode="json") for token in self.use_cases.newest(LIST_MAX)]

    def revoke(self, token_id: str) -> None:
        with _in_words():
            self.use_cases.revoke(token_id, by=WHO)


@contextmanager
def direct(data_dir: Path | None, database_url: str | None) -> Iterator[Direct]:
    """On the database that `serve` has with one of these. Raises `ServeError`."""
    if data_dir is not None:
        make_folder(data_dir)
        database_url = embedded_url(data_dir)
    assert database_url is not None
    with opened(database_url) as database:
        yield Direct(Tokens(database, Hearing(now_ms)))


@contextmanager
def _in_words() -> Iterator[None]:
    try:
        yield
    except MetaError as error:
        raise ServeError(error.detail) from error
