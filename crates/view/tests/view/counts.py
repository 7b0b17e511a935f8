"""Compares the bins of views with queries of the samples by DuckDB. Arguments: the page's address, the folder of samples."""

import json
import struct
import sys
import urllib.request

import duckdb

URL, SAMPLES = sys.argv[1:]
VIEWS = [
    ("", "true"),
    ("&modes=write&errors=none", "mode = 'write' AND errno = 0"),
    ("&sizes=12,14", "size_bytes <= 16384"),
    ("&exact=1&offset_bytes=1000000,700000001", "offset_bytes >= 1000000 AND offset_bytes < 700000001"),
    ("&exact=1&response_ns=50000,3000001&process=1", "response_ns >= 50000 AND response_ns < 3000001 AND process = 1"),
]


def panels(query):
    with urllib.request.urlopen(f"{URL}api/panels?width=400{query}") as answer:
        body = answer.read()
    length = struct.unpack("<I", body[:4])[0]
    header = json.loads(body[4 : 4 + length])
    begin = (4 + length + 7) // 8 * 8

    def array(name):
        entry = header["arrays"][name]
        code = "I" if entry["type"] == "u32" else "d"
        start = begin + entry["start"]
        return struct.unpack(f"<{entry['length']}{code}", body[start : start + entry["length"] * struct.calcsize(code)])

    return header, array


def rows(flat, width):
    return [flat[at : at + width] for at in range(0, len(flat), width)]


database = duckdb.connect()
database.execute(f"CREATE TABLE ios AS SELECT *, intended_ns - min(intended_ns) OVER () AS t FROM '{SAMPLES}/*.parquet'")
compared = 0
for query, condition in VIEWS:
    header, array = panels(query)
    time, offset_time, offset = header["time"], header["offset_time"], header["offset"]
    column = f"((t - {time['start_ns']}) // {time['step_ns']})"
    wide = f"((t - {offset_time['start_ns']}) // {offset_time['step_ns']})"
    row = f"((offset_bytes - {offset['start_bytes']}) // {offset['step_bytes']})"
    # The edges of bins are powers of two by sixteenths; a response time of 0 would be in bin 0.
    bin_ = "CAST(floor(log2(greatest(response_ns, 1)) * 16 + 1e-9) AS INTEGER)"
    both = "count(*) FILTER (mode = 'read'), count(*) FILTER (mode = 'write')"
    for name, a, b in [
        ("time_response", column, bin_),
        ("offset_response", row, bin_),
        ("time_offset", wide, row),
    ]:
        found = sorted(rows(array(name), 4))
        expected = database.execute(f"SELECT {a} AS a, {b} AS b, {both} FROM ios WHERE {condition} GROUP BY a, b ORDER BY a, b").fetchall()
        assert found == [tuple(int(value) for value in cells) for cells in expected], f"{name} of {query or 'all'}"
        compared += len(found)
    extremes = rows(array("extremes"), 4)
    expected = database.execute(
        f"""SELECT {column} AS c, min(response_ns) FILTER (mode = 'read'), max(response_ns) FILTER (mode = 'read'),
        min(response_ns) FILTER (mode = 'write'), max(response_ns) FILTER (mode = 'write')
        FROM ios WHERE {condition} GROUP BY c"""
    ).fetchall()
    known = any(value == value for of_column in extremes for value in of_column)
    assert known or query and "exact" not in query, query
    for c, *values in expected if known else []:
        for found, value in zip(extremes[int(c)], values):
            assert found == value or (value is None and found != found), f"extremes of {query or 'all'}"
            compared += 1
print("compared", compared)
