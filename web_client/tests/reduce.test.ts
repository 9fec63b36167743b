import { describe, expect, it } from "vitest";
import type { ServerEvent } from "../sdk/protocol.ts";
import { reduce } from "../sdk/reduce.ts";
import {
  type Caption,
  heardAndAhead,
  INITIAL,
  type LocalEvent,
  type Phase,
  type ReplyCaption,
  ttfasHeard,
  type ViewState,
} from "../sdk/state.ts";

type Step = readonly [at: number, event: ServerEvent | LocalEvent];

function play(steps: readonly Step[], from: ViewState = INITIAL): ViewState {
  return steps.reduce((state, [at, event]) => reduce(state, { at, event }), from);
}

function phases(steps: readonly Step[], from: ViewState = INITIAL): readonly Phase[] {
  const seen: Phase[] = [];
  let state = from;
  for (const [at, event] of steps) {
    state = reduce(state, { at, event });
    if (seen.at(-1) !== state.phase) seen.push(state.phase);
  }
  return seen;
}

function reply(state: ViewState): ReplyCaption {
  const found = state.captions.find((caption): caption is ReplyCaption => caption.kind === "reply");
  if (found === undefined) throw new Error("no reply");
  return found;
}

function words(captions: readonly Caption[]): readonly string[] {
  return captions.map((caption) =>
    caption.kind === "reply" ? caption.pieces.map((piece) => piece.text).join("") : caption.kind === "user" ? caption.text : "—",
  );
}

const said = (id: string): Extract<ServerEvent, { type: "conversation.item.input_audio_transcription.completed" }> => ({
  type: "conversation.item.input_audio_transcription.completed",
  itemId: id,
  transcript: "What is it?",
});
const delta = (text: string): ServerEvent => ({
  type: "response.output_audio_transcript.delta",
  responseId: "r1",
  itemId: "a1",
  delta: text,
});
const done = (status: "completed" | "cancelled" | "failed", reason = ""): ServerEvent => ({
  type: "response.done",
  responseId: "r1",
  status,
  reason,
});
const item: ServerEvent = {
  type: "response.output_item.added",
  responseId: "r1",
  item: { id: "a1", role: "assistant", text: "", spoken: false },
};

const CONNECT: readonly Step[] = [
  [0, { type: "local.connecting" }],
  [50, { type: "session.created" }],
];
const ASK: readonly Step[] = [
  [1000, { type: "input_audio_buffer.speech_started", itemId: "u1" }],
  [2000, { type: "input_audio_buffer.speech_stopped", itemId: "u1" }],
  [2000, { type: "input_audio_buffer.committed", itemId: "u1" }],
];
const ANSWER: readonly Step[] = [
  [2200, said("u1")],
  [2210, { type: "response.created", responseId: "r1" }],
  [2400, item],
  [2400, { type: "output_audio_buffer.started", responseId: "r1" }],
  [2400, delta("It is a lake. ")],
  [2450, { type: "local.sound", on: true }],
];
const FINISH: readonly Step[] = [
  [4000, done("completed")],
  [4100, { type: "output_audio_buffer.stopped", responseId: "r1" }],
];

describe("a spoken turn", () => {
  it("passes through the phases", () => {
    expect(phases([...CONNECT, ...ASK, ...ANSWER, ...FINISH])).toEqual([
      "connecting",
      "listening",
      "thinking",
      "speaking",
      "listening",
    ]);
  });

  it("shows both sides in order, though the transcript comes late", () => {
    const state = play([...CONNECT, ...ASK, ...ANSWER]);
    expect(words(state.captions)).toEqual(["What is it?", "It is a lake. "]);
  });

  it("greys what is not heard yet, and nothing once the sound has drained", () => {
    const speaking = play([...CONNECT, ...ASK, ...ANSWER]);
    expect(heardAndAhead(reply(speaking), 2500, speaking.rate)).toEqual({ heard: "It", ahead: " is a lake. " });
    const over = play(FINISH, speaking);
    expect(heardAndAhead(reply(over), 4100, over.rate)).toEqual({ heard: "It is a lake. ", ahead: "" });
  });

  it("learns the speaking rate from a reply heard to its end", () => {
    const state = play([...CONNECT, ...ASK, ...ANSWER, ...FINISH]);
    expect(state.rate).toBeCloseTo((15 + 14 / 1.65) / 2, 5);
  });

  it("drops an utterance that was taken back", () => {
    const state = play([...CONNECT, ...ASK.slice(0, 1), [3000, { type: "input_audio_buffer.speech_started", itemId: "u2" }]]);
    expect(state.captions.map((caption) => caption.id)).toEqual(["u2"]);
  });

  it("drops one in which no words were found", () => {
    const state = play([...CONNECT, ...ASK, [2100, { ...said("u1"), transcript: " " }]]);
    expect(state.captions).toEqual([]);
  });
});

