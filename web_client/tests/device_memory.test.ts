import { describe, expect, it } from "vitest";
import { type Chosen, readChosen, withoutGone } from "../page/device_memory.ts";

const device = (kind: MediaDeviceKind, deviceId: string) => ({ kind, deviceId });

describe("readChosen", () => {
  it("reads what was kept, and nothing else", () => {
    const chosen: Chosen = { audioinput: "headset", videoinput: "" };
    expect(readChosen(JSON.stringify(chosen))).toEqual(chosen);
    expect(readChosen(JSON.stringify({ audioinput: 7, secret: "x", audiooutput: "hall" }))).toEqual({ audiooutput: "hall" });
    for (const other of ["", "null", "[]", "7", "{"]) expect(readChosen(other)).toEqual({});
  });
});

describe("withoutGone", () => {
  const chosen: Chosen = { audioinput: "headset", videoinput: "lid" };

  it("keeps what is there", () => {
    expect(withoutGone(chosen, [device("audioinput", "headset"), device("videoinput", "lid")])).toBe(chosen);
  });
  it("forgets what has gone, alone or as the last of its kind", () => {
    expect(withoutGone(chosen, [device("audioinput", "built-in"), device("videoinput", "lid")])).toEqual({ videoinput: "lid" });
    expect(withoutGone(chosen, [device("audioinput", "headset")])).toEqual({ audioinput: "headset" });
  });
  it("knows of none that has gone before the page may see devices of that kind", () => {
    const unseen = [device("audioinput", ""), device("videoinput", "")];
    expect(withoutGone(chosen, unseen)).toBe(chosen);
    expect(withoutGone(chosen, [])).toBe(chosen);
    expect(withoutGone(chosen, [device("audioinput", "headset"), device("videoinput", "")])).toBe(chosen);
  });
  it("has nothing to forget of the system's choice", () => {
    const system: Chosen = { audioinput: "" };
    expect(withoutGone(system, [device("audioinput", "headset")])).toBe(system);
  });
});
