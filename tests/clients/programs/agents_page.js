// The package @openai/agents-realtime over WebRTC, in a page of another origin than the server's.
import { OpenAIRealtimeWebRTC } from "@openai/agents-realtime";
import { agentSteps } from "./agents_steps.js";
import { Microphone, checkHeardSound, readPlan, report } from "./page_steps.js";
import { run } from "./steps.js";

const plan = await readPlan();
const microphone = new Microphone();
const transport = new OpenAIRealtimeWebRTC({
  baseUrl: `${plan.url}/v1/realtime/calls`,
  mediaStream: microphone.stream,
  audioElement: document.querySelector("audio"),
});
const steps = agentSteps(plan, {
  transport: () => transport,
  connect: { apiKey: plan.key },
  listen: () => {},
  say: (pcm) => microphone.say(pcm),
  async heard(log) {
    await log.until("output_audio_buffer.stopped");
    await checkHeardSound(transport.connectionState.peerConnection);
  },
  stop: () => microphone.stop(),
  plays: false,
});
await run(steps, report);
window.finished = true;
