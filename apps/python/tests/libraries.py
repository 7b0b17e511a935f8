"""Tables go to and come from polars, pyarrow, pandas and duckdb."""

import duckdb
import pandas
import polars
import pyarrow
import pyarrow.parquet

import flashlab
from support import writes

PLAN = writes(70_000)

sim = flashlab.Simulator("tlc-sata", capacity="64MiB")
samples = sim.run(PLAN).samples()
total = sum(flashlab.Table(samples)["response_ns"])
frame = polars.DataFrame(samples)
assert frame.height == 70000 and frame["response_ns"].sum() == total and frame["mode"].unique().to_list() == ["write"]
arrow = pyarrow.table(samples)
assert arrow.num_rows == 70000 and arrow.schema.field("mode").type == pyarrow.string()
assert arrow.to_pandas()["response_ns"].sum() == total
reader = pyarrow.RecordBatchReader.from_stream(samples)
assert duckdb.sql("select sum(response_ns), count(*) from reader").fetchall() == [(total, 70000)]

small = writes(500)
columns = {
    "profile": ["tlc-sata", "tlc-sata"],
    "workload": [small, small],
    "seed": [1, 2],
    "capacity": ["64MiB", "64MiB"],
    "flash.over_provisioning": [0.1, None],
}
expected = {**flashlab.evaluate(columns).to_dict(), "wall_s": 0}
tables = [
    polars.DataFrame(columns),
    polars.DataFrame(columns).with_columns(polars.col("profile").cast(polars.Categorical), polars.col("seed").cast(polars.UInt8)),
    pyarrow.table(columns),
    pandas.DataFrame(columns),
]
for table in tables:
    results = flashlab.evaluate(table)
    assert {**results.to_dict(), "wall_s": 0} == expected, type(table)
assert polars.DataFrame(flashlab.evaluate(columns))["write_count"].to_list() == [500, 500]
try:
    flashlab.evaluate(polars.DataFrame({**columns, "id": [[1], [2]]}))
    raise AssertionError("a column of lists was taken")
except flashlab.InputError as error:
    assert "the column `id` holds" in str(error), error

# Values of numpy, which pandas brings.
import numpy

sweep = flashlab.sweep(
    "tlc-sata", {"flash.channels": numpy.array([2, 4])}, workloads=[small], seeds=numpy.arange(1, 3), capacity="64MiB", progress=False
)
assert polars.DataFrame(sweep.table())["seed"].to_list() == [1, 2, 1, 2]
assert flashlab.evaluate({**columns, "seed": numpy.arange(1, 3), "id": [numpy.int8(3), numpy.float32(0.5)]})["seed"] == [1, 2]
pyarrow.parquet.write_table(pyarrow.table({"a": [1]}), "snappy.parquet", compression="snappy")
try:
    flashlab.Table.read_parquet("snappy.parquet")
    raise AssertionError("a file with snappy was read")
except flashlab.InputError as error:
    assert "compressed with SNAPPY" in str(error) and "damaged" not in str(error), error
