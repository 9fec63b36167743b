/** Tells the server how far each reply has been played while it plays: `duplex.playback.report`, from `getStats`. */
import { playedMs, type Playout, playoutOf } from "./playback.ts";
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
  /** A front was measured, to be told. */
  played(front: PlayedFront): void;
}

export class PlaybackReporter {
  readonly #source: PlaybackSource;
  #timer: ReturnType<typeof setInterval> | undefined;
  #responseId: string | null = null;
  #begun: Playout | null = null;

  constructor(source: PlaybackSource) {
    this.#source = source;
  }

  /** Follow the replies by the server's events. */
  take(event: ServerEvent): void {
    switch (event.type) {
      case "output_audio_buffer.started":
        this.#start(event.responseId);
        return;
      case "output_audio_buffer.stopped":
      case "output_audio_buffer.cleared":
        if (event.responseId === this.#responseId) this.stop();
    }
  }

  /** Report nothing more. */
  stop(): void {
    clearInterval(this.#timer);
    this.#responseId = null;
    this.#begun = null;
  }

  #start(responseId: string): void {
    this.stop();
    this.#responseId = responseId;
    this.#timer = setInterval(() => void this.#measure(responseId), PLAYBACK_EVERY_MS);
    // The reply's first packet has just left the server: none of it has come out of the jitter buffer.
    void this.#measure(responseId);
  }

  async #measure(responseId: string): Promise<void> {
    const skewMs = Date.now() - (performance.timeOrigin + performance.now());
    const playout = playoutOf(await this.#source.stats(), skewMs);
    if (playout === null || responseId !== this.#responseId) return;
    if (this.#begun === null) {
      this.#begun = playout;
      return;
    }
    const at = Date.now();
    this.#source.played({ responseId, at, playedMs: playedMs(this.#begun, playout, at), playout });
  }
}
