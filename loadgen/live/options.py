"""What a run is asked to do: checked once, then frozen."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

Transport = Literal["webrtc", "websocket"]


class OptionError(ValueError):
    """An option is out of range or does not go with another; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slo:
    """What a caller is owed, and how many have to get it."""

    ttfas_s: float = 1.0
    """From the end of the caller's speech to the answer's first audible sample."""
    underrun_s: float = 0.1
    """Longest gap inside an answer."""
    share: float = 0.9
    """Of all turns; refused and unanswered ones are misses."""

    def check(self) -> None:
        """Raise OptionError for a value out of range."""
        if self.ttfas_s <= 0 or self.underrun_s < 0 or not 0 < self.share <= 1:
            raise OptionError("--slo-ttfas is above 0, --slo-underrun at least 0, --slo-share in (0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What the client's own network does to every packet, in both directions."""

    loss: float = 0.0
    """Probability that a packet is lost."""
    jitter_ms: float = 0.0
    """Scale of the queueing delay (half normal)."""
    reorder: float = 0.0
    """Probability that a packet is overtaken by those behind it."""
    drop_link_s: float = 0.0
    """Once in each session nothing passes for this long."""

    @property
    def ideal(self) -> bool:
        """Whether it does nothing."""
        return not (self.loss or self.jitter_ms or self.reorder or self.drop_link_s)

    def check(self) -> None:
        """Raise OptionError for a value out of range."""
        if not (0 <= self.loss < 1 and 0 <= self.reorder < 1):
            raise OptionError("--loss and --reorder are probabilities in [0, 1)")
        if not (0 <= self.jitter_ms <= 2000 and 0 <= self.drop_link_s <= 60):
            raise OptionError("--jitter-ms is in [0, 2000], --drop-link-s in [0, 60]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ramp:
    """How the load is raised until the SLO fails twice in a row."""

    by: float = 10
    """Talkers (or sessions per second) per step."""
    step_s: float = 30.0
    """Measured length of a step."""
    settle_s: float = 8.0
    """Before it: what is new connects and speaks, and is not counted."""
    turns_min: int = 20
    """A step goes on until so many turns are over, at most three times its length: few turns say little."""
    most: float = 1000
    """Where it ends even if the SLO holds."""

    def check(self) -> None:
        """Raise OptionError for a value out of range."""
        if self.turns_min < 1:
            raise OptionError("--ramp-min-turns is at least 1")
        if self.by <= 0 or self.step_s <= 0 or self.settle_s < 0 or self.most <= 0:
            raise OptionError("--ramp-by, --ramp-step-s and --ramp-max are above 0, --ramp-settle-s at least 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveOptions:
    """One run."""

    url: str
    """Of the server, http or https."""
    key: str | None = field(default=None, repr=False)
    """API key of the server; None: it asks for none. Left out of the result."""
    transport: Literal["webrtc", "websocket", "mixed"] = "webrtc"
    sessions: int | None = None
    """Most sessions begun; None: every one of the trace once, or as many as the time allows with a rate or a concurrency."""
    concurrency: int | None = None
    """Talkers at once: the next session begins when one ends."""
    rate: float | None = None
    """Sessions per second, arrivals drawn anew."""
    duration_s: float | None = None
    """Where the run ends; None: when its sessions end."""
    ramp: Ramp | None = None
    slo: Slo = Slo()
    network: Network = Network()
    processes: int = 1
    """Of talkers; 0 has them talk in the calling process."""
    seed: int = 1
    speech: tuple[str, ...] = ()
    """Recordings to speak instead of those that come along."""
    timeout_s: float = 10.0
    """A turn without an audible answer for this long is unanswered."""

    @property
    def closed(self) -> bool:
        """Whether the load is a closed loop: so many talkers, whoever is refused asks again."""
        return self.concurrency is not None or (self.ramp is not None and self.rate is None)

    def check(self) -> None:
        """Raise OptionError for a value out of range or one that does not go with another."""
        for part in (self.slo, self.network, self.ramp):
            if part is not None:
                part.check()
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).hostname:
            raise OptionError(f"--url takes an http address, not {self.url!r}")
        if self.concurrency is not None and self.rate is not None:
            raise OptionError("--concurrency (closed loop) and --rate (open arrivals) exclude each other")
        positive = {
            "concurrency": self.concurrency, "rate": self.rate, "sessions": self.sessions, "duration": self.duration_s,
        }  # fmt: skip
        for name, value in positive.items():
            if value is not None and value <= 0:
                raise OptionError(f"--{name} is above 0")
        self._check_end()
        if not 0 <= self.processes <= 64:
            raise OptionError("--processes is in [0, 64]")
        if self.timeout_s <= self.slo.ttfas_s:
            raise OptionError("--timeout is longer than --slo-ttfas")

    def _check_end(self) -> None:
        endless = self.rate is not None or self.concurrency is not None
        if self.ramp is None and endless and self.duration_s is None and self.sessions is None:
            raise OptionError("--rate and --concurrency need --duration or --sessions: they have no end of their own")
        if self.ramp is not None and (self.duration_s is not None or self.sessions is not None):
            raise OptionError("--ramp ends by itself: leave out --duration and --sessions")

    def to_json(self) -> dict[str, Any]:
        """Return everything but the key, for the result."""
        return {name: value for name, value in asdict(self).items() if name != "key"}
