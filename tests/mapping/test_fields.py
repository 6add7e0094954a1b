import re

import pytest

from meta.mapping.errors import Malformed
from meta.mapping.fields import require_known

NAMES = ("units", "previous", "partitions", "stateful", "level")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("statefull", "stateful"),
        ("Stateful", "stateful"),
        ("STATEFUL", "stateful"),
        ("stateless", "stateful"),
        ("unit", "units"),
        ("previuos", "previous"),
        ("partition", "partitions"),
    ],
)
def test_a_misspelt_field_is_refused_with_the_one_that_was_meant(name: str, meant: str) -> None:
    said = f'"{name}" is not a field; did you mean "{meant}"?'
    with pytest.raises(Malformed, match=f"^{re.escape(said)}$"):
        require_known({"units": [], name: None}, NAMES)


def test_known_fields_and_the_writers_own_are_allowed() -> None:
    own = ("comment", "notes", "label", "revision", "position", "", "☃", "s" * 1_000_000)
    require_known(dict.fromkeys([*NAMES, *own]), NAMES)


@pytest.mark.parametrize("name", ["stateful\n", "stateful\ud800", 'stateful"'])
def test_a_refused_name_garbles_no_terminal(name: str) -> None:
    with pytest.raises(Malformed) as error:
        require_known({name: True}, NAMES)
    assert str(error.value).isprintable()
    assert str(error.value).isascii()
