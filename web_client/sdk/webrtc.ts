/**
 * The WebRTC transport: one HTTP exchange of offer and answer, then audio both ways and the events on a data channel.
 *
 * The audio section is always sendrecv, also without a microphone, and there is always a video section to send on, also
 * without a camera: either can be added later without renegotiation. A section without a track sends nothing.
 */
import { ConnectError } from "./problem.ts";
import { type ClientEvent, encode, type SessionUpdate } from "./protocol.ts";
import type { ConnectOptions, Transport } from "./transport.ts";

const RESUME_HEADER = "Duplex-Resume";
const EVENTS_LABEL = "oai-events";
/** Begins a channel's protocol that names the last event we saw. */
const LAST_SEEN = "duplex-last.";
/** From the offer to the open event channel; a media path that is not up by then will not come up. */
const CONNECT_MS_MAX = 15_000;
/** From the loss of the event channel to another one on the same connection. */
const REOPEN_MS_MAX = 5_000;
/** A path that ICE reports as broken may come back within this time (a change of network). */
const DISCONNECTED_MS_MAX = 5_000;
/** Asked of a full server that does not say when to come back. */
const RETRY_AFTER_S = 10;

export interface WebRtcOptions {
  /** Where offers go. */
  readonly callsUrl: string;
  /** Bearer token: a client secret in a browser, never an API key; none where the server asks for none. */
  readonly token?: string;
  readonly iceServers?: readonly RTCIceServer[];
}

