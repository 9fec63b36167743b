import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Conversation } from "../sdk/conversation.ts";
import { ConnectError } from "../sdk/problem.ts";
import type { ClientEvent } from "../sdk/protocol.ts";
import type { ConnectOptions, Transport } from "../sdk/transport.ts";

/** A transport in memory: the test is the server. */
class FakeTransport implements Transport {
  readonly sent: ClientEvent[] = [];
  readonly microphones: (MediaStreamTrack | null)[] = [];
  readonly cameras: (MediaStreamTrack | null)[] = [];
  report: readonly RTCStats[] = [];
  options: ConnectOptions | null = null;
  closed = 0;
  abandoned = 0;

  constructor(private readonly connecting: () => Promise<void> = () => Promise.resolve()) {}

  async connect(options: ConnectOptions): Promise<void> {
    this.options = options;
    await this.connecting();
    options.signal.throwIfAborted();
  }
  send(event: ClientEvent): void {
    this.sent.push(event);
  }
  setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    this.microphones.push(track);
    return Promise.resolve();
  }
  setCamera(track: MediaStreamTrack | null): Promise<void> {
    this.cameras.push(track);
    return Promise.resolve();
  }
  stats(): Promise<readonly RTCStats[]> {
    return Promise.resolve(this.report);
  }
  playing(): null {
    return null;
  }
  rttMs(): Promise<number | null> {
    return Promise.resolve(null);
  }
  close(): void {
    this.closed += 1;
  }
  abandon(): void {
    this.abandoned += 1;
  }
  says(type: string, fields: Record<string, unknown> = {}): void {
    this.options?.listener.message(JSON.stringify({ type, ...fields }));
  }
  get types(): readonly string[] {
    return this.sent.map((event) => event.type);
  }
}

class FakeTrack extends EventTarget {
  enabled = true;
  muted = false;
  readyState = "live";
  getSettings(): MediaTrackSettings {
    return { deviceId: "built-in" };
  }
  stop(): void {
    this.readyState = "ended";
  }
}

let tracks: FakeTrack[];
let getUserMedia: ReturnType<typeof vi.fn>;

