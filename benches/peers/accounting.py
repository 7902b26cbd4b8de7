"""Google's dp_accounting on the compositions it is asked for, a JSON object a line: seconds (median) and epsilon.

Its defaults are used as they are: the orders of its Renyi accountant, the grid of its loss distributions."""

import importlib.metadata
import json
import platform
import statistics
import sys
import time

import dp_accounting
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

ACCOUNTANTS = {"renyi": RdpAccountant, "loss distribution": PLDAccountant}
# At most so often; and not again once so many seconds are spent.
TIMES, SECONDS = 5, 10.0


def answer(method, runs, delta):
    times = []
    while len(times) < TIMES and sum(times) < SECONDS:
        start = time.perf_counter()
        accountant = ACCOUNTANTS[method]()
        for rate, noise, steps in runs:
            sampled = dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))
            accountant.compose(dp_accounting.SelfComposedDpEvent(sampled, steps))
        epsilon = accountant.get_epsilon(delta)
        times.append(time.perf_counter() - start)
    return {"seconds": statistics.median(times), "epsilon": float(epsilon), "times": len(times)}


def say(value):
    print(json.dumps(value), flush=True)


versions = {name: importlib.metadata.version(name) for name in ("dp-accounting", "numpy", "scipy")}
say({"python": platform.python_version(), **versions})
for line in sys.stdin:
    question = json.loads(line)
    say(answer(question["method"], question["runs"], question["delta"]))
