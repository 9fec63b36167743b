/** The dialog with the choice of devices, which lasts across reloads, and the list of shortcuts. */
import { DeviceMemory, type Kind, withoutGone } from "./device_memory.ts";
import { byId, make, setText } from "./dom.ts";
import { SHORTCUTS } from "./words.ts";

/** Not every browser lets a page choose where it is heard. */
const CHOOSES_SPEAKER = "setSinkId" in HTMLMediaElement.prototype;

export interface DeviceChoices {
  microphone(deviceId: string): void;
  camera(deviceId: string): void;
}

export class Devices {
  readonly #dialog = byId("devices", HTMLDialogElement);
  readonly #hint = byId("devices-hint", HTMLParagraphElement);
  readonly #voice: HTMLAudioElement;
  readonly #choices: DeviceChoices;
  readonly #memory = new DeviceMemory();
  readonly #selects: Readonly<Record<Kind, HTMLSelectElement>> = {
    audioinput: byId("device-microphone", HTMLSelectElement),
    audiooutput: byId("device-speaker", HTMLSelectElement),
    videoinput: byId("device-camera", HTMLSelectElement),
  };

  /** @param voice plays the assistant, on the speaker that is chosen. */
  constructor(voice: HTMLAudioElement, choices: DeviceChoices) {
    this.#voice = voice;
    this.#choices = choices;
    for (const kind of Object.keys(this.#selects) as Kind[]) {
      const select = this.#selects[kind];
      select.addEventListener("change", () => {
        this.#memory.keep({ ...this.#memory.chosen, [kind]: select.value });
        this.#use(kind, select.value);
      });
    }
    byId("device-speaker-row", HTMLDivElement).hidden = !CHOOSES_SPEAKER;
    byId("devices-open", HTMLButtonElement).addEventListener("click", () => this.open());
    byId("devices-close", HTMLButtonElement).addEventListener("click", () => this.#dialog.close());
    this.#dialog.addEventListener("click", ({ target }) => {
      if (target === this.#dialog) this.#dialog.close();
    });
    (navigator.mediaDevices as MediaDevices | undefined)?.addEventListener("devicechange", () => void this.refresh());
    byId("shortcuts", HTMLDListElement).append(
      ...SHORTCUTS.map(([key, what]) => make("div", "", make("dt", "", make("kbd", "", key)), make("dd", "", what))),
    );
  }

  /** Use the devices of last time; to be called before any is opened. */
  recall(): void {
    const { audioinput, videoinput } = this.#memory.chosen;
    if (audioinput !== undefined) this.#use("audioinput", audioinput);
    if (videoinput !== undefined) this.#use("videoinput", videoinput);
    void this.refresh();
  }

  /** Look which devices are there; to be called when the page may use one, as browsers name them only then. */
  async refresh(): Promise<void> {
    await this.#list();
    const speaker = this.#selects.audiooutput.value;
    if (CHOOSES_SPEAKER && this.#voice.sinkId !== speaker) await this.#speakFrom(speaker);
  }

  get isOpen(): boolean {
    return this.#dialog.open;
  }

  open(): void {
    if (this.isOpen) return;
    this.#dialog.showModal();
    void this.refresh();
  }

  async #list(): Promise<void> {
    const devices = (await (navigator.mediaDevices as MediaDevices | undefined)?.enumerateDevices()) ?? [];
    const before = this.#memory.chosen;
    const chosen = withoutGone(before, devices);
    if (chosen !== before) this.#memory.keep(chosen);
    for (const kind of Object.keys(this.#selects) as Kind[]) {
      const ofKind = devices.filter((device) => device.kind === kind && device.deviceId !== "default");
      fill(this.#selects[kind], ofKind, chosen[kind] ?? "");
      if (kind !== "audiooutput" && before[kind] !== chosen[kind]) this.#use(kind, "");
    }
    const named = devices.some((device) => device.label !== "");
    setText(this.#hint, named ? "" : "Your browser names the devices once this page may use the microphone.");
  }

  #use(kind: Kind, deviceId: string): void {
    switch (kind) {
      case "audioinput":
        return this.#choices.microphone(deviceId);
      case "videoinput":
        return this.#choices.camera(deviceId);
      case "audiooutput":
        void this.#speakFrom(deviceId);
    }
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

function fill(select: HTMLSelectElement, devices: readonly MediaDeviceInfo[], chosen: string): void {
  const options = devices.flatMap(({ deviceId, label }) => (deviceId === "" || label === "" ? [] : [new Option(label, deviceId)]));
  select.replaceChildren(new Option("System default", ""), ...options);
  select.value = options.some((option) => option.value === chosen) ? chosen : "";
  select.disabled = options.length === 0;
}