export class WebRtcTransport implements Transport {
  readonly #options: WebRtcOptions;
  #peer: RTCPeerConnection | null = null;
  #camera: RTCRtpSender | null = null;
  #channel: RTCDataChannel | null = null;
  #hangupUrl: string | null = null;
  #disconnectedTimer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(options: WebRtcOptions) {
    this.#options = options;
  }

  async connect(options: ConnectOptions): Promise<void> {
    const { session, microphone, camera, resume, signal, listener } = options;
    if (typeof RTCPeerConnection === "undefined") throw new ConnectError({ kind: "unsupported" });
    signal.throwIfAborted();
    const peer = new RTCPeerConnection({ iceServers: [...(this.#options.iceServers ?? [])] });
    this.#peer = peer;
    try {
      peer.addTransceiver(microphone ?? "audio", { direction: "sendrecv" });
      this.#camera = peer.addTransceiver(camera ?? "video", { direction: "sendonly" }).sender;
      peer.addEventListener("track", ({ track, streams }) => listener.remote(streams[0] ?? new MediaStream([track])));
      const channel = this.#openChannel(peer, options, resume !== null);
      const opened = this.#opened(peer, channel, signal);
      await Promise.all([opened, this.#exchange(peer, session, resume, signal)]);
      this.#watch(peer, channel, options);
    } catch (error) {
      // The conversation that we wanted to come back to shall not end by a failed attempt.
      if (resume === null) this.close();
      else this.abandon();
      throw error;
    }
  }

  send(event: ClientEvent): void {
    if (this.#channel?.readyState === "open") this.#channel.send(encode(event));
  }

  async setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    await this.#peer?.getTransceivers()[0]?.sender.replaceTrack(track);
  }

  async setCamera(track: MediaStreamTrack | null): Promise<void> {
    await this.#camera?.replaceTrack(track);
  }

  async stats(): Promise<readonly RTCStats[]> {
    const all: RTCStats[] = [];
    (await this.#peer?.getStats())?.forEach((stats: RTCStats) => all.push(stats));
    return all;
  }

  playing(): RTCRtpSynchronizationSource | null {
    // The audio section is the first.
    return this.#peer?.getTransceivers()[0]?.receiver.getSynchronizationSources()[0] ?? null;
  }

  async rttMs(): Promise<number | null> {
    for (const stats of await this.stats()) {
      const pair = stats as RTCIceCandidatePairStats;
      if (pair.type === "candidate-pair" && pair.nominated && pair.currentRoundTripTime !== undefined) {
        return pair.currentRoundTripTime * 1000;
      }
    }
    return null;
  }

  close(): void {
    if (this.#hangupUrl !== null) {
      // Best effort: the server also notices that the peer is gone. keepalive lets it outlive the page.
      void fetch(this.#hangupUrl, { method: "POST", keepalive: true, headers: this.#authorization() }).catch(() => undefined);
      this.#hangupUrl = null;
    }
    this.abandon();
  }

  abandon(): void {
    if (this.#closed) return;
    this.#closed = true;
    clearTimeout(this.#disconnectedTimer);
    this.#channel?.close();
    this.#peer?.close();
  }

  /** Post the offer and take the answer. The offer goes out at once: servers learn our addresses from our checks. */
  async #exchange(
    peer: RTCPeerConnection,
    session: SessionUpdate,
    resume: string | null,
    signal: AbortSignal,
  ): Promise<void> {
    await peer.setLocalDescription();
    const form = new FormData();
    form.set("sdp", new Blob([peer.localDescription?.sdp ?? ""], { type: "application/sdp" }));
    form.set("session", new Blob([JSON.stringify(session)], { type: "application/json" }));
    let response: Response;
    try {
      response = await fetch(this.#options.callsUrl, {
        method: "POST",
        body: form,
        headers: { ...this.#authorization(), ...(resume === null ? {} : { [RESUME_HEADER]: resume }) },
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof TypeError) throw new ConnectError({ kind: "unreachable" });
      throw error;
    }
    if (!response.ok) throw await refusal(response);
    const location = response.headers.get("Location");
    if (location !== null) this.#hangupUrl = `${new URL(location, response.url).href}/hangup`;
    const sdp = await response.text();
    signal.throwIfAborted();
    await peer.setRemoteDescription({ type: "answer", sdp });
  }

  #opened(peer: RTCPeerConnection, channel: RTCDataChannel, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = (): void => finish(() => reject(new ConnectError({ kind: "timeout" })));
      const aborted = (): void => finish(() => reject(signal.reason as Error));
      const opened = (): void => finish(resolve);
      const checked = (): void => {
        if (peer.connectionState === "failed") late();
      };
      const timer = setTimeout(late, CONNECT_MS_MAX);
      const finish = (settle: () => void): void => {
        clearTimeout(timer);
        signal.removeEventListener("abort", aborted);
        peer.removeEventListener("connectionstatechange", checked);
        settle();
      };
      signal.addEventListener("abort", aborted, { once: true });
      peer.addEventListener("connectionstatechange", checked);
      channel.addEventListener("open", opened, { once: true });
      channel.addEventListener("close", late, { once: true });
    });
  }

  /** Open a channel for the events; where we come back, it says which was the last that we saw. */
  #openChannel(peer: RTCPeerConnection, { lastEventId, listener }: ConnectOptions, again: boolean): RTCDataChannel {
    const last = again ? lastEventId() : null;
    const channel = peer.createDataChannel(EVENTS_LABEL, last === null ? {} : { protocol: `${LAST_SEEN}${last}` });
    this.#channel = channel;
    // Listening from the beginning: the first message may come with the opening.
    channel.addEventListener("message", ({ data }) => {
      if (typeof data === "string") listener.message(data);
    });
    return channel;
  }

  #watch(peer: RTCPeerConnection, first: RTCDataChannel, options: ConnectOptions): void {
    const lost = (): void => {
      if (this.#closed) return;
      // The server is told nothing: it has gone, has hung up itself, or waits for us to come back.
      this.abandon();
      options.listener.lost();
    };
    const reopen = (): void => {
      if (this.#closed) return;
      if (peer.connectionState !== "connected" || peer.sctp?.state !== "connected") return lost();
      const channel = this.#openChannel(peer, options, true);
      const late = setTimeout(lost, REOPEN_MS_MAX);
      channel.addEventListener("open", () => {
        clearTimeout(late);
        channel.addEventListener("close", reopen);
      });
    };
    first.addEventListener("close", reopen);
    peer.addEventListener("connectionstatechange", () => {
      clearTimeout(this.#disconnectedTimer);
      if (peer.connectionState === "failed" || peer.connectionState === "closed") lost();
      if (peer.connectionState === "disconnected") this.#disconnectedTimer = setTimeout(lost, DISCONNECTED_MS_MAX);
    });
    if (first.readyState !== "open") lost();
  }

  #authorization(): Record<string, string> {
    return this.#options.token === undefined ? {} : { Authorization: `Bearer ${this.#options.token}` };
  }
}

/** The problem that a refusing answer states. */
async function refusal(response: Response): Promise<ConnectError> {
  const { code, message } = statedError(await response.text());
  if (response.status === 503 || response.status === 429) {
    const asked = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
    const waitS = Number.isFinite(asked) && asked >= 0 ? asked : RETRY_AFTER_S;
    const kind = code === "not_ready" ? "starting" : "full";
    return new ConnectError({ kind, retryAt: Date.now() + waitS * 1000 });
  }
  if (code === "session_not_resumable") return new ConnectError({ kind: "over" });
  if (response.status === 401) return new ConnectError({ kind: "access" });
  return new ConnectError({ kind: "refused", status: response.status, message: message || response.statusText });
}

/** Code and message of an error answer; empty where it states none. */
function statedError(body: string): { readonly code: string; readonly message: string } {
  try {
    const stated = JSON.parse(body) as { error?: { code?: unknown; message?: unknown } | null } | null;
    const { code, message } = stated?.error ?? {};
    return { code: typeof code === "string" ? code : "", message: typeof message === "string" ? message : "" };
  } catch {
    // A proxy's own page, or nothing.
    return { code: "", message: "" };
  }
}
