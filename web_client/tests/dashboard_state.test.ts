import { describe, expect, it } from "vitest";
import { loopChart, ttfasChart } from "../page/dashboard/charts.ts";
import { decodeSnapshot } from "../page/dashboard/decode.ts";
import type { Quantiles, Snapshot } from "../page/dashboard/snapshot.ts";
import { type DashboardState, type Happening, INITIAL, linkWords, reduce } from "../page/dashboard/state.ts";

const NONE: Quantiles = { n: 0, p50: null, p90: null, p95: null };

function snapshot(seq: number, changes: Partial<Snapshot> = {}): Snapshot {
  return {
    seq,
    at_s: 1_000 + seq / 5,
    uptime_s: 50 + seq / 5,
    version: "0.1.0",
    model: { name: "sim", test_double: true },
    window_s: 300,
    bucket_s: 5,
    sessions: { live: 0, max: 8, draining: false },
    ttfas: {
      sent: NONE,
      heard: NONE,
      split: { endpointing: NONE, transcribe: NONE, think: NONE, talk: NONE, vocode: NONE, send: NONE },
    },
    history: [],
    underruns: { window_n: 0, window_s: 0, total_n: 0, total_s: 0 },
    barge_in: { detect: NONE, confirm: NONE, egress: NONE, outcomes: {} },
    lanes: [],
    stages: [],
    admission: { admitted: 0, refused: {}, limits: [] },
    loop: { lag: NONE, lateness: NONE, overhead: NONE },
    invariants_broken: 0,
    stale_packets: 0,
    ...changes,
  };
}

function take(seq: number, changes: Partial<Snapshot> = {}): Happening {
  return { type: "snapshot", snapshot: snapshot(seq, changes), receivedMs: seq * 200 };
}

function play(...happenings: readonly Happening[]): DashboardState {
  return happenings.reduce(reduce, INITIAL);
}

const LOST: Happening = { type: "lost", cause: "unreachable", status: null, retryMs: 5_000 };

describe("the link", () => {
  it("is connecting, then live", () => {
    expect(INITIAL.link.kind).toBe("connecting");
    expect(play({ type: "connecting" }, take(1)).link).toEqual({ kind: "live" });
  });

  it("keeps the last snapshot when it is lost, and says so until a new one comes", () => {
    const lost = play(take(1), LOST, { type: "connecting" });
    expect(lost.link.kind).toBe("lost");
    expect(lost.snapshot?.seq).toBe(1);
    expect(reduce(lost, take(9)).link.kind).toBe("live");
  });

  it("says why and when it tries again", () => {
    expect(linkWords(play(take(1), LOST), 2_500)).toEqual({
      label: "Connection lost",
      text: "The server does not answer.",
      again: "Trying again in 3 s.",
    });
    expect(linkWords(play(take(1), LOST), 5_100).again).toBe("Trying again.");
    const busy = play({ type: "lost", cause: "busy", status: 503, retryMs: 0 });
    expect(linkWords(busy, 0).text).toBe("The server takes no further watcher. (status 503)");
  });

  it("says that the server drains", () => {
    const draining = play(take(1, { sessions: { live: 3, max: 8, draining: true } }));
    expect(linkWords(draining, 0)).toEqual({ label: "Draining", text: "", again: "" });
  });
});

describe("snapshots", () => {
  it("that come twice change nothing but the link", () => {
    const once = play(take(1), take(2));
    const again = { type: "snapshot", snapshot: snapshot(2), receivedMs: 9_000 } as const;
    expect(play(take(1), take(2), LOST, again)).toEqual(once);
  });

  it("of another process begin a new page", () => {
    const lane = { key: 1, mode: "listening", transport: "webrtc", lead_ms: 0, target_ms: null, slack_ms: null, epoch: 0, age_s: 1 } as const;
    const before = play(take(1, { lanes: [lane] }), take(6), take(11));
    const restarted = reduce(before, take(20, { uptime_s: 0.2 }));
    expect(before.loop).toHaveLength(3);
    expect(restarted.loop).toHaveLength(1);
    expect(restarted.lanes.size).toBe(0);
  });

  it("leave one point per second, for ten minutes", () => {
    const all = play(...Array.from({ length: 3_500 }, (_, index) => take(index)));
    expect(all.loop.length).toBeGreaterThan(550);
    expect(all.loop.length).toBeLessThanOrEqual(601);
    expect(all.heard).toHaveLength(all.loop.length);
  });
});

describe("the charts", () => {
  const bucket = { at_s: 990, ttfas_p50_s: 0.5, ttfas_p90_s: 0.7, underruns: 1, barge_ins: 2, sessions: 3 };

  it("have nothing to show before the first snapshot", () => {
    expect(ttfasChart(INITIAL)).toBeNull();
    expect(loopChart(INITIAL)).toBeNull();
  });

  it("put a step's value in its middle, and the running step's not past now", () => {
    const chart = ttfasChart(play(take(0, { history: [bucket, { ...bucket, at_s: 999 }] })));
    const sent = chart?.lines.find(({ className }) => className === "line-sent");
    expect(sent?.points).toEqual([
      { at_s: 992.5, value: 0.5 },
      { at_s: 1_000, value: 0.5 },
    ]);
    expect(chart?.strips.map(({ points }) => points[0]?.value)).toEqual([3, 2, 1]);
  });

  it("leave a gap where nothing was measured", () => {
    const chart = ttfasChart(play(take(0, { history: [{ ...bucket, ttfas_p50_s: null, ttfas_p90_s: null }] })));
    expect(chart?.lines[0]?.points[0]?.value).toBeNull();
    expect(chart?.readings[0]?.text).toContain("sent p50 –");
  });
});

describe("the decoder", () => {
  it("takes a snapshot", () => {
    expect(decodeSnapshot(JSON.stringify(snapshot(3)))).toEqual(snapshot(3));
  });

  it("refuses everything else", () => {
    const { lanes: _, ...lacking } = snapshot(3);
    for (const text of ["", "{", "null", "[]", "7", "{}", JSON.stringify(lacking), JSON.stringify({ ...snapshot(3), seq: "3" })]) {
      expect(decodeSnapshot(text)).toBeNull();
    }
  });
});
