"""The JSON forms of `vnodectl key`: what operators type, and what nobody should."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys import offline
from storage_keys.errors import StorageKeyError
from storage_keys.types import TYPE_NAMES

FORMS = {
    "encode": offline.encode,
    "decode": offline.decode,
    "storage": offline.storage,
    "vnode": offline.vnode,
    "range": offline.range_,
}
NAMES = {
    "unsupported-type",
    "value-out-of-range",
    "bad-vnode-count",
    "malformed",
    "truncated",
    "trailing-bytes",
    "unknown-tag",
}


def asked(form: str, document: str) -> object:
    try:
        return FORMS[form](json.loads(document))
    except StorageKeyError as error:
        return error.name


@pytest.mark.parametrize(
    ("form", "document", "answer"),
    [
        ("encode", '{"type": "int", "value": 5}', {"hex": "0180000005"}),
        ("encode", '{"type": "int", "value": 5, "descending": true}', {"hex": "fe7ffffffa"}),
        ("encode", '{"type": "int", "value": null, "descending": true, "nulls": "first"}', {"hex": "fe"}),
        ("encode", '{"type": "binary", "value": {"hex": "00FF"}}', {"hex": "010100ff00000000000002"}),
        ("encode", '{"type": "date", "value": "1970-01-01"}', {"hex": "0180000000"}),
        ("encode", '{"type": "binary", "value": null}', {"hex": "00"}),
        ("encode", '{"type": "double", "value": "NaN"}', {"hex": "01fff8000000000000"}),
        ("encode", '{"type": "float", "value": "-Infinity"}', {"hex": "01007fffff"}),
        ("encode", '{"type": "double", "value": -0.0}', {"hex": "018000000000000000"}),
        ("encode", '{"type": "double", "value": 9007199254740992}', {"hex": "01c340000000000000"}),
        ("encode", '{"type": "decimal(10,2)", "value": "-12.5"}', {"hex": "0112e69b"}),
        ("encode", '{"type": "timestamp_ntz", "value": -1}', {"hex": "017fffffffffffffff"}),
        ("encode", '{"type": "interval year to month", "value": 14}', {"hex": "018000000e"}),
        ("encode", '{"type": "interval day to second", "value": 0}', {"hex": "018000000000000000"}),
        (
            "encode",
            '{"type": "struct<d:decimal(3,1),`a b`:array<binary>>", "value": ["1", [{"hex": "ff"}, null]]}',
            {"hex": "01" + "011802" + "0101" + "0101ff0000000000" + "09" + "0000010000000000" + "04"},
        ),
        (
            "decode",
            '{"type": "int", "hex": "0180000005", "descending": false, "nulls": "first"}',
            {"value": 5},
        ),
        ("decode", '{"type": "date", "hex": "017fffffff"}', {"value": "1969-12-31"}),
        ("decode", '{"type": "binary", "hex": "0100"}', {"value": {"hex": ""}}),
        ("decode", '{"type": "boolean", "hex": "0101"}', {"value": True}),
        ("decode", '{"type": "double", "hex": "01fff0000000000000"}', {"value": "Infinity"}),
        ("decode", '{"type": "float", "hex": "01007fffff"}', {"value": "-Infinity"}),
        ("decode", '{"type": "decimal(10,2)", "hex": "0112e69b"}', {"value": "-12.50"}),
        ("decode", '{"type": "decimal(38,38)", "hex": "0115"}', {"value": "0." + "0" * 38}),
        (
            "decode",
            '{"type": "struct<d:decimal(3,1),a:array<date>>", "hex": "010118020100"}',
            {"value": ["1.0", []]},
        ),
        ("decode", '{"type": "timestamp", "hex": "00"}', {"value": None}),
        ("range", '{"table_id": 7}', {"start": "00000007", "end": "00000008"}),
        (
            "range",
            '{"table_id": 7, "vnode": 3, "vnode_count": 256}',
            {"start": "000000070300", "end": "0000000704"},
        ),
        (
            "range",
            '{"table_id": 7, "first": 3, "last": 9, "vnode_count": 256}',
            {"start": "000000070300", "end": "000000070a"},
        ),
        ("range", '{"table_id": 4294967295}', {"start": "ffffffff", "end": None}),
        ("vnode", '{"columns": [], "vnode_count": 1}', {"hash": 42, "prefix": 0, "vnode": 0}),
    ],
)
def test_answers(form: str, document: str, answer: object) -> None:
    assert asked(form, document) == answer


def test_storage_and_vnode_agree() -> None:
    columns = [{"type": "string", "value": "é", "descending": True}, {"type": "bigint", "value": 5}]
    stored: Any = FORMS["storage"](
        {"table_id": 7, "columns": columns, "distribution": [1], "vnode_count": 256}
    )
    hashed: Any = FORMS["vnode"]({"columns": columns[1:], "vnode_count": 256})
    # Spark 4.3: SELECT xxhash64(5L)
    assert hashed["hash"] == 6251837290343458373
    assert (stored["prefix"], stored["vnode"]) == (hashed["prefix"], hashed["vnode"])
    assert hashed["vnode"] == hashed["prefix"] >> 8 == (hashed["hash"] % 2**64) >> 56
    key = bytes.fromhex(stored["hex"])
    assert key == bytes.fromhex(f"00000007{stored['prefix']:04x}fefe3c56fffffffffffffd018000000000000005")


@pytest.mark.parametrize(
    ("form", "document", "name"),
    [
        ("encode", "[]", "malformed"),
        ("encode", '{"type": "int"}', "malformed"),
        ("encode", '{"type": 5, "value": 5}', "malformed"),
        ("encode", '{"type": "map<int,int>", "value": 5}', "unsupported-type"),
        ("encode", '{"type": "int", "value": true}', "malformed"),
        ("encode", '{"type": "int", "value": 5.0}', "malformed"),
        ("encode", '{"type": "int", "value": 2147483648}', "value-out-of-range"),
        ("encode", '{"type": "int", "value": 5, "nulls": "smallest"}', "malformed"),
        ("encode", '{"type": "int", "value": 5, "descending": 1}', "malformed"),
        ("encode", '{"type": "binary", "value": "00"}', "malformed"),
        ("encode", '{"type": "binary", "value": {"hex": "0"}}', "malformed"),
        ("encode", '{"type": "binary", "value": {"hex": "00 ff"}}', "malformed"),
        ("encode", '{"type": "date", "value": "20130131"}', "malformed"),
        ("encode", '{"type": "date", "value": "2013-02-29"}', "malformed"),
        ("encode", '{"type": "date", "value": 5}', "malformed"),
        ("encode", '{"type": "string", "value": "\\ud800"}', "malformed"),
        ("encode", '{"type": "double", "value": NaN}', "malformed"),
        ("encode", '{"type": "double", "value": 1e400}', "value-out-of-range"),
        ("encode", '{"type": "float", "value": 1e39}', "value-out-of-range"),
        ("encode", '{"type": "double", "value": 9007199254740993}', "malformed"),
        ("encode", '{"type": "double", "value": "inf"}', "malformed"),
        ("encode", '{"type": "double", "value": true}', "malformed"),
        ("encode", '{"type": "decimal(10,2)", "value": 5}', "malformed"),
        ("encode", '{"type": "decimal(10,2)", "value": "1e2"}', "malformed"),
        ("encode", '{"type": "decimal(10,2)", "value": "1_0"}', "malformed"),
        ("encode", '{"type": "decimal(10,2)", "value": "NaN"}', "malformed"),
        ("encode", '{"type": "decimal(10,2)", "value": "0.001"}', "malformed"),
        ("encode", '{"type": "decimal(10,2)", "value": "100000000"}', "value-out-of-range"),
        ("encode", '{"type": "decimal(39,2)", "value": "1"}', "value-out-of-range"),
        ("encode", '{"type": "struct<a:int>", "value": {"a": 1}}', "malformed"),
        ("encode", '{"type": "struct<a:int>", "value": [1, 2]}', "malformed"),
        ("encode", '{"type": "array<int>", "value": "1"}', "malformed"),
        ("encode", '{"type": "array<map<int,int>>", "value": []}', "unsupported-type"),
        ("encode", '{"type": "interval", "value": 1}', "unsupported-type"),
        ("decode", '{"type": "double", "hex": "017fffffffffffffff"}', "malformed"),
        ("decode", '{"type": "decimal(10,2)", "hex": "0124"}', "malformed"),
        (
            "vnode",
            '{"columns": [{"type": "array<int>", "value": null}], "vnode_count": 1}',
            "unsupported-type",
        ),
        ("decode", '{"type": "int", "hex": "0180"}', "truncated"),
        ("decode", '{"type": "int", "hex": "018000000500"}', "trailing-bytes"),
        ("decode", '{"type": "int", "hex": "0280000005"}', "unknown-tag"),
        ("decode", '{"type": "int", "hex": "xy"}', "malformed"),
        ("vnode", '{"columns": [], "vnode_count": 0}', "bad-vnode-count"),
        ("vnode", '{"columns": [], "vnode_count": 40000}', "bad-vnode-count"),
        ("vnode", '{"columns": []}', "malformed"),
        ("vnode", '{"columns": [5], "vnode_count": 1}', "malformed"),
        ("storage", '{"table_id": 1, "columns": [], "distribution": [0], "vnode_count": 1}', "malformed"),
        (
            "storage",
            '{"table_id": -1, "columns": [], "distribution": [], "vnode_count": 1}',
            "value-out-of-range",
        ),
        ("range", '{"table_id": 4294967296}', "value-out-of-range"),
        ("range", '{"table_id": 1, "vnode": 256, "vnode_count": 256}', "value-out-of-range"),
        ("range", '{"table_id": 1, "vnode": 0}', "malformed"),
        ("range", '{"table_id": 1, "first": 0, "vnode_count": 256}', "malformed"),
        ("range", '{"table_id": 1, "first": 1, "last": 0, "vnode_count": 256}', "malformed"),
        ("range", '{"table_id": 1, "vnode": 1, "first": 0, "last": 0, "vnode_count": 256}', "malformed"),
    ],
)
def test_refusals(form: str, document: str, name: str) -> None:
    assert asked(form, document) == name


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-3, 300)
    | st.sampled_from([31, 64, 20_000]).map(lambda bits: 2**bits)
    | st.floats()
    | st.sampled_from(
        [*TYPE_NAMES, "first", "last", "00", "0180000005", "2013-01-31", "\ud800", "decimal(9,2)"]
    )
)
COLUMN = st.dictionaries(st.sampled_from(["type", "value", "descending", "nulls"]), SCALARS, max_size=4)
ANY = SCALARS | st.lists(COLUMN | SCALARS, max_size=3) | COLUMN | st.fixed_dictionaries({"hex": SCALARS})
FIELDS = ["type", "value", "hex", "descending", "nulls", "table_id", "columns", "distribution", "vnode_count"]
DOCUMENTS = st.dictionaries(st.sampled_from([*FIELDS, "vnode", "first", "last"]), ANY) | ANY


@pytest.mark.parametrize("form", FORMS)
@given(document=DOCUMENTS)
def test_hostile_documents_are_answered_or_refused_by_a_known_name(form: str, document: object) -> None:
    try:
        answer: Any = FORMS[form](document)
    except StorageKeyError as error:
        answer = {"error": error.name, "detail": str(error)}
    assert json.dumps(answer)
    assert answer.get("error", "malformed") in NAMES
    assert 0 < len(answer.get("detail", "an answer")) < 400


INTEGERS = st.integers(-(2**63), 2**63 - 1)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "bigint": INTEGERS,
    "timestamp": INTEGERS,
    "timestamp_ntz": INTEGERS,
    "interval year to month": st.integers(-(2**31), 2**31 - 1),
    "interval day to second": INTEGERS,
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False) | st.just("NaN"),
    "double": st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["NaN", "Infinity", "-Infinity"]),
    "decimal(38,2)": st.decimals(-(10**36) + 1, 10**36 - 1, places=2).map(lambda number: f"{abs(number):f}"),
    "date": st.dates().map(str),
    "string": st.text(st.characters(codec="utf-8")),
    "binary": st.binary().map(lambda data: {"hex": data.hex()}),
}
VALUES["array<date>"] = st.lists(st.none() | VALUES["date"], max_size=4)
VALUES["struct<`a,b`:array<binary>,c:decimal(38,2)>"] = st.tuples(
    st.none() | st.lists(st.none() | VALUES["binary"], max_size=3), st.none() | VALUES["decimal(38,2)"]
).map(list)


@given(
    st.sampled_from(sorted(VALUES)).flatmap(
        lambda name: st.fixed_dictionaries(
            {
                "type": st.just(name),
                "value": st.none() | VALUES[name],
                "descending": st.booleans(),
                "nulls": st.sampled_from(["first", "last"]),
            }
        )
    )
)
def test_what_is_encoded_decodes(document: dict[str, object]) -> None:
    assert FORMS["decode"](document | FORMS["encode"](document)) == {"value": document["value"]}


def test_a_column_that_cannot_be_hashed_is_named() -> None:
    document = {
        "columns": [{"type": "int", "value": 1}, {"type": "array<int>", "value": []}],
        "vnode_count": 1,
    }
    for form, more in (("vnode", {}), ("storage", {"table_id": 1, "distribution": [0, 1]})):
        with pytest.raises(StorageKeyError, match=r"^column '1': type 'array<int>' cannot be a distribution"):
            FORMS[form](document | more)
    assert FORMS["storage"](document | {"table_id": 1, "distribution": [0]})["vnode"] == 0
    columns = [{"type": "struct<a:int>", "value": [2**31]}]
    with pytest.raises(StorageKeyError, match=r"^column '0': a value of type int must be in "):
        FORMS["storage"]({"columns": columns, "vnode_count": 1, "table_id": 1, "distribution": []})
