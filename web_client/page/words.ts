/** What the page says: for each state a label and a hint, for each problem what happened and what to do. */
import type { Problem, ReplyCaption, Ttfas, ViewState } from "../sdk/index.ts";

export interface StateWords {
  readonly label: string;
  readonly hint: string;
}

export function stateWords(state: ViewState): StateWords {
  switch (state.phase) {
    case "idle":
      return { label: "Ready to talk", hint: "Press the button and speak, or type." };
    case "connecting":
      return { label: "Connecting", hint: "Allow the microphone if your browser asks." };
    case "reconnecting":
      return { label: "Reconnecting…", hint: "Your conversation is kept for a moment." };
    case "listening":
      return listeningWords(state);
    case "thinking":
      return { label: "Thinking", hint: "The answer is on its way." };
    case "speaking":
      return {
        label: "Speaking",
        hint: state.microphone === "live" ? "Talk over it to interrupt." : "Press stop to interrupt.",
      };
    case "interrupted":
      return { label: "Interrupted", hint: "It keeps only what you heard." };
  }
}

/** How a reply ended, if not as it should. */
export function remarkOf(reply: ReplyCaption): string {
  if (reply.status === "failed") return reply.reason === "" ? "The model failed." : `The model failed: ${reply.reason}`;
  if (reply.playout === "cut") return "interrupted";
  if (reply.status === "incomplete") return reply.reason === "max_output_tokens" ? "stopped at its length limit" : "not finished";
  return "";
}

function listeningWords(state: ViewState): StateWords {
  switch (state.microphone) {
    case "live":
      return { label: "Listening", hint: state.userSpeaking ? "You are speaking." : "Speak whenever you like." };
    case "muted":
      return { label: "Muted", hint: "Unmute to speak, or type." };
    case "paused":
      return { label: "Microphone paused", hint: "Your device has taken it for something else." };
    case "off":
      return { label: "Connected", hint: "Type a message, or turn on the microphone." };
  }
}

export type ProblemAction = "retry" | "text" | "play" | "dismiss" | "key";

export interface ProblemWords {
  readonly title: string;
  readonly text: string;
  readonly actions: readonly ProblemAction[];
}

/**
 * @param sessionsMax how many conversations the server holds; null: not known.
 * @param now in milliseconds of `Date.now()`, for the countdown.
 */
export function problemWords(problem: Problem, sessionsMax: number | null, now: number): ProblemWords {
  switch (problem.kind) {
    case "microphone":
      return { ...MICROPHONE[problem.cause], actions: ["retry", "text"] };
    case "camera":
      return { ...CAMERA[problem.cause], actions: ["retry", "dismiss"] };
    case "full":
      return {
        title: "Every place is taken",
        text: `${holdsText(sessionsMax)} ${retryText(problem.retryAt - now)}`,
        actions: ["retry"],
      };
    case "starting":
      return {
        title: "The server is not ready",
        text: `It may still be loading its model. ${retryText(problem.retryAt - now)}`,
        actions: ["retry"],
      };
    case "unreachable":
      return {
        title: "The server does not answer",
        text: "Check that it is running and that you are online, then try again.",
        actions: ["retry"],
      };
    case "access":
      return { title: "This server asks for a key", text: "Enter it to begin.", actions: ["key"] };
    case "refused":
      return {
        title: "The server refused the call",
        text: `${sentence(problem.message)} (status ${problem.status})`,
        actions: ["retry"],
      };
    case "timeout":
      return {
        title: "No connection",
        text: "The server answered, but media did not get through. A firewall may be blocking UDP.",
        actions: ["retry"],
      };
    case "over":
      return {
        title: "The conversation is over",
        text: "It was not there any more to go on with. Starting begins a new one.",
        actions: ["retry"],
      };
    case "ending": {
      const left = timeLeft(problem.endsAt - now);
      return {
        title: left === null ? "This conversation ends now" : `This conversation ends in ${left}`,
        text: "It has nearly its greatest length.",
        actions: ["dismiss"],
      };
    }
    case "expired":
      return {
        title: "The conversation has ended",
        text: "It had its greatest length. Starting begins a new one.",
        actions: ["retry"],
      };
    case "lost":
      return {
        title: "Connection lost",
        text: "Check your network. Reconnecting begins a new conversation.",
        actions: ["retry"],
      };
    case "unsupported":
      return {
        title: "This browser has no WebRTC",
        text: "Open the page in a current Chrome, Edge, Firefox or Safari.",
        actions: [],
      };
    case "server":
      return { title: "The server reported an error", text: sentence(problem.message), actions: ["dismiss"] };
    case "playback":
      return { title: "Sound is blocked", text: "Your browser waits for a click before it plays.", actions: ["play"] };
  }
}

