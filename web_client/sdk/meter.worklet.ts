/** Runs on the audio thread: reports the level of a stream about every 21 ms, and its onsets in the block they occur. */
import { OnsetDetector } from "./onset.ts";
import type { MeterReport } from "./meter.ts";

// The globals of an AudioWorkletGlobalScope, which the DOM library does not declare.
declare const sampleRate: number;
declare abstract class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;

const BLOCKS_PER_REPORT = 8;

class Meter extends AudioWorkletProcessor {
  readonly #onset = new OnsetDetector();
  #blocks = 0;
  #squares = 0;
  #samples = 0;

  process(inputs: readonly (readonly Float32Array[])[]): boolean {
    const block = inputs[0]?.[0];
    // Without a connected source there are no channels: nothing is heard.
    let peak = 0;
    for (const sample of block ?? []) {
      peak = Math.max(peak, Math.abs(sample));
      this.#squares += sample * sample;
    }
    const length = block?.length ?? 128;
    this.#samples += length;
    this.#blocks += 1;
    const sound = this.#onset.push(peak, (length / sampleRate) * 1000);
    if (sound !== null || this.#blocks >= BLOCKS_PER_REPORT) {
      const report: MeterReport = { at: Date.now(), rms: Math.sqrt(this.#squares / this.#samples), sound };
      this.port.postMessage(report);
      this.#blocks = this.#squares = this.#samples = 0;
    }
    return true;
  }
}

registerProcessor("duplex-meter", Meter);
