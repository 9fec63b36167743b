// The package openai of npm over WebSocket (`realtime/ws`), in Node.
import OpenAI from "openai";
import { OpenAIRealtimeWS } from "openai/realtime/ws";
import { Microphone, readPlan, report } from "./node_steps.js";
import { openaiSteps } from "./openai_steps.js";
import { check, run } from "./steps.js";

const plan = readPlan();
const microphone = new Microphone();
const client = new OpenAI({ apiKey: plan.key, baseURL: `${plan.url}/v1`, maxRetries: 0 });
let connection;
let audioMs = 0;
let audioBegan = 0;

const steps = openaiSteps(plan, {
  async connect(log) {
    connection = new OpenAIRealtimeWS({ model: "gpt-realtime" }, client);
    connection.on("event", (event) => log.add(event));
    connection.on("error", (error) => log.add({ type: "error", error: error.error ?? error.message }));
    connection.on("response.created", () => (audioMs = 0));
    connection.on("response.output_audio.delta", ({ delta }) => {
      if (audioMs === 0) audioBegan = performance.now();
      audioMs += Buffer.from(delta, "base64").length / 48;
    });
    await log.until("session.created");
    const append = (piece) => ({ type: "input_audio_buffer.append", audio: Buffer.from(piece).toString("base64") });
    microphone.start((piece) => connection.send(append(piece)));
  },
  send: (event) => connection.send(event),
  say: (pcm) => microphone.say(pcm),
  heard: () => new Promise((resolve) => setTimeout(resolve, audioBegan + audioMs - performance.now())),
  playedMs: () => Math.floor(Math.min(performance.now() - audioBegan, audioMs)),
  async close() {
    microphone.stop();
    const closed = new Promise((resolve) => connection.socket.on("close", resolve));
    connection.close();
    check((await closed) === 1000, "the close code is another");
  },
});
await run(steps, report);
process.exit();
