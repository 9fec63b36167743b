/**
 * Measures what both sides sound like: levels and onsets on the audio thread, and spectra for drawing.
 *
 * The context runs at the device's own rate; asking for another fails in some browsers and is ignored in others.
 */
import workletUrl from "./meter.worklet.ts?worker&url";

/** One report of the audio thread. */
export interface MeterReport {
  /** `Date.now()` when the block was rendered. */
  readonly at: number;
  /** Root mean square since the last report, full scale 1. */
  readonly rms: number;
  readonly sound: "on" | "off" | null;
}

export type Side = "user" | "assistant";

export class SoundMeter {
  readonly #onReport: (side: Side, report: MeterReport) => void;
  #context: AudioContext | null = null;
  readonly #meters: Record<Side, AudioWorkletNode | null> = { user: null, assistant: null };
  readonly #taps: Record<Side, Tap | null> = { user: null, assistant: null };

  constructor(onReport: (side: Side, report: MeterReport) => void) {
    this.#onReport = onReport;
  }

  /** Start the audio thread; to be called from a user's gesture, or browsers keep it suspended. */
  async start(): Promise<void> {
    if (this.#context !== null) return this.#context.resume();
    const context = new AudioContext({ latencyHint: "interactive" });
    this.#context = context;
    await context.audioWorklet.addModule(workletUrl);
    for (const side of ["user", "assistant"] as const) {
      const meter = new AudioWorkletNode(context, "duplex-meter", { numberOfOutputs: 1, channelCount: 1 });
      meter.port.addEventListener("message", ({ data }: MessageEvent<MeterReport>) => this.#onReport(side, data));
      meter.port.start();
      // A node renders only if it leads to the destination; its output stays silent.
      meter.connect(context.destination);
      this.#meters[side] = meter;
    }
  }

  /** Listen to a stream, or to nothing. Streams are only measured here, not played. */
  listen(side: Side, stream: MediaStream | null): void {
    const former = this.#taps[side];
    former?.source.disconnect();
    this.#taps[side] = null;
    if (stream === null || this.#context === null) return;
    const source = this.#context.createMediaStreamSource(stream);
    const analyser = this.#context.createAnalyser();
    analyser.fftSize = 1024;
    analyser.smoothingTimeConstant = 0.75;
    source.connect(analyser);
    const meter = this.#meters[side];
    if (meter !== null) source.connect(meter);
    this.#taps[side] = { source, analyser };
  }

  /** Fill `bands` with the side's present spectrum, 0 to 1 per band, speech range; zeros when nothing is heard. */
  spectrum(side: Side, bands: Float32Array): void {
    const tap = this.#taps[side];
    if (tap === null || this.#context === null) {
      bands.fill(0);
      return;
    }
    const bins = new Uint8Array(tap.analyser.frequencyBinCount);
    tap.analyser.getByteFrequencyData(bins);
    const hertzPerBin = this.#context.sampleRate / tap.analyser.fftSize;
    for (let band = 0; band < bands.length; band += 1) {
      // 90 Hz to about 5 kHz in equal ratios.
      const low = 90 * 56 ** (band / bands.length);
      const high = 90 * 56 ** ((band + 1) / bands.length);
      const first = Math.floor(low / hertzPerBin);
      const last = Math.max(first + 1, Math.ceil(high / hertzPerBin));
      let sum = 0;
      for (let bin = first; bin < last; bin += 1) sum += bins[bin] ?? 0;
      bands[band] = sum / (last - first) / 255;
    }
  }
}

interface Tap {
  readonly source: MediaStreamAudioSourceNode;
  readonly analyser: AnalyserNode;
}
