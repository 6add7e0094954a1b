"""What all wire models share: names, limits, and that a request holds nothing unknown."""

from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from meta.mapping.load import LoadCertificate
from meta.mapping.plan import Certificate

# A name becomes one step of an etcd key and of a URL.
NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
UNITS_MAX = 4096
# No request has as many by far.
FIELDS_MAX = 100

# PostgreSQL's texts have no NUL; and controls, but for tab and line feed, would control the terminal of who lists it.
TEXT_PATTERN = r"^[^\x00-\x08\x0b-\x1f\x7f-\x9f]+$"

Name = Annotated[str, Field(pattern=NAME_PATTERN, examples=["flights"])]
Parallelism = Annotated[int, Field(ge=1, le=UNITS_MAX, strict=True)]
Milliseconds = Annotated[int, Field(ge=100, le=24 * 3600 * 1000, strict=True)]


# A plan by load has more figures, which a plain `Certificate` would leave out.
AnyCertificate = LoadCertificate | Certificate


def at_most(count: int) -> BeforeValidator:
    """For objects: before each of 300,000 entries is found wrong, which takes seconds."""

    def counted(given: Any) -> Any:
        if isinstance(given, dict) and len(given) > count:
            raise ValueError(f"it has {len(given)} entries; give {count} at most")
        return given

    return BeforeValidator(counted)


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, given: Any) -> Any:
        if isinstance(given, dict) and len(given) > FIELDS_MAX:
            raise ValueError(f"it has {len(given)} fields; the API is described at /openapi.json")
        return given


class Response(BaseModel):
    model_config = ConfigDict(frozen=True)


Item = TypeVar("Item")


class PageOut(Response, Generic[Item]):
    """A part of a list. `next_cursor` asks for the part after it; null: there is none."""

    items: list[Item]
    next_cursor: str | None
