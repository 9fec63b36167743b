import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { FrontErrors, magnitudeAt } from "../page/front_error.ts";
import { beginning, bufferMs, concealedMs, outputMs, playedMs, type Playout, playoutOf, rested } from "../sdk/playback.ts";
import type { ServerEvent } from "../sdk/protocol.ts";
import { PLAYBACK_EVERY_MS, PlaybackReporter, type PlayedFront } from "../sdk/playback_reporter.ts";

const NOTHING: Playout = {
  at: 0,
  emitted: 0,
  bufferedS: 0,
  received: 0,
  concealed: 0,
  silentConcealed: 0,
  stretched: 0,
  outputs: 0,
  outputDelayS: 0,
};

function playout(change: Partial<Playout>): Playout {
  return { ...NOTHING, ...change };
}

function inbound(change: Record<string, unknown>): RTCStats {
  return { type: "inbound-rtp", kind: "audio", id: "i", timestamp: 0, ...change } as unknown as RTCStats;
}

describe("playedMs", () => {
  const begun = playout({ at: 1000, emitted: 48_000 });
  it("is what came out of the jitter buffer since the reply began, and the time since it was counted, less half a packet", () => {
    expect(playedMs(begun, playout({ at: 1480, emitted: 48_000 + 400 * 48 }), 1500)).toBe(410);
  });
  it("is heard after the delay of the output", () => {
    const latest = { at: 1480, emitted: 48_000 + 400 * 48, outputs: 19_200, outputDelayS: 19_200 * 0.03 };
    expect(playedMs(begun, playout(latest), 1500)).toBeCloseTo(380);
    expect(playedMs(begun, playout({ ...latest, outputDelayS: 19_200 }), 1500)).toBe(0);
  });
  it("is nothing before the first sample came out, however long that takes", () => {
    expect(playedMs(begun, playout({ at: 1400, emitted: 48_000 }), 1500)).toBe(0);
  });
  it("does not run back where the clocks disagree", () => {
    expect(playedMs(begun, playout({ at: 1505, emitted: 48_000 + 48_000 }), 1500)).toBe(990);
  });
});

describe("outputMs", () => {
  it("is the mean between two counts, and nothing where the browser tells none", () => {
    const before = playout({ outputs: 4800, outputDelayS: 480 });
    expect(outputMs(before, playout({ outputs: 9600, outputDelayS: 480 + 4800 * 0.02 }))).toBeCloseTo(20);
    expect(outputMs(before, before)).toBe(0);
  });
});

describe("beginning", () => {
  const rest = playout({ at: 1000, emitted: 9600 });
  it("is the count at the event, where what came since the pause may be its silence", () => {
    for (const event of [playout({ at: 1399, emitted: 9600 + 960 }), playout({ at: 1400, emitted: 9600 + 1920 })]) {
      expect(beginning(rest, event)).toBe(event);
      expect(beginning(null, event)).toBe(event);
    }
  });
  it("is the pause before it, where the event came after the sound", () => {
    expect(beginning(rest, playout({ at: 1399, emitted: 9600 + 961 }))).toBe(rest);
    expect(beginning(rest, playout({ at: 3400, emitted: 9600 + 48 * 2000 }))).toBe(rest);
  });
});

describe("rested", () => {
  it("tells a pause, with a packet now and then, from sound", () => {
    const before = playout({ at: 0, emitted: 0 });
    expect(rested(before, playout({ at: 500, emitted: 960 * 2 }))).toBe(true);
    expect(rested(before, playout({ at: 500, emitted: 48 * 300 }))).toBe(false);
  });
});

describe("playoutOf", () => {
  it("reads the incoming voice, on the clock of the page", () => {
    const film = { type: "inbound-rtp", kind: "video", id: "v", timestamp: 0 } as unknown as RTCStats;
    const voice = inbound({ timestamp: 5, jitterBufferEmittedCount: 7, jitterBufferDelay: 0.5, totalSamplesReceived: 9, concealedSamples: 4, silentConcealedSamples: 3, insertedSamplesForDeceleration: 6, removedSamplesForAcceleration: 1 });
    const counted = { at: 105, emitted: 7, bufferedS: 0.5, received: 9, concealed: 4, silentConcealed: 3, stretched: 5 };
    expect(playoutOf([film, voice], 100)).toEqual({ ...counted, outputs: 0, outputDelayS: 0 });
    const output = { type: "media-playout", id: "o", timestamp: 5, totalSamplesCount: 8, totalPlayoutDelay: 0.2 } as unknown as RTCStats;
    expect(playoutOf([output, voice], 100)).toEqual({ ...counted, outputs: 8, outputDelayS: 0.2 });
  });
  it("is null before there is one", () => {
    expect(playoutOf([{ type: "transport", id: "t", timestamp: 0 }], 0)).toBeNull();
  });
});