describe("time to first audible sample", () => {
  const metrics: Step = [2500, { type: "duplex.metrics", responseId: "r1", split: { endpointing: 0.3, ttfas: 0.7 } }];

  it("counts from the end of speech: decision, less its way here, less the server's waiting", () => {
    const state = play([...CONNECT, [60, { type: "local.rtt", rttMs: 40 }], ...ASK, ...ANSWER, metrics]);
    expect(ttfasHeard(reply(state).timing)).toEqual({ ms: 2450 - 2000 + 20 + 300, from: "speech" });
  });

  it("says so when only the decision is known", () => {
    const state = play([...CONNECT, ...ASK, ...ANSWER]);
    expect(ttfasHeard(reply(state).timing)).toEqual({ ms: 450, from: "turn" });
  });

  it("takes metrics that come before the reply's item", () => {
    const early: readonly Step[] = [...ANSWER.slice(0, 2), [2390, metrics[1]], ...ANSWER.slice(2)];
    const state = play([...CONNECT, ...ASK, ...early]);
    expect(ttfasHeard(reply(state).timing)).toMatchObject({ from: "speech" });
  });

  it("takes a sound that was heard just before its event", () => {
    const steps: readonly Step[] = [
      ...ANSWER.slice(0, 3),
      [2380, { type: "local.sound", on: true }],
      [2400, { type: "output_audio_buffer.started", responseId: "r1" }],
    ];
    expect(reply(play([...CONNECT, ...ASK, ...steps])).timing.audibleAt).toBe(2380);
  });

  it("does not take the tail of the reply before it", () => {
    const steps: readonly Step[] = [
      [1500, { type: "local.sound", on: true }],
      [1900, { type: "local.sound", on: false }],
      ...ANSWER.slice(0, 4),
    ];
    expect(reply(play([...CONNECT, ...ASK, ...steps])).timing.audibleAt).toBeNull();
  });

  it("counts a typed turn from its sending", () => {
    const state = play([
      ...CONNECT,
      [1000, { type: "local.said", itemId: "u1", text: "Hello" }],
      [1010, { type: "response.created", responseId: "r1" }],
      [1200, item],
      [1200, { type: "output_audio_buffer.started", responseId: "r1" }],
      [1260, { type: "local.sound", on: true }],
    ]);
    expect(ttfasHeard(reply(state).timing)).toEqual({ ms: 260, from: "sending" });
  });
});

describe("an interruption", () => {
  const speaking = play([...CONNECT, ...ASK, ...ANSWER, [2600, delta("It is deep and cold.")]]);
  const CUT: readonly Step[] = [
    [3000, { type: "input_audio_buffer.speech_started", itemId: "u2" }],
    [3000, done("cancelled", "turn_detected")],
    [3001, { type: "output_audio_buffer.cleared", responseId: "r1" }],
    [3002, { type: "conversation.item.truncated", itemId: "a1", audioEndMs: 600 }],
  ];

  it("shows, settles, and goes on listening", () => {
    expect(phases([...CUT, [3900, { type: "local.settled" }]], speaking)).toEqual([
      "listening",
      "interrupted",
      "listening",
    ]);
  });

  it("is thinking at once if the user is done sooner", () => {
    const state = play([...CUT, [3500, { type: "input_audio_buffer.speech_stopped", itemId: "u2" }]], speaking);
    expect(state.phase).toBe("thinking");
    expect(play([[3900, { type: "local.settled" }]], state).phase).toBe("thinking");
  });

  it("removes unheard words by the estimate, then by the server's word for it", () => {
    const cut = play(CUT, speaking);
    const estimate = heardAndAhead(reply(cut), 9999, cut.rate);
    expect(estimate).toEqual({ heard: "It is a lake.", ahead: "" });
    const known = play(
      [[3100, { type: "conversation.item.retrieved", item: { id: "a1", role: "assistant", text: "It is a", spoken: true } }]],
      cut,
    );
    expect(heardAndAhead(reply(known), 9999, known.rate)).toEqual({ heard: "It is a", ahead: "" });
  });

  it("leaves nothing of a reply that had not begun", () => {
    const steps: readonly Step[] = [...ANSWER.slice(0, 3), [2405, done("cancelled")]];
    const state = play([...CONNECT, ...ASK, ...steps]);
    expect(words(state.captions)).toEqual(["What is it?"]);
  });

  it("cuts the sound of a reply whose making is done", () => {
    const steps: readonly Step[] = [
      [2700, done("completed")],
      [3001, { type: "output_audio_buffer.cleared", responseId: "r1" }],
    ];
    const state = play(steps, speaking);
    expect(state.phase).toBe("interrupted");
    expect(reply(state)).toMatchObject({ playout: "cut", status: "completed", cutAt: 3001 });
  });

  it("does not touch a reply that was heard to its end", () => {
    const over = play(FINISH, speaking);
    const state = play([[5000, { type: "output_audio_buffer.cleared", responseId: "r1" }]], over);
    expect(reply(state).playout).toBe("drained");
    expect(state.phase).toBe("listening");
  });

  it("goes back to speaking when a voice did not interrupt", () => {
    const steps: readonly Step[] = [
      [3000, { type: "input_audio_buffer.speech_started", itemId: "u2" }],
      [3400, { type: "input_audio_buffer.speech_stopped", itemId: "u2" }],
    ];
    expect(phases(steps, speaking)).toEqual(["listening", "speaking"]);
  });
});

