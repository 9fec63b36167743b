import { describe, expect, it } from "vitest";
import { heardLength, learnRate, type Piece } from "../sdk/heard.ts";
import { OnsetDetector } from "../sdk/onset.ts";

const RATE = 10;

describe("heardLength", () => {
  const pieces: readonly Piece[] = [
    { text: "One two three. ", at: 0 },
    { text: "Four five.", at: 1500 },
  ];

  it("is nothing before the reply is audible", () => {
    expect(heardLength(pieces, null, 5000, RATE)).toBe(0);
    expect(heardLength(pieces, 100, 99, RATE)).toBe(0);
  });

  it("counts a word from its first sound", () => {
    expect(heardLength(pieces, 0, 0, RATE)).toBe("One".length);
    expect(heardLength(pieces, 0, 450, RATE)).toBe("One two".length);
  });

  it("begins a piece when it arrives, if the piece before it is over", () => {
    const late: readonly Piece[] = [{ text: "One. ", at: 0 }, { text: "Two.", at: 2000 }];
    expect(heardLength(late, 0, 1900, RATE)).toBe("One. ".length);
    expect(heardLength(late, 0, 2000, RATE)).toBe("One. Two.".length);
  });

  it("begins a piece that came ahead of its time when the one before it ends", () => {
    const early: readonly Piece[] = [{ text: "One two three. ", at: 0 }, { text: "Four five.", at: 10 }];
    expect(heardLength(early, 0, 1400, RATE)).toBe("One two three. ".length);
    expect(heardLength(early, 0, 1500, RATE)).toBe("One two three. Four".length);
  });

  it("never moves back, and reaches the end", () => {
    let last = 0;
    for (let now = 0; now <= 4000; now += 7) {
      const length = heardLength(pieces, 0, now, RATE);
      expect(length).toBeGreaterThanOrEqual(last);
      last = length;
    }
    expect(last).toBe("One two three. Four five.".length);
  });

  it("keeps a word whole that two pieces share", () => {
    const shared: readonly Piece[] = [{ text: "Won", at: 0 }, { text: "derful day", at: 5000 }];
    expect(heardLength(shared, 0, 1000, RATE)).toBe("Wonderful".length);
  });
});

describe("learnRate", () => {
  it("goes half way to what was seen", () => {
    expect(learnRate(15, 100, 5000)).toBe(17.5);
  });

  it("learns nothing from a word, and stays within bounds", () => {
    expect(learnRate(15, 10, 900)).toBe(15);
    expect(learnRate(15, 1000, 2000)).toBe(22.5);
    expect(learnRate(15, 1, 60_000)).toBe(11.5);
  });
});

describe("OnsetDetector", () => {
  const BLOCK_MS = 128 / 48;

  it("reports the first audible block, and the end after lasting silence", () => {
    const detector = new OnsetDetector();
    const peaks = [0, 0.001, 0.2, 0.3, ...Array<number>(80).fill(0.001)];
    const reports = peaks.map((peak) => detector.push(peak, BLOCK_MS));
    expect(reports.indexOf("on")).toBe(2);
    expect(reports.indexOf("off")).toBe(3 + Math.ceil(150 / BLOCK_MS));
    expect(reports.filter((report) => report !== null)).toHaveLength(2);
  });

  it("does not end a sound in the gaps between words", () => {
    const detector = new OnsetDetector();
    const gap = Array<number>(50).fill(0);
    const reports = [0.1, ...gap, 0.1, ...gap, 0.1].map((peak) => detector.push(peak, BLOCK_MS));
    expect(reports.filter((report) => report !== null)).toEqual(["on"]);
  });
});
