/**
 * The microphone, kept alive: where the system takes the capture away (a phone call, a locked screen, an unplugged
 * headset), it is opened again as soon as the page is visible.
 */
import { type MicrophoneCause, microphoneCause } from "./problem.ts";
import type { MicrophoneState } from "./state.ts";

/** A microphone could not be opened. */
export class MicrophoneError extends Error {
  override readonly name = "MicrophoneError";
  constructor(readonly reason: MicrophoneCause) {
    super(reason);
  }
}

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
   * @throws MicrophoneError
   */
  async open(): Promise<MediaStreamTrack> {
    const track = await capture();
    this.close();
    document.addEventListener("visibilitychange", this.#onVisible);
    this.#take(track);
    return track;
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
      const track = await capture();
      if (this.#track === former && former !== null) {
        former.stop();
        this.#take(track);
      } else {
        track.stop();
      }
    } catch (error) {
      if (!(error instanceof MicrophoneError)) throw error;
      if (this.#track === former && former !== null) {
        this.close();
        this.#listener.track(null);
        this.#listener.stopped();
      }
    } finally {
      this.#reopening = false;
    }
  }

  #report(): void {
    const track = this.#track;
    if (track === null) this.#listener.changed("off");
    else if (track.readyState === "ended" || track.muted) this.#listener.changed("paused");
    else this.#listener.changed(this.#muted ? "muted" : "live");
  }
}

async function capture(): Promise<MediaStreamTrack> {
  // Browsers hide mediaDevices outside secure contexts, whatever the types say.
  const devices = navigator.mediaDevices as MediaDevices | undefined;
  if (devices === undefined) throw new MicrophoneError("insecure");
  try {
    const stream = await devices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
    });
    const track = stream.getAudioTracks()[0];
    if (track === undefined) throw new MicrophoneError("missing");
    return track;
  } catch (error) {
    throw error instanceof MicrophoneError ? error : new MicrophoneError(microphoneCause(error));
  }
}
