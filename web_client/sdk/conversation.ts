/** One person's conversations with a server: the shell that keeps the view state and does what it calls for. */
import { Camera } from "./camera.ts";
import { CaptureError } from "./capture.ts";
import { Microphone } from "./microphone.ts";
import { PlaybackReporter, type PlayedFront } from "./playback_reporter.ts";
import { ConnectError, type Problem } from "./problem.ts";
import { type ClientEvent, decode, type ServerEvent, type SessionUpdate } from "./protocol.ts";
import { reduce } from "./reduce.ts";
import { SeenEvents } from "./seen.ts";
import { INITIAL, isLive, type LocalEvent, type ViewState } from "./state.ts";
import { backoffMs, SLEPT_MS, TicketBox, usableTicket } from "./ticket.ts";
import type { Transport } from "./transport.ts";
import { sleep, within } from "./waits.ts";

/** How long an interruption is shown as such. */
const INTERRUPTED_MS = 900;
/** From the open channel to the server's first word. */
const GREETING_MS_MAX = 10_000;
const RTT_EVERY_MS = 5_000;
const ITEM_ID_BYTES = 12;
const CLOCK_EVERY_MS = 1_000;
/** What was written longer ago than this has arrived, or was told to have not. */
const WRITE_AGAIN_MS_MAX = 60_000;
/** Of an error: the conversation has its greatest length. Nothing is answered any more, so it is over for us at once. */
const EXPIRED = "session_expired";
/** Problems that may be over at the next attempt to come back. */
const PASSING: ReadonlySet<Problem["kind"]> = new Set(["unreachable", "timeout", "full", "starting"]);

export interface ConversationOptions {
  /** Makes the transport of the next conversation. */
  readonly transport: () => Transport;
  /** The session object of the wire, read at each start. With `duplex: { resume: true }` a lost conversation goes on. */
  readonly session: () => SessionUpdate;
  /** The model's voice, to be played. */
  readonly onRemote: (stream: MediaStream) => void;
  /** The track that the user is heard by; null: none. */
  readonly onMicrophone: (track: MediaStreamTrack | null) => void;
  /** What is filmed, to be shown to the user too; null: nothing. */
  readonly onCamera?: (track: MediaStreamTrack | null) => void;
  /** Sees each measurement of what has been played. */
  readonly onPlayed?: (front: PlayedFront) => void;
  /** Sees each event of the server, and when it arrived. */
  readonly onEvent?: (event: ServerEvent, at: number) => void;
  /** Sees every event of both directions, for debugging. */
  readonly onTraffic?: (traffic: Traffic) => void;
}

export interface Traffic {
  readonly at: number;
  readonly direction: "in" | "out";
  /** An event, or what could not be read. */
  readonly event: unknown;
}

export class Conversation {
  readonly #options: ConversationOptions;
  readonly #subscribers = new Set<(state: ViewState) => void>();
  readonly #microphone: Microphone;
  readonly #camera: Camera;
  readonly #playback: PlaybackReporter;
  #state = INITIAL;
  #transport: Transport | null = null;
  /** The connection that was lost, while we try to come back: an end still hangs up by it. */
  #former: Transport | null = null;
  readonly #tickets = new TicketBox();
  readonly #seen = new SeenEvents();
  /** What was written last, which may have been lost on its way with the connection. */
  #written: { readonly at: number; readonly events: readonly ClientEvent[] } | null = null;
  #starting: AbortController | null = null;
  #greeted: (() => void) | null = null;
  #settleTimer: ReturnType<typeof setTimeout> | undefined;
  #rttTimer: ReturnType<typeof setInterval> | undefined;
  #clockTimer: ReturnType<typeof setInterval> | undefined;
  /** Events whose failure means only that there was nothing left to stop. */
  readonly #harmless = new Set<string>();

