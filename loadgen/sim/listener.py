"""The listener's end: packets arrive late or never, a jitter buffer plays them, and gaps inside a reply are noted.

The playout clock of a reply begins one buffer after its first packet has come. A packet that comes later than its turn is a
gap, and moves what follows it back; a lost one is concealed. Times are the client's, which are the server's here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from duplex.units import MonoNs, ns_from_ms
from loadgen.sim.egress import PACKET_NS, Packets
from loadgen.sim.network import Path

_GAP_NS_MIN = ns_from_ms(10)


@dataclass(slots=True)
class Heard:
    """What a listener heard of one reply."""

    began: MonoNs
    """When its first sample sounded."""
    ends: MonoNs
    """When what has come so far has sounded."""
    gaps_ns: list[int] = field(default_factory=list)
    """Silences inside it."""
    concealed: int = 0
    complete: bool = False
    anchor: int = 0
    """Playing time of packet 0, were there no gaps."""


class Listener:
    """One listener.

    Args:
        path: the way to it.
        on_first: told when a reply's first audible sample will sound.
        on_end: told when a reply's last sample will have sounded.
        lead_in_ms: silences with which replies begin, of which one is drawn for each; empty: none.
    """

    def __init__(
        self,
        path: Path,
        on_first: Callable[[str, MonoNs], None],
        on_end: Callable[[str, MonoNs], None],
        lead_in_ms: Sequence[float] = (),
    ) -> None:
        self._path = path
        self._lead_in_ms = lead_in_ms
        self._on_first = on_first
        self._on_end = on_end
        self.replies: dict[str, Heard] = {}

    def take(self, packets: Packets) -> None:
        """Packets have left the server."""
        heard = self.replies.get(packets.reply)
        for number in range(packets.first, packets.first + packets.count):
            sent = packets.sent_at + (number - packets.first) * PACKET_NS
            lost = self._path.lost()
            arrives = sent + self._path.transit_ns()
            if heard is None:
                if lost:
                    continue
                start = arrives + ns_from_ms(self._path.network.client_buffer_ms)
                heard = self.replies[packets.reply] = Heard(began=MonoNs(start), ends=MonoNs(start))
                heard.anchor = start - sent
                self._on_first(packets.reply, MonoNs(heard.began + self._lead_in_ns()))
            if lost:
                heard.concealed += 1
            turn = sent + heard.anchor
            if not lost and arrives > turn:  # later than the buffer is deep
                heard.anchor += arrives - turn
                turn = arrives
            gap = turn - heard.ends
            if gap >= _GAP_NS_MIN:
                heard.gaps_ns.append(gap)
            heard.ends = MonoNs(max(heard.ends, turn) + PACKET_NS)
        if packets.last and heard is not None and not heard.complete:
            heard.complete = True
            self._on_end(packets.reply, heard.ends)

    def _lead_in_ns(self) -> int:
        return ns_from_ms(self._path.rng.choice(self._lead_in_ms)) if self._lead_in_ms else 0

    def slow_down(self, jitter_ms: float) -> None:
        """From now on packets come with this mean jitter."""
        self._path = Path(self._path.network.model_copy(update={"jitter_ms": jitter_ms}), self._path.rng)
