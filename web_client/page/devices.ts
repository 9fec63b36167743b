/** The dialog with the choice of devices, and the list of shortcuts. */
import { byId, make, setText } from "./dom.ts";
import { SHORTCUTS } from "./words.ts";

type Kind = MediaDeviceInfo["kind"];

export interface DeviceChoices {
  microphone(deviceId: string): void;
  camera(deviceId: string): void;
}

export class Devices {
  readonly #dialog = byId("devices", HTMLDialogElement);
  readonly #hint = byId("devices-hint", HTMLParagraphElement);
  readonly #voice: HTMLAudioElement;
  readonly #selects: Readonly<Record<Kind, HTMLSelectElement>> = {
    audioinput: byId("device-microphone", HTMLSelectElement),
    audiooutput: byId("device-speaker", HTMLSelectElement),
    videoinput: byId("device-camera", HTMLSelectElement),
  };

  /** @param voice plays the assistant, on the speaker that is chosen. */
  constructor(voice: HTMLAudioElement, choices: DeviceChoices) {
    this.#voice = voice;
    const { audioinput, audiooutput, videoinput } = this.#selects;
    audioinput.addEventListener("change", () => choices.microphone(audioinput.value));
    videoinput.addEventListener("change", () => choices.camera(videoinput.value));
    audiooutput.addEventListener("change", () => void this.#speakFrom(audiooutput.value));
    // Not every browser lets a page choose where it is heard.
    byId("device-speaker-row", HTMLDivElement).hidden = !("setSinkId" in HTMLMediaElement.prototype);
    byId("devices-open", HTMLButtonElement).addEventListener("click", () => this.open());
    byId("devices-close", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", ({ target }) => {
      if (target === this.#dialog) this.#dialog.close();
    });
    (navigator.mediaDevices as MediaDevices | undefined)?.addEventListener("devicechange", () => {
      if (this.isOpen) void this.#list();
    });
    byId("shortcuts", HTMLDListElement).append(
      ...SHORTCUTS.map(([key, what]) => make("div", "", make("dt", "", make("kbd", "", key)), make("dd", "", what))),
    );
  }

  get isOpen(): boolean {
    return this.#dialog.open;
  }

  open(): void {
    if (this.isOpen) return;
    this.#dialog.showModal();
    void this.#list();
  }

  async #list(): Promise<void> {
    const devices = (await (navigator.mediaDevices as MediaDevices | undefined)?.enumerateDevices()) ?? [];
    for (const kind of Object.keys(this.#selects) as Kind[]) {
      fill(this.#selects[kind], devices.filter((device) => device.kind === kind && device.deviceId !== "default"));
    }
    // Browsers name devices only to pages that have been allowed to use one.
    const named = devices.some((device) => device.label !== "");
    setText(this.#hint, named ? "" : "Your browser names the devices once this page may use the microphone.");
  }

  async #speakFrom(deviceId: string): Promise<void> {
    try {
      await this.#voice.setSinkId(deviceId);
    } catch (error) {
      if (!(error instanceof DOMException)) throw error;
      setText(this.#hint, "This speaker cannot be used. The assistant is heard where it was before.");
      this.#selects.audiooutput.value = this.#voice.sinkId;
    }
  }
}

function fill(select: HTMLSelectElement, devices: readonly MediaDeviceInfo[]): void {
  const chosen = select.value;
  const options = devices.flatMap(({ deviceId, label }) => (deviceId === "" || label === "" ? [] : [new Option(label, deviceId)]));
  select.replaceChildren(new Option("System default", ""), ...options);
  select.value = options.some((option) => option.value === chosen) ? chosen : "";
  select.disabled = options.length === 0;
}
