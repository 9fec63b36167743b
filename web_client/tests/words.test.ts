import { describe, expect, it } from "vitest";
import type { Problem } from "../sdk/problem.ts";
import { captureCause } from "../sdk/problem.ts";
import { INITIAL } from "../sdk/state.ts";
import { actionLabel, problemWords, stateWords } from "../page/words.ts";

const NOW = 10_000;

describe("problemWords", () => {
  const solvable: readonly Problem[] = [
    ...(["denied", "missing", "busy", "insecure", "stopped"] as const).map((cause) => ({ kind: "microphone", cause }) as const),
    { kind: "full", retryAt: NOW },
    { kind: "starting", retryAt: NOW },
    { kind: "unreachable" },
    { kind: "access" },
    { kind: "refused", status: 400, message: "No audio section" },
    { kind: "timeout" },
    { kind: "lost" },
    { kind: "ending", endsAt: NOW },
    { kind: "expired" },
    { kind: "server", message: "odd" },
    { kind: "playback" },
  ];

  it.each(solvable)("offers something to do about $kind $cause", (problem) => {
    const words = problemWords(problem, 4, NOW);
    expect(words.title).not.toBe("");
    expect(words.text).toMatch(/[.)]$/);
    expect(words.actions.map((action) => actionLabel(action, problem))).not.toEqual([]);
  });

  it("counts down, and stops at nought", () => {
    const full: Problem = { kind: "full", retryAt: NOW + 2500 };
    expect(problemWords(full, 4, NOW).text).toBe("The server holds 4 conversations at a time. Try again in 3 s.");
    expect(problemWords(full, 1, NOW + 2499).text).toBe("The server holds 1 conversation at a time. Try again in 1 s.");
    expect(problemWords(full, null, NOW + 9000).text).toBe("The server is busy. You can try again.");
  });
});

describe("captureCause", () => {
  it.each([
    ["NotAllowedError", "denied"],
    ["SecurityError", "denied"],
    ["NotFoundError", "missing"],
    ["NotReadableError", "busy"],
    ["TypeError", "insecure"],
  ])("reads %s as %s", (name, cause) => {
    expect(captureCause(Object.assign(new Error(), { name }))).toBe(cause);
  });
});

describe("stateWords", () => {
  it("says whether the page listens", () => {
    const live = { ...INITIAL, phase: "listening" } as const;
    expect(stateWords({ ...live, microphone: "live" }).label).toBe("Listening");
    expect(stateWords({ ...live, microphone: "muted" }).label).toBe("Muted");
    expect(stateWords({ ...live, microphone: "paused" }).label).toBe("Microphone paused");
    expect(stateWords({ ...live, microphone: "off" }).label).toBe("Connected");
  });
});
