import { describe, expect, it } from "vitest";
import { age, amount, duration, milliseconds, NOTHING, plural, share, wholeAge } from "../page/dashboard/format.ts";
import { bandPath, linear, linePath, roundUp, runs, ticks } from "../page/dashboard/scale.ts";
import { EventStreamParser } from "../page/dashboard/sse.ts";

const spaced = (text: string): string => text.replaceAll(/[\u00a0\u202f]/g, " ");

describe("numbers", () => {
  it("carry three figures and a unit", () => {
    const shown = [null, 0, 0.000_42, 0.001, 0.0032, 0.00996, 0.0123, 0.4124, 0.9994, 0.9996, 1.236, 9.999, 12.34].map(duration);
    expect(shown.map(spaced)).toEqual([
      NOTHING, "0 ms", "0.42 ms", "1.0 ms", "3.2 ms", "10 ms", "12 ms", "412 ms", "999 ms", "1.00 s", "1.24 s", "10.0 s", "12.3 s",
    ]);
  });

  it("name a time in its two largest units", () => {
    expect([0.4, 59.9, 185, 7_620, 356_400].map(age).map(spaced)).toEqual(["0 s", "59 s", "3 min 05 s", "2 h 07 min", "4 d 03 h"]);
  });

  it("name a length that was chosen without its zeros", () => {
    expect([300, 90, 45, 7_200].map(wholeAge).map(spaced)).toEqual(["5 min", "1 min 30 s", "45 s", "2 h"]);
  });

  it("set thousands apart", () => {
    expect([0, 0.5, 12.34, 999, 1_220, 1_234_567, null].map(amount).map(spaced)).toEqual([
      "0", "0.50", "12.3", "999", "1 220", "1 234 567", NOTHING,
    ]);
  });

  it("say nothing of what is not known", () => {
    expect(milliseconds(null)).toBe(NOTHING);
    expect(spaced(milliseconds(-30.4))).toBe("-30 ms");
    expect(spaced(share(0.974))).toBe("97 %");
    expect([spaced(plural(1, "cut")), spaced(plural(0, "cut")), spaced(plural(2, "reply", "replies"))]).toEqual(["1 cut", "0 cuts", "2 replies"]);
  });
});

describe("scales", () => {
  it("map lines to lines, and an empty domain to its start", () => {
    expect(linear(0, 10, 100, 0)(2.5)).toBe(75);
    expect(linear(4, 4, 10, 20)(4)).toBe(10);
  });

  it("round up to 1, 2, 5", () => {
    expect([0.3, 0.11, 2, 2.1, 7, 0.1 + 0.2].map(roundUp).map((value) => Number(value.toFixed(6)))).toEqual([0.5, 0.2, 2, 5, 10, 0.5]);
  });

  it("give ticks that hold the highest value", () => {
    for (const highest of [0, 0.001, 0.37, 0.99, 1, 1.01, 7.4, 230]) {
      const { top, values } = ticks(highest, 0.2, 4);
      expect(top).toBeGreaterThanOrEqual(Math.max(highest, 0.2) - 1e-9);
      expect(values.at(-1)).toBeCloseTo(top);
      expect(values.length).toBeGreaterThanOrEqual(2);
      expect(values.length).toBeLessThanOrEqual(6);
    }
  });
});

describe("paths", () => {
  it("break at gaps and keep a lone point to be seen", () => {
    expect(runs([1, null, 2, 3, null, null])).toEqual([[1], [2, 3]]);
    expect(linePath([{ x: 0, y: 1 }, { x: 2, y: 3 }, null, { x: 8, y: 5 }])).toBe("M0.0 1.0L2.0 3.0M6.5 5.0L9.5 5.0");
    expect(linePath([null])).toBe("");
  });

  it("enclose an area", () => {
    expect(bandPath([{ x: 0, low: 9, high: 5 }, { x: 2, low: 8, high: 4 }])).toBe("M0.0 5.0L2.0 4.0L2.0 8.0L0.0 9.0Z");
    expect(bandPath([{ x: 0, low: 9, high: 5 }])).toBe("");
  });
});

describe("the stream", () => {
  const stream = "retry: 500\r\n\r\n: comment\nid: 4\ndata: {\"a\":\ndata: 1}\n\nevent: x\ndata:two\r\rdata\n\ndata: rest";

  it("gives the same events wherever it is cut", () => {
    const whole = new EventStreamParser().push(stream);
    expect(whole).toEqual(['{"a":\n1}', "two", ""]);
    for (let size = 1; size < stream.length; size += 1) {
      const parser = new EventStreamParser();
      const pieces = Array.from({ length: Math.ceil(stream.length / size) }, (_, index) => stream.slice(index * size, (index + 1) * size));
      expect(pieces.flatMap((piece) => [...parser.push(piece)])).toEqual(whole);
    }
  });

  it("holds an event back until it is complete", () => {
    const parser = new EventStreamParser();
    expect(parser.push("data: a")).toEqual([]);
    expect(parser.push("b\n")).toEqual([]);
    expect(parser.push("\n")).toEqual(["ab"]);
  });
});
