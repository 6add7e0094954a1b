"""What all wire models share: names, limits, and that a request holds nothing unknown."""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from meta.mapping.load import LoadCertificate
from meta.mapping.plan import Certificate

# A name becomes one step of an etcd key and of a URL.
NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
UNITS_MAX = 4096

# PostgreSQL's texts have no NUL, so nobody's have.
TEXT_PATTERN = r"^[^\x00]+$"

Name = Annotated[str, Field(pattern=NAME_PATTERN, examples=["flights"])]
Parallelism = Annotated[int, Field(ge=1, le=UNITS_MAX, strict=True)]
Milliseconds = Annotated[int, Field(ge=100, le=24 * 3600 * 1000, strict=True)]


# A plan by load has more figures, which a plain `Certificate` would leave out.
AnyCertificate = LoadCertificate | Certificate


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Response(BaseModel):
    model_config = ConfigDict(frozen=True)


Item = TypeVar("Item")


class PageOut(Response, Generic[Item]):
    """A part of a list. `next_cursor` asks for the part after it; null: there is none."""

    items: list[Item]
    next_cursor: str | None
