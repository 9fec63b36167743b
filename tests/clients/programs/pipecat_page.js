// The packages @pipecat-ai/client-js and @pipecat-ai/small-webrtc-transport, in a page of another origin than the server's.
import { PipecatClient, RTVIEvent } from "@pipecat-ai/client-js";
import { SmallWebRTCTransport } from "@pipecat-ai/small-webrtc-transport";
import { Microphone, checkHeardSound, readPlan, report } from "./page_steps.js";
import { Log, aMoment, check, checkAnswer, checkHeard, run } from "./steps.js";

const plan = await readPlan();
const microphone = new Microphone();
const log = new Log();

/** The app's own devices; the transport's default loads its code from its maker's servers. */
const devices = {
  isMicEnabled: true,
  isCamEnabled: false,
  supportsScreenShare: false,
  setClientOptions() {},
  async initialize() {},
  async connect() {},
  async disconnect() {},
  tracks: () => ({ local: { audio: microphone.stream.getAudioTracks()[0] } }),
};
const transport = new SmallWebRTCTransport({ mediaManager: devices });
const client = new PipecatClient({ transport, enableMic: true, enableCam: false });
for (const name of Object.values(RTVIEvent)) client.on(name, (data) => log.add({ ...data, type: name, told: data }));
client.on(RTVIEvent.TrackStarted, (track) => {
  document.querySelector("audio").srcObject = new MediaStream([track]);
});

const outputs = (from, status) =>
  log.of(RTVIEvent.BotOutput).filter((output) => log.events.indexOf(output) >= from && output.spoken_status === status);
const textOf = (segments) => segments.map(({ text }) => text).join(" ");

/** Waits until an answer has been heard; returns its text. */
async function answer() {
  await log.until(RTVIEvent.BotStartedSpeaking);
  const from = log.events.length;
  await log.until(RTVIEvent.BotStoppedSpeaking);
  await checkHeardSound(transport.pc);
  check(textOf(outputs(from, "new")) === textOf(outputs(from, "completed")), "not all that was told was spoken");
  return textOf(outputs(from, "completed"));
}

const toolCall = [
  "tool call",
  async () => {
    const opened = [];
    client.registerFunctionCallHandler("open_door", async ({ arguments: { room } }) => {
      opened.push(room);
      return { open: true };
    });
    await client.sendClientRequest("session.update", {
      type: "realtime",
      tools: [
        {
          type: "function",
          name: "open_door",
          description: "Open the door of a room.",
          parameters: { type: "object", properties: { room: { type: "string" } }, required: ["room"] },
        },
      ],
    });
    await client.sendText(plan.tool_request);
    await log.until(RTVIEvent.LLMFunctionCallInProgress);
    checkAnswer(await answer(), []);
    check(opened.join() === "kitchen", `the tool was called for ${opened}`);
    check(log.of(RTVIEvent.LLMFunctionCallStopped).length === 1, "the call never ended");
  },
];

await run(
  [
    [
      "connect",
      async () => {
        const { version } = await client.connect({
          webrtcRequestParams: {
            endpoint: `${plan.url}/api/offer`,
            headers: new Headers({ Authorization: `Bearer ${plan.key}` }),
            requestData: { session: { type: "realtime", instructions: "Answer in one sentence." } },
          },
        });
        check(version.startsWith("2."), version);
        check(client.state === "ready", client.state);
      },
    ],
    [
      "configure",
      async () => {
        const session = await client.sendClientRequest("session.update", {
          type: "realtime",
          audio: { output: { voice: "cedar" } },
        });
        check(session.instructions === "Answer in one sentence.", JSON.stringify(session));
        const refused = await client.sendClientRequest("session.update", { audio: 3 }).catch((error) => error);
        check(refused.data?.duplex.param === "session.audio", JSON.stringify(refused));
      },
    ],
    [
      "voice turn",
      async () => {
        microphone.say(plan.question);
        await log.until(RTVIEvent.UserStartedSpeaking);
        await log.until(RTVIEvent.UserStoppedSpeaking);
        const final = () => log.of(RTVIEvent.UserTranscript).find((words) => words.final);
        await log.untilThat(final, "the final transcript");
        check(final().text !== "" && !Number.isNaN(Date.parse(final().timestamp)), JSON.stringify(final()));
        checkAnswer(await answer(), plan.answers);
      },
    ],
    [
      "text turn",
      async () => {
        await client.sendText(plan.text);
        checkAnswer(await answer(), plan.text_answers);
      },
    ],
    [
      "barge-in",
      async () => {
        const from = log.events.length;
        const onsets = log.of(RTVIEvent.UserStartedSpeaking).length;
        await client.sendText(plan.story);
        await log.until(RTVIEvent.BotOutput);
        await aMoment();
        microphone.say(plan.interruption);
        const cut = () => outputs(from, "in-progress")[0];
        await log.untilThat(cut, "what was heard of the answer");
        const said = textOf(outputs(from, "new"));
        const heard = `${textOf(outputs(from, "completed"))} ${cut().spoken_progress.accumulated_text}`;
        checkHeard({ ...plan, word_ms: null }, heard, said, null);
        const told = log.of(RTVIEvent.UserStartedSpeaking).length - onsets;
        check(told === 1, `the client was told ${told} times that it was interrupted`);
        const answers = log.of(RTVIEvent.BotStartedSpeaking).length;
        await log.untilThat(() => log.of(RTVIEvent.BotStartedSpeaking).length > answers, "the answer to the interruption");
      },
    ],
    ...(plan.tool_request === null ? [] : [toolCall]),
    [
      "a connection that fails",
      async () => {
        const former = transport.pc_id;
        await transport.attemptReconnection(true); // what the transport does by itself when ICE has failed
        const resumed = () => log.of(RTVIEvent.ServerMessage).some(({ told }) => told.type === "duplex.session.resumed");
        await log.untilThat(resumed, "the same session");
        check(transport.pc_id === former, "the session has another pc_id");
        await client.sendText(plan.text, { audio_response: false });
        const written = () => log.of(RTVIEvent.BotOutput).find((output) => output.will_be_spoken === false);
        await log.untilThat(written, "a written answer");
        checkAnswer(written().text, plan.text_answers);
      },
    ],
    [
      "clean end",
      async () => {
        client.disconnectBot(); // the server says goodbye, and the client leaves
        await log.until(RTVIEvent.BotDisconnected);
        await log.untilThat(() => client.state === "disconnected", "the end");
        check(log.of(RTVIEvent.Error).length === 0, JSON.stringify(log.of(RTVIEvent.Error)));
        await microphone.stop();
      },
    ],
  ],
  report,
);
window.finished = true;
