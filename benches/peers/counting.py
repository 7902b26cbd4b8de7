"""DuckDB's exact counts, and Apache DataSketches' count-min (C++), of the texts in a Parquet file: a JSON object of figures.

Both get the memory and the threads that our own pass has. The memory is the highest of the whole process, Python included."""

import importlib.metadata
import json
import os
import platform
import sys
import time

import datasketches
import duckdb

HASHES = 4


def peak():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


def connect(file, memory, threads):
    connection = duckdb.connect()
    connection.execute(f"SET memory_limit = '{memory}MiB'")
    connection.execute(f"SET threads = {threads}")
    # It would be drawn into the figures.
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET preserve_insertion_order = false")
    connection.execute("SET temp_directory = ?", [os.path.join(os.path.dirname(file), "duckdb")])
    return connection


def exact(file, threshold, memory, threads):
    counted = "SELECT text, sum(n) AS n FROM read_parquet(?) GROUP BY text HAVING sum(n) >= ?"
    connection = connect(file, memory, threads)
    survivors, occurrences = connection.execute(
        f"SELECT count(*), coalesce(sum(n), 0) FROM ({counted})", [file, threshold]
    ).fetchone()
    return {"survivors": int(survivors), "occurrences": int(occurrences)}


def sketch(file, rows, threshold, memory, threads):
    columns = max(4 * rows // threshold, 1 << 10)
    counts = datasketches.count_min_sketch(HASHES, columns)
    answer = connect(file, memory, threads).execute("SELECT text FROM read_parquet(?)", [file])
    while batch := answer.fetchmany(8192):
        for (text,) in batch:
            counts.update(text)
    return {"columns": columns, "bytes_of_a_cell": 8, "total": int(counts.total_weight)}


def measure(mode, file, rows, threshold, memory, threads):
    begun = time.perf_counter()
    if mode == "duckdb":
        figures = exact(file, threshold, memory, threads)
    else:
        figures = sketch(file, rows, threshold, memory, threads)
    seconds = time.perf_counter() - begun
    return {**figures, "seconds": seconds, "rows_per_second": rows / seconds, "peak_mebibytes": peak()}


mode, *rest = sys.argv[1:]
if mode == "versions":
    names = ("duckdb", "datasketches")
    print(json.dumps({"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}))
else:
    print(json.dumps(measure(mode, rest[0], *map(int, rest[1:]))))
