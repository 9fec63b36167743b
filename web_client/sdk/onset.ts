/** Full scale is 1. Above the first level silence ends; comfort noise and the tail of a fade stay below it (−48 dB). */
const ON_PEAK = 0.004;
const OFF_PEAK = 0.002;
/** Silence this long ends a sound; shorter gaps are within words. */
const OFF_MS = 150;

/** Finds where a stream becomes audible and silent again. Pure: time is the count of samples pushed. */
export class OnsetDetector {
  #on = false;
  #quietMs = 0;

  /**
   * Take one block.
   *
   * @param peak largest magnitude in it.
   * @param ms its length.
   * @returns "on" for the block in which sound begins, "off" for the one in which silence has lasted, else null.
   */
  push(peak: number, ms: number): "on" | "off" | null {
    if (!this.#on) {
      if (peak < ON_PEAK) return null;
      this.#on = true;
      this.#quietMs = 0;
      return "on";
    }
    this.#quietMs = peak < OFF_PEAK ? this.#quietMs + ms : 0;
    if (this.#quietMs < OFF_MS) return null;
    this.#on = false;
    return "off";
  }
}
