import { describe, expect, it } from "vitest";
import {
  aheadMs,
  aheadShare,
  delayMs,
  ENDED_MS,
  follow,
  hearClock,
  laneAt,
  laneGrid,
  lanesInWords,
  type LaneTrack,
  type LaneTracks,
  type PictureClock,
  shownMs,
  stretches,
} from "../page/dashboard/lanes.ts";
import type { LaneView } from "../page/dashboard/snapshot.ts";

const LANE: LaneView = {
  key: 7,
  mode: "speaking",
  transport: "webrtc",
  lead_ms: 400,
  target_ms: 420,
  slack_ms: 500,
  epoch: 0,
  age_s: 3,
};

type Shot = readonly [at_s: number, ...lanes: Partial<LaneView>[]];

function after(...shots: readonly Shot[]): LaneTracks {
  return shots.reduce<LaneTracks>(
    (tracks, [at_s, ...lanes]) => follow(tracks, { at_s, lanes: lanes.map((lane) => ({ ...LANE, ...lane })) }),
    new Map(),
  );
}

function only(tracks: LaneTracks): LaneTrack {
  const [track] = tracks.values();
  if (track === undefined || tracks.size !== 1) throw new Error(`${tracks.size} lanes`);
  return track;
}

describe("a lane between two snapshots", () => {
  it("grows and drains in a straight line", () => {
    const track = only(after([100, { lead_ms: 400 }], [100.2, { lead_ms: 200, slack_ms: 300 }], [100.4, { lead_ms: 500 }]));
    expect(laneAt(track, 100_050)).toMatchObject({ leadMs: 350, slackMs: 450 });
    expect(laneAt(track, 100_200)).toMatchObject({ leadMs: 200, slackMs: 300 });
    expect(laneAt(track, 100_300)?.leadMs).toBeCloseTo(350);
  });

  it("is not invented before the first one or after the newest", () => {
    const track = only(after([100, { lead_ms: 400 }], [100.2, { lead_ms: 300 }]));
    expect(laneAt(track, 99_999)).toBeNull();
    expect(laneAt(track, 105_000)?.leadMs).toBe(300);
  });

  it("drains up to a cut and holds nothing after it", () => {
    const track = only(after([100, { lead_ms: 400 }], [100.2, { lead_ms: 0, slack_ms: null, epoch: 1, mode: "hearing" }]));
    expect(laneAt(track, 100_100)?.leadMs).toBe(300);
    expect(laneAt(track, 100_199)?.leadMs).toBe(201);
    expect(laneAt(track, 100_200)).toMatchObject({ leadMs: 0, mode: "hearing" });
    expect(track.cuts).toEqual([100_200]);
  });

  it("has its slack only where a reply plays", () => {
    const track = only(after([100, { slack_ms: null }], [100.2, { slack_ms: 300 }]));
    expect(laneAt(track, 100_100)?.slackMs).toBeNull();
  });
});

describe("the tracks", () => {
  it("keep the order in which sessions came", () => {
    const tracks = after([100, { key: 2 }, { key: 5 }], [100.2, { key: 5 }, { key: 9 }, { key: 2 }]);
    expect([...tracks.keys()]).toEqual([2, 5, 9]);
  });

  it("keep an ended session for a while", () => {
    const gone = after([100, { key: 2 }], [100.2]);
    expect(only(gone).endedMs).toBe(100_200);
    expect(follow(gone, { at_s: 100.2 + ENDED_MS / 1000 - 0.01, lanes: [] }).size).toBe(1);
    expect(follow(gone, { at_s: 100.2 + ENDED_MS / 1000, lanes: [] }).size).toBe(0);
  });

  it("are bounded by the past that is shown", () => {
    const shots = Array.from({ length: 500 }, (_, index): Shot => [100 + index / 5, { epoch: index }]);
    const track = only(after(...shots));
    expect(track.samples.length).toBeLessThan(60);
    expect(track.cuts.length).toBeLessThan(60);
    const newestMs = 100_000 + 499 * 200;
    expect(track.samples[0]?.atMs).toBeLessThanOrEqual(newestMs - 10_000);
  });

  it("take no snapshot twice and none from before", () => {
    const tracks = after([100, { lead_ms: 1 }], [100, { lead_ms: 2 }], [99, { lead_ms: 3 }]);
    expect(only(tracks).samples.map(({ leadMs }) => leadMs)).toEqual([1]);
  });

  it("know when a session began", () => {
    expect(only(after([100, { age_s: 3 }])).bornMs).toBe(97_000);
  });
});

