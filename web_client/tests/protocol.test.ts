import { describe, expect, it } from "vitest";
import { decode, encode, type ServerEvent } from "../sdk/protocol.ts";

function event(fields: Record<string, unknown>): ServerEvent {
  const decoded = decode(JSON.stringify(fields));
  if (decoded.kind !== "event") throw new Error(JSON.stringify(decoded));
  return decoded.event;
}

describe("decode", () => {
  it("reads the fields it needs and lets the others pass", () => {
    expect(
      event({ type: "input_audio_buffer.speech_stopped", event_id: "e1", item_id: "i1", audio_end_ms: 900, later: [] }),
    ).toEqual({ type: "input_audio_buffer.speech_stopped", itemId: "i1" });
  });

  it("joins an item's text and transcripts", () => {
    const content = [
      { type: "input_text", text: "One " },
      { type: "input_audio", transcript: "two" },
      { type: "input_image", image_url: "data:," },
      "not a part",
    ];
    expect(event({ type: "conversation.item.added", item: { id: "i1", role: "user", content } })).toEqual({
      type: "conversation.item.added",
      item: { id: "i1", role: "user", text: "One two", spoken: true },
    });
  });

  it("gives no role to items that are not messages", () => {
    const added = event({ type: "conversation.item.added", item: { id: "f1", type: "function_call", name: "x" } });
    expect(added).toMatchObject({ item: { role: null, text: "", spoken: false } });
  });

  it("finds why a response ended", () => {
    const done = (response: unknown): ServerEvent => event({ type: "response.done", response });
    expect(
      done({ id: "r1", status: "cancelled", status_details: { type: "cancelled", reason: "turn_detected" } }),
    ).toMatchObject({ status: "cancelled", reason: "turn_detected" });
    expect(done({ id: "r1", status: "failed", status_details: { error: { message: "out of memory" } } })).toMatchObject({
      status: "failed",
      reason: "out of memory",
    });
    expect(done({ id: "r1", status: "completed", status_details: null })).toMatchObject({ reason: "" });
  });

  it("keeps of a latency split what is a number", () => {
    expect(
      event({ type: "duplex.metrics", response_id: "r1", split: { endpointing: 0.2, think: null, new_part: 1 } }),
    ).toMatchObject({ split: { endpointing: 0.2 } });
  });

  it("finds the RTP timestamp at which a reply begins, where it is told", () => {
    const started = { type: "output_audio_buffer.started", response_id: "r1" };
    expect(event({ ...started, duplex: { rtp_timestamp: 7 } })).toEqual({ type: started.type, responseId: "r1", rtpStart: 7 });
    expect(event(started)).toEqual({ type: started.type, responseId: "r1" });
  });

  it("keeps markup as the text it is", () => {
    const delta = "<img src=x onerror=alert(1)>";
    expect(
      event({ type: "response.output_audio_transcript.delta", response_id: "r", item_id: "i", delta }),
    ).toMatchObject({ delta });
  });

  it.each([
    ["", "not JSON"],
    ["[]", "not an object with a type"],
    ["null", "not an object with a type"],
    ['{"type":7}', "not an object with a type"],
    ['{"type":"response.created"}', "response.created: response is not an object"],
    ['{"type":"response.done","response":{"id":"r","status":"odd"}}', "response.done: status is none of"],
    ['{"type":"conversation.item.truncated","item_id":"i","audio_end_ms":"9"}', "audio_end_ms is not a number"],
  ])("calls %s unreadable", (text, reason) => {
    const decoded = decode(text);
    expect(decoded.kind).toBe("unreadable");
    expect(decoded).toHaveProperty("reason", expect.stringContaining(reason));
  });

  it("tells a response beside the conversation by its null conversation_id", () => {
    const event = (conversation_id: string | null) => JSON.stringify({ type: "response.created", response: { id: "r", conversation_id } });
    expect(decode(event("conv"))).toMatchObject({ event: { type: "response.created", responseId: "r" } });
    expect(decode(event("conv"))).not.toHaveProperty("event.beside");
    expect(decode(event(null))).toHaveProperty("event.beside", true);
  });

  it("lets types pass that it does not use, names of Object's own members too", () => {
    expect(decode('{"type":"rate_limits.updated"}')).toEqual({ kind: "unused", type: "rate_limits.updated" });
    expect(decode('{"type":"constructor"}')).toEqual({ kind: "unused", type: "constructor" });
  });
});

describe("encode", () => {
  it("writes the wire's names", () => {
    expect(JSON.parse(encode({ type: "conversation.item.retrieve", item_id: "i1" }))).toEqual({
      type: "conversation.item.retrieve",
      item_id: "i1",
    });
  });
});
