import type { ClientEvent, SessionUpdate } from "./protocol.ts";

/** What a conversation asks of its way to the server. One transport carries one conversation. */
export interface Transport {
  /**
   * Connect media and events; resolves when events can be sent.
   *
   * @throws ConnectError with the problem to show; the signal's reason when it aborts. Either way nothing stays open.
   */
  connect(options: ConnectOptions): Promise<void>;
  /** Send one event. Before `connect` resolved and after the end it is dropped: there is nobody to act on it. */
  send(event: ClientEvent): void;
  /** Speak from another track, or none, without a new connection. */
  setMicrophone(track: MediaStreamTrack | null): Promise<void>;
  /** Show what this track films, or nothing, without a new connection. */
  setCamera(track: MediaStreamTrack | null): Promise<void>;
  /** What the browser measures of the connection; empty before it is up. */
  stats(): Promise<readonly RTCStats[]>;
  /** The packet of the model's voice that the browser plays; null before the first. */
  playing(): RTCRtpSynchronizationSource | null;
  /** Round trip time to the server in milliseconds, or null while it is not known. */
  rttMs(): Promise<number | null>;
  /** Hang up. Idempotent; no callback follows. */
  close(): void;
  /** Close without hanging up: the server may wait for us. `close` may follow. Idempotent; no callback follows. */
  abandon(): void;
}

export interface ConnectOptions {
  /** The session object of the wire. */
  readonly session: SessionUpdate;
  readonly microphone: MediaStreamTrack | null;
  readonly camera: MediaStreamTrack | null;
  /** Token of the conversation to come back to; null: a new one. */
  readonly resume: string | null;
  /** Id of the last event seen of that conversation, asked for whenever events begin to flow; null: none. */
  readonly lastEventId: () => string | null;
  readonly signal: AbortSignal;
  readonly listener: TransportListener;
}

export interface TransportListener {
  /** One server event, undecoded. */
  message(text: string): void;
  /** The model's voice. */
  remote(stream: MediaStream): void;
  /** The connection is gone for good, not by our `close`. */
  lost(): void;
}