describe("a reply that does not come", () => {
  it("is not awaited for a turn without words", () => {
    const state = play([...CONNECT, ...ASK, [2100, { ...said("u1"), transcript: " " }]]);
    expect(state).toMatchObject({ phase: "listening", turn: null });
  });

  it("is not awaited for a turn that could not be transcribed", () => {
    const failed: ServerEvent = { type: "conversation.item.input_audio_transcription.failed", itemId: "u1" };
    expect(play([...CONNECT, ...ASK, [2100, failed]])).toMatchObject({ phase: "listening", turn: null });
  });

  it("is not awaited for speech that was thrown away", () => {
    const state = play([...CONNECT, ...ASK.slice(0, 2), [2000, { type: "input_audio_buffer.cleared" }]]);
    expect(state.phase).toBe("listening");
  });

  it("is awaited on for what was typed beside a turn without words", () => {
    const typed: LocalEvent = { type: "local.said", itemId: "u2", text: "Hello" };
    expect(play([...CONNECT, ...ASK, [2050, typed], [2100, { ...said("u1"), transcript: "" }]]).phase).toBe("thinking");
  });
});

describe("typing", () => {
  it("shows the message once, though the server repeats it", () => {
    const echo = { id: "u1", role: "user", text: "Hello", spoken: false } as const;
    const state = play([
      ...CONNECT,
      [100, { type: "local.said", itemId: "u1", text: "Hello" }],
      [110, { type: "conversation.item.added", item: echo }],
      [111, { type: "conversation.item.done", item: echo }],
    ]);
    expect(words(state.captions)).toEqual(["Hello"]);
    expect(state.phase).toBe("thinking");
  });

  it("while speaking is answered together with the speech: no other reply is awaited", () => {
    const steps: readonly Step[] = [
      ...ASK.slice(0, 1),
      [1500, { type: "local.microphone", microphone: "muted" }],
      [1600, { type: "local.said", itemId: "u2", text: "Hello" }],
      [1610, { type: "response.created", responseId: "r1" }],
      ...ASK.slice(1),
      [2200, said("u1")],
      ...ANSWER.slice(2),
    ];
    const speaking = play([...CONNECT, ...steps]);
    expect(speaking).toMatchObject({ phase: "speaking", turn: null });
    expect(ttfasHeard(reply(speaking).timing)).toEqual({ ms: 450, from: "turn" });
    expect(play(FINISH, speaking).phase).toBe("listening");
  });

  it("ends thinking with a reply that makes no sound", () => {
    const state = play([
      ...CONNECT,
      [100, { type: "local.said", itemId: "u1", text: "Hello" }],
      [110, { type: "response.created", responseId: "r1" }],
      [120, { type: "response.output_text.delta", responseId: "r1", itemId: "a1", delta: "Hi." }],
      [130, done("completed")],
    ]);
    expect(state.phase).toBe("listening");
    expect(heardAndAhead(reply(state), 130, state.rate)).toEqual({ heard: "Hi.", ahead: "" });
  });
});

