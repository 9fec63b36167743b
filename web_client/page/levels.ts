/** The loudness of one side over the last seconds, in steps, without keeping every report. Pure. */

/** One step of the picture. */
export const STEP_MS = 100;
/** Full bar and empty bar, in decibels below full scale. */
const TOP_DB = -12;
const BOTTOM_DB = -54;

export class Levels {
  /** Step n lies at n modulo the length; `#steps` says which step a place holds. */
  readonly #loudest: Float32Array;
  readonly #steps: Float64Array;

  /** @param keptMs how far back `at` can be asked. */
  constructor(keptMs: number) {
    const length = Math.ceil(keptMs / STEP_MS) + 2;
    this.#loudest = new Float32Array(length);
    this.#steps = new Float64Array(length).fill(-1);
  }

  /** @param rms of full scale 1. */
  push(at: number, rms: number): void {
    const step = Math.floor(at / STEP_MS);
    const place = step % this.#steps.length;
    const former = this.#steps[place] === step ? (this.#loudest[place] ?? 0) : 0;
    this.#steps[place] = step;
    this.#loudest[place] = Math.max(former, rms);
  }

  /** The bar of the step that holds `at`, 0 to 1; 0 where nothing is known. */
  at(at: number): number {
    const step = Math.floor(at / STEP_MS);
    const place = step % this.#steps.length;
    return this.#steps[place] === step ? bar(this.#loudest[place] ?? 0) : 0;
  }
}

/** A level as a bar from 0 to 1, even in decibels as the ear is. */
export function bar(rms: number): number {
  if (rms <= 0) return 0;
  const db = 20 * Math.log10(rms);
  return Math.min(1, Math.max(0, (db - BOTTOM_DB) / (TOP_DB - BOTTOM_DB)));
}