describe("the past in stretches", () => {
  const track = only(
    after(
      [100, { mode: "hearing", slack_ms: null }],
      [100.2, { mode: "hearing", slack_ms: null }],
      [100.4, { mode: "speaking" }],
      [100.6, { mode: "speaking", slack_ms: -40 }],
    ),
  );

  it("joins what is alike and tells dry apart", () => {
    expect(stretches(track, 0, 101_000)).toEqual([
      { fromMs: 100_000, toMs: 100_400, mode: "hearing", dry: false },
      { fromMs: 100_400, toMs: 100_600, mode: "speaking", dry: false },
      { fromMs: 100_600, toMs: 101_000, mode: "speaking", dry: true },
    ]);
  });

  it("is cut to what is shown", () => {
    expect(stretches(track, 100_300, 100_500)).toEqual([
      { fromMs: 100_300, toMs: 100_400, mode: "hearing", dry: false },
      { fromMs: 100_400, toMs: 100_500, mode: "speaking", dry: false },
    ]);
  });
});

describe("the clock of the picture", () => {
  function hear(...arrivals: readonly (readonly [at: number, received: number])[]): PictureClock {
    const clock = arrivals.reduce<PictureClock | null>((known, [at, received]) => hearClock(known, at, received), null);
    if (clock === null) throw new Error("heard nothing");
    return clock;
  }

  it("follows the least delayed snapshot", () => {
    const clock = hear([10_000, 1_000], [10_200, 1_290], [10_400, 1_401]);
    expect(clock.offsetMs).toBeCloseTo(9_000, -1);
    expect(clock.offsetMs).toBeGreaterThan(8_998);
  });

  it("runs behind by more than one snapshot, so that it moves through known time", () => {
    const clock = hear([10_000, 1_000], [10_200, 1_200], [10_400, 1_400]);
    expect(delayMs(clock)).toBeCloseTo(300);
    expect(shownMs(clock, 1_500)).toBeCloseTo(10_200);
    expect(shownMs(clock, 1_600)).toBeCloseTo(10_300);
  });

  it("stands at the newest snapshot when nothing comes", () => {
    const clock = hear([10_000, 1_000], [10_200, 1_200]);
    expect(shownMs(clock, 60_000)).toBe(10_200);
  });

  it("begins anew when the server's clock was set", () => {
    expect(hear([10_000, 1_000], [99_000, 1_200]).offsetMs).toBe(97_800);
    expect(hear([10_000, 1_000], [5_000, 1_200]).newestMs).toBe(5_000);
  });
});

describe("the places of the lanes", () => {
  it("holds every lane, whatever their number", () => {
    for (const count of [1, 8, 100, 200, 1_000]) {
      for (const [width, height] of [[1_000, 400], [340, 300]] as const) {
        const { columns, rows, pitch } = laneGrid(count, width, height);
        expect(columns * rows).toBeGreaterThanOrEqual(count);
        expect(rows * pitch).toBeLessThanOrEqual(height + 1e-6);
      }
    }
  });

  it("is one column of tall lanes for few and columns of thin ones for many", () => {
    expect(laneGrid(1, 1_000, 400)).toEqual({ columns: 1, rows: 1, pitch: 64 });
    expect(laneGrid(8, 1_000, 400)).toEqual({ columns: 1, rows: 8, pitch: 50 });
    expect(laneGrid(100, 1_000, 400)).toEqual({ columns: 2, rows: 50, pitch: 8 });
  });

  it("shows a future that holds the furthest lead, target and slack", () => {
    const tracks = (lane: Partial<LaneView>): LaneTracks => after([100, lane]);
    expect(aheadMs(tracks({ lead_ms: 100, target_ms: 300, slack_ms: 120 }), 100_000)).toBe(500);
    expect(aheadMs(tracks({ lead_ms: 100, target_ms: 500, slack_ms: null }), 100_000)).toBe(1_000);
    expect(aheadMs(tracks({ lead_ms: 4_000, target_ms: null, slack_ms: null }), 100_000)).toBe(5_000);
    expect(aheadMs(new Map(), 100_000)).toBe(500);
  });

  it("draws the near future in proportion and bends, without a jump, beyond it", () => {
    expect(aheadShare(250, 500)).toBe(0.5);
    expect(aheadShare(500, 5_000)).toBeCloseTo(aheadShare(1_000, 5_000) / 2);
    expect(aheadShare(1_000.01, 5_000)).toBeCloseTo(aheadShare(1_000, 5_000), 4);
    expect(aheadShare(5_000, 5_000)).toBeCloseTo(1);
    expect(aheadShare(9_000, 5_000)).toBe(1);
    expect(aheadShare(800, 1_000.01)).toBeCloseTo(aheadShare(800, 1_000), 4);
  });
});

describe("the picture in words", () => {
  it("counts modes and names the least slack", () => {
    expect(lanesInWords([])).toBe("No live session.");
    expect(lanesInWords([{ ...LANE, mode: "listening", slack_ms: null }])).toBe("1 session: 1 listening; no reply plays.");
    expect(lanesInWords([LANE, { ...LANE, slack_ms: -20 }, { ...LANE, mode: "hearing", slack_ms: null }])).toBe(
      "3 sessions: 1 hearing, 2 speaking; least slack -20 ms.",
    );
  });
});