describe("the jitter buffer", () => {
  it("holds a sample for the mean of what lies between two counts", () => {
    const before = playout({ emitted: 4800, bufferedS: 100 });
    expect(bufferMs(before, playout({ emitted: 9600, bufferedS: 100 + 4800 * 0.06 }))).toBeCloseTo(60);
    expect(bufferMs(before, before)).toBeNull();
  });
  it("makes up sound only where something was to be heard", () => {
    expect(concealedMs(playout({ concealed: 9600, silentConcealed: 4800 }))).toBe(100);
  });
});

describe("PlaybackReporter", () => {
  let report: readonly RTCStats[];
  let fronts: PlayedFront[];
  let packet: RTCRtpSynchronizationSource | null;
  let reporter: PlaybackReporter;

  beforeEach(() => {
    vi.useFakeTimers();
    report = [];
    fronts = [];
    packet = null;
    reporter = new PlaybackReporter({
      stats: () => Promise.resolve(report),
      playing: () => packet,
      played: (front) => fronts.push(front),
    });
    reporter.take({ type: "session.created" });
  });
  afterEach(() => vi.useRealTimers());

  it("reports while a reply plays, and not after its end", async () => {
    report = [inbound({ timestamp: Date.now(), jitterBufferEmittedCount: 96 })];
    reporter.take({ type: "output_audio_buffer.started", responseId: "r" });
    await vi.advanceTimersByTimeAsync(0);
    expect(fronts).toEqual([]);
    report = [inbound({ timestamp: Date.now() + PLAYBACK_EVERY_MS, jitterBufferEmittedCount: 96 + 48 * 440 })];
    await vi.advanceTimersByTimeAsync(PLAYBACK_EVERY_MS);
    expect(fronts.map(({ responseId, playedMs }) => [responseId, Math.round(playedMs)])).toEqual([["r", 430]]);
    reporter.take({ type: "output_audio_buffer.stopped", responseId: "r" });
    await vi.advanceTimersByTimeAsync(10 * PLAYBACK_EVERY_MS);
    expect(fronts).toHaveLength(1);
  });

  it("goes by the packet that plays, where the server tells which one begins the reply", async () => {
    const count = (outputs: number): void => {
      const output = { type: "media-playout", id: "o", timestamp: 0, totalSamplesCount: outputs, totalPlayoutDelay: outputs / 100 };
      report = [inbound({ timestamp: Date.now(), jitterBufferEmittedCount: 96 }), output as unknown as RTCStats];
    };
    count(0);
    reporter.take({ type: "output_audio_buffer.started", responseId: "r", rtpStart: 2 ** 32 - 960 });
    await vi.advanceTimersByTimeAsync(PLAYBACK_EVERY_MS);
    expect(fronts).toHaveLength(1);
    count(480);
    const timestamp = performance.timeOrigin + performance.now() + PLAYBACK_EVERY_MS - 5;
    packet = { timestamp, rtpTimestamp: 48 * 380, source: 1 };
    await vi.advanceTimersByTimeAsync(PLAYBACK_EVERY_MS);
    expect(fronts[1]?.playedMs).toBeCloseTo(20 + 380 + 5 - 10, 0);
    reporter.take({ type: "output_audio_buffer.stopped", responseId: "r" });
    reporter.take({ type: "output_audio_buffer.started", responseId: "s" });
    await vi.advanceTimersByTimeAsync(2 * PLAYBACK_EVERY_MS);
    expect(fronts.at(-1)).toMatchObject({ responseId: "s", playedMs: 0 });
  });

  it("counts from the pause before a reply whose event came late", async () => {
    const count = (emitted: number): void => {
      report = [inbound({ timestamp: Date.now() + PLAYBACK_EVERY_MS, jitterBufferEmittedCount: emitted })];
    };
    for (const emitted of [960, 960, 960 + 48 * 500, 960 + 48 * 1000]) {
      count(emitted);
      await vi.advanceTimersByTimeAsync(PLAYBACK_EVERY_MS);
    }
    reporter.take({ type: "output_audio_buffer.started", responseId: "r" });
    await vi.advanceTimersByTimeAsync(0);
    count(960 + 48 * 1500);
    await vi.advanceTimersByTimeAsync(PLAYBACK_EVERY_MS);
    expect(fronts.map(({ playedMs }) => Math.round(playedMs))).toEqual([1490]);
  });

  it("counts the pause anew when a reply is announced", async () => {
    const counts = async (emitted: number, event: ServerEvent): Promise<void> => {
      report = [inbound({ timestamp: Date.now(), jitterBufferEmittedCount: emitted })];
      reporter.take(event);
      await vi.advanceTimersByTimeAsync(0);
    };
    report = [inbound({ timestamp: Date.now() + PLAYBACK_EVERY_MS, jitterBufferEmittedCount: 960 })];
    await vi.advanceTimersByTimeAsync(PLAYBACK_EVERY_MS + 300);
    await counts(1920, { type: "response.created", responseId: "r" });
    await vi.advanceTimersByTimeAsync(100);
    await counts(1920 + 48 * 60, { type: "output_audio_buffer.started", responseId: "r" });
    report = [inbound({ timestamp: Date.now() + 100, jitterBufferEmittedCount: 1920 + 48 * 160 })];
    await vi.advanceTimersByTimeAsync(100);
    expect(fronts.map(({ playedMs }) => Math.round(playedMs))).toEqual([150]);
  });

  it("counts each reply from its own beginning, and lets the end of another pass", async () => {
    report = [inbound({ timestamp: Date.now(), jitterBufferEmittedCount: 4800 })];
    reporter.take({ type: "output_audio_buffer.started", responseId: "a" });
    await vi.advanceTimersByTimeAsync(0);
    reporter.take({ type: "output_audio_buffer.cleared", responseId: "a" });
    reporter.take({ type: "output_audio_buffer.started", responseId: "b" });
    await vi.advanceTimersByTimeAsync(0);
    reporter.take({ type: "output_audio_buffer.stopped", responseId: "a" });
    report = [inbound({ timestamp: Date.now() + PLAYBACK_EVERY_MS, jitterBufferEmittedCount: 9600 })];
    await vi.advanceTimersByTimeAsync(PLAYBACK_EVERY_MS);
    expect(fronts.map(({ responseId, playedMs }) => [responseId, Math.round(playedMs)])).toEqual([["b", 90]]);
  });
});

