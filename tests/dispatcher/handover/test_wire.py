"""Frames as bytes: what was sent, or an error of ours, and soon, and in little memory, whatever the bytes are.

And the units of a run say nothing to each other that has no form.
"""

import random
import re
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path as File
from time import process_time
from typing import Any, get_args, get_origin

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dispatcher.handover.effect import Effect, Send
from dispatcher.handover.errors import Malformed, Unencodable, UnknownFormat, WireError
from dispatcher.handover.message import (
    Acquire,
    Batch,
    Credit,
    Done,
    Final,
    Flush,
    Flushed,
    Frame,
    Message,
    Path,
    Records,
    Redistribute,
    RelayedWatermark,
    Scaleup,
    Sets,
    Shutdown,
    Watermark,
)
from dispatcher.handover.simulator.machine import FAMILIES, Step
from dispatcher.handover.simulator.run import Run, run
from dispatcher.handover.wire import decode, encode, encode_rows
from dispatcher.handover.wire.header import FORMAT
from dispatcher.handover.wire.message import FORMS, TAGS
from dispatcher.handover.wire.value import (
    BLOB,
    COUNT,
    KEY,
    KEY_SET,
    KEYS,
    NUMBERS,
    TEXT,
    TIME,
    Choice,
    Entries,
    Fields,
    Form,
    Maybe,
)
from tests.dispatcher.handover.runs import options

SEED = 20261122
# A form, as the page calls it.
WORDS: dict[Form[Any], str] = {
    COUNT: "count",
    TIME: "integer",
    BLOB: "bytes",
    TEXT: "text",
    KEY: "key",
    NUMBERS: "numbers",
    KEYS: "a row of keys",
    KEY_SET: "a row of keys: numbers ascending, then texts",
    Choice(tuple(Path)): "path",
    Entries(TEXT, TIME): "a mapping of texts to integers",
    Maybe(KEYS): "a byte: 0 nothing, 1 a row of keys",
}
COUNTS = st.integers(0, 2**64 - 1)
TIMES = st.integers(-(2**63), 2**63 - 1)
KEYS = TIMES | st.text()
ROWS_OF_KEYS = st.lists(KEYS).map(tuple)
PATHS = st.sampled_from(Path)
BATCHES = st.builds(Batch, KEYS, st.text(), st.lists(TIMES).map(tuple), COUNTS)
MESSAGES: dict[type, st.SearchStrategy[Any]] = {
    Records: st.builds(Records, BATCHES, COUNTS, COUNTS, PATHS),
    Acquire: st.builds(Acquire, KEYS, COUNTS, COUNTS, st.binary(), st.dictionaries(st.text(), TIMES)),
    Done: st.builds(Done),
    Flush: st.builds(Flush),
    Flushed: st.builds(Flushed, COUNTS),
    Watermark: st.builds(Watermark, st.text(), TIMES),
    RelayedWatermark: st.builds(RelayedWatermark, st.text(), TIMES),
    Credit: st.builds(Credit, COUNTS, PATHS, st.text(), COUNTS),
    Shutdown: st.builds(Shutdown),
    Scaleup: st.builds(Scaleup),
    Sets: st.builds(Sets, st.frozensets(KEYS), ROWS_OF_KEYS),
    Final: st.builds(Final, ROWS_OF_KEYS),
    Redistribute: st.builds(Redistribute, KEYS, COUNTS, COUNTS, st.binary(), st.none() | ROWS_OF_KEYS),
}
FRAMES = st.builds(Frame, COUNTS, COUNTS, st.text(), COUNTS, st.one_of(*MESSAGES.values()))

