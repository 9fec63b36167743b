import { describe, expect, it } from "vitest";
import { limitedWords, problemWords, timeLeft } from "../page/words.ts";
import { decode, type ServerEvent } from "../sdk/protocol.ts";
import { reduce } from "../sdk/reduce.ts";
import { INITIAL, type LocalEvent, type ViewState } from "../sdk/state.ts";

type Step = readonly [at: number, event: ServerEvent | LocalEvent];

function play(steps: readonly Step[], from: ViewState = INITIAL): ViewState {
  return steps.reduce((state, [at, event]) => reduce(state, { at, event }), from);
}

function event(fields: Record<string, unknown>): ServerEvent {
  const decoded = decode(JSON.stringify(fields));
  if (decoded.kind !== "event") throw new Error(JSON.stringify(decoded));
  return decoded.event;
}

function said(id: string): ServerEvent {
  return { type: "conversation.item.added", item: { id, role: "user", text: id, spoken: false } };
}

const CREATED = event({ type: "session.created", session: { duplex: { recorded: true } } });
const ENDING = event({ type: "duplex.session.ending", reason: "max_length", seconds_left: 60.0 });
const LIVE: readonly Step[] = [
  [0, { type: "local.connecting" }],
  [50, CREATED],
];

describe("a recorded conversation", () => {
  it("is shown as such as long as it lasts, also while the connection is gone", () => {
    const live = play(LIVE);
    expect(live.recorded).toBe(true);
    expect(play([[100, event({ type: "session.updated", session: { duplex: { recorded: true } } })]], live).recorded).toBe(true);
    const away = play([[100, { type: "local.reconnecting" }]], live);
    expect(away.recorded).toBe(true);
    expect(play([[200, CREATED]], away).recorded).toBe(true);
    expect(play([[100, { type: "local.ended" }]], live).recorded).toBe(false);
  });
  it("is one only where the server says so", () => {
    for (const session of [undefined, {}, { duplex: {} }, { duplex: { recorded: "true" } }, { duplex: null }]) {
      expect(play([[0, { type: "local.connecting" }], [50, event({ type: "session.created", session })]]).recorded).toBe(false);
    }
  });
});

describe("the greatest length of a conversation", () => {
  it("is told ahead: a warning that can be dismissed, and the time left that stays", () => {
    const warned = play([[1000, ENDING]], play(LIVE));
    expect(warned).toMatchObject({ phase: "listening", endsAt: 61_000, problem: { kind: "ending", endsAt: 61_000 } });
    expect(play([[2000, { type: "local.dismissed" }]], warned)).toMatchObject({ endsAt: 61_000, problem: null });
    expect(play([[2000, { type: "local.reconnecting" }]], warned)).toMatchObject({ endsAt: 61_000, problem: null });
    expect(play([[2000, { type: "local.ended" }]], warned)).toMatchObject({ endsAt: null, problem: null });
  });
  it("hides no other problem", () => {
    const denied: LocalEvent = { type: "local.problem", problem: { kind: "microphone", cause: "denied" } };
    expect(play([[900, denied], [1000, ENDING]], play(LIVE))).toMatchObject({ endsAt: 61_000, problem: { kind: "microphone" } });
  });
  it("ends it", () => {
    const over = play([[1000, ENDING], [61_000, { type: "local.problem", problem: { kind: "expired" } }]], play(LIVE));
    expect(over).toMatchObject({ phase: "idle", endsAt: null, problem: { kind: "expired" } });
  });
  it("is counted down", () => {
    expect([60_000, 59_001, 9_999, 1, 0, -5].map(timeLeft)).toEqual(["1:00", "1:00", "0:10", "0:01", null, null]);
    expect(problemWords({ kind: "ending", endsAt: 61_000 }, null, 31_000).title).toBe("This conversation ends in 0:30");
    expect(problemWords({ kind: "ending", endsAt: 61_000 }, null, 61_000).title).toBe("This conversation ends now");
  });
});

describe("the greatest length of a turn", () => {
  it("is told at the turn that had it", () => {
    const limited = event({ type: "duplex.turn.limited", item_id: "u1", audio_ms: 30_296 });
    const state = play([[100, { type: "input_audio_buffer.committed", itemId: "u1" }], [100, limited], [200, said("u2")]], play(LIVE));
    expect(state.captions.map((caption) => "limitedMs" in caption && caption.limitedMs)).toEqual([30_296, false]);
    expect(limitedWords(30_296)).toContain("at most 30 s");
  });
});

describe("a conversation that outgrows the context", () => {
  const trimmed = (id: string): ServerEvent => event({ type: "duplex.context.trimmed", first_item_id: id, items: 2 });
  const ids = (state: ViewState): readonly string[] => state.captions.map(({ id }) => id);
  const long = play(["u1", "u2", "u3"].map((id, index) => [100 + index, said(id)]), play(LIVE));

  it("has one line above the oldest words that the model still gets", () => {
    const once = play([[200, trimmed("u2")]], long);
    expect(ids(once)).toEqual(["u1", "forgotten-1", "u2", "u3"]);
    expect(ids(play([[300, trimmed("u3")]], once))).toEqual(["u1", "u2", "forgotten-1", "u3"]);
  });
  it("leaves the line where the item is not shown", () => {
    const once = play([[200, trimmed("u2")]], long);
    expect(ids(play([[300, trimmed("call_1")]], once))).toEqual(ids(once));
  });
});
