/**
 * How far the playback front that is reported is from what this page's audio thread heard. Pure.
 *
 * The audio thread knows when a reply became audible; while its sound has not ended and no packet was late, that long has
 * been heard of it, less the time by which the browser has stretched the sound since then to fill its buffer (it counts those
 * samples). Where sound was made up for missing packets the audio thread cannot tell it from the reply: such comparisons are
 * kept, and marked by how much that was. What was stretched and made up before the reply became audible, to start the buffer,
 * is none of its sound: the page counts when it hears the onset. A voice that begins with silence seems late by that silence; a
 * pause that is long enough to count as an end ends the comparison.
 */
import { bufferMs, concealedMs, type PlayedFront, type Playout, stretchedMs } from "../sdk/index.ts";

/** Comparisons kept. */
const KEPT = 500;
/** With less made-up sound than this a comparison counts. */
const CONCEALED_MS_MAX = 10;
const ONSET_EARLY_MS = 400;

export interface FrontError {
  readonly at: number;
  readonly playedMs: number;
  /** Time since the sound began, less the stretching. */
  readonly heardMs: number;
  readonly stretchedMs: number;
  /** Of `heardMs`, what was made up for missing packets. */
  readonly concealedMs: number;
  /** Positive: the report is ahead of the ear. */
  readonly errorMs: number;
}

export class FrontErrors {
  readonly #errors: FrontError[] = [];
  #responseId: string | null = null;
  #soundFrom: number | null = null;
  /** What the browser had counted then. */
  #onset: Playout | null = null;
  #last: Playout | null = null;
  #bufferMs: number | null = null;

  get all(): readonly FrontError[] {
    return this.#errors;
  }

  /** Those in which the audio thread is a fair judge. */
  get fair(): readonly FrontError[] {
    return this.#errors.filter(({ concealedMs }) => concealedMs < CONCEALED_MS_MAX);
  }

  /** Mean time in the jitter buffer between the last two reports; null before. */
  get bufferMs(): number | null {
    return this.#bufferMs;
  }

  /** The voice became audible at `at`, or silent. */
  sound(on: boolean, at: number): void {
    this.#soundFrom = on ? at : null;
    this.#onset = null;
    // The reply that plays goes on after a pause: when it began is known no longer.
    if (!on) this.#responseId = null;
  }

  /** What the browser had counted when the voice became audible at `at`. */
  counted(at: number, playout: Playout): void {
    if (at === this.#soundFrom) this.#onset = playout;
  }

  /** A reply's first packet left, as an event said that arrived at `at`. */
  started(responseId: string, at: number): void {
    this.#responseId = responseId;
    // Sound and event race; what has sounded for longer belongs to an earlier reply.
    if (this.#soundFrom !== null && at - this.#soundFrom > ONSET_EARLY_MS) this.#soundFrom = null;
  }

  front(front: PlayedFront): void {
    if (this.#last !== null) this.#bufferMs = bufferMs(this.#last, front.playout) ?? this.#bufferMs;
    this.#last = front.playout;
    if (front.responseId !== this.#responseId || this.#soundFrom === null || this.#onset === null) return;
    const { at, playedMs, playout } = front;
    const stretched = stretchedMs(playout) - stretchedMs(this.#onset);
    const concealed = concealedMs(playout) - concealedMs(this.#onset);
    const heardMs = at - this.#soundFrom - stretched;
    const errorMs = playedMs - heardMs;
    this.#errors.push({ at, playedMs, heardMs, stretchedMs: stretched, concealedMs: concealed, errorMs });
    if (this.#errors.length > KEPT) this.#errors.shift();
  }
}

/** The p-th percentile of the magnitudes; null without any. */
export function magnitudeAt(share: number, errors: readonly FrontError[]): number | null {
  const sorted = errors.map(({ errorMs }) => Math.abs(errorMs)).sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? null;
}