VECTORS: dict[str, Frame[Any]] = {
    name: Frame(3, 8, "a1b2", 258, message)
    for name, message in {
        "records": Records(Batch(255, "p", (1, 4, -1), 700), 1, 0, Path.DIRECT),
        "records-by-text": Records(Batch("ключ", "p", (), 0), 2, 2, Path.ORDINARY),
        "acquire": Acquire(7, 1, 2, b"\x00state", {"q": -5, "p": 2**40}),
        "done": Done(),
        "flush": Flush(),
        "flushed": Flushed(65_536),
        "watermark": Watermark("p", -1),
        "relayed-watermark": RelayedWatermark("p", 1_700_000_000_000_000),
        "credit": Credit(1, Path.ORDINARY, "p", 4096),
        "shutdown": Shutdown(),
        "scaleup": Scaleup(),
        "sets": Sets(frozenset({6, 5, "x"}), (4, "y")),
        "final": Final((4, 5)),
        "redistribute": Redistribute(4, 0, 2, b"S4"),
        "redistribute-last": Redistribute(5, 0, 0, b"", (6, 7)),
    }.items()
}
KEPT = dict(line.split() for line in File(__file__).with_name("frames.hex").read_text().splitlines())
WITH_ROWS = VECTORS["records"]
ROWS = pa.record_batch({"k": pa.array([1, None, 3]), "s": ["x", "", "é"]})


def wide(count: int) -> pa.RecordBatch:
    """Rows of the layouts that are taken: offsets, children, dictionaries, runs, none at all."""
    texts = ["é" * place for place in range(count)]
    ends = pa.array([count] if count else [], pa.int32())
    return pa.record_batch(
        {
            "number": pa.array(range(count), pa.int64()),
            "text": pa.array([text or None for text in texts], pa.string()),
            "list": pa.array([[place] * place for place in range(count)], pa.list_(pa.int32())),
            "struct": pa.array([{"a": place, "b": None} for place in range(count)], pa.struct({"a": "i8", "b": "i4"})),
            "dictionary": pa.array([text[:2] for text in texts], pa.string()).dictionary_encode(),
            "runs": pa.RunEndEncodedArray.from_arrays(ends, pa.array(["r"] * len(ends))),
            "nulls": pa.nulls(count),
        }
    )  # fmt: skip


def told(count: int) -> Frame[int]:
    batch = Batch(4, "p", tuple(range(0, 3 * count, 3)), 100 * count)
    return Frame(3, 8, "a1b2", 7, Records(batch, 1, 0, Path.ORDINARY))


