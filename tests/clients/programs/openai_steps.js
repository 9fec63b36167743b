// The package openai of npm: the protocol's own events, over WebSocket and WebRTC.
import { Log, aMoment, check, checkAnswer, checkHeard } from "./steps.js";

const OPEN_DOOR = {
  type: "function",
  name: "open_door",
  description: "Open the door of a room.",
  parameters: { type: "object", properties: { room: { type: "string" } }, required: ["room"] },
};

/**
 * The steps of a program.
 *
 * `connect` opens the session and logs its events; `send` sends one; `say` speaks; `heard` waits until the newest answer
 * has been heard; `playedMs` is how much of it was (null where the server has to know: WebRTC); `close` ends.
 */
export function openaiSteps(plan, { connect, send, say, heard, playedMs, close }) {
  const log = new Log();

  const ask = (text) => {
    const content = [{ type: "input_text", text }];
    send({ type: "conversation.item.create", item: { type: "message", role: "user", content } });
    send({ type: "response.create" });
  };
  const answer = async () => {
    const { response } = await log.until("response.done");
    check(response.status === "completed", JSON.stringify(response));
    const [item] = response.output;
    check(item.content[0].transcript === log.said(item.id), "the item has another text than its deltas");
    await heard(log);
    return log.said(item.id);
  };

  const steps = {
    connect: () => connect(log),
    async configure() {
      const instructions = "Answer in one sentence.";
      send({ type: "session.update", session: { type: "realtime", instructions, audio: { output: { voice: "cedar" } } } });
      const { session } = await log.until("session.updated");
      check(session.instructions === instructions, JSON.stringify(session));
    },
    async voiceTurn() {
      say(plan.question);
      const { transcript } = await log.until("conversation.item.input_audio_transcription.completed");
      check(transcript !== "", "the question has no transcript");
      checkAnswer(await answer(), plan.answers);
    },
    async textTurn() {
      ask(plan.text);
      checkAnswer(await answer(), plan.text_answers);
    },
    async bargeIn() {
      ask(plan.story);
      const { item_id: itemId } = await log.until("response.output_audio_transcript.delta");
      await aMoment();
      say(plan.interruption);
      await log.until("input_audio_buffer.speech_started");
      const played = playedMs();
      const { response } = await log.until("response.done");
      check(response.status_details?.reason === "turn_detected", JSON.stringify(response));
      if (played !== null) {
        const heardUpTo = { item_id: itemId, content_index: 0, audio_end_ms: played };
        send({ type: "conversation.item.truncate", ...heardUpTo });
      }
      await log.untilThat(() => log.of("conversation.item.truncated").length > 0, "conversation.item.truncated");
      const [truncated] = log.of("conversation.item.truncated");
      check(truncated.item_id === itemId, "another item was truncated");
      send({ type: "conversation.item.retrieve", item_id: itemId });
      const { item } = await log.until("conversation.item.retrieved");
      checkHeard(plan, item.content[0].transcript, log.said(itemId), truncated.audio_end_ms);
      await log.until("response.output_audio_transcript.delta");
      if (plan.patient) checkAnswer(await answer(), []);
    },
    async toolCall() {
      send({ type: "session.update", session: { type: "realtime", tools: [OPEN_DOOR] } });
      const updated = await log.until("session.updated");
      check(updated.session.tools[0]?.name === "open_door", JSON.stringify(updated.session.tools));
      ask(plan.tool_request);
      const { name, call_id: callId, arguments: given } = await log.until("response.function_call_arguments.done");
      check(name === "open_door" && "room" in JSON.parse(given), given);
      await log.until("response.done");
      const item = { type: "function_call_output", call_id: callId, output: '{"open": true}' };
      send({ type: "conversation.item.create", item });
      send({ type: "response.create" });
      checkAnswer(await answer(), []);
    },
    async cleanEnd() {
      await close();
      check(log.of("error").length === 0, JSON.stringify(log.of("error")));
    },
  };
  const tools = plan.tool_request === null ? [] : [["tool call", steps.toolCall]];
  return [
    ["connect", steps.connect],
    ["configure", steps.configure],
    ["voice turn", steps.voiceTurn],
    ["text turn", steps.textTurn],
    ["barge-in", steps.bargeIn],
    ...tools,
    ["clean end", steps.cleanEnd],
  ];
}
