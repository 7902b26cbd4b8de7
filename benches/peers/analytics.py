"""OpenDP's releases of twelve queries under one epsilon and delta, and DataFusion's and DuckDB's exact answers on a table's Parquet files.

A row is a person: the codes of age, sex, region, income, tenths of the weight, smoker, day of the visit, and (for OpenDP) the month's place.
OpenDP gets what the product's job gets: zCDP composition with an equal part for each query, a mean's part divided 1:2 over rows and sum, a
variance's and a correlation's 1:2:3 over rows, sums and products, and values taken from the middle of their declared range. Quantiles are
its exponential mechanism over the declared ages. The regions are disjoint, so each has the whole part of its query."""

import importlib
import importlib.metadata
import json
import math
import os
import platform
import sys
import time

AGES = (0, 120)
EDGES = (0, 15, 30, 45, 60, 75, 90, 105, 120)
OLD = 65


def peak():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmHWM:"))
    return int(line.split()[1]) / 1024


class Releases:
    """Measurements of OpenDP by their zCDP rho."""

    def __init__(self, epsilon, delta):
        import opendp.prelude as dp

        dp.enable_features("contrib")
        self.dp = dp
        self.space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
        count = self.space >> dp.t.then_count()

        def measure(scale):
            return dp.c.make_fix_delta(dp.c.make_zCDP_to_approxDP(count >> dp.m.then_gaussian(scale)), delta)

        scale = dp.binary_search_param(measure, d_in=1, d_out=(epsilon, delta))
        self.rho = (count >> dp.m.then_gaussian(scale)).map(1)

    def gaussian(self, transformation, rho, data):
        """Returns a function that adds noise of this rho to the exact answer, which is computed once."""
        dp = self.dp
        scale = dp.binary_search_param(lambda scale: transformation >> dp.m.then_gaussian(scale), d_in=1, d_out=rho)
        exact = transformation(data)
        noise = dp.m.make_gaussian(transformation.output_domain, transformation.output_metric, scale)
        return lambda: noise(exact)

    def count(self, data, rho):
        return self.gaussian(self.space >> self.dp.t.then_count(), rho, data)

    def counts(self, data, categories, rho):
        dp = self.dp
        transformation = self.space >> dp.t.then_count_by_categories(
            categories=categories, null_category=False, MO=dp.L2Distance[int]
        )
        return self.gaussian(transformation, rho, data)

    def sum(self, data, bounds, rho):
        dp = self.dp
        return self.gaussian(self.space >> dp.t.then_clamp(bounds) >> dp.t.then_sum(), rho, data)

    def quantile(self, data, candidates, alpha, rho):
        dp = self.dp

        def measure(scale):
            return dp.m.make_private_quantile(*self.space, dp.zero_concentrated_divergence(), candidates, alpha, scale)

        scale = dp.binary_search_param(measure, d_in=1, d_out=rho, T=float)
        mechanism = measure(scale)
        return lambda: mechanism(data)


def release(file, epsilon, delta, releases):
    with open(file) as lines:
        rows = [tuple(map(int, line.split(","))) for line in lines]
    peer = Releases(epsilon, delta)
    rho = peer.rho / 12
    age, income = [row[0] for row in rows], [row[3] for row in rows]
    weight = [row[4] for row in rows]
    one = [0] * len(rows)

    def mean(values, low, high):
        middle = (low + high) // 2
        span = high - middle
        count = peer.count(values, rho / 3)
        total = peer.sum([value - middle for value in values], (-span, span), 2 * rho / 3)
        return lambda: min(max(middle + total() / count(), low), high)

    def variance():
        # Tenths from the middle, 100 kg.
        shifted = [value - 1000 for value in weight]
        count = peer.count(one, rho / 6)
        total = peer.sum(shifted, (-1000, 1000), 2 * rho / 6)
        squares = peer.sum([value * value for value in shifted], (0, 1_000_000), 3 * rho / 6)

        def draw():
            n, s, q = count(), total(), squares()
            return max(q / n - (s / n) ** 2, 0) / 100

        return draw

    def correlation():
        x, y = [value - 60 for value in age], [value - 1000 for value in weight]
        count = peer.count(one, rho / 6)
        # A part of two sums, and a part of three products.
        sums = [peer.sum(x, (-60, 60), rho / 6), peer.sum(y, (-1000, 1000), rho / 6)]
        products = [
            peer.sum([a * a for a in x], (0, 3600), rho / 6),
            peer.sum([b * b for b in y], (0, 1_000_000), rho / 6),
            peer.sum([a * b for a, b in zip(x, y)], (-60_000, 60_000), rho / 6),
        ]

        def draw():
            n = count()
            a, b = (draw() / n for draw in sums)
            aa, bb, ab = (draw() / n for draw in products)
            variances = max(aa - a * a, 1e-9) * max(bb - b * b, 1e-9)
            return min(max((ab - a * b) / math.sqrt(variances), -1.0), 1.0)

        return draw

    def bin_of(value):
        return next(place for place in range(len(EDGES) - 1) if value < EDGES[place + 1] or place == len(EDGES) - 2)

    def single(draw):
        return lambda: [draw()]

    def several(draws):
        return lambda: [draw() for draw in draws]

    candidates = list(range(AGES[0], AGES[1] + 1))
    queries = [
        single(peer.count(one, rho)),
        single(peer.count([0 for value in age if value >= OLD], rho)),
        peer.counts([row[1] for row in rows], [0, 1, 2], rho),
        single(peer.sum(income, (0, 200_000), rho)),
        single(mean(age, 0, 120)),
        several([mean([row[3] for row in rows if row[2] == region], 0, 200_000) for region in range(8)]),
        single(variance()),
        peer.counts([bin_of(value) for value in age], list(range(8)), rho),
        peer.counts([row[2] for row in rows if row[5] == 1], list(range(8)), rho),
        several([peer.quantile(age, candidates, alpha, rho / 3) for alpha in (0.25, 0.5, 0.75)]),
        peer.counts([row[7] for row in rows], list(range(24)), rho),
        single(correlation()),
    ]
    return [[[float(number) for number in draw()] for _ in range(releases)] for draw in queries]