def stream(rows: pa.RecordBatch, metadata: dict[bytes, bytes] | None, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(rows, custom_metadata=metadata)
    return sink.getvalue().to_pybytes()


def messages(data: bytes) -> list[bytes]:
    return [
        message.serialize().to_pybytes() for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    ]


def mutated(source: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(source.randint(1, 3)):
        at = source.randrange(len(changed)) if changed else 0
        match source.randrange(12):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = source.randbytes(source.choice((1, 4, 8)))
            case 2:
                del changed[at : at + source.choice((1, 4, 8))]
            case 3 | 4 | 5:
                changed[at & ~3 : (at & ~3) + 4] = source.choice(
                    (b"\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"\xff\xff\xff\xff", b"\x00\x00\x01\x00")
                )
            case _ if changed:
                changed[at] ^= 1 << source.randrange(8)
    return bytes(changed)


def test_every_message_has_a_form() -> None:
    classes = {get_origin(message) or message for message in get_args(Message)}
    assert TAGS.keys() == MESSAGES.keys() == {type(frame.message) for frame in VECTORS.values()} == classes
    assert len(TAGS) == len(FORMS)


def test_the_page_tells_of_every_message() -> None:
    page = (File(__file__).parents[3] / "docs" / "handover.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| (.*?) ?\|$", page, re.MULTILINE)
    told = {int(tag): (name, fields) for tag, name, fields in rows}
    assert told == {tag: (form.type.__name__, ", ".join(fields_of(form))) for tag, form in FORMS.items()}


def fields_of(form: Fields[Any]) -> Iterator[str]:
    """As the page has them: with the form in brackets, where the name is not its name."""
    for name, of_one in form.fields.items():
        if isinstance(of_one, Fields):
            yield from fields_of(of_one)
        else:
            word, shown = WORDS[of_one], name.removesuffix("_bytes")
            yield shown if shown == word else f"{shown} ({word})"


def test_the_page_says_where_what_is() -> None:
    """Read by its table, a frame is what it is."""
    _, page = (File(__file__).parents[3] / "docs" / "handover.md").read_text().split("| offset | bytes | |")
    places = re.findall(r"^\| (\d+) \| (\d+) (?:\+ n )?\| ", page, re.MULTILINE)
    data = bytes.fromhex(KEPT["done"])
    magic, format_, kind, *numbers, digest = [data[int(at) :][: int(size)] for at, size in places]
    assert (magic, format_, kind) == (b"vnf", bytes([FORMAT]), bytes([TAGS[Done]]))
    assert [int.from_bytes(number, "little") for number in numbers] == [3, 8, 258]
    assert data[int(places[-1][0]) :] == digest + b"a1b2"


@pytest.mark.parametrize("name", VECTORS)
def test_the_format_does_not_change(name: str) -> None:
    assert encode(VECTORS[name]).hex() == KEPT[name]
    assert decode(bytes.fromhex(KEPT[name])) == (VECTORS[name], None)


def test_rows_that_an_earlier_arrow_wrote_are_read() -> None:
    assert decode(bytes.fromhex(KEPT["rows"])) == (WITH_ROWS, ROWS)


@given(FRAMES)
def test_what_comes_out_is_what_went_in(frame: Frame[Any]) -> None:
    assert decode(encode(frame)) == (frame, None)


@pytest.mark.parametrize("count", [0, 1, 20])
def test_rows_ride_beside(count: int) -> None:
    assert decode(memoryview(encode_rows(told(count), wide(count)))) == (told(count), wide(count))


def test_rows_are_not_copied() -> None:
    data = encode_rows(told(20), wide(20))
    _, rows = decode(memoryview(data))
    assert rows is not None
    assert data.address < rows["number"].buffers()[1].address < data.address + data.size


def test_a_slice_of_rows_is_sent_alone() -> None:
    few = wide(1000).slice(500, 2)
    data = encode_rows(told(2), few)
    assert decode(memoryview(data)) == (told(2), few)
    assert data.size < 10_000


@given(FRAMES, st.integers(0, 2**32))
def test_damaged_frames_are_refused_or_are_other_frames(frame: Frame[Any], seed: int) -> None:
    data = mutated(random.Random(seed), encode(frame))
    try:
        other, _ = decode(data)
    except WireError:
        return
    assert encode(other) == data


@given(st.binary())
@example(b"")
@example(b"\xff\xff\xff\xff")
@example(b"\xff\xff\xff\xff\x00\x00\x00\x00")
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        decode(data)


@pytest.mark.parametrize("name", KEPT)
def test_a_frame_that_is_cut_short_or_goes_on_is_refused(name: str) -> None:
    whole = bytes.fromhex(KEPT[name])
    for data in (*(whole[:size] for size in range(len(whole))), whole + b"\x00", whole + whole):
        with pytest.raises(Malformed):
            decode(data)


@pytest.mark.parametrize("runs", [2_000, pytest.param(200_000, marks=pytest.mark.slow)])
def test_damaged_rows_are_refused_or_whole(runs: int) -> None:
    source = random.Random(SEED)
    frames = [encode_rows(told(count), wide(count)).to_pybytes() for count in (0, 1, 5, 20)]
    taken = 0
    for _ in range(runs):
        try:
            frame, rows = decode(mutated(source, source.choice(frames)))
        except WireError:
            continue
        taken += 1
        assert rows is not None
        assert rows.num_rows == len(frame.message.batch.sequences)
        rows.validate(full=True)
    assert 0 < taken < runs


@pytest.mark.parametrize(
    ("at", "byte", "said"),
    [(0, 0, "begin no frame"), (3, FORMAT + 1, f"is of format {FORMAT + 1}"), (4, 99, "kind 99")],
)
def test_a_frame_of_another_format_says_so(at: int, byte: int, said: str) -> None:
    data = bytearray(encode(VECTORS["done"]))
    data[at] = byte
    with pytest.raises(UnknownFormat, match=f"{said}.*let all units"):
        decode(bytes(data))


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("done", b"a1b2", b"a1\xff2", "not UTF-8"),
        ("credit", b"\x00\x01\x00\x00\x00p", b"\x02\x01\x00\x00\x00p", "choice 2 of 2"),
        ("acquire", b"\x00\x07" + bytes(7), b"\x02\x07" + bytes(7), "key of kind 2"),
        ("acquire", b"\x01\x00\x00\x00p", b"\x01\x00\x00\x00q", "names 'q' after 'q'"),
        ("sets", b"\x00\x06" + bytes(7), b"\x00\x05" + bytes(7), "key 5 of a set after 5"),
        ("redistribute", b"S4\x00", b"S4\x02", "2 where 0 is for nothing"),
    ],
)
def test_a_value_of_no_form_is_refused(name: str, old: bytes, new: bytes, said: str) -> None:
    data = encode(VECTORS[name])
    assert data.count(old) == 1
    with pytest.raises(Malformed, match=said):
        decode(data.replace(old, new))


@pytest.mark.parametrize("name", VECTORS)
def test_lengths_beyond_the_frame_take_no_memory(name: str) -> None:
    data = bytes.fromhex(KEPT[name])
    tracemalloc.start()
    try:
        for at in range(29, len(data) - 3):
            with pytest.raises(WireError):
                decode(data[:at] + b"\xff\xff\xff\xff" + data[at + 4 :] + b"\x00")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_compressed_rows_are_refused_before_they_fill_the_memory() -> None:
    header = {b"vnodemap.frame": encode(told(8))}
    bomb = pa.record_batch({"zeros": pa.array(bytes(1 << 20) for _ in range(8))})
    rows = pa.record_batch({"zeros": bomb["zeros"].dictionary_encode()})
    # Of the dictionary alone.
    schema, dictionary, _ = messages(stream(rows, header, compression="zstd"))
    _, _, batch = messages(stream(rows, header))
    before = pa.total_allocated_bytes()
    for data in (
        stream(bomb, header, compression="zstd"),
        schema + dictionary + batch + b"\xff\xff\xff\xff" + bytes(4),
    ):
        assert len(data) < 20_000
        with pytest.raises(Malformed, match="compressed"):
            decode(data)
    assert pa.total_allocated_bytes() == before


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (None, "no header"),
        (encode(told(4)), "3 rows that its header does not tell of"),
        (encode(VECTORS["done"]), "3 rows that its header does not tell of"),
        (encode(WITH_ROWS) + b"\x00", "what it says ends after"),
    ],
)
def test_rows_and_header_belong_together(header: bytes | None, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        decode(stream(ROWS, header and {b"vnodemap.frame": header}))


def test_rows_of_few_bytes_are_not_many() -> None:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1]), pa.array(["r"]))
    with pytest.raises(Malformed, match="2147483647 rows"):
        decode(stream(pa.record_batch({"runs": runs}), {b"vnodemap.frame": encode(WITH_ROWS)}))


