"""From what was measured to a profile. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from duplex.payloads import Role
from duplex.stages.contract import ModelPack
from loadgen.calibrate.answers import Said
from loadgen.calibrate.context import ContextCost
from loadgen.calibrate.fit import TERMS, Fitted, Sample, fit
from loadgen.calibrate.hearing import Heard
from loadgen.calibrate.parallel import Parallel
from loadgen.calibrate.probes import DECODE, PREFILL, TURN_TOKENS, Measured
from loadgen.sim.profile import Cost, Profile, Stage, Talker, Thinker

_DEVICE = "cpu"
_LEAST_MS = 0.1
_BY_JOBS = ("base", "per_job")
"""Coefficients of a step whose jobs are all of one size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All that a profile is made of."""

    pack: ModelPack
    threads: int
    fits: dict[str, Fitted]
    """By part: the batch stages' roles, `prefill` and `decode`."""
    heard: Heard
    parallel: Parallel
    context: ContextCost
    said: Said


def fit_costs(measured: Measured) -> dict[str, Fitted]:
    """Fit every part's cost. A prompt's first token takes no step of its own, but does in the simulator: it is taken off."""
    samples = measured.samples
    decode = fit(samples[DECODE], _BY_JOBS)
    prefill = [
        Sample(
            label=each.label, units=each.units,
            ms=max(_LEAST_MS, each.ms - 1000 * decode.cost.seconds([1] * len(each.units))), cores=each.cores,
        )
        for each in samples[PREFILL]
    ]  # fmt: skip
    return {
        Role.END_OF_TURN.value: fit(samples[Role.END_OF_TURN], _BY_JOBS),
        Role.TRANSCRIBE.value: fit(samples[Role.TRANSCRIBE], TERMS),
        PREFILL: fit(prefill, TERMS),
        DECODE: decode,
        Role.TALK.value: fit(samples[Role.TALK], TERMS),
        Role.VOCODE.value: fit(samples[Role.VOCODE], TERMS),
    }


def _within(cost: Cost, cores: float) -> Cost:
    """Return the cost of a step that was measured alone: it had all that it wanted of the device."""
    return cost.model_copy(update={"cores": min(cost.cores, cores)})


def profile_of(calibration: Calibration, source: str) -> Profile:
    """Return the profile; instructions count as read at the start."""
    pack, said, cores = calibration.pack, calibration.said, round(calibration.parallel.cores, 2)
    costs = {part: _within(fitted.cost, cores) for part, fitted in calibration.fits.items()}
    costs[PREFILL] = costs[PREFILL].model_copy(update={"held_up": round(calibration.parallel.held_up, 2)})
    specs = {stage.spec.role: stage.spec for stage in pack.stages}

    def stage(role: Role) -> Stage:
        return Stage(device=_DEVICE, cost=costs[role.value], batch_max=specs[role].batch_max)

    think = specs[Role.THINK]
    return Profile(
        name=pack.name,
        source=source,
        devices={_DEVICE: cores},
        shared=(_DEVICE,),
        vad_ms=round(calibration.heard.vad_ms, 2),
        sessions_max=pack.sessions_max,
        end_of_turn=stage(Role.END_OF_TURN),
        transcribe=stage(Role.TRANSCRIBE),
        think=Thinker(
            device=_DEVICE, decode=costs[DECODE], prefill=costs[PREFILL], slots=think.batch_max,
            read_batch=think.batch_max, pausable=think.pausable, tokens_per_word=said.tokens_per_word, turn_tokens=TURN_TOKENS,
            read_context_us=round(calibration.context.read_us, 2),
            step_context_us=round(calibration.context.step_us, 2), instructions_tokens=0,
        ),
        talk=Talker(device=_DEVICE, kind="batch", cost=costs[Role.TALK.value], slots=specs[Role.TALK].batch_max),
        vocode=stage(Role.VOCODE),
        voice=said.voice,
        hearing=calibration.heard.hearing,
    )  # fmt: skip
