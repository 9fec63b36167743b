/** The page: wires the conversation to its view. All state is the conversation's; the view is drawn from it. */
import { Conversation, isLive, type Problem, SoundMeter, WebRtcTransport } from "../sdk/index.ts";
import { Access } from "./access.ts";
import { Captions } from "./captions.ts";
import { DebugRecord } from "./debug.ts";
import { Devices } from "./devices.ts";
import { byId, make, setText } from "./dom.ts";
import { fetchInfo, type ServerInfo } from "./model.ts";
import { Notice } from "./notice.ts";
import { Orb } from "./orb.ts";
import { SplitPopover } from "./split.ts";
import { Standing } from "./standing.ts";
import { Strip } from "./strip.ts";
import { type ProblemAction, stateWords, SUGGESTIONS } from "./words.ts";

/** How often a running reply's heard words, or a countdown, are drawn anew. */
const TICK_MS = 100;

const debug = new URLSearchParams(location.search).has("debug") ? new DebugRecord() : null;

const room = byId("room", HTMLElement);
const talk = byId("talk", HTMLButtonElement);
const mute = byId("mute", HTMLButtonElement);
const camera = byId("camera", HTMLButtonElement);
const cameraVideo = byId("camera-video", HTMLVideoElement);
const stop = byId("stop", HTMLButtonElement);
const composer = byId("composer", HTMLFormElement);
const textBox = byId("text", HTMLInputElement);
const send = byId("send", HTMLButtonElement);
const voice = byId("voice", HTMLAudioElement);
const empty = byId("empty", HTMLDivElement);

const meter = new SoundMeter((side, report) => {
  debug?.level(side, report);
  strip.level(side, report);
  if (side === "assistant" && report.sound !== null) conversation.reportSound(report.sound === "on", report.at);
});

const conversation = new Conversation({
  transport: () => {
    const token = access.token();
    return new WebRtcTransport({ callsUrl: "/v1/realtime/calls", ...(token === null ? {} : { token }) });
  },
  session: () => ({ type: "realtime", output_modalities: ["audio"], duplex: { resume: true } }),
  onRemote: (stream) => {
    voice.srcObject = stream;
    meter.listen("assistant", stream);
    playVoice();
  },
  onMicrophone: (track) => {
    meter.listen("user", track === null ? null : new MediaStream([track]));
    if (track !== null) void devices.refresh();
  },
  onCamera: (track) => {
    cameraVideo.srcObject = track === null ? null : new MediaStream([track]);
    if (track === null) return;
    void cameraVideo.play().catch(() => undefined); // without a picture the conversation goes on
    void devices.refresh();
  },
  onPlayed: (front) => debug?.played(front),
  onEvent: (event, at) => strip.event(event, at),
  onTraffic: (traffic) => debug?.traffic(traffic),
});

const captions = new Captions(byId("captions", HTMLOListElement), byId("scroller", HTMLDivElement), {
  retryReply: () => conversation.retryReply(),
  showSplit: (reply, anchor, pinned) => split.show(reply, anchor, pinned),
  hideSplit: () => split.hide(),
});
const strip = new Strip();
const standing = new Standing();
const devices = new Devices(voice, {
  microphone: (deviceId) => void conversation.chooseMicrophone(deviceId),
  camera: (deviceId) => void conversation.chooseCamera(deviceId),
});
const split = new SplitPopover(byId("split", HTMLDivElement));
const access = new Access("/v1/realtime/client_secrets", () => {
  conversation.dismissProblem();
  void showInfo();
});
const notice = new Notice((action, problem) => void solve(action, problem));

let info: ServerInfo | null = null;
let ticker: ReturnType<typeof setInterval> | undefined;
let microphoneWanted = true;
let sending = false;

// What the user does. -----------------------------------------------------------------------------------------------

async function begin(microphone: boolean): Promise<boolean> {
  microphoneWanted = microphone;
  await startMeter();
  return conversation.start({ microphone });
}

function toggleTalk(): void {
  if (conversation.state.phase === "idle") void begin(true);
  else conversation.end();
}

function toggleMute(): void {
  void conversation.setMuted(conversation.state.microphone === "live");
}

function toggleCamera(): void {
  void conversation.setCamera(conversation.state.camera === "off");
}

async function sendText(text: string): Promise<void> {
  if (text === "" || sending) return;
  sending = true;
  render();
  if (!isLive(conversation.state)) {
    microphoneWanted = false;
    await startMeter();
  }
  // What could not be sent stays in the box.
  if (await conversation.say(text)) textBox.value = "";
  else textBox.value = text;
  sending = false;
  render();
}

async function solve(action: ProblemAction, problem: Problem): Promise<void> {
  switch (action) {
    case "retry":
      if (isLive(conversation.state)) {
        conversation.dismissProblem();
        if (problem.kind === "camera") await conversation.setCamera(true);
        else await conversation.setMuted(false);
      } else if (!microphoneWanted && textBox.value.trim() !== "") {
        await sendText(textBox.value.trim());
      } else {
        await begin(problem.kind === "microphone" || microphoneWanted);
      }
      return;
    case "text":
      conversation.dismissProblem();
      textBox.focus();
      if (conversation.state.phase === "idle") await begin(false);
      return;
    case "play":
      conversation.dismissProblem();
      playVoice();
      return;
    case "key":
      access.ask();
      return;
    case "dismiss":
      conversation.dismissProblem();
  }
}

async function startMeter(): Promise<void> {
  try {
    await meter.start();
  } catch (error) {
    // Without it there is no animation and no measurement; the conversation itself needs neither.
    console.warn("sound is not measured:", error);
  }
}

