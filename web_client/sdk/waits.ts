/** Waits that end with what they are for, with their time, or with an abort. */
import { ConnectError } from "./problem.ts";

/** Resolve after a while; an abort rejects with its reason. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", aborted);
      resolve();
    }, ms);
    signal.addEventListener("abort", aborted, { once: true });
  });
}

/** Resolve with the promise; late, it is a connection that did not come up. An abort rejects with its reason. */
export function within(promise: Promise<void>, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new ConnectError({ kind: "timeout" })), ms);
    const aborted = (): void => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    signal.addEventListener("abort", aborted, { once: true });
    void promise.then(() => {
      clearTimeout(timer);
      signal.removeEventListener("abort", aborted);
      resolve();
    });
  });
}