beforeEach(() => {
  vi.useFakeTimers();
  tracks = [];
  getUserMedia = vi.fn(() => {
    const track = new FakeTrack();
    tracks.push(track);
    return Promise.resolve({ getAudioTracks: () => [track], getVideoTracks: () => [track] });
  });
  vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
  vi.stubGlobal("navigator", { mediaDevices: { getUserMedia } });
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function converse(...transports: readonly FakeTransport[]): Conversation {
  const waiting = [...transports];
  return new Conversation({
    transport: () => {
      const next = waiting.shift();
      if (next === undefined) throw new Error("no further transport was expected");
      return next;
    },
    session: () => ({ type: "realtime" }),
    onRemote: () => undefined,
    onMicrophone: () => undefined,
  });
}

async function started(transport: FakeTransport, microphone: boolean): Promise<Conversation> {
  const conversation = converse(transport);
  const starting = conversation.start({ microphone });
  await vi.waitFor(() => expect(transport.options).not.toBeNull());
  transport.says("session.created", { session: {} });
  expect(await starting).toBe(true);
  return conversation;
}

describe("Conversation", () => {
  it("is live when the server has greeted, not before", async () => {
    const transport = new FakeTransport();
    const conversation = converse(transport);
    const starting = conversation.start({ microphone: false });
    await vi.waitFor(() => expect(transport.options).not.toBeNull());
    expect(conversation.state.phase).toBe("connecting");
    transport.says("session.created");
    expect(await starting).toBe(true);
    expect(conversation.state.phase).toBe("listening");
  });

  it("gives up on a server that never greets", async () => {
    const transport = new FakeTransport();
    const conversation = converse(transport);
    const starting = conversation.start({ microphone: false });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(await starting).toBe(false);
    expect(conversation.state).toMatchObject({ phase: "idle", problem: { kind: "timeout" } });
    expect(transport.closed).toBeGreaterThan(0);
  });

  it("speaks from the microphone that it opened, and gives it back at the end", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, true);
    expect(transport.options?.microphone).toBe(tracks[0]);
    expect(conversation.state.microphone).toBe("live");
    conversation.end();
    expect(tracks[0]?.readyState).toBe("ended");
    expect(conversation.state).toMatchObject({ phase: "idle", microphone: "off" });
  });

  it("says why there is no microphone, and connects nothing", async () => {
    getUserMedia.mockRejectedValue(Object.assign(new Error("no"), { name: "NotAllowedError" }));
    const conversation = converse();
    expect(await conversation.start({ microphone: true })).toBe(false);
    expect(conversation.state.problem).toEqual({ kind: "microphone", cause: "denied" });
  });

  it("gives back a microphone that was granted after the user cancelled", async () => {
    let grant: (stream: unknown) => void = () => undefined;
    getUserMedia.mockImplementation(() => new Promise((resolve) => (grant = resolve)));
    const conversation = converse();
    const starting = conversation.start({ microphone: true });
    conversation.end();
    const track = new FakeTrack();
    grant({ getAudioTracks: () => [track] });
    expect(await starting).toBe(false);
    expect(track.readyState).toBe("ended");
    expect(conversation.state).toMatchObject({ phase: "idle", problem: null, microphone: "off" });
  });

  it("passes on why the transport could not connect", async () => {
    const full = new ConnectError({ kind: "full", retryAt: 5 });
    const conversation = converse(new FakeTransport(() => Promise.reject(full)));
    expect(await conversation.say("Hello")).toBe(false);
    expect(conversation.state).toMatchObject({ phase: "idle", problem: { kind: "full", retryAt: 5 }, captions: [] });
  });

  it("types without a microphone, in a conversation of its own if need be", async () => {
    const transport = new FakeTransport();
    const conversation = converse(transport);
    const saying = conversation.say("Hello");
    await vi.waitFor(() => expect(transport.options).not.toBeNull());
    transport.says("session.created");
    expect(await saying).toBe(true);
    expect(getUserMedia).not.toHaveBeenCalled();
    expect(transport.types).toEqual(["conversation.item.create", "response.create"]);
    expect(conversation.state.captions).toMatchObject([{ kind: "user", text: "Hello", by: "text" }]);
  });

  it("adds a microphone to a conversation that began without one", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, false);
    await conversation.setMuted(false);
    expect(transport.microphones).toEqual([tracks[0]]);
    await conversation.setMuted(true);
    expect(tracks[0]?.enabled).toBe(false);
    expect(conversation.state.microphone).toBe("muted");
  });

  it("stops what is made and what is heard before it asks anew, and minds no error about that", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, false);
    transport.says("response.created", { response: { id: "r1" } });
    transport.says("output_audio_buffer.started", { response_id: "r1" });
    await conversation.say("Wait");
    expect(transport.types).toEqual([
      "response.cancel",
      "output_audio_buffer.clear",
      "conversation.item.create",
      "response.create",
    ]);
    const cancel = transport.sent[0];
    const eventId = cancel?.type === "response.cancel" ? cancel.event_id : null;
    transport.says("error", { error: { message: "Nothing to cancel.", event_id: eventId } });
    expect(conversation.state.problem).toBeNull();
    transport.says("error", { error: { message: "Something else.", event_id: "other" } });
    expect(conversation.state.problem).toMatchObject({ kind: "server" });
  });

  it("asks for the heard words after a cut", async () => {
    const transport = new FakeTransport();
    await started(transport, false);
    transport.says("conversation.item.truncated", { item_id: "a1", audio_end_ms: 900 });
    expect(transport.sent).toEqual([{ type: "conversation.item.retrieve", item_id: "a1" }]);
  });

  it("shows an interruption for a moment", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, false);
    transport.says("output_audio_buffer.started", { response_id: "r1" });
    transport.says("output_audio_buffer.cleared", { response_id: "r1" });
    expect(conversation.state.phase).toBe("interrupted");
    await vi.advanceTimersByTimeAsync(900);
    expect(conversation.state.phase).toBe("listening");
  });

  it("opens the microphone again when the system has ended it", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, true);
    tracks[0]?.stop();
    tracks[0]?.dispatchEvent(new Event("ended"));
    await vi.waitFor(() => expect(transport.microphones.at(-1)).toBe(tracks[1]));
    expect(conversation.state.microphone).toBe("live");
  });

  it("waits with that until the page is visible", async () => {
    const transport = new FakeTransport();
    await started(transport, true);
    Object.assign(document, { visibilityState: "hidden" });
    tracks[0]?.stop();
    tracks[0]?.dispatchEvent(new Event("ended"));
    expect(tracks).toHaveLength(1);
    Object.assign(document, { visibilityState: "visible" });
    document.dispatchEvent(new Event("visibilitychange"));
    await vi.waitFor(() => expect(transport.microphones.at(-1)).toBe(tracks[1]));
  });

  it("films only while the camera is on, and lets go of it at the end", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, false);
    expect(getUserMedia).not.toHaveBeenCalled();
    await conversation.setCamera(true);
    expect(conversation.state.camera).toBe("on");
    expect(transport.cameras).toEqual([tracks[0]]);
    await conversation.setCamera(false);
    expect(conversation.state.camera).toBe("off");
    expect(transport.cameras).toEqual([tracks[0], null]);
    expect(tracks[0]?.readyState).toBe("ended");
    await conversation.setCamera(true);
    conversation.end();
    expect(tracks[1]?.readyState).toBe("ended");
    expect(conversation.state.camera).toBe("off");
  });

  it("goes on without a camera that is refused", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, false);
    getUserMedia.mockRejectedValueOnce(Object.assign(new Error("no"), { name: "NotAllowedError" }));
    await conversation.setCamera(true);
    expect(conversation.state).toMatchObject({ phase: "listening", camera: "off", problem: { kind: "camera", cause: "denied" } });
  });

  it("keeps no camera that opens after the conversation has ended", async () => {
    const conversation = await started(new FakeTransport(), false);
    const opening = conversation.setCamera(true);
    conversation.end();
    await opening;
    expect(tracks.map(({ readyState }) => readyState)).toEqual(["ended"]);
    expect(conversation.state.camera).toBe("off");
  });

  it("is over when the server says that it has its greatest length, and does not try to come back", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, true);
    transport.says("duplex.session.token", { token: "t", window_s: 30 });
    transport.says("error", { error: { code: "session_expired", message: "the session has its greatest length" } });
    transport.options?.listener.lost();
    expect(conversation.state).toMatchObject({ phase: "idle", problem: { kind: "expired" } });
    expect(conversation.resumable).toBe(false);
    expect(tracks[0]?.readyState).toBe("ended");
  });

  it("stays with the system's microphone where the chosen one has gone", async () => {
    const conversation = await started(new FakeTransport(), true);
    await conversation.chooseMicrophone("headset");
    await conversation.chooseMicrophone("");
    expect(tracks).toHaveLength(2);
  });

  it("speaks on from another microphone when one is chosen", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, true);
    await conversation.chooseMicrophone("headset");
    expect(transport.microphones.at(-1)).toBe(tracks[1]);
    expect(tracks[0]?.readyState).toBe("ended");
    expect(getUserMedia.mock.lastCall?.[0]).toMatchObject({ audio: { deviceId: { ideal: "headset" } } });
  });

  it("reports what has been played of a reply, until its end", async () => {
    const transport = new FakeTransport();
    await started(transport, false);
    const voice = { type: "inbound-rtp", kind: "audio", id: "i" };
    const counted = (emitted: number): void => {
      transport.report = [{ ...voice, timestamp: Date.now(), jitterBufferEmittedCount: emitted } as unknown as RTCStats];
    };
    counted(0);
    transport.says("output_audio_buffer.started", { response_id: "r1" });
    await vi.advanceTimersByTimeAsync(499);
    counted(48 * 400);
    await vi.advanceTimersByTimeAsync(1);
    const reports = transport.sent.filter((event) => event.type === "duplex.playback.report");
    expect(reports).toEqual([{ type: "duplex.playback.report", response_id: "r1", played_ms: expect.closeTo(391, 0) as number }]);
    transport.says("output_audio_buffer.stopped", { response_id: "r1" });
    await vi.advanceTimersByTimeAsync(5_000);
    expect(transport.sent.filter((event) => event.type === "duplex.playback.report")).toHaveLength(1);
  });

  it("says that the connection is lost, once, and can begin again", async () => {
    const [first, second] = [new FakeTransport(), new FakeTransport()];
    const conversation = converse(first, second);
    for (const transport of [first, second]) {
      const starting = conversation.start({ microphone: false });
      await vi.waitFor(() => expect(transport.options).not.toBeNull());
      transport.says("session.created");
      expect(await starting).toBe(true);
      if (transport === first) {
        first.options?.listener.lost();
        expect(conversation.state).toMatchObject({ phase: "idle", problem: { kind: "lost" } });
      }
    }
    first.options?.listener.lost();
    expect(conversation.state).toMatchObject({ phase: "listening", problem: null });
  });

  it("survives whatever comes down the channel", async () => {
    const transport = new FakeTransport();
    const conversation = await started(transport, false);
    for (const text of ["", "[]", '{"type":"response.done"}', '{"type":"__proto__"}']) {
      transport.options?.listener.message(text);
    }
    expect(conversation.state).toMatchObject({ phase: "listening", problem: null });
  });
});