function playVoice(): void {
  voice.play().catch((error: unknown) => {
    if (error instanceof DOMException && error.name === "NotAllowedError") {
      conversation.reportProblem({ kind: "playback" });
    }
  });
}

talk.addEventListener("click", toggleTalk);
mute.addEventListener("click", toggleMute);
camera.addEventListener("click", toggleCamera);
stop.addEventListener("click", () => conversation.interrupt());
composer.addEventListener("submit", (event) => {
  event.preventDefault();
  void sendText(textBox.value.trim());
});
textBox.addEventListener("input", () => render());
addEventListener("pagehide", () => conversation.leave());
addEventListener("keydown", (event) => {
  if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  // The first Escape closes what is open.
  if (event.key === "Escape" && !split.isOpen && !access.isOpen && !devices.isOpen) conversation.interrupt();
  const within = (selector: string): boolean => event.target instanceof Element && event.target.closest(selector) !== null;
  if (within("input, select, dialog")) return;
  // A button or a link has its own meaning for these two, and the captions scroll by one of them.
  if ((event.key === " " || event.key === "Enter") && within("button, a, [popover], [role=log]")) return;
  const act = KEYS[event.key.toLowerCase()];
  if (act === undefined) return;
  event.preventDefault();
  act();
});

/** What `SHORTCUTS` lists. */
const KEYS: Readonly<Record<string, () => void>> = {
  " ": toggleTalk,
  enter: toggleTalk,
  m: () => mute.click(),
  c: () => camera.click(),
  "/": () => textBox.focus(),
  "?": () => devices.open(),
};

byId("suggestions", HTMLUListElement).append(
  ...SUGGESTIONS.map((suggestion) => {
    const button = make("button", "suggestion", suggestion);
    button.type = "button";
    button.addEventListener("click", () => void sendText(suggestion));
    return make("li", "", button);
  }),
);

// What the user sees. -----------------------------------------------------------------------------------------------

function render(): void {
  const { state } = conversation;
  const now = Date.now();
  const words = stateWords(state);
  room.dataset["phase"] = state.phase;
  setText(byId("state-label", HTMLParagraphElement), words.label);
  setText(byId("state-hint", HTMLParagraphElement), words.hint);
  setText(byId("talk-label", HTMLSpanElement), TALK_LABELS[state.phase === "idle" || state.phase === "connecting" ? state.phase : "live"]);
  renderButtons();
  renderCamera();
  strip.show(isLive(state));
  empty.hidden = state.captions.length > 0;
  captions.show(state, now);
  notice.show(state.problem, info?.sessionsMax ?? null, now);
  standing.show(state, now);
  const ticks = state.playingId !== null || state.endsAt !== null || (state.problem !== null && "retryAt" in state.problem);
  if (!ticks) {
    clearInterval(ticker);
    ticker = undefined;
  } else {
    ticker ??= setInterval(render, TICK_MS);
  }
}

const TALK_LABELS = { idle: "Start talking", connecting: "Cancel", live: "End" } as const;

function renderButtons(): void {
  const { state } = conversation;
  const live = isLive(state);
  mute.disabled = !live;
  mute.classList.toggle("is-off", state.microphone !== "live");
  mute.setAttribute("aria-label", MUTE_LABELS[state.microphone]);
  mute.title = `${MUTE_LABELS[state.microphone]} (M)`;
  stop.disabled = !live || (state.playingId === null && state.makingId === null);
  send.disabled = sending || textBox.value.trim() === "";
  textBox.readOnly = sending;
}

const MUTE_LABELS = {
  live: "Mute the microphone",
  muted: "Unmute the microphone",
  paused: "The microphone is paused by your device",
  off: "Turn on the microphone",
} as const;

function renderCamera(): void {
  const { state } = conversation;
  const label = info?.readsCamera === false ? "This model does not read the camera" : CAMERA_LABELS[state.camera];
  camera.disabled = !isLive(state) || state.camera === "opening" || info?.readsCamera === false;
  camera.classList.toggle("is-slashed", state.camera !== "on");
  camera.setAttribute("aria-label", label);
  camera.title = `${label} (C)`;
  byId("camera-view", HTMLElement).hidden = state.camera !== "on";
}

const CAMERA_LABELS = {
  off: "Turn on the camera: text that you show is read",
  opening: "The camera is being opened",
  on: "Turn off the camera",
} as const;

async function showInfo(): Promise<void> {
  const answer = await fetchInfo("/v1/duplex/info", access.token());
  if (answer === "access") {
    access.ask();
  } else if (answer !== null) {
    info = answer;
    renderInfo(answer);
    render();
  }
}

function renderInfo(server: ServerInfo): void {
  setText(byId("model-name", HTMLSpanElement), server.model);
  byId("test-double", HTMLSpanElement).hidden = !server.testDouble;
  setText(byId("model-notice", HTMLParagraphElement), server.notice);
}

new Orb(byId("orb", HTMLCanvasElement), {
  phase: () => conversation.state.phase,
  side: () => (conversation.state.playingId !== null && !conversation.state.userSpeaking ? "assistant" : "user"),
  spectrum: (side, bands) => meter.spectrum(side, bands),
});
devices.recall();
debug?.expose(conversation, () => strip.timeline);
conversation.subscribe(render);
render();
if (conversation.resumable) {
  // Browsers let no sound be measured before the user's first gesture.
  addEventListener("pointerdown", () => void startMeter(), { once: true });
  void startMeter().then(() => conversation.resume());
}
await showInfo();
