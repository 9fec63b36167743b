// The package @openai/agents-realtime over WebSocket, in Node.
import { OpenAIRealtimeWebSocket } from "@openai/agents-realtime";
import { agentSteps } from "./agents_steps.js";
import { Microphone, readPlan, report } from "./node_steps.js";
import { run } from "./steps.js";

const plan = readPlan();
const microphone = new Microphone();
const url = `${plan.url.replace("http", "ws")}/v1/realtime?model=gpt-realtime`;
let audioMs = 0;
let audioBegan = 0;
const steps = agentSteps(plan, {
  transport: () => new OpenAIRealtimeWebSocket(),
  connect: { apiKey: plan.key, url },
  listen: (session) => {
    session.transport.on("turn_started", () => (audioMs = 0));
    session.on("audio", ({ data }) => {
      if (audioMs === 0) audioBegan = performance.now();
      audioMs += data.byteLength / 48;
    });
    microphone.start((piece) => session.sendAudio(piece.buffer));
  },
  say: (pcm) => microphone.say(pcm),
  heard: () => new Promise((resolve) => setTimeout(resolve, audioBegan + audioMs - performance.now())),
  stop: () => microphone.stop(),
  plays: true,
});
await run(steps, report);
process.exit();
