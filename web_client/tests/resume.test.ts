import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { remarkOf } from "../page/words.ts";
import { Conversation } from "../sdk/conversation.ts";
import { ConnectError, type Problem } from "../sdk/problem.ts";
import { decode } from "../sdk/protocol.ts";
import { reduce } from "../sdk/reduce.ts";
import { heardAndAhead, INITIAL, type ReplyCaption } from "../sdk/state.ts";
import { backoffMs, readTicket, usableTicket } from "../sdk/ticket.ts";
import type { ConnectOptions, Transport } from "../sdk/transport.ts";

/** A transport in memory that connects, or does not. */
class FakeTransport implements Transport {
  options: ConnectOptions | null = null;
  closed = 0;
  abandoned = 0;
  constructor(private readonly problem: Problem | null = null) {}
  connect(options: ConnectOptions): Promise<void> {
    this.options = options;
    if (this.problem !== null) return Promise.reject(new ConnectError(this.problem));
    this.says("session.created", { session: {} });
    this.says("duplex.session.token", { token: `after ${options.resume ?? "nothing"}`, window_s: 30 });
    return Promise.resolve();
  }
  send(): void {}
  setMicrophone(): Promise<void> {
    return Promise.resolve();
  }
  setCamera(): Promise<void> {
    return Promise.resolve();
  }
  stats(): Promise<readonly RTCStats[]> {
    return Promise.resolve([]);
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
}

let stored: Map<string, string>;

beforeEach(() => {
  vi.useFakeTimers();
  stored = new Map();
  vi.stubGlobal("sessionStorage", {
    getItem: (key: string) => stored.get(key) ?? null,
    setItem: (key: string, text: string) => stored.set(key, text),
    removeItem: (key: string) => stored.delete(key),
  });
  vi.stubGlobal("document", Object.assign(new EventTarget(), { visibilityState: "visible" }));
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

function converse(...transports: readonly FakeTransport[]): Conversation {
  const waiting = [...transports];
  return new Conversation({
    transport: () => waiting.shift() ?? new FakeTransport({ kind: "unreachable" }),
    session: () => ({}),
    onRemote: () => undefined,
    onMicrophone: () => undefined,
  });
}

describe("a lost connection", () => {
  it("comes back to the same conversation by itself", async () => {
    const [first, second] = [new FakeTransport(), new FakeTransport()];
    const conversation = converse(first, second);
    await conversation.start({ microphone: false });
    expect(first.options?.resume).toBeNull();
    first.options?.listener.lost();
    expect(conversation.state.phase).toBe("reconnecting");
    await vi.waitFor(() => expect(conversation.state.phase).toBe("listening"));
    expect(second.options?.resume).toBe("after nothing");
    expect(stored.get("duplex.resume")).toContain("after after nothing");
    expect(conversation.state.captions).toEqual([]);
  });

  it("is tried again with growing pauses, and given up with the server's window", async () => {
    const first = new FakeTransport();
    const conversation = converse(first);
    await conversation.start({ microphone: false });
    first.options?.listener.lost();
    await vi.advanceTimersByTimeAsync(29_000);
    expect(conversation.state.phase).toBe("reconnecting");
    await vi.advanceTimersByTimeAsync(6_000);
    expect(conversation.state.phase).toBe("idle");
    expect(conversation.state.problem).toEqual({ kind: "lost" });
    expect(stored.size).toBe(0);
    expect([0, 1, 2, 9].map(backoffMs)).toEqual([0, 500, 1_000, 4_000]);
  });

  it("ends where the server waits no more", async () => {
    const first = new FakeTransport();
    const conversation = converse(first, new FakeTransport({ kind: "over" }));
    await conversation.start({ microphone: false });
    first.options?.listener.lost();
    await vi.waitFor(() => expect(conversation.state.phase).toBe("idle"));
    expect(conversation.state.problem).toEqual({ kind: "over" });
    expect(stored.size).toBe(0);
  });

  it("can be ended on purpose, which hangs up", async () => {
    const first = new FakeTransport();
    const conversation = converse(first);
    await conversation.start({ microphone: false });
    first.options?.listener.lost();
    conversation.end();
    expect(first.closed).toBe(1);
    expect(conversation.state.phase).toBe("idle");
    expect(stored.size).toBe(0);
  });

  it("is suspected after a sleep of the machine", async () => {
    const [first, second] = [new FakeTransport(), new FakeTransport()];
    const conversation = converse(first, second);
    await conversation.start({ microphone: false });
    await vi.advanceTimersByTimeAsync(3_000);
    expect(first.abandoned).toBe(0);
    vi.setSystemTime(Date.now() + 120_000);
    await vi.advanceTimersByTimeAsync(1_100);
    expect(first.abandoned).toBe(1);
    expect(second.options?.resume).toBe("after nothing");
    expect(conversation.state.phase).toBe("listening");
  });
});

describe("a reload", () => {
  it("leaves the conversation waiting and finds it again", async () => {
    const first = new FakeTransport();
    const before = converse(first);
    await before.start({ microphone: false });
    before.leave();
    expect([first.closed, first.abandoned]).toEqual([0, 1]);
    const second = new FakeTransport();
    const after = converse(second);
    expect(after.resumable).toBe(true);
    const coming = after.resume();
    await vi.advanceTimersByTimeAsync(1);
    expect(await coming).toBe(true);
    expect(second.options?.resume).toBe("after nothing");
    expect(after.resumable).toBe(false);
  });

  it("finds nothing once the server waits no more", async () => {
    const before = converse(new FakeTransport());
    await before.start({ microphone: false });
    before.leave();
    vi.setSystemTime(Date.now() + 31_000);
    const after = converse();
    expect(after.resumable).toBe(false);
    expect(await after.resume()).toBe(false);
  });

  it("finds nothing after an end", async () => {
    const before = converse(new FakeTransport());
    await before.start({ microphone: false });
    before.end();
    before.leave();
    expect(converse().resumable).toBe(false);
  });

  it("reads only what it has stored", () => {
    const ticket = { token: "t", windowMs: 30_000, leftAt: null, microphone: true };
    expect(readTicket(JSON.stringify(ticket))).toEqual(ticket);
    for (const other of ["", "5", "null", "{}", '{"token":5,"windowMs":1,"microphone":true}']) expect(readTicket(other)).toBeNull();
    expect(usableTicket({ ...ticket, leftAt: 1_000 }, 31_000)).not.toBeNull();
    expect(usableTicket({ ...ticket, leftAt: 1_000 }, 31_001)).toBeNull();
  });

  it("leaves a conversation to the tab that holds it, though a duplicate of the tab has its ticket", () => {
    expect(usableTicket({ token: "t", windowMs: 30_000, leftAt: null, microphone: true }, 0)).toBeNull();
  });
});

describe("what the server restores", () => {
  const item = (role: string, text: string, status = "completed", cut = {}): unknown => ({
    type: "conversation.item.done",
    duplex: { restored: true, ...cut },
    item: {
      id: role,
      role,
      status,
      content: [{ type: role === "user" ? "input_text" : "output_audio", text, transcript: text }],
    },
  });
  const told = (...events: unknown[]): typeof INITIAL =>
    [{ type: "session.created" }, ...events].reduce<typeof INITIAL>(
      (was, event) => {
        const decoded = decode(JSON.stringify(event));
        if (decoded.kind !== "event") throw new Error(JSON.stringify(decoded));
        return reduce(was, { at: 5, event: decoded.event });
      },
      reduce(INITIAL, { at: 0, event: { type: "local.reconnecting" } }),
    );

  it("is shown as it was said and heard", () => {
    const state = told(item("user", "Hello."), item("assistant", "Good"));
    expect(state.phase).toBe("listening");
    expect(state.captions.map((caption) => caption.kind)).toEqual(["user", "reply"]);
    expect(heardAndAhead(state.captions[1] as ReplyCaption, 9, 15)).toEqual({ heard: "Good", ahead: "" });
  });

  it("tells a reply that was cut from one that ended early by itself, and both from a whole one", () => {
    const shown = (status: string, cut = {}): ReplyCaption => {
      const caption = told(item("assistant", "Good", status, cut)).captions.at(-1);
      if (caption?.kind !== "reply") throw new Error("it is a reply");
      return caption;
    };
    const cut = shown("incomplete", { cut: true });
    expect([cut.status, cut.playout, remarkOf(cut)]).toEqual(["incomplete", "cut", "interrupted"]);
    expect(heardAndAhead(cut, 9, 15)).toEqual({ heard: "Good", ahead: "" });
    expect(remarkOf(shown("completed", { cut: true }))).toBe("interrupted");
    expect(remarkOf(shown("incomplete"))).toBe("not finished");
    expect(remarkOf(shown("completed"))).toBe("");
  });
});
