"""Dense linear algebra and Google's dp_accounting on encoders of correlated noise: the vectors of `correlated_noise.json`.

`$(.ci/peer.sh accounting) benches/peers/correlated_noise.py > benches/peers/correlated_noise.json` makes them. Every
encoder is a full matrix here, every pattern of participation is tried where there are few, and the price counts the
steps at which the group of a unit has its turn. The program under test knows only first columns and closed forms."""

import importlib.metadata
import itertools
import json
import math

import dp_accounting
import numpy as np
from dp_accounting.pld import PLDAccountant
from scipy.linalg import sqrtm
from scipy.optimize import minimize


def shifts(steps):
    return [np.eye(steps, k=-k) for k in range(steps)]


def banded(coefficients, steps):
    return sum(value * shift for value, shift in zip(coefficients, shifts(steps)))


def geometric(ratio, steps):
    # DP-lambda-CGD: the noise of a step is z(t) - ratio z(t-1), so the inverse has two diagonals.
    return np.linalg.inv(np.eye(steps) - ratio * np.eye(steps, k=-1))


def inverse_root(width, steps):
    # BISR: the inverse of the root of the matrix of running sums, of which `width` diagonals remain, inverted again.
    inverse = np.linalg.inv(np.real(sqrtm(np.tril(np.ones((steps, steps))))))
    kept = sum(np.diag(np.diag(inverse, -k), -k) for k in range(min(width, steps)))
    return np.linalg.inv(kept)


def every_pattern(steps, period):
    """All sets of steps in which two differ by at least the period."""
    for size in range(1, -(-steps // period) + 1):
        for pattern in itertools.combinations(range(steps), size):
            if all(b - a >= period for a, b in itertools.pairwise(pattern)):
                yield pattern


def turns(steps, period):
    """The steps of each group of a cyclic order."""
    return [tuple(range(first, steps, period)) for first in range(min(period, steps))]


def sensitivity(encoder, patterns):
    assert (encoder >= -1e-12).all()
    return max(float(np.linalg.norm(encoder[:, list(pattern)].sum(axis=1))) for pattern in patterns)


def errors(encoder):
    steps = len(encoder)
    sums = np.tril(np.ones((steps, steps))) @ np.linalg.inv(encoder)
    return {"rms": float(np.linalg.norm(sums) / math.sqrt(steps)), "last": float(np.linalg.norm(sums[-1]))}


def best_product(bands, steps):
    """The least product of column norm and error over the banded encoders with equal coefficients along diagonals."""

    def product(free):
        coefficients = np.concatenate([[1.0], free])
        return math.log(np.linalg.norm(coefficients) * errors(banded(coefficients, steps))["rms"])

    start = [1.0]
    for k in range(1, bands):
        start.append(start[-1] * (2 * k - 1) / (2 * k))
    return math.exp(minimize(product, start[1:], method="BFGS").fun)


def epsilon(rate, noise, steps, bands, delta):
    most = max(len(group) for group in turns(steps, bands))
    inclusion = min(1.0, rate * bands)
    event = dp_accounting.GaussianDpEvent(noise)
    if inclusion < 1.0:
        event = dp_accounting.PoissonSampledDpEvent(inclusion, event)
    accountant = PLDAccountant()
    accountant.compose(dp_accounting.SelfComposedDpEvent(event, most))
    return float(accountant.get_epsilon(delta))


ENCODERS = [
    ("banded", [1.0], 12, 1),
    ("banded", [1.0, 0.5], 12, 2),
    ("banded", [1.0, 0.5, 0.25, 0.2], 11, 3),
    ("geometric", 0.3, 12, 1),
    ("geometric", 0.8, 13, 4),
    ("geometric", 0.9, 120, 20),
    ("inverse_root", 3, 12, 1),
    ("inverse_root", 4, 13, 4),
    ("inverse_root", 16, 120, 20),
]
PRICES = [(0.05, 1.0, 100, 1), (0.05, 1.6, 100, 4), (0.05, 2.1, 401, 8), (0.1, 2.0, 100, 3), (0.05, 2.7, 100, 20)]
BANDS = [(2, 24), (3, 60), (5, 100)]


def encoder_case(kind, parameter, steps, period):
    encoder = {"banded": banded, "geometric": geometric, "inverse_root": inverse_root}[kind](parameter, steps)
    patterns = list(every_pattern(steps, period) if steps <= 13 else turns(steps, period))
    return {
        "kind": kind, "parameter": parameter, "steps": steps, "period": period, "patterns": len(patterns),
        "first_column": encoder[:, 0].tolist(), "inverse": np.linalg.inv(encoder)[:, 0].tolist(),
        "column_norm": float(max(np.linalg.norm(encoder, axis=0))), "sensitivity": sensitivity(encoder, patterns),
        **errors(encoder),
    }


def price_case(rate, noise, steps, bands):
    delta = 1e-6
    return {"rate": rate, "noise_multiplier": noise, "steps": steps, "bands": bands, "delta": delta,
            "epsilon": epsilon(rate, noise, steps, bands, delta)}


vectors = {
    "encoders": [encoder_case(*case) for case in ENCODERS],
    "prices": [price_case(*case) for case in PRICES],
    "bands": [{"bands": bands, "steps": steps, "product": best_product(bands, steps)} for bands, steps in BANDS],
}
versions = {name: importlib.metadata.version(name) for name in ("dp-accounting", "numpy", "scipy")}
lists = [f'"{name}": [\n' + ",\n".join(map(json.dumps, cases)) + "\n]" for name, cases in vectors.items()]
print("{\n" + ",\n".join([f'"versions": {json.dumps(versions)}', *lists]) + "\n}")
