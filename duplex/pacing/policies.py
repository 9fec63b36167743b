"""The scheduling policies, each a rank for a piece of work; the server and the simulator run the same ones.

    fcfs           as engines serve by themselves: order of arrival, generation unbounded
    fcfs_capped    the same, held at our lead target
    round_robin    the session that was served longest ago, unbounded
    chunk_deadline sessions near the start of their newest chunk first, playback inferred from when chunks were made
    listener       ours: urgency by the listener's real playback front
    oracle         knows what will be heard (simulator only)

Sources: chunk_deadline after VoxServe (arXiv 2602.00269: pressing within 1 s of the newest chunk's start); listener after
DESIGN.md §5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from duplex.config import PacingSettings, SchedulingSettings
from duplex.pacing.policy import Policy, Work
from duplex.pacing.urgency import FAR, Rank, Urgency, rank
from duplex.payloads import Address
from duplex.units import MonoNs, ns_from_ms

Foresight = Callable[[Address], MonoNs | None]
"""When the listener of a reply will interrupt it, as far as that is certain; None: never, or not known."""
_CUT_SMOOTHING = 0.03
"""Weight of the newest reply in the share of replies that are cut."""
_CUT_SHARE_FIRST = 1.5
"""What is believed of people at first, in terms of the share from which on nothing is made ahead."""


class _Indifferent:
    """What most policies make of how conversations go: nothing."""

    def ride_units(self, dedicated: bool) -> int | None:
        """Any may ride."""
        return None

    def reply_begins(self) -> None:
        """Not minded."""

    def reply_cut(self) -> None:
        """Not minded."""


class Fcfs(_Indifferent):
    """First come, first served."""

    name = "fcfs"
    bounded = False

    def rank(self, work: Work, now: MonoNs, unit_ns: int) -> Rank:
        """Order of arrival."""
        return (Urgency.SPECULATIVE if work.pace.speculative else Urgency.PACED), work.arrived


class FcfsCapped(_Indifferent):
    """First come, first served, but nothing that is ahead of its listener by the lead target."""

    name = "fcfs_capped"
    bounded = True

    def rank(self, work: Work, now: MonoNs, unit_ns: int) -> Rank:
        """Order of arrival, or held."""
        pace = work.pace
        if pace.blocked:
            return Urgency.HELD, FAR
        if pace.speculative:
            return Urgency.SPECULATIVE, work.arrived
        if pace.hold_until is not None and now < pace.hold_until:
            return Urgency.HELD, pace.hold_until
        return Urgency.PACED, work.arrived


class RoundRobin(_Indifferent):
    """The session that was served longest ago."""

    name = "round_robin"
    bounded = False

    def rank(self, work: Work, now: MonoNs, unit_ns: int) -> Rank:
        """Order of the last service."""
        return (Urgency.SPECULATIVE if work.pace.speculative else Urgency.PACED), work.served


class ChunkDeadline(_Indifferent):
    """Pressing work first: no chunk yet, or the newest chunk begins to play within `pressing_ms`; playback is inferred.

    Both classes are in order of arrival, and nothing is held.
    """

    name = "chunk_deadline"
    bounded = False

    def __init__(self, pressing_ms: int) -> None:
        self._pressing_ns = ns_from_ms(pressing_ms)

    def rank(self, work: Work, now: MonoNs, unit_ns: int) -> Rank:
        """Pressing or not, then order of arrival."""
        pace = work.pace
        if pace.speculative:
            return Urgency.SPECULATIVE, work.arrived
        starts = pace.newest_starts
        pressing = starts is None or now >= starts - self._pressing_ns
        return (Urgency.CRITICAL if pressing else Urgency.PACED), work.arrived


class Listener:
    """CRITICAL → FIRST → PACED → (SPARE) → HELD by the real playback front; see `duplex.pacing.urgency`.

    On a dedicated device idle time is used to work ahead of the lead target, the further the more rarely people interrupt:
    what is made ahead is thrown away by a cut, and saves an underrun in a burst.

    Args:
        first_deadline_ms, ride_units: as in the settings.
        spare_lead_ms: how far ahead of the target where nobody interrupts.
        spare_cut_share: share of replies cut from which on nothing is made ahead.
    """

    name = "listener"
    bounded = True

    def __init__(
        self, first_deadline_ms: int, ride_units: int, spare_lead_ms: int = 0, spare_cut_share: float = 0.3
    ) -> None:
        self._ride_units = ride_units
        self._first_ns = ns_from_ms(first_deadline_ms)
        self._spare_ns_max = ns_from_ms(spare_lead_ms)
        self._spare_cut_share = spare_cut_share
        self._cut_share = min(1.0, _CUT_SHARE_FIRST * spare_cut_share)
        """Share of the replies that were cut of late; begins where nothing is made ahead."""
        self.spare_ns = 0
        """How far ahead of the lead target work may go at this moment."""

    def ride_units(self, dedicated: bool) -> int | None:
        """All ride on a device of its own while a reserve is worth making; else those who need it soon."""
        return None if dedicated and self.spare_ns else self._ride_units

    def reply_begins(self) -> None:
        """A reply is asked for: counts as not cut."""
        self._learn(-_CUT_SMOOTHING * self._cut_share)

    def reply_cut(self) -> None:
        """It was cut."""
        self._learn(_CUT_SMOOTHING)

    def _learn(self, change: float) -> None:
        self._cut_share += change
        self.spare_ns = round(self._spare_ns_max * max(0.0, 1 - self._cut_share / self._spare_cut_share))

    def rank(self, work: Work, now: MonoNs, unit_ns: int) -> Rank:
        """Urgency and order in it."""
        return rank(work.pace, now, unit_ns, self._first_ns, self.spare_ns if work.dedicated else 0)


class Oracle(Listener):
    """`listener`, and nothing is made that an interruption will cut before it is heard. A strong reference, not a bound."""

    name = "oracle"

    def __init__(
        self, first_deadline_ms: int, ride_units: int, foresight: Foresight, spare_lead_ms: int = 0,
        spare_cut_share: float = 0.3,
    ) -> None:  # fmt: skip
        super().__init__(first_deadline_ms, ride_units, spare_lead_ms, spare_cut_share)
        self._foresight = foresight

    def rank(self, work: Work, now: MonoNs, unit_ns: int) -> Rank:
        """As `listener`; held for ever what begins to play after the interruption."""
        dry_at = work.pace.dry_at
        if dry_at is not None and work.job.address.reply is not None:
            cut_at = self._foresight(work.job.address)
            if cut_at is not None and dry_at >= cut_at:
                return Urgency.HELD, FAR
        return super().rank(work, now, unit_ns)


def make_policy(scheduling: SchedulingSettings, pacing: PacingSettings, foresight: Foresight | None = None) -> Policy:
    """Return the policy that the configuration names.

    Args:
        foresight: what `oracle` knows; only a simulator has it.
    Raises:
        ValueError: `oracle` without foresight.
    """
    if scheduling.policy == "oracle":
        if foresight is None:
            raise ValueError("scheduling.policy: oracle knows the future; it runs in the simulator only")
        return Oracle(
            pacing.first_deadline_ms,
            scheduling.ride_units,
            foresight,
            scheduling.spare_lead_ms,
            scheduling.spare_cut_share,
        )
    made: Mapping[str, Callable[[], Policy]] = {
        "fcfs": Fcfs,
        "fcfs_capped": FcfsCapped,
        "round_robin": RoundRobin,
        "chunk_deadline": lambda: ChunkDeadline(scheduling.pressing_ms),
        "listener": lambda: Listener(
            pacing.first_deadline_ms, scheduling.ride_units, scheduling.spare_lead_ms, scheduling.spare_cut_share
        ),
    }
    return made[scheduling.policy]()