@pytest.mark.parametrize(
    "message",
    [
        Flushed(-1),
        Flushed(2**64),
        Watermark("p", 2**63),
        Watermark("\ud800", 0),
        Acquire(2**63, 0, 1, b""),
        Acquire(("a", 1), 0, 1, b""),
    ],
)
def test_what_has_no_form_is_not_sent(message: Message[Any]) -> None:
    with pytest.raises(Unencodable, match=f"a {type(message).__name__} cannot be sent"):
        encode(Frame(3, 8, "a1b2", 0, message))


VIEWS = {
    "string": pa.string_view(),
    "binary": pa.binary_view(),
    "list": pa.list_view(pa.int8()),
    "list of large lists": pa.list_(pa.large_list_view(pa.int8())),
    "struct": pa.struct({"a": pa.string_view()}),
    "map": pa.map_(pa.string(), pa.string_view()),
    "dictionary": pa.dictionary(pa.int32(), pa.string_view()),
    "runs": pa.run_end_encoded(pa.int32(), pa.string_view()),
    "extension": pa.json_(pa.string_view()),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_neither_sent_nor_taken(name: str) -> None:
    rows = pa.record_batch({"seen": pa.nulls(0, VIEWS[name])})
    with pytest.raises(Unencodable, match="is a view; make it plain"):
        encode_rows(told(0), rows)
    with pytest.raises(Malformed, match="is a view"):
        decode(stream(rows, {b"vnodemap.frame": encode(told(0))}))


def test_many_views_of_one_buffer_take_no_time() -> None:
    """Each would be checked by itself: 960 KB took 9 s, and twice as many four times that."""
    count = 1 << 15
    views = b"".join((count).to_bytes(4, "little") + b"eeee" + bytes(8) for _ in range(count))
    column = pa.Array.from_buffers(
        pa.string_view(), count, [None, pa.py_buffer(views), pa.py_buffer(b"e" * count)]
    )
    data = stream(pa.record_batch({"s": column}), {b"vnodemap.frame": encode(told(count))})
    began_s = process_time()
    with pytest.raises(Malformed, match="is a view"):
        decode(data)
    assert process_time() - began_s < 1


@pytest.mark.parametrize(
    "rows",
    [
        pa.record_batch({"outer": pa.array([{"inner": 1}] * 3)}),
        pa.record_batch({"at": pa.array([1] * 3, pa.timestamp("us", "inner"))}),
        pa.record_batch({"inner": pa.array([1] * 3)}),
    ],
    ids=["nested", "time-zone", "column"],
)
def test_names_that_are_not_utf_8_are_refused_wherever_they_are(rows: pa.RecordBatch) -> None:
    data = stream(rows, {b"vnodemap.frame": encode(WITH_ROWS)})
    assert decode(data) == (WITH_ROWS, rows)
    with pytest.raises(Malformed, match="UnicodeDecodeError"):
        decode(data.replace(b"inner", b"inn\xffr"))


def test_rows_that_are_nested_too_deep_are_not_sent() -> None:
    deep = pa.int8()
    for _ in range(70):
        deep = pa.struct({"a": deep})
    with pytest.raises(Unencodable, match="Max recursion depth"):
        encode_rows(told(1), pa.record_batch({"deep": pa.nulls(1, deep)}))


def test_records_may_come_without_rows() -> None:
    assert decode(encode(told(3))) == (told(3), None)


def test_a_frame_has_a_row_for_each_sequence() -> None:
    with pytest.raises(Unencodable, match="it has 4 rows for 3 sequences"):
        encode_rows(WITH_ROWS, wide(4))
    with pytest.raises(AssertionError):
        encode_rows(replace(WITH_ROWS, message=Done()), ROWS)


@pytest.mark.parametrize("protocol", FAMILIES)
def test_a_run_is_the_same_where_every_frame_is_bytes_on_its_way(protocol: str) -> None:
    for seed in range(0, 600, 13):
        drawn = options(seed, protocol=protocol)
        wired = Run(drawn, seed)
        step = wired.world.machine.step

        def coded(state: Any, event: Any, step: Step = step) -> tuple[Any, tuple[Effect[int], ...]]:
            after, effects = step(state, event)
            return after, tuple(
                replace(each, frame=decode(encode(each.frame))[0]) if isinstance(each, Send) else each
                for each in effects
            )

        wired.world.machine = replace(wired.world.machine, step=coded)
        assert wired.finish() == run(drawn, seed)
