"""Calibration: fitting made-up samples, and the profile as a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from duplex.config import TurnSettings
from loadgen.calibrate.command import table
from loadgen.calibrate.fit import Fitted, Sample, fit
from loadgen.calibrate.hearing import asks_ms
from loadgen.calibrate.material import quantiles
from loadgen.calibrate.probes import DECODE, PREFILL, Measured, Probe, measure, median_of
from loadgen.calibrate.result import fit_costs
from loadgen.calibrate.toml import render
from loadgen.sim.profile import Cost, Profile, load

pytestmark = pytest.mark.unit

SHAPES = ((1.0,), (4.0,), (20.0,), (2.0, 2.0), (5.0, 1.0), (3.0, 9.0, 6.0), (8.0,) * 4)


def _samples(cost: Cost, noise: tuple[float, ...] = (0.0,)) -> list[Sample]:
    return [
        Sample(label=str(units), units=units, ms=1000 * cost.seconds(units) * (1 + noise[n % len(noise)]))
        for n, units in enumerate(SHAPES)
    ]


@pytest.mark.parametrize(
    "cost",
    [
        Cost(base=12.5),
        Cost(base=40, per_job=3),
        Cost(base=30, per_unit=2.5),
        Cost(per_job=7, per_job_unit=1.5),
        Cost(base=5, per_job=4, per_unit=3, per_job_unit=2),
    ],
)
def test_a_cost_is_found_again_in_its_own_times(cost: Cost) -> None:
    fitted = fit(_samples(cost))
    assert fitted.cost.model_dump() == pytest.approx(cost.model_dump(), rel=1e-3, abs=1e-3)
    assert fitted.error_max < 1e-3


def test_noisy_times_give_a_cost_within_the_noise() -> None:
    cost = Cost(base=20, per_unit=4)
    fitted = fit(_samples(cost, noise=(0.05, -0.05, 0.02)))
    assert fitted.error_max < 0.1
    assert fitted.cost.seconds([10]) == pytest.approx(cost.seconds([10]), rel=0.1)


def test_no_coefficient_is_negative_though_larger_jobs_took_less() -> None:
    samples = [Sample(label="", units=(float(n),), ms=50.0 - n) for n in range(1, 6)]
    cost = fit(samples).cost
    assert cost.base == pytest.approx(47, abs=1)
    assert cost.per_unit == cost.per_job == cost.per_job_unit == 0


def test_where_jobs_come_one_by_one_the_simplest_of_equal_explanations_is_taken() -> None:
    samples = [Sample(label="", units=(float(n),), ms=10.0 + 2 * n) for n in range(1, 6)]
    cost = fit(samples).cost
    assert (cost.base, cost.per_unit) == pytest.approx((10, 2))
    assert cost.per_job == cost.per_job_unit == 0


def test_only_the_asked_for_coefficients_are_used() -> None:
    fitted = fit(_samples(Cost(base=5, per_unit=3)), ("base", "per_job"))
    assert fitted.cost.per_unit == fitted.cost.per_job_unit == 0


def test_a_steps_cores_are_the_median_of_its_samples_and_at_least_one() -> None:
    samples = [Sample(label="", units=(1.0,), ms=10, cores=cores) for cores in (1.6, 1.7, 3.0)]
    assert fit(samples).cost.cores == 1.7
    assert fit([Sample(label="", units=(1.0,), ms=10, cores=0.4)]).cost.cores == 1


def test_nothing_to_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="one or more positive times"):
        fit([])
    with pytest.raises(ValueError, match="positive"):
        fit([Sample(label="", units=(1.0,), ms=0.0)])


def test_repetitions_come_down_to_their_medians() -> None:
    runs = [Sample(label="", units=(units,), ms=ms) for units, ms in ((20.0, 9.0), (22.0, 90.0), (30.0, 10.0))]
    assert median_of("clause", runs) == Sample(label="clause", units=(22.0,), ms=10.0, cores=1.0)


def test_every_probe_runs_once_a_round_and_its_parts_are_told_apart() -> None:
    runs: list[str] = []

    def probe(name: str) -> Probe:
        def run() -> dict[str, Sample]:
            runs.append(name)
            return {
                "a": Sample(label="", units=(1.0,), ms=1.0 + len(runs)),
                "b": Sample(label="", units=(1.0,), ms=5.0),
            }

        return Probe(label=name, run=run)

    class Still:
        def sample(self, probes: list[Probe], count: int) -> list[Probe]:
            return list(probes)

    measured = measure([probe("x"), probe("y")], 3, Still(), lambda line: None)  # type: ignore[arg-type]
    assert runs == ["x", "y"] * 3
    assert [sample.label for sample in measured.samples["a"]] == ["x", "y"]
    assert [sample.ms for sample in measured.samples["a"]] == [4.0, 5.0]
    assert [sample.ms for sample in measured.samples["b"]] == [5.0, 5.0]


def test_a_prompts_first_token_is_not_counted_twice() -> None:
    one = [Sample(label="", units=(1.0,), ms=20.0)]
    measured = Measured()
    for part in ("end_of_turn", "transcribe", "talk", "vocode", DECODE):
        measured.samples[part] = one
    measured.samples[PREFILL] = [Sample(label="", units=(10.0,), ms=120.0), Sample(label="", units=(20.0,), ms=170.0)]
    fits = fit_costs(measured)
    assert fits[DECODE].cost.seconds([1]) == pytest.approx(0.020)
    assert fits[PREFILL].cost.seconds([10]) == pytest.approx(0.100)
    assert fits[PREFILL].cost.seconds([20]) == pytest.approx(0.150)


def test_quantiles_stand_for_a_distribution() -> None:
    assert quantiles([]) == ()
    assert quantiles([7.0]) == (7.0,) * 9
    nine = quantiles([float(n) for n in range(101)])
    assert nine == tuple(sorted(nine)) and nine[4] == 50.0


def test_the_end_of_turn_model_is_asked_where_the_ear_asks_it() -> None:
    assert asks_ms(TurnSettings()) == (64, 672, 960)
    assert asks_ms(TurnSettings(pause_ms=100, first_look_ms=300, look_every_ms=100)) == (128, 416, 512)


def test_the_table_shows_each_sample_beside_the_fit() -> None:
    fitted = Fitted(cost=Cost(base=10), samples=(Sample(label="three words", units=(1.0,), ms=12.5),))
    header, part, line = table({"talk": fitted})
    assert "measured" in header and part == "talk"
    assert line.split() == ["three", "words", "12.5", "ms", "10.0", "ms", "-20%"]


def test_a_written_profile_reads_back_the_same(tmp_path: Path) -> None:
    profile = load("large")
    changed = profile.model_copy(
        update={
            "source": 'Measured "here", at ±5 %.',
            "hearing": profile.hearing.model_copy(update={"tail_ms": (-3.5, 48.0), "unsure": (0.1,), "hasty": 0.25}),
            "shared": ("cpu",),
        }
    )
    path = tmp_path / "made.toml"
    path.write_text(render(changed, "Written by a test.\nTwo lines."), encoding="utf-8")
    assert load(str(path)) == Profile.model_validate(changed.model_dump())
    assert path.read_text(encoding="utf-8").startswith("# Written by a test.\n# Two lines.\n")
