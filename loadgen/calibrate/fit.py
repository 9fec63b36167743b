"""From measured steps to a stage's cost: non-negative least squares on relative errors. Pure."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from loadgen.sim.profile import Cost

TERMS = ("base", "per_job", "per_unit", "per_job_unit")
"""Coefficients of a cost, the simplest first: where two explain the same, the first of them is taken."""
_BETTER = 1e-6
"""By how much of the squared error a further coefficient has to be worth its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One kind of step, as measured."""

    label: str
    """What was computed, for the table."""
    units: tuple[float, ...]
    """Of each job of the step, ≥ 1 of them."""
    ms: float
    """Median time."""
    cores: float = 1.0
    """Processor time over time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """A cost and the samples it was made from."""

    cost: Cost
    samples: tuple[Sample, ...]

    def error(self, sample: Sample) -> float:
        """Return by how much the cost is off, as a share of the sample: 0.1 is 10 % too much."""
        return self.cost.seconds(sample.units) * 1000 / sample.ms - 1

    @property
    def error_max(self) -> float:
        """Largest error of a sample, without its sign."""
        return max(abs(self.error(sample)) for sample in self.samples)


def fit(samples: Sequence[Sample], terms: Sequence[str] = TERMS) -> Fitted:
    """Return the cost that is nearest to the samples, by the squares of the relative errors.

    Four coefficients have fifteen sets that may be positive; the best of them that is so is the optimum (at the optimum the
    positive ones are an unconstrained least-squares solution).

    Args:
        samples: at least one; times > 0.
        terms: coefficients that may be used.
    Raises:
        ValueError: there is nothing to fit, or a time is not positive.
    """
    if not samples or any(sample.ms <= 0 for sample in samples):
        raise ValueError("a cost is fitted to one or more positive times")
    rows = np.array([_row(sample) for sample in samples]) / np.array([[sample.ms] for sample in samples])
    wanted = np.ones(len(samples))
    best: NDArray[np.float64] = np.zeros(len(TERMS))
    least = float(wanted @ wanted)
    places = [TERMS.index(term) for term in sorted(terms, key=TERMS.index)]
    for size in range(1, len(places) + 1):
        for chosen in map(list, itertools.combinations(places, size)):
            found = np.linalg.lstsq(rows[:, chosen], wanted, rcond=None)[0]
            rest = rows[:, chosen] @ found - wanted
            error = float(rest @ rest)
            if (found >= 0).all() and error < least - _BETTER * len(samples):
                least = error
                best = np.zeros(len(TERMS))
                best[chosen] = found
    cores = statistics.median(sample.cores for sample in samples)
    cost = Cost(**dict(zip(TERMS, _rounded(best), strict=True)), cores=max(1.0, round(cores, 1)))
    return Fitted(cost=cost, samples=tuple(samples))


def _row(sample: Sample) -> tuple[float, float, float, float]:
    return 1.0, float(len(sample.units)), max(sample.units), sum(sample.units)


def _rounded(values: NDArray[np.float64]) -> list[float]:
    return [round(float(value), 4) for value in values]
