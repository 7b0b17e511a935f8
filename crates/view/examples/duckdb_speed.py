"""Times DuckDB on what the page's first panel asks of a recording: the IOs of each column over time and each response bin.

    python3 crates/view/examples/duckdb_speed.py FOLDER
"""

import sys
import time

import duckdb

SAMPLES = f"{sys.argv[1]}/samples/*.parquet"
begin = time.monotonic()
first, last = duckdb.sql(f"SELECT min(intended_ns), max(intended_ns) FROM '{SAMPLES}'").fetchall()[0]
shift = max(0, (last - first).bit_length() - 10)
for part in (1, 4, 256):
    end = first + (last - first) // part
    again = time.monotonic()
    cells = duckdb.sql(
        f"""SELECT (intended_ns - {first}) >> {shift} AS a, CAST(floor(log2(greatest(response_ns, 1)) * 16) AS INTEGER) AS b,
        count(*) FILTER (mode = 'read'), count(*) FILTER (mode = 'write'), max(response_ns)
        FROM '{SAMPLES}' WHERE intended_ns <= {end} GROUP BY a, b"""
    ).fetchall()
    print(f"duckdb {duckdb.__version__}, 1/{part} of the time: {len(cells)} cells in {time.monotonic() - again:.2f} s")
print(f"all of it: {time.monotonic() - begin:.2f} s")
