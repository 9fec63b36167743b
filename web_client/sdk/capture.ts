/** Asking the browser for a microphone or a camera. */
import { type CaptureCause, captureCause } from "./problem.ts";

/** A device could not be opened. */
export class CaptureError extends Error {
  override readonly name = "CaptureError";
  constructor(readonly reason: CaptureCause) {
    super(reason);
  }
}

/**
 * One track of a device.
 *
 * @param wishes constraints; an empty `deviceId` leaves the choice to the system, and one that has gone does as well.
 * @throws CaptureError
 */
export async function captureTrack(
  kind: "audio" | "video",
  wishes: MediaTrackConstraints & { readonly deviceId: string },
): Promise<MediaStreamTrack> {
  // Browsers hide mediaDevices outside secure contexts, whatever the types say.
  const devices = navigator.mediaDevices as MediaDevices | undefined;
  if (devices === undefined) throw new CaptureError("insecure");
  const { deviceId, ...others } = wishes;
  const constraints = deviceId === "" ? others : { ...others, deviceId: { ideal: deviceId } };
  try {
    const stream = await devices.getUserMedia({ [kind]: constraints });
    const track = kind === "audio" ? stream.getAudioTracks()[0] : stream.getVideoTracks()[0];
    if (track === undefined) throw new CaptureError("missing");
    return track;
  } catch (error) {
    throw error instanceof CaptureError ? error : new CaptureError(captureCause(error));
  }
}
