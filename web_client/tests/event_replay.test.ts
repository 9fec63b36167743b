import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Conversation } from "../sdk/conversation.ts";
import type { ClientEvent } from "../sdk/protocol.ts";
import { SeenEvents } from "../sdk/seen.ts";
import type { ReplyCaption } from "../sdk/state.ts";
import type { ConnectOptions, Transport } from "../sdk/transport.ts";
import { WebRtcTransport } from "../sdk/webrtc.ts";

const id = (number: number, session = "rtc_1"): string => `event_${String(number).padStart(12, "0")}_${session}`;

describe("the events we have seen", () => {
  it("are taken once, by their numbers", () => {
    const seen = new SeenEvents();
    expect(seen.lastId).toBeNull();
    expect([1, 2, 2, 1, 3].map((number) => seen.take(id(number)))).toEqual([true, true, false, false, true]);
    expect(seen.lastId).toBe(id(3));
    expect(seen.take(undefined)).toBe(true);
    expect(seen.take("event_5")).toBe(true);
    expect(seen.lastId).toBe(id(3));
  });

  it("are another session's when a new one begins", () => {
    const seen = new SeenEvents();
    seen.take(id(9));
    expect(seen.take(id(1, "rtc_2"))).toBe(true);
    seen.forget();
    expect(seen.lastId).toBeNull();
  });
});

/** A server in memory with a ring of events: whoever comes back is told what it has not seen. */
class Server {
  readonly events: string[] = [];
  readonly received: ClientEvent[] = [];
  line: FakeTransport | null = null;
  /** What is sent gets lost on its way. */
  losing = false;
  says(type: string, fields: Record<string, unknown> = {}): void {
    this.events.push(JSON.stringify({ type, event_id: id(this.events.length + 1), ...fields }));
    if (!this.losing) this.line?.options?.listener.message(this.events.at(-1) ?? "");
  }
  lose(): void {
    const line = this.line;
    this.line = null;
    line?.options?.listener.lost();
  }
}

class FakeTransport implements Transport {
  options: ConnectOptions | null = null;
  constructor(readonly server: Server) {}
  connect(options: ConnectOptions): Promise<void> {
    const { server } = this;
    this.options = options;
    server.line = this;
    const last = options.lastEventId();
    server.losing = false;
    if (options.resume === null || last === null) {
      server.says("session.created", { session: {} });
    } else {
      // At least once: the last one comes again, too.
      const seen = server.events.findIndex((text) => text.includes(last));
      for (const text of server.events.slice(seen)) options.listener.message(text);
      server.says("duplex.session.resumed", { items: 0, replayed: server.events.length - seen - 1, audio_missed_ms: 0 });
    }
    server.says("duplex.session.token", { token: "next", window_s: 30 });
    return Promise.resolve();
  }
  send(event: ClientEvent): void {
    if (!this.server.losing) this.server.received.push(event);
  }
  playing(): null {
    return null;
  }
  setMicrophone(): Promise<void> {
    return Promise.resolve();
  }
  setCamera(): Promise<void> {
    return Promise.resolve();
  }
  stats(): Promise<readonly RTCStats[]> {
    return Promise.resolve([]);
  }
  rttMs(): Promise<number | null> {
    return Promise.resolve(null);
  }
  close(): void {}
  abandon(): void {}
}

let server: Server;
let conversation: Conversation;
let shown: string[];

beforeEach(async () => {
  vi.useFakeTimers();
  vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
  server = new Server();
  shown = [];
  conversation = new Conversation({
    transport: () => new FakeTransport(server),
    session: () => ({}),
    onRemote: () => undefined,
    onMicrophone: () => undefined,
    onEvent: (event) => shown.push(event.type),
  });
  await conversation.start({ microphone: false });
});