describe("a response beside the conversation", () => {
  const created: ServerEvent = { type: "response.created", responseId: "aside", beside: true };
  const its: readonly ServerEvent[] = [
    { type: "response.output_item.added", responseId: "aside", item: { id: "i", role: "assistant", text: "", spoken: false } },
    { type: "response.output_text.delta", responseId: "aside", itemId: "i", delta: "pleased" },
    { type: "response.output_audio_transcript.delta", responseId: "aside", itemId: "i", delta: "pleased" },
  ];
  const over = (status: "completed" | "cancelled" | "failed"): ServerEvent => ({
    type: "response.done",
    responseId: "aside",
    status,
    reason: "",
  });

  it("is no turn, whenever its events come", () => {
    const plain = [...CONNECT, ...ASK, ...ANSWER, ...FINISH];
    const among = plain.slice(CONNECT.length).flatMap((step, i): readonly Step[] => {
      const event = its[i % its.length];
      return event === undefined ? [step] : [step, [step[0], event]];
    });
    const steps: readonly Step[] = [...CONNECT, [60, created], ...among];
    expect(phases(steps)).toEqual(phases(plain));
    expect(play(steps)).toEqual({ ...play(plain), besideIds: ["aside"] });
  });

  it.each(["completed", "cancelled", "failed"] as const)("is forgotten when it is %s", (status) => {
    const idle = play(CONNECT);
    expect(play([[60, created], ...its.map((event): Step => [70, event]), [80, over(status)]], idle)).toEqual(idle);
  });

  it("takes no answer's place", () => {
    const waiting = play([...CONNECT, ...ASK, [2100, created]]);
    expect(waiting.turn).not.toBeNull();
    expect(play([[2200, over("completed")]], waiting).phase).toBe("thinking");
  });
});

describe("trouble", () => {
  it("marks a failed reply and listens again", () => {
    const state = play([...CONNECT, ...ASK, [2100, { type: "response.created", responseId: "r1" }], [2150, item], [2200, done("failed", "out of memory")]]);
    expect(state.phase).toBe("listening");
    expect(reply(state)).toMatchObject({ status: "failed", reason: "out of memory" });
  });

  it("ends with a lost connection and keeps what was heard", () => {
    const state = play([...CONNECT, ...ASK, ...ANSWER, [2600, { type: "local.problem", problem: { kind: "lost" } }]]);
    expect(state).toMatchObject({ phase: "idle", problem: { kind: "lost" }, playingId: null, microphone: "off" });
    expect(reply(state)).toMatchObject({ playout: "cut", status: "cancelled" });
  });

  it("shows nothing as heard behind the last sound before the loss", () => {
    const silent: Step = [2700, { type: "local.sound", on: false }];
    const state = play([...CONNECT, ...ASK, ...ANSWER, silent, [9000, { type: "local.problem", problem: { kind: "lost" } }]]);
    expect(heardAndAhead(reply(state), 9000, state.rate)).toEqual({ heard: "It is", ahead: "" });
  });

  it("goes on after an error of one event, and forgets it on request", () => {
    const error: ServerEvent = { type: "error", code: "bad", message: "No.", clientEventId: null };
    const state = play([...CONNECT, [100, error]]);
    expect(state).toMatchObject({ phase: "listening", problem: { kind: "server", message: "No." } });
    expect(play([[200, { type: "local.dismissed" }]], state).problem).toBeNull();
  });

  it("draws one line between conversations, and none for an attempt that failed", () => {
    const first = play([...CONNECT, ...ASK, [2100, said("u1")], [3000, { type: "local.ended" }]]);
    const failed = play([[4000, { type: "local.connecting" }], [4100, { type: "local.problem", problem: { kind: "timeout" } }]], first);
    expect(words(failed.captions)).toEqual(["What is it?"]);
    expect(words(play(CONNECT, failed).captions)).toEqual(["What is it?", "—"]);
    expect(words(play([...CONNECT, [60, { type: "local.ended" }], ...CONNECT], failed).captions)).toEqual(["What is it?", "—"]);
  });

  it("does not change on happenings that it does not know in its state", () => {
    const stray: readonly Step[] = [
      [1, { type: "output_audio_buffer.stopped", responseId: "r9" }],
      [2, { type: "conversation.item.truncated", itemId: "a9", audioEndMs: 1 }],
      [3, { type: "duplex.metrics", responseId: "r9", split: {} }],
      [4, { type: "local.settled" }],
    ];
    expect(play(stray, play(CONNECT))).toEqual(play(CONNECT));
  });
});
