"""The way between a client and the server: delay, jitter, loss. Drawn from a seeded generator."""

from __future__ import annotations

import random
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from duplex.units import ns_from_ms


class Network(BaseModel):
    """One client's network and jitter buffer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    delay_ms: float = Field(30, ge=0, le=5000)
    """One way."""
    jitter_ms: float = Field(8, ge=0, le=1000)
    """Mean of an exponential delay on top, drawn for each packet."""
    loss: float = Field(0.0, ge=0, le=0.9)
    """Probability that a packet is lost; the client conceals it."""
    server_buffer_ms: float = Field(20, ge=0, le=1000)
    """The server's receive jitter buffer."""
    client_buffer_ms: float = Field(60, ge=0, le=2000)
    """The client's jitter buffer as a reply begins; a packet later than that moves the rest of the reply back."""


@dataclass(slots=True)
class Path:
    """One direction's packets."""

    network: Network
    rng: random.Random

    def transit_ns(self) -> int:
        """Return one packet's time on the way."""
        jitter = self.rng.expovariate(1 / self.network.jitter_ms) if self.network.jitter_ms else 0.0
        return ns_from_ms(self.network.delay_ms + jitter)

    def lost(self) -> bool:
        """Return whether a packet is lost."""
        return self.network.loss > 0 and self.rng.random() < self.network.loss
