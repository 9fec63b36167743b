"""A laid-out timeline as a Perfetto trace: protobuf that ui.perfetto.dev and `trace_processor` open.

The classes of the format take 12 MB and 50 ms to load, so this module is imported only when the first trace is asked for.
Slices of one track that overlap (two jobs of a session in one stage) go to rows of the same name, which Perfetto shows
under each other. Source: perfetto's track_event.proto, track_descriptor.proto.
"""

from __future__ import annotations

from typing import Final

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BuiltinClock,
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

import duplex
from duplex.telemetry.layout import LEAD, TRACKS, Args, Layout, Slice
from duplex.telemetry.timeline import About
from duplex.units import MonoNs

_SEQUENCE: Final = 1
"""All packets are of one sequence: one writer."""
_SESSION: Final = 1
"""The track that holds all others."""


def to_perfetto(layout: Layout, about: About) -> bytes:
    """Return the trace's bytes; it names the conversation, not the session, whose id gives access to it."""
    return _Writer(about).write(layout)


class _Writer:
    """One trace in the making."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._builder = TraceProtoBuilder()
        self._next_uuid = _SESSION + 1
        self._rows: dict[str, list[tuple[int, MonoNs]]] = {}
        """By track: each row's uuid, and when its last slice ends."""
        self._ranks: dict[str, int] = {}

    def write(self, layout: Layout) -> bytes:
        self._describe_session()
        for track in [*TRACKS, *sorted({piece.track for piece in layout.slices} - set(TRACKS), key=_stage_order)]:
            self._ranks[track] = len(self._ranks)
        for track in TRACKS:
            self._add_row(track)
        lead = self._describe(LEAD, rank=len(TRACKS) * 1000 - 1)
        lead.counter.SetInParent()
        lead.counter.unit_name = "ms"
        lead.counter.unit = CounterDescriptor.UNIT_UNSPECIFIED
        for piece in layout.slices:
            self._slice(piece)
        for instant in layout.instants:
            row = self._rows[instant.track][0][0]
            self._annotate(self._event(row, TrackEvent.TYPE_INSTANT, instant.at, instant.name), instant.args)
        for point in layout.lead:
            event = self._event(lead.uuid, TrackEvent.TYPE_COUNTER, point.at)
            event.counter_value = point.value
        serialized: bytes = self._builder.serialize()
        return serialized

    # Tracks. --------------------------------------------------------------------------------------------------------

    def _describe_session(self) -> None:
        about = self._about
        packet = self._packet(about.opened_at)
        packet.sequence_flags = TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.track_descriptor.uuid = _SESSION
        packet.track_descriptor.name = f"{about.conversation_id} ({about.transport})"
        packet.track_descriptor.child_ordering = TrackDescriptor.EXPLICIT
        packet.track_descriptor.description = f"duplex {duplex.__version__}"
        packet = self._builder.add_packet()
        packet.trusted_packet_sequence_id = _SEQUENCE
        for clock, value in (
            (BuiltinClock.BUILTIN_CLOCK_BOOTTIME, about.opened_at),
            (BuiltinClock.BUILTIN_CLOCK_REALTIME, about.opened_unix_ns),
        ):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=value)

    def _describe(self, name: str, rank: int) -> TrackDescriptor:
        packet = self._packet(self._about.opened_at)
        descriptor: TrackDescriptor = packet.track_descriptor
        descriptor.uuid = self._next_uuid
        descriptor.parent_uuid = _SESSION
        descriptor.name = name
        descriptor.sibling_order_rank = rank
        self._next_uuid += 1
        return descriptor

    def _add_row(self, track: str) -> int:
        """Give a track one more row; return its number."""
        rows = self._rows.setdefault(track, [])
        descriptor = self._describe(track, rank=self._ranks[track] * 1000 + len(rows))
        rows.append((descriptor.uuid, MonoNs(0)))
        return len(rows) - 1

    def _row(self, piece: Slice) -> int:
        """Return the uuid of a row of the slice's track that is free, and take it."""
        rows = self._rows.setdefault(piece.track, [])
        free = [number for number, (_, ends) in enumerate(rows) if ends <= piece.start]
        number = free[0] if free else self._add_row(piece.track)
        uuid = rows[number][0]
        rows[number] = uuid, piece.end
        return uuid

    # Events. --------------------------------------------------------------------------------------------------------

    def _slice(self, piece: Slice) -> None:
        row = self._row(piece)
        event = self._event(row, TrackEvent.TYPE_SLICE_BEGIN, piece.start, piece.name)
        self._annotate(event, piece.args)
        if piece.flow is not None:
            event.flow_ids.append(piece.flow)
        self._event(row, TrackEvent.TYPE_SLICE_END, piece.end)

    def _event(self, track: int, kind: TrackEvent.Type.ValueType, at: MonoNs, name: str | None = None) -> TrackEvent:
        event: TrackEvent = self._packet(at).track_event
        event.type = kind
        event.track_uuid = track
        if name is not None:
            event.name = name
        return event

    def _annotate(self, event: TrackEvent, args: Args) -> None:
        for name, value in args.items():
            note = event.debug_annotations.add(name=name)
            match value:
                case str():
                    note.string_value = value
                case int():
                    note.int_value = value
                case float():
                    note.double_value = value

    def _packet(self, at: MonoNs) -> TracePacket:
        packet: TracePacket = self._builder.add_packet()
        packet.timestamp = max(0, at)
        packet.trusted_packet_sequence_id = _SEQUENCE
        return packet


_STAGES: Final = ("queue", "compute")


def _stage_order(track: str) -> tuple[str, int]:
    stage, _, part = track.rpartition(" ")
    return stage, _STAGES.index(part)