describe("FrontErrors", () => {
  const counted = (concealedMs: number, stretchedMs: number): Playout =>
    playout({ concealed: 48 * concealedMs, stretched: 48 * stretchedMs });
  const front = (at: number, playedMs: number, concealedMs = 0, stretchedMs = 0): PlayedFront => ({
    responseId: "r",
    at,
    playedMs,
    playout: counted(concealedMs, stretchedMs),
  });
  const hears = (errors: FrontErrors, at: number): void => {
    errors.sound(true, at);
    errors.counted(at, NOTHING);
  };

  it("compares what is reported with the time since the sound began, whichever is seen first", () => {
    const late = new FrontErrors();
    late.started("r", 1000);
    hears(late, 1060);
    late.front(front(1560, 480));
    const early = new FrontErrors();
    hears(early, 1060);
    early.started("r", 1070);
    early.front(front(1560, 480));
    for (const errors of [late, early]) expect(errors.all.map(({ errorMs }) => errorMs)).toEqual([-20]);
  });

  it("compares nothing with the sound of an earlier reply, nor after a pause", () => {
    const errors = new FrontErrors();
    hears(errors, 0);
    errors.started("r", 5000);
    errors.front(front(5500, 400));
    errors.sound(false, 5600);
    hears(errors, 5900);
    errors.front(front(6000, 900));
    expect(errors.all).toEqual([]);
  });

  it("is no fair judge where sound was made up", () => {
    const errors = new FrontErrors();
    errors.started("r", 0);
    hears(errors, 60);
    errors.front(front(560, 500));
    errors.front(front(1060, 700, 300));
    expect(errors.all.map(({ concealedMs }) => concealedMs)).toEqual([0, 300]);
    expect(errors.fair.map(({ errorMs }) => errorMs)).toEqual([0]);
  });

  it("takes the time for less sound where the browser stretched it", () => {
    const errors = new FrontErrors();
    errors.started("r", 0);
    hears(errors, 60);
    errors.front(front(560, 450, 0, 40));
    expect(errors.all).toMatchObject([{ heardMs: 460, errorMs: -10 }]);
  });

  it("leaves out what was stretched and made up before the onset, and waits for the count of it", () => {
    const errors = new FrontErrors();
    errors.started("r", 0);
    errors.sound(true, 60);
    errors.front(front(560, 500, 40, 30));
    errors.counted(20, NOTHING);
    errors.front(front(1060, 1000, 40, 30));
    expect(errors.all).toEqual([]);
    errors.counted(60, counted(40, 30));
    errors.front(front(1560, 1490, 40, 40));
    expect(errors.fair).toMatchObject([{ concealedMs: 0, stretchedMs: 10, errorMs: 0 }]);
  });

  it("ranks by magnitude", () => {
    const of = (errorMs: number) => ({ at: 0, playedMs: 0, heardMs: 0, stretchedMs: 0, concealedMs: 0, errorMs });
    expect(magnitudeAt(0.95, [of(-30), of(10), of(5)])).toBe(30);
    expect(magnitudeAt(0.5, [])).toBeNull();
  });
});
