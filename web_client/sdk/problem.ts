/** What can go wrong for the user, each with what the page needs to say what to do. */
export type Problem =
  | { readonly kind: "microphone"; readonly cause: CaptureCause }
  | { readonly kind: "camera"; readonly cause: CaptureCause }
  /** Every place is taken; `retryAt` (milliseconds of `Date.now()`) is when the server asks to be tried again. */
  | { readonly kind: "full"; readonly retryAt: number }
  /** The server is up and not ready yet; `retryAt` as above. */
  | { readonly kind: "starting"; readonly retryAt: number }
  /** No answer from the server at all. */
  | { readonly kind: "unreachable" }
  /** The server asks for a key or a secret, and had none, or one that it does not take. */
  | { readonly kind: "access" }
  /** The server answered, and refused. */
  | { readonly kind: "refused"; readonly status: number; readonly message: string }
  /** The media or the event channel did not come up in time. */
  | { readonly kind: "timeout" }
  /** The conversation to come back to is not there any more. */
  | { readonly kind: "over" }
  /** The conversation will have its greatest length at `endsAt`, in milliseconds of `Date.now()`. */
  | { readonly kind: "ending"; readonly endsAt: number }
  /** It had its greatest length, and the server has ended it. */
  | { readonly kind: "expired" }
  /** A conversation that was live has lost its connection. */
  | { readonly kind: "lost" }
  /** This browser has no WebRTC. */
  | { readonly kind: "unsupported" }
  /** The server reported an error that ends nothing. */
  | { readonly kind: "server"; readonly message: string }
  /** The browser does not let the page play sound. */
  | { readonly kind: "playback" };

export type CaptureCause =
  | "denied"
  | "missing"
  | "busy"
  /** The page is not in a secure context (https or localhost), where browsers offer neither microphone nor camera. */
  | "insecure"
  /** It worked, and the system or the user took it away. */
  | "stopped";

/** A connection that could not be made; thrown by transports. */
export class ConnectError extends Error {
  override readonly name = "ConnectError";
  constructor(readonly problem: Problem) {
    super(problem.kind);
  }
}

/** Which cause a failed `getUserMedia` has. Source: Media Capture and Streams, §10.2. */
export function captureCause(error: unknown): CaptureCause {
  const name = error instanceof Error ? error.name : "";
  switch (name) {
    case "NotFoundError":
    case "OverconstrainedError":
      return "missing";
    case "NotReadableError":
    case "AbortError":
      return "busy";
    case "InsecureContextError":
    case "TypeError":
      return "insecure";
    default:
      return "denied";
  }
}
