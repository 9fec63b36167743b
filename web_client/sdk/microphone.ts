/**
 * The microphone, kept alive: where the system takes the capture away (a phone call, a locked screen, an unplugged
 * headset), it is opened again as soon as the page is visible.
 */
import { CaptureError, captureTrack } from "./capture.ts";
import type { MicrophoneState } from "./state.ts";

export interface MicrophoneListener {
  changed(state: MicrophoneState): void;
  /** The track to speak from has changed; null: none is left. */
  track(track: MediaStreamTrack | null): void;
  /** It was taken away and could not be opened again. */
  stopped(): void;
}

export class Microphone {
  readonly #listener: MicrophoneListener;
  #track: MediaStreamTrack | null = null;
  #muted = false;
  #reopening = false;
  #deviceId = "";
  readonly #onVisible = (): void => {
    const dead = this.#track !== null && (this.#track.readyState === "ended" || this.#track.muted);
    if (document.visibilityState === "visible" && dead) void this.#reopen();
  };

  constructor(listener: MicrophoneListener) {
    this.#listener = listener;
  }

  /**
   * Ask for the microphone. The sample rate is left to the device: the peer connection converts.
   *
   * @throws CaptureError
   */
  async open(): Promise<MediaStreamTrack> {
    const track = await this.#capture();
    this.close();
    document.addEventListener("visibilitychange", this.#onVisible);
    this.#take(track);
    return track;
  }

  /** Speak from this device, now and at each later opening; empty: the system's choice. */
  async choose(deviceId: string): Promise<void> {
    const former = this.#deviceId;
    this.#deviceId = deviceId;
    if (this.#track === null) return;
    // Where the former device has gone, the system has chosen already.
    const chosen = deviceId === "" && this.#track.readyState === "live" && this.#track.getSettings().deviceId !== former;
    if (!chosen) await this.#reopen();
  }

  /** The track to speak from; null: none is open. */
  get track(): MediaStreamTrack | null {
    return this.#track;
  }

  /** Muting sends silence: the media clock of the session goes on. */
  setMuted(muted: boolean): void {
    this.#muted = muted;
    if (this.#track !== null) this.#track.enabled = !muted;
    this.#report();
  }

  close(): void {
    document.removeEventListener("visibilitychange", this.#onVisible);
    if (this.#track === null) return;
    this.#track.stop();
    this.#track = null;
    this.#muted = false;
    this.#report();
  }

  #take(track: MediaStreamTrack): void {
    track.enabled = !this.#muted;
    track.addEventListener("mute", () => this.#report());
    track.addEventListener("unmute", () => this.#report());
    track.addEventListener("ended", () => {
      if (track === this.#track) void this.#reopen();
    });
    this.#track = track;
    this.#report();
    this.#listener.track(track);
  }

  async #reopen(): Promise<void> {
    if (this.#reopening || document.visibilityState !== "visible") return;
    this.#reopening = true;
    const former = this.#track;
    try {
      const track = await this.#capture();
      if (this.#track === former && former !== null) {
        former.stop();
        this.#take(track);
      } else {
        track.stop();
      }
    } catch (error) {
      if (!(error instanceof CaptureError)) throw error;
      if (this.#track === former && former !== null) {
        this.close();
        this.#listener.track(null);
        this.#listener.stopped();
      }
    } finally {
      this.#reopening = false;
    }
  }

  #capture(): Promise<MediaStreamTrack> {
    const processed = { echoCancellation: true, noiseSuppression: true, autoGainControl: true };
    return captureTrack("audio", { ...processed, deviceId: this.#deviceId });
  }

  #report(): void {
    const track = this.#track;
    if (track === null) this.#listener.changed("off");
    else if (track.readyState === "ended" || track.muted) this.#listener.changed("paused");
    else this.#listener.changed(this.#muted ? "muted" : "live");
  }
}