export function actionLabel(action: ProblemAction, problem: Problem): string {
  switch (action) {
    case "retry":
      if (problem.kind === "expired") return "Start anew";
      return problem.kind === "lost" ? "Reconnect" : "Try again";
    case "text":
      return "Continue by text";
    case "play":
      return "Play sound";
    case "dismiss":
      return "Dismiss";
    case "key":
      return "Enter the key";
  }
}

/** @param problem what came of the last key; null: none was tried. */
export function accessWords(problem: Problem | null): string {
  switch (problem?.kind) {
    case undefined:
      return "It is sent to the server once and not kept here; what the server gives for it lasts two hours.";
    case "access":
      return "The server does not take this key. Check it and try again.";
    case "unreachable":
      return "The server does not answer. Check that it is running, then try again.";
    default:
      return "The server could not take the key just now. Try again in a moment.";
  }
}

const MICROPHONE = {
  denied: {
    title: "The microphone is blocked",
    text: "Allow it for this page in the browser’s address bar, then try again.",
  },
  missing: { title: "No microphone found", text: "Connect one, then try again." },
  busy: { title: "The microphone is busy", text: "Close the application that uses it, then try again." },
  insecure: {
    title: "No microphone on this address",
    text: "Browsers allow it only over https or on localhost. Open the page there.",
  },
  stopped: { title: "The microphone has stopped", text: "Your device ended the recording. Try again to speak on." },
} as const;

const CAMERA = {
  denied: {
    title: "The camera is blocked",
    text: "Allow it for this page in the browser’s address bar, then try again. The conversation goes on.",
  },
  missing: { title: "No camera found", text: "Connect one, then try again. The conversation goes on." },
  busy: { title: "The camera is busy", text: "Close the application that uses it, then try again." },
  insecure: {
    title: "No camera on this address",
    text: "Browsers allow it only over https or on localhost. Open the page there.",
  },
  stopped: { title: "The camera has stopped", text: "Your device ended the recording. Try again to show it." },
} as const;

function holdsText(sessionsMax: number | null): string {
  if (sessionsMax === null) return "The server is busy.";
  return `The server holds ${sessionsMax} ${sessionsMax === 1 ? "conversation" : "conversations"} at a time.`;
}

/** Minutes and seconds, rounded up; null: none is left. */
export function timeLeft(ms: number): string | null {
  const leftS = Math.ceil(ms / 1000);
  return leftS <= 0 ? null : `${Math.floor(leftS / 60)}:${String(leftS % 60).padStart(2, "0")}`;
}

/** What is said of a turn that was ended at the greatest length. */
export function limitedWords(audioMs: number): string {
  return `A turn is at most ${Math.round(audioMs / 1000)} s long. What you said after it is the next one.`;
}

function retryText(waitMs: number): string {
  const waitS = Math.ceil(waitMs / 1000);
  return waitS > 0 ? `Try again in ${waitS} s.` : "You can try again.";
}

/** The message as a sentence of its own. */
function sentence(message: string): string {
  const trimmed = message.trim();
  return /[.!?]$/.test(trimmed) ? trimmed : `${trimmed}.`;
}

export const TTFAS_FROM: Readonly<Record<Ttfas["from"], string>> = {
  speech: "after the server heard you stop",
  turn: "after your turn was taken as finished",
  sending: "after you sent it",
};

export const PART_NAMES = {
  endpointing: "End of turn",
  transcribe: "Transcription",
  think: "First clause",
  talk: "Speech plan",
  vocode: "First audio",
  send: "Sending",
} as const;

/** What can be pressed, and what it does; none of these works while a text field has the focus, but Esc. */
export const SHORTCUTS = [
  ["Space", "Start or end"],
  ["M", "Mute or unmute"],
  ["C", "Camera on or off"],
  ["Esc", "Stop the assistant"],
  ["/", "Type a message"],
  ["?", "This dialog"],
] as const;

export const SUGGESTIONS = [
  "What is the capital of Italy?",
  "How many days are in a week?",
  "Tell me about the sea.",
] as const;

export function seconds(value: number): string {
  return `${value.toFixed(2)} s`;
}
