/** The camera: opened only when it is switched on, and let go of when it is switched off, so that its light goes out. */
import { captureTrack } from "./capture.ts";

/** The server samples a few frames a second; sharp ones are worth more than many. */
const WISHES = { width: { ideal: 1280 }, height: { ideal: 720 }, frameRate: { ideal: 10, max: 15 } } as const;

export interface CameraListener {
  /** What is filmed; null: nothing. */
  track(track: MediaStreamTrack | null): void;
  /** It was taken away. */
  stopped(): void;
}

export class Camera {
  readonly #listener: CameraListener;
  #track: MediaStreamTrack | null = null;
  #deviceId = "";
  /** Counts switches, so that a camera which opens after it was switched off again is not kept. */
  #switches = 0;

  constructor(listener: CameraListener) {
    this.#listener = listener;
  }

  get current(): MediaStreamTrack | null {
    return this.#track;
  }

  /** Which device the next opening takes; empty: the system's choice. */
  choose(deviceId: string): void {
    this.#deviceId = deviceId;
  }

  /**
   * Switch it on, or over to the chosen device.
   *
   * @throws CaptureError
   */
  async open(): Promise<void> {
    this.#switches += 1;
    const asked = this.#switches;
    const track = await captureTrack("video", { ...WISHES, deviceId: this.#deviceId });
    if (asked !== this.#switches) {
      track.stop();
      return;
    }
    // Text is to be read from it: encoders shall give up frames before sharpness.
    track.contentHint = "detail";
    track.addEventListener("ended", () => {
      if (track !== this.#track) return;
      this.close();
      this.#listener.stopped();
    });
    this.#track?.stop();
    this.#track = track;
    this.#listener.track(track);
  }

  /** Switch it off. */
  close(): void {
    this.#switches += 1;
    if (this.#track === null) return;
    this.#track.stop();
    this.#track = null;
    this.#listener.track(null);
  }
}
