import { describe, expect, it } from "vitest";
import { bar, Levels, STEP_MS } from "../page/levels.ts";
import { follow, NO_TIMELINE, STRIP_MS, type StripEvent, type Timeline } from "../page/timeline.ts";

function after(...events: readonly (readonly [at: number, event: StripEvent])[]): Timeline {
  return events.reduce((timeline, [at, event]) => follow(timeline, at, event), NO_TIMELINE);
}

describe("follow", () => {
  it("draws a turn as heard, made, sent and played", () => {
    const { spans, cuts } = after(
      [100, { type: "input_audio_buffer.speech_started", itemId: "u" }],
      [900, { type: "input_audio_buffer.speech_stopped", itemId: "u" }],
      [950, { type: "response.created", responseId: "r" }],
      [1300, { type: "output_audio_buffer.started", responseId: "r" }],
      [1350, { type: "played", on: true }],
      [2000, { type: "response.done", responseId: "r", status: "completed", reason: "" }],
      [3000, { type: "output_audio_buffer.stopped", responseId: "r" }],
      [3050, { type: "played", on: false }],
    );
    expect(spans).toEqual([
      { row: "heard", id: "u", from: 100, to: 900 },
      { row: "made", id: "r", from: 950, to: 2000 },
      { row: "sent", id: "r", from: 1300, to: 3000 },
      { row: "played", id: "", from: 1350, to: 3050 },
    ]);
    expect(cuts).toEqual([]);
  });

  it("marks a cut where the reply was cleared, and lets what is played go on to its end", () => {
    const { spans, cuts } = after(
      [0, { type: "output_audio_buffer.started", responseId: "r" }],
      [50, { type: "played", on: true }],
      [700, { type: "output_audio_buffer.cleared", responseId: "r" }],
    );
    expect(cuts).toEqual([700]);
    expect(spans.map(({ row, to }) => [row, to])).toEqual([["sent", 700], ["played", null]]);
  });

  it("leaves out what is made beside the conversation", () => {
    const aside = { type: "response.created", responseId: "r", beside: true } as const;
    expect(after([0, aside], [9, { type: "response.done", responseId: "r", status: "completed", reason: "" }]).spans).toEqual([]);
  });

  it("ends everything with the conversation", () => {
    const { spans } = after([0, { type: "response.created", responseId: "r" }], [10, { type: "played", on: true }], [90, { type: "ended" }]);
    expect(spans.every(({ to }) => to === 90)).toBe(true);
  });

  it("forgets what is too old to be drawn, and never what still lasts", () => {
    const begun = after(
      [0, { type: "response.created", responseId: "long" }],
      [10, { type: "input_audio_buffer.speech_started", itemId: "u" }],
      [20, { type: "input_audio_buffer.speech_stopped", itemId: "u" }],
      [30, { type: "output_audio_buffer.cleared", responseId: "x" }],
    );
    const later = follow(begun, STRIP_MS + 31, { type: "session.updated" });
    expect(later.spans.map(({ id }) => id)).toEqual(["long"]);
    expect(later.cuts).toEqual([]);
  });
});

describe("Levels", () => {
  it("keeps the loudest report of a step", () => {
    const levels = new Levels(STRIP_MS);
    levels.push(1000, 0.01);
    levels.push(1000 + STEP_MS - 1, 0.1);
    levels.push(1000 + STEP_MS, 0.001);
    expect(levels.at(1000 + STEP_MS / 2)).toBe(levels.at(1000));
    expect(levels.at(1000)).toBeGreaterThan(levels.at(1000 + STEP_MS));
  });

  it("knows nothing of steps that it was not told of, also in a place used before", () => {
    const levels = new Levels(STRIP_MS);
    levels.push(1000, 0.5);
    expect(levels.at(1000)).toBeGreaterThan(0);
    expect(levels.at(1000 + STRIP_MS + 2 * STEP_MS)).toBe(0);
  });
});

describe("bar", () => {
  it.each([[0, 0], [1, 1], [0.0001, 0]])("of %f is %f at the ends of the scale", (rms, expected) => {
    expect(bar(rms)).toBe(expected);
  });
  it("is half way at the middle in decibels", () => {
    expect(bar(10 ** (-33 / 20))).toBeCloseTo(0.5);
  });
});
