// The package @openai/agents-realtime: an agent's session, the same over WebSocket and WebRTC.
import { RealtimeAgent, RealtimeSession, tool } from "@openai/agents-realtime";
import { z } from "zod";
import { Log, aMoment, check, checkAnswer, checkHeard } from "./steps.js";

/**
 * The steps of a program.
 *
 * `transport` makes the session's transport; `connect` is what it connects with; `listen` begins to give it the
 * microphone once it is connected; `say` speaks into that; `heard` waits until the newest answer has been heard;
 * `stop` ends the microphone; `plays` is whether the app plays the audio itself and has to be told to stop.
 */
export function agentSteps(plan, { transport, connect, listen, say, heard, stop, plays }) {
  const log = new Log();
  const errors = [];
  const opened = [];
  let interruptions = 0;
  const instructions = "Answer in one sentence.";
  const agent = new RealtimeAgent({ name: "Assistant", instructions });
  const session = new RealtimeSession(agent, { transport: transport(), model: "gpt-realtime", tracingDisabled: true });
  session.on("transport_event", (event) => log.add(event));
  session.on("history_updated", () => log.add());
  session.on("audio_interrupted", () => interruptions++);
  session.on("error", ({ error }) => errors.push(error?.error ?? error));

  const kept = (itemId) => {
    const item = session.history.find((one) => one.itemId === itemId);
    return (item?.content ?? []).map((part) => part.transcript ?? "").join("");
  };
  const answer = async () => {
    const { response } = await log.until("response.done");
    check(response.status === "completed", JSON.stringify(response));
    const itemId = response.output[0].id;
    await log.untilThat(() => kept(itemId) === log.said(itemId), "the answer in the history");
    await heard(log);
    return kept(itemId);
  };

  const steps = {
    async connect() {
      await session.connect(connect);
      listen(session);
    },
    async configure() {
      await log.untilThat(() => log.of("session.updated").length > 0, "session.updated");
      const configured = log.of("session.updated").some(({ session: { instructions: set, audio } }) => {
        return set === instructions && audio.input.turn_detection.type === "semantic_vad";
      });
      check(configured, "the session is not as it was asked for");
    },
    async voiceTurn() {
      say(plan.question);
      const { item_id: itemId } = await log.until("conversation.item.input_audio_transcription.completed");
      checkAnswer(await answer(), plan.answers);
      await log.untilThat(() => kept(itemId) !== "", "the question's transcript in the history");
    },
    async textTurn() {
      session.sendMessage(plan.text);
      checkAnswer(await answer(), plan.text_answers);
    },
    async bargeIn() {
      session.sendMessage(plan.story);
      const { item_id: itemId } = await log.until("response.output_audio_transcript.delta");
      await aMoment();
      const before = interruptions;
      say(plan.interruption);
      const { response } = await log.until("response.done");
      check(response.status_details?.reason === "turn_detected", JSON.stringify(response));
      await log.untilThat(() => log.of("conversation.item.truncated").length > 0, "conversation.item.truncated");
      const [truncated] = log.of("conversation.item.truncated");
      check(truncated.item_id === itemId, "another item was truncated");
      const ofItem = () => log.of("conversation.item.retrieved").find(({ item }) => item.id === itemId);
      await log.untilThat(ofItem, "conversation.item.retrieved");
      const { transcript } = ofItem().item.content[0];
      await log.untilThat(() => kept(itemId) === transcript, "the history to hold what was heard");
      checkHeard(plan, kept(itemId), log.said(itemId), truncated.audio_end_ms);
      await log.until("response.output_audio_transcript.delta");
      if (plan.patient) checkAnswer(await answer(), []);
      check(!plays || interruptions > before, "the session did not tell the app to stop playing");
    },
    async toolCall() {
      const openDoor = tool({
        name: "open_door",
        description: "Open the door of a room.",
        parameters: z.object({ room: z.string() }),
        execute: async ({ room }) => {
          opened.push(room);
          return "The door is open.";
        },
      });
      await session.updateAgent(new RealtimeAgent({ name: "Janitor", instructions, tools: [openDoor] }));
      const updated = await log.until("session.updated");
      check(updated.session.tools.some(({ name }) => name === "open_door"), JSON.stringify(updated.session.tools));
      session.sendMessage(plan.tool_request);
      const { response } = await log.until("response.done");
      check(response.output.some(({ type }) => type === "function_call"), JSON.stringify(response.output));
      checkAnswer(await answer(), []);
      check(opened.length === 1, `the tool ran ${opened.length} times`);
      const call = session.history.find(({ type }) => type === "function_call");
      check(call?.output === "The door is open.", JSON.stringify(call));
    },
    async cleanEnd() {
      stop();
      session.close();
      await log.untilThat(() => session.transport.status === "disconnected", "the end");
      check(errors.length === 0, JSON.stringify(errors));
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
