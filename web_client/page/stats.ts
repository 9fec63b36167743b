/** The panel of `?debug`: what the browser measures of the connection, once a second, and the playback front's error. */
import { concealedMs, playoutOf } from "../sdk/index.ts";
import { byId, make, setText } from "./dom.ts";
import { type FrontErrors, magnitudeAt } from "./front_error.ts";

const EVERY_MS = 1_000;

export interface StatsSource {
  stats(): Promise<readonly RTCStats[]>;
}

/** One line of the panel: what it is, and its value. */
export type StatLine = readonly [name: string, value: string];

export class StatsPanel {
  readonly #element = byId("stats", HTMLElement);
  readonly #opener = byId("stats-open", HTMLButtonElement);
  readonly #list = make("dl", "stats-lines");
  readonly #source: StatsSource;
  readonly #errors: FrontErrors;
  #timer: ReturnType<typeof setInterval> | undefined;

  constructor(source: StatsSource, errors: FrontErrors) {
    this.#source = source;
    this.#errors = errors;
    this.#element.append(this.#list);
    this.#opener.hidden = false;
    this.#opener.addEventListener("click", () => this.toggle());
  }

  toggle(): void {
    const open = this.#element.hidden;
    this.#element.hidden = !open;
    this.#opener.setAttribute("aria-expanded", String(open));
    clearInterval(this.#timer);
    if (!open) return;
    this.#timer = setInterval(() => void this.#show(), EVERY_MS);
    void this.#show();
  }

  async #show(): Promise<void> {
    const lines = [...connectionLines(await this.#source.stats()), ...frontLines(this.#errors)];
    const rows = [...this.#list.children];
    lines.forEach(([name, value], index) => {
      const row = rows[index] ?? this.#list.appendChild(make("div", "", make("dt", ""), make("dd", "")));
      if (row.firstElementChild !== null) setText(row.firstElementChild, name);
      if (row.lastElementChild !== null) setText(row.lastElementChild, value);
    });
    for (const row of rows.slice(lines.length)) row.remove();
  }
}

/** The lines of one report of `getStats`. */
export function connectionLines(report: readonly RTCStats[]): readonly StatLine[] {
  if (report.length === 0) return [["Connection", "none"]];
  const pair = (report as readonly RTCIceCandidatePairStats[]).find((stats) => stats.type === "candidate-pair" && stats.nominated);
  const voice = ofKind<RTCInboundRtpStreamStats>(report, "inbound-rtp", "audio");
  const spoken = ofKind<RTCOutboundRtpStreamStats>(report, "outbound-rtp", "audio");
  const film = ofKind<RTCOutboundRtpStreamStats>(report, "outbound-rtp", "video");
  const playout = playoutOf(report, 0);
  const filmed = film?.frameWidth === undefined ? "off" : `${film.frameWidth}×${film.frameHeight ?? 0}, ${(film.framesPerSecond ?? 0).toFixed(0)} fps`;
  return [
    ["Round trip", ms(pair?.currentRoundTripTime)],
    ["Packets in / lost", `${voice?.packetsReceived ?? 0} / ${voice?.packetsLost ?? 0}`],
    ["Jitter in", ms(voice?.jitter)],
    ["Concealed", playout === null ? "–" : `${concealedMs(playout).toFixed(0)} ms`],
    ["Packets out", String(spoken?.packetsSent ?? 0)],
    ["Camera out", filmed],
  ];
}

function frontLines(errors: FrontErrors): readonly StatLine[] {
  const newest = errors.all.at(-1);
  const p50 = magnitudeAt(0.5, errors.fair);
  const p95 = magnitudeAt(0.95, errors.fair);
  return [
    ["Jitter buffer", errors.bufferMs === null ? "–" : `${errors.bufferMs.toFixed(0)} ms`],
    ["Front reported", newest === undefined ? "–" : `${newest.playedMs.toFixed(0)} ms`],
    ["Front by ear", newest === undefined ? "–" : `${newest.heardMs.toFixed(0)} ms`],
    ["Error p50 / p95", p50 === null || p95 === null ? "–" : `${p50.toFixed(0)} / ${p95.toFixed(0)} ms (${errors.fair.length} of ${errors.all.length})`],
  ];
}

function ofKind<T extends RTCRtpStreamStats>(report: readonly RTCStats[], type: RTCStatsType, kind: string): T | undefined {
  return (report as readonly T[]).find((stats) => stats.type === type && stats.kind === kind);
}

function ms(seconds: number | undefined): string {
  return seconds === undefined ? "–" : `${(seconds * 1000).toFixed(1)} ms`;
}