def statements(month, quantile):
    """The queries on codes. Each person has one row, so that counting rows counts people."""
    bins = ", ".join(f"sum(CASE WHEN c0 >= {low} AND c0 < {high} THEN 1 ELSE 0 END)" for low, high in zip(EDGES, EDGES[1:]))
    quantiles = ", ".join(f"{quantile}(c0, {alpha})" for alpha in (0.25, 0.5, 0.75))
    return [
        "SELECT count(*) FROM t",
        f"SELECT count(*) FROM t WHERE c0 >= {OLD}",
        "SELECT c1, count(*) FROM t GROUP BY c1",
        "SELECT sum(c3) FROM t",
        "SELECT avg(c0) FROM t",
        "SELECT c2, avg(c3) FROM t GROUP BY c2",
        "SELECT var_pop(c4) FROM t",
        f"SELECT {bins} FROM t",
        "SELECT c2, count(*) FROM t WHERE c5 = 1 GROUP BY c2",
        f"SELECT {quantiles} FROM t",
        f"SELECT {month}, count(*) FROM t GROUP BY {month}",
        "SELECT corr(c0, c4) FROM t",
    ]


def datafusion(folder, memory, threads):
    from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

    runtime = RuntimeEnvBuilder().with_disk_manager_os().with_fair_spill_pool(memory << 20)
    context = SessionContext(SessionConfig().with_target_partitions(threads), runtime)
    context.register_parquet("t", folder)
    month = "date_trunc('month', to_timestamp_seconds(c6 * 86400))"
    return [sum(batch.num_rows for batch in context.sql(text).collect()) for text in statements(month, "approx_percentile_cont")]


def duckdb(folder, memory, threads):
    import duckdb as engine

    connection = engine.connect()
    connection.execute(f"SET memory_limit = '{memory}MiB'")
    connection.execute(f"SET threads = {threads}")
    # It would be drawn into the figures.
    connection.execute("SET enable_progress_bar = false")
    connection.execute(f"CREATE VIEW t AS SELECT * FROM read_parquet('{os.path.join(folder, '*.parquet')}')")
    month = "date_trunc('month', DATE '1970-01-01' + c6::INTEGER)"
    return [len(connection.execute(text).fetchall()) for text in statements(month, "approx_quantile")]


def measure(engine, folder, rows, memory, threads):
    # The time of a query does not include that of loading the library.
    importlib.import_module(engine.__name__)
    begun = time.perf_counter()
    lines = engine(folder, memory, threads)
    seconds = time.perf_counter() - begun
    assert lines == [1, 1, 3, 1, 1, 8, 1, 1, 8, 1, 24, 1], lines
    return {"seconds": seconds, "rows_per_second": rows / seconds, "peak_mib": peak()}


mode, *rest = sys.argv[1:]
if mode == "versions":
    names = ("opendp", "datafusion", "duckdb")
    print(json.dumps({"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in names}}))
elif mode == "release":
    print(json.dumps(release(rest[0], float(rest[1]), float(rest[2]), int(rest[3]))))
else:
    print(json.dumps(measure({"datafusion": datafusion, "duckdb": duckdb}[mode], rest[0], *map(int, rest[1:]))))
