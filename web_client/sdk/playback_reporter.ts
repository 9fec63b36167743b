/**
 * Tells the server how far each reply has been played while it plays: `duplex.playback.report`. Measured by the packet that
 * plays, where server and browser tell enough for that, else from `getStats` alone.
 */
import { beginning, outputMs, playedMs, rested, type Playout, playoutOf } from "./playback.ts";
import { playedOfPacketMs, playingPacket } from "./playing_packet.ts";
import type { ServerEvent } from "./protocol.ts";

/** Browsers count afresh about 20 times a second; the server lets the front go on by itself between reports. */
export const PLAYBACK_EVERY_MS = 500;

/** One measurement. */
export interface PlayedFront {
  readonly responseId: string;
  /** In milliseconds of `Date.now()`. */
  readonly at: number;
  /** Played from the reply's first sample. */
  readonly playedMs: number;
  readonly playout: Playout;
}

export interface PlaybackSource {
  stats(): Promise<readonly RTCStats[]>;
  /** The packet of the voice that plays; null: not known. */
  playing(): RTCRtpSynchronizationSource | null;
  /** A front was measured, to be told. */
  played(front: PlayedFront): void;
}

export class PlaybackReporter {
  readonly #source: PlaybackSource;
  #timer: ReturnType<typeof setInterval> | undefined;
  #responseId: string | null = null;
  /** RTP timestamp at which the reply begins; null: the server does not tell. */
  #rtpStart: number | null = null;
  #begun: Playout | null = null;
  #latest: Playout | null = null;
  /** The last count in the pause since the former reply. */
  #rest: Playout | null = null;

  constructor(source: PlaybackSource) {
    this.#source = source;
  }

  /** Follow the replies by the server's events. */
  take(event: ServerEvent): void {
    switch (event.type) {
      case "session.created":
        this.stop();
        this.#timer = setInterval(() => void this.#measure(), PLAYBACK_EVERY_MS);
        void this.#measure();
        return;
      case "response.created":
        // The pause before its sound, counted as late as can be.
        if (this.#responseId === null) void this.#measure();
        return;
      case "output_audio_buffer.started":
        this.#responseId = event.responseId;
        this.#rtpStart = event.rtpStart ?? null;
        this.#begun = null;
        // The reply's first packet has just left the server: none of it should have come out of the jitter buffer yet.
        void this.#measure();
        return;
      case "output_audio_buffer.stopped":
      case "output_audio_buffer.cleared":
        if (event.responseId === this.#responseId) this.#forget();
    }
  }

  /** Report nothing more. */
  stop(): void {
    clearInterval(this.#timer);
    this.#forget();
    this.#latest = null;
  }

  #forget(): void {
    this.#responseId = null;
    this.#rtpStart = null;
    this.#begun = null;
    this.#rest = null;
  }

  async #measure(): Promise<void> {
    const responseId = this.#responseId;
    const skewMs = Date.now() - (performance.timeOrigin + performance.now());
    const playout = playoutOf(await this.#source.stats(), skewMs);
    if (playout === null || responseId !== this.#responseId) return;
    const before = this.#latest;
    this.#latest = playout;
    if (responseId === null) {
      if (before !== null && rested(before, playout)) this.#rest = playout;
      return;
    }
    if (this.#begun === null) {
      this.#begun = beginning(this.#rest, playout);
      return;
    }
    const at = Date.now();
    this.#source.played({
      responseId,
      at,
      playedMs: this.#packetMs(outputMs(this.#begun, playout), skewMs, at) ?? playedMs(this.#begun, playout, at),
      playout,
    });
  }

  /** What has been played by the packet that plays; null where it, or the beginning, is not known. */
  #packetMs(delayMs: number, skewMs: number, now: number): number | null {
    const packet = playingPacket(this.#source.playing(), skewMs);
    return packet === null || this.#rtpStart === null ? null : playedOfPacketMs(this.#rtpStart, packet, now, delayMs);
  }
}
