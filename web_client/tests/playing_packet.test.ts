import { describe, expect, it } from "vitest";
import { playedOfPacketMs, playingPacket } from "../sdk/playing_packet.ts";

describe("playingPacket", () => {
  it("reads what the browser tells, on the clock of the page", () => {
    expect(playingPacket({ timestamp: 5, rtpTimestamp: 960 }, 100)).toEqual({ at: 105, rtpTimestamp: 960 });
  });
  it("is null before the first packet, and where the browser does not tell", () => {
    expect(playingPacket(null, 0)).toBeNull();
    expect(playingPacket({ timestamp: 5 }, 0)).toBeNull();
  });
});

describe("playedOfPacketMs", () => {
  const packet = { at: 1000, rtpTimestamp: 4800 + 48 * 400 };
  it("is what lies between the reply's beginning and the packet, and the time since, heard after the output's delay", () => {
    expect(playedOfPacketMs(4800, packet, 1015, 0)).toBe(415);
    expect(playedOfPacketMs(4800, packet, 1015, 30)).toBe(385);
  });
  it("knows nothing of wrapping", () => {
    const wrapped = { at: 1000, rtpTimestamp: 480 };
    expect(playedOfPacketMs(2 ** 32 - 480, wrapped, 1000, 0)).toBe(20);
    expect(playedOfPacketMs(480, { at: 1000, rtpTimestamp: 2 ** 32 - 480 }, 1000, 0)).toBe(0);
  });
  it("is nothing while the reply waits in the buffer or the output", () => {
    expect(playedOfPacketMs(4800 + 48 * 420, packet, 1500, 0)).toBe(0);
    expect(playedOfPacketMs(4800 + 48 * 390, packet, 1005, 30)).toBe(0);
  });
  it("stands when no packet comes any more, and never runs back", () => {
    expect(playedOfPacketMs(4800, packet, 9000, 0)).toBe(500);
    expect(playedOfPacketMs(4800, packet, 990, 0)).toBe(400);
  });
});