afterEach(() => {
  conversation.end();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const delta = (text: string): Record<string, unknown> => ({ response_id: "r", item_id: "i", delta: text });

describe("a conversation that comes back", () => {
  it("shows what it missed, each event once, and is live behind it", async () => {
    server.says("response.created", { response: { id: "r" } });
    server.says("response.output_audio_transcript.delta", delta("One "));
    server.losing = true;
    server.says("response.output_audio_transcript.delta", delta("two "));
    server.says("response.output_audio_transcript.delta", delta("three."));
    server.says("response.done", { response: { id: "r", status: "completed" } });
    server.lose();
    expect(conversation.state.phase).toBe("reconnecting");
    await vi.waitFor(() => expect(conversation.state.phase).toBe("listening"));
    const reply = conversation.state.captions.at(-1) as ReplyCaption;
    expect(reply.pieces.map((piece) => piece.text).join("")).toBe("One two three.");
    expect(reply.status).toBe("completed");
    expect(conversation.state.captions.filter((caption) => caption.kind === "break")).toEqual([]);
    expect(shown.filter((type) => type === "response.output_audio_transcript.delta")).toHaveLength(3);
    expect(shown.filter((type) => type === "session.created")).toHaveLength(1);
  });

  it("sends again what it wrote, with the ids that it had", async () => {
    expect(await conversation.say("Hello?")).toBe(true);
    const written = server.received.splice(0);
    expect(written.map((event) => event.type)).toEqual(["conversation.item.create", "response.create"]);
    server.lose();
    await vi.waitFor(() => expect(conversation.state.phase).toBe("listening"));
    expect(server.received).toEqual(written);
    expect(new Set(written.map((event) => event.event_id)).size).toBe(2);
    expect(conversation.state.captions.filter((caption) => caption.kind === "user")).toHaveLength(1);
  });

  it("does not send again what was written long ago", async () => {
    await conversation.say("Hello?");
    vi.setSystemTime(Date.now() + 61_000);
    server.received.length = 0;
    server.lose();
    await vi.waitFor(() => expect(conversation.state.phase).toBe("listening"));
    expect(server.received).toEqual([]);
  });
});

/** Just enough of a browser's connection for the event channel. */
class FakeChannel extends EventTarget {
  readyState = "connecting";
  constructor(readonly protocol: string) {
    super();
  }
  opens(): void {
    this.readyState = "open";
    this.dispatchEvent(new Event("open"));
  }
  close(): void {
    this.readyState = "closed";
  }
  drops(): void {
    this.readyState = "closed";
    this.dispatchEvent(new Event("close"));
  }
}

class FakePeer extends EventTarget {
  static last: FakePeer;
  connectionState = "connected";
  sctp = { state: "connected" };
  localDescription = { sdp: "offer" };
  readonly channels: FakeChannel[] = [];
  constructor() {
    super();
    FakePeer.last = this;
  }
  addTransceiver(): unknown {
    return { sender: {} };
  }
  createDataChannel(_label: string, { protocol = "" }: { protocol?: string } = {}): FakeChannel {
    const channel = new FakeChannel(protocol);
    this.channels.push(channel);
    return channel;
  }
  setLocalDescription(): Promise<void> {
    return Promise.resolve();
  }
  setRemoteDescription(): Promise<void> {
    this.channels[0]?.opens();
    return Promise.resolve();
  }
  close(): void {}
}

describe("the event channel of a call", () => {
  let lost: number;

  async function connected(resume: string | null): Promise<FakePeer> {
    vi.stubGlobal("RTCPeerConnection", FakePeer);
    vi.stubGlobal("fetch", () => Promise.resolve(new Response("answer", { status: 201 })));
    lost = 0;
    await new WebRtcTransport({ callsUrl: "http://localhost/calls" }).connect({
      session: {},
      microphone: null,
      camera: null,
      resume,
      lastEventId: () => id(7),
      signal: new AbortController().signal,
      listener: { message: () => undefined, remote: () => undefined, lost: () => (lost += 1) },
    });
    return FakePeer.last;
  }

  it("says what was seen last only where we come back", async () => {
    expect((await connected(null)).channels[0]?.protocol).toBe("");
    expect((await connected("token")).channels[0]?.protocol).toBe(`duplex-last.${id(7)}`);
  });

  it("is opened again while the connection lives", async () => {
    const peer = await connected(null);
    peer.channels[0]?.drops();
    expect(peer.channels[1]?.protocol).toBe(`duplex-last.${id(7)}`);
    peer.channels[1]?.opens();
    await vi.advanceTimersByTimeAsync(10_000);
    expect(lost).toBe(0);
    peer.channels[1]?.drops();
    expect(peer.channels).toHaveLength(3);
  });

  it("is lost with the connection, or when no other opens", async () => {
    const dead = await connected(null);
    dead.sctp.state = "closed";
    dead.channels[0]?.drops();
    expect([lost, dead.channels.length]).toEqual([1, 1]);
    const mute = await connected(null);
    mute.channels[0]?.drops();
    await vi.advanceTimersByTimeAsync(5_000);
    expect(lost).toBe(1);
  });
});