  constructor(options: ConversationOptions) {
    this.#options = options;
    this.#microphone = new Microphone({
      changed: (microphone) => this.#local({ type: "local.microphone", microphone }),
      track: (track) => this.#useTrack(track),
      stopped: () => this.#local({ type: "local.problem", problem: { kind: "microphone", cause: "stopped" } }),
    });
    this.#camera = new Camera({
      track: (track) => this.#show(track),
      stopped: () => this.#local({ type: "local.problem", problem: { kind: "camera", cause: "stopped" } }),
    });
    this.#playback = new PlaybackReporter({
      stats: () => this.stats(),
      playing: () => this.#transport?.playing() ?? null,
      played: (front) => {
        this.#options.onPlayed?.(front);
        this.#send({ type: "duplex.playback.report", response_id: front.responseId, played_ms: front.playedMs });
      },
    });
  }

  /** What the browser measures of the present connection, for those who look closely. */
  async stats(): Promise<readonly RTCStats[]> {
    return (await this.#transport?.stats()) ?? [];
  }

  get state(): ViewState {
    return this.#state;
  }

  /** Be told of every new state; returns what ends it. */
  subscribe(subscriber: (state: ViewState) => void): () => void {
    this.#subscribers.add(subscriber);
    return () => this.#subscribers.delete(subscriber);
  }

  /** Begin a conversation. Resolves to whether it is live; if not, the state says why. */
  async start({ microphone }: { readonly microphone: boolean }): Promise<boolean> {
    this.end();
    const starting = new AbortController();
    this.#starting = starting;
    this.#local({ type: "local.connecting" });
    try {
      const track = microphone ? await this.#microphone.open() : null;
      starting.signal.throwIfAborted();
      await this.#connect(track, starting.signal, null);
      this.#startTimers();
      return true;
    } catch (error) {
      return this.#failed(starting, error);
    }
  }

  /** Whether a conversation of this tab may still be waiting for us. */
  get resumable(): boolean {
    return this.#state.phase === "idle" && usableTicket(this.#tickets.ticket, Date.now()) !== null;
  }

  /** Go on with the conversation that the page had before it was loaded anew. Resolves to whether it is live. */
  async resume(): Promise<boolean> {
    const ticket = usableTicket(this.#tickets.ticket, Date.now());
    if (ticket === null || this.#state.phase !== "idle") return false;
    return this.#comeBack(ticket.microphone);
  }

  /** The page goes away, perhaps to be loaded anew: a conversation that can be resumed is left waiting, any other ends. */
  leave(): void {
    const ticket = this.#tickets.ticket;
    if (ticket === null || this.#state.phase === "idle") {
      this.end();
      return;
    }
    this.#transport?.abandon();
    this.#transport = null;
    this.#former = null;
    const microphone = this.#state.microphone !== "off";
    this.end();
    this.#tickets.keep({ ...ticket, leftAt: Date.now(), microphone });
  }

  /** Say something in writing; begins a conversation without a microphone if there is none. False: it was not sent. */
  async say(text: string): Promise<boolean> {
    if (this.#state.phase === "reconnecting") return false;
    if (!isLive(this.#state) && !(await this.start({ microphone: false }))) return false;
    this.interrupt();
    const id = `msg_${randomHex(ITEM_ID_BYTES)}`;
    this.#local({ type: "local.said", itemId: id, text });
    this.#written = {
      at: Date.now(),
      events: [
        {
          type: "conversation.item.create",
          event_id: `item_of_${id}`,
          item: { id, type: "message", role: "user", content: [{ type: "input_text", text }] },
        },
        { type: "response.create", event_id: `reply_to_${id}` },
      ],
    };
    for (const event of this.#written.events) this.#send(event);
    return true;
  }

  /** Ask for the reply again, after one that failed. */
  retryReply(): void {
    this.#local({ type: "local.retried" });
    this.#send({ type: "response.create" });
  }

  /** Stop the assistant: what is being made and what is being heard. */
  interrupt(): void {
    if (this.#state.makingId !== null) this.#send({ type: "response.cancel", event_id: this.#harmlessId() });
    if (this.#state.playingId !== null) this.#send({ type: "output_audio_buffer.clear", event_id: this.#harmlessId() });
  }

  /** Mute or unmute; where no microphone is open, unmuting opens one in the conversation as it stands. */
  async setMuted(muted: boolean): Promise<void> {
    if (this.#state.microphone !== "off") {
      this.#microphone.setMuted(muted);
      return;
    }
    if (muted || !isLive(this.#state)) return;
    try {
      await this.#microphone.open();
      if (!isLive(this.#state)) this.#closeMicrophone();
    } catch (error) {
      this.#local({ type: "local.problem", problem: problemOf(error) });
    }
  }

  /** Speak from another microphone, now or when one is opened; empty: the system's choice. */
  async chooseMicrophone(deviceId: string): Promise<void> {
    await this.#microphone.choose(deviceId);
  }

  /** Film with another camera, now or when one is opened; empty: the system's choice. */
  async chooseCamera(deviceId: string): Promise<void> {
    this.#camera.choose(deviceId);
    if (this.#state.camera === "on") await this.setCamera(true);
  }

  /** Switch the camera on, for the conversation as it stands, or off. */
  async setCamera(on: boolean): Promise<void> {
    if (!on) return this.#camera.close();
    if (!isLive(this.#state)) return;
    this.#local({ type: "local.camera", camera: "opening" });
    try {
      await this.#camera.open();
      if (!isLive(this.#state)) this.#camera.close();
    } catch (error) {
      this.#camera.close();
      this.#local({ type: "local.camera", camera: "off" });
      this.#local({ type: "local.problem", problem: problemOf(error, "camera") });
    }
  }

  /** End the conversation, or the attempt to begin one. The captions stay. */
  end(): void {
    const wasUp = this.#state.phase !== "idle";
    const starting = this.#starting;
    this.#starting = null;
    starting?.abort(new DOMException("ended", "AbortError"));
    clearTimeout(this.#settleTimer);
    this.#stopTimers();
    this.#transport?.close();
    this.#transport = null;
    this.#former?.close();
    this.#former = null;
    this.#tickets.keep(null);
    this.#seen.forget();
    this.#written = null;
    this.#greeted = null;
    this.#harmless.clear();
    this.#playback.stop();
    this.#closeMicrophone();
    this.#camera.close();
    if (wasUp) this.#local({ type: "local.ended" });
  }

  /** The remote stream became audible or silent, as a meter found. */
  reportSound(on: boolean, at: number): void {
    if (isLive(this.#state)) this.#apply({ type: "local.sound", on }, at);
  }

  reportProblem(problem: Problem): void {
    this.#local({ type: "local.problem", problem });
  }

  dismissProblem(): void {
    this.#local({ type: "local.dismissed" });
  }

  async #connect(track: MediaStreamTrack | null, signal: AbortSignal, resume: string | null): Promise<void> {
    const transport = this.#options.transport();
    this.#transport = transport;
    const greeted = new Promise<void>((resolve) => {
      this.#greeted = resolve;
    });
    await transport.connect({
      session: this.#options.session(),
      microphone: track,
      camera: this.#camera.current,
      resume,
      lastEventId: () => this.#seen.lastId,
      signal,
      listener: {
        message: (text) => this.#receive(text),
        remote: (stream) => this.#options.onRemote(stream),
        lost: () => this.#lost(transport),
      },
    });
    await within(greeted, GREETING_MS_MAX, signal);
  }

  #lost(transport: Transport): void {
    if (transport !== this.#transport) return;
    if (this.#tickets.ticket !== null) {
      this.#former = transport;
      void this.#comeBack(this.#state.microphone !== "off");
      return;
    }
    this.end();
    this.#local({ type: "local.problem", problem: { kind: "lost" } });
  }

  /** Try to come back to the conversation until the server would have given it up. */
  async #comeBack(microphone: boolean): Promise<boolean> {
    const lostAt = Date.now();
    const starting = new AbortController();
    this.#starting?.abort(new DOMException("lost again", "AbortError"));
    this.#starting = starting;
    this.#stopTimers();
    this.#transport = null;
    this.#harmless.clear();
    this.#local({ type: "local.reconnecting" });
    try {
      const problem = microphone ? await this.#openAgain() : null;
      for (let attempt = 0; ; attempt += 1) {
        await sleep(backoffMs(attempt), starting.signal);
        const ticket = this.#tickets.ticket;
        if (ticket === null) throw new ConnectError({ kind: "over" });
        try {
          await this.#connect(this.#microphone.track, starting.signal, ticket.token);
          break;
        } catch (error) {
          starting.signal.throwIfAborted();
          if (!(error instanceof ConnectError) || !PASSING.has(error.problem.kind)) throw error;
          // After a loss that is what has happened; after a load the page says what is in the way.
          if (Date.now() - lostAt > ticket.windowMs) throw this.#former === null ? error : new ConnectError({ kind: "lost" });
        }
      }
      this.#former = null;
      this.#startTimers();
      if (problem !== null) this.#local({ type: "local.problem", problem });
      return true;
    } catch (error) {
      return this.#failed(starting, error);
    }
  }

  /** Have the microphone open; what keeps it shut keeps nobody from coming back. */
  async #openAgain(): Promise<Problem | null> {
    if (this.#microphone.track !== null) return null;
    try {
      await this.#microphone.open();
      return null;
    } catch (error) {
      return problemOf(error);
    }
  }

  /** A start or a return has failed: end, and say why, unless something newer has put its own state in place. */
  #failed(starting: AbortController, error: unknown): false {
    if (this.#starting !== starting) {
      // After an end nobody needs what was opened since.
      if (this.#starting === null) this.#closeMicrophone();
      return false;
    }
    this.end();
    this.#local({ type: "local.problem", problem: problemOf(error) });
    return false;
  }

  #startTimers(): void {
    this.#rttTimer = setInterval(() => void this.#measureRtt(), RTT_EVERY_MS);
    void this.#measureRtt();
    let seenAt = Date.now();
    this.#clockTimer = setInterval(() => {
      const slept = Date.now() - seenAt > SLEPT_MS;
      seenAt = Date.now();
      if (slept) this.#woke();
    }, CLOCK_EVERY_MS);
  }

  #stopTimers(): void {
    clearInterval(this.#rttTimer);
    clearInterval(this.#clockTimer);
  }

  /** The machine or the page slept: the connection looks open and is most likely dead, so it is made anew. */
  #woke(): void {
    const transport = this.#transport;
    if (transport === null || this.#tickets.ticket === null) return;
    transport.abandon();
    this.#lost(transport);
  }

  #receive(text: string): void {
    const decoded = decode(text);
    const at = Date.now();
    this.#options.onTraffic?.({ at, direction: "in", event: decoded.kind === "event" ? shown(decoded.event) : decoded });
    if (decoded.kind === "unreadable" || !this.#seen.take(decoded.id) || decoded.kind !== "event") return;
    const event = decoded.event;
    if (event.type === "duplex.session.token") {
      const microphone = this.#state.microphone !== "off";
      this.#tickets.keep({ token: event.token, windowMs: event.windowMs, leftAt: null, microphone });
      return;
    }
    if (event.type === "error" && event.clientEventId !== null && this.#harmless.delete(event.clientEventId)) return;
    if (event.type === "error" && event.code === EXPIRED) {
      this.end();
      this.#local({ type: "local.problem", problem: { kind: "expired" } });
      return;
    }
    this.#apply(event, at);
    this.#options.onEvent?.(event, at);
    if (event.type === "session.created" || event.type === "duplex.session.resumed") this.#greeted?.();
    if (event.type === "duplex.session.resumed") this.#writeAgain();
    this.#playback.take(event);
    // After a cut the server alone knows which words were heard.
    if (event.type === "conversation.item.truncated") {
      this.#send({ type: "conversation.item.retrieve", item_id: event.itemId });
    }
  }

  #apply(event: ServerEvent | LocalEvent, at: number): void {
    const former = this.#state;
    this.#state = reduce(former, { at, event });
    if (this.#state === former) return;
    if (this.#state.phase === "interrupted" && former.phase !== "interrupted") {
      clearTimeout(this.#settleTimer);
      this.#settleTimer = setTimeout(() => this.#local({ type: "local.settled" }), INTERRUPTED_MS);
    }
    for (const subscriber of this.#subscribers) subscriber(this.#state);
  }

  #local(event: LocalEvent): void {
    this.#apply(event, Date.now());
  }

  #send(event: ClientEvent): void {
    this.#options.onTraffic?.({ at: Date.now(), direction: "out", event });
    this.#transport?.send(event);
  }

  /** Send again what may have been lost on its way; by the ids of the events the server knows what it has had. */
  #writeAgain(): void {
    if (this.#written === null || Date.now() - this.#written.at > WRITE_AGAIN_MS_MAX) return;
    for (const event of this.#written.events) this.#send(event);
  }

  #useTrack(track: MediaStreamTrack | null): void {
    this.#options.onMicrophone(track);
    // During a start the track goes into the offer; the transport is not there yet.
    void this.#transport?.setMicrophone(track).catch(() => {
      this.reportProblem({ kind: "microphone", cause: "stopped" });
    });
  }

  #show(track: MediaStreamTrack | null): void {
    this.#options.onCamera?.(track);
    this.#local({ type: "local.camera", camera: track === null ? "off" : "on" });
    void this.#transport?.setCamera(track).catch(() => this.reportProblem({ kind: "camera", cause: "stopped" }));
  }

  #closeMicrophone(): void {
    this.#microphone.close();
    this.#options.onMicrophone(null);
  }

  async #measureRtt(): Promise<void> {
    const rttMs = (await this.#transport?.rttMs()) ?? null;
    if (rttMs !== null) this.#local({ type: "local.rtt", rttMs });
  }

  #harmlessId(): string {
    const id = `stop_${randomHex(ITEM_ID_BYTES)}`;
    this.#harmless.add(id);
    return id;
  }
}

function problemOf(error: unknown, device: "microphone" | "camera" = "microphone"): Problem {
  if (error instanceof ConnectError) return error.problem;
  if (error instanceof CaptureError) return { kind: device, cause: error.reason };
  throw error;
}

/** An event as it may be looked at: a token is nobody's business. */
function shown(event: ServerEvent): ServerEvent {
  return event.type === "duplex.session.token" ? { ...event, token: "…" } : event;
}

/** `crypto.randomUUID` exists only in secure contexts; this does everywhere. */
function randomHex(bytes: number): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(bytes)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
