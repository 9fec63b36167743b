// The package openai of npm over WebRTC (`realtime/webrtc`), in a page of another origin than the server's.
import OpenAI from "openai";
import { OpenAIRealtimeWebRTC } from "openai/realtime/webrtc";
import { openaiSteps } from "./openai_steps.js";
import { Microphone, checkHeardSound, readPlan, report } from "./page_steps.js";
import { check, run } from "./steps.js";

const plan = await readPlan();
const microphone = new Microphone();
const client = new OpenAI({
  apiKey: plan.key,
  baseURL: `${plan.url}/v1`,
  maxRetries: 0,
  dangerouslyAllowBrowser: true,
});
const connection = new OpenAIRealtimeWebRTC();
const peer = connection.peerConnection;
let callId;
let ended;
const end = new Promise((resolve) => (ended = resolve));

const steps = openaiSteps(plan, {
  async connect(log) {
    connection.onEvent((event) => log.add(event));
    connection.onConnectionEvent((event) => event.type === "closed" && ended(event.reason));
    peer.addTrack(microphone.stream.getAudioTracks()[0], microphone.stream);
    peer.ontrack = ({ streams }) => (document.querySelector("audio").srcObject = streams[0]);
    await connection.connect({
      async exchangeSdp(sdp, { signal }) {
        const session = { type: "realtime", model: "gpt-realtime" };
        const answer = await client.realtime.calls.create({ sdp, session }, { signal });
        callId = answer.headers.get("Location").split("/").pop();
        return answer.text();
      },
    });
    await log.until("session.created");
  },
  send: (event) => connection.send(event),
  say: (pcm) => microphone.say(pcm),
  async heard(log) {
    await log.until("output_audio_buffer.stopped");
    await checkHeardSound(peer);
  },
  playedMs: () => null,
  async close() {
    await client.realtime.calls.hangup(callId);
    // Chromium may tell of the aborted SCTP association ("failed") before the closed channel ("remote").
    check(["remote", "failed"].includes(await end), "the server's end of the call was not seen");
    await microphone.stop();
  },
});
await run(steps, report);
window.finished = true;
