/** What the two charts show of a state. Pure: from the state to `ChartData`. */
import type { ChartData } from "./chart.ts";
import { clock, duration, plural } from "./format.ts";
import { type DashboardState, HISTORY_S } from "./state.ts";

/** Time to first audio with underruns, barge-ins and sessions below; null before the first snapshot. */
export function ttfasChart({ snapshot, heard }: DashboardState): ChartData | null {
  if (snapshot === null) return null;
  const { at_s, bucket_s, history } = snapshot;
  // A step's value stands in its middle.
  const middle = (start_s: number): number => Math.min(at_s, start_s + bucket_s / 2);
  const strip = (label: string, name: "underruns" | "barge_ins" | "sessions") => ({
    label,
    className: `bars-${label}`,
    step_s: bucket_s,
    points: history.map((bucket) => ({ at_s: bucket.at_s, value: bucket[name] })),
  });
  return {
    from_s: at_s - HISTORY_S,
    to_s: at_s,
    bands: [
      {
        className: "band-sent",
        points: history.map((bucket) => ({ at_s: middle(bucket.at_s), low: bucket.ttfas_p50_s, high: bucket.ttfas_p90_s })),
      },
    ],
    lines: [
      { className: "line-sent-high", points: history.map((bucket) => ({ at_s: middle(bucket.at_s), value: bucket.ttfas_p90_s })) },
      { className: "line-sent", points: history.map((bucket) => ({ at_s: middle(bucket.at_s), value: bucket.ttfas_p50_s })) },
      { className: "line-heard-high", points: heard.map((point) => ({ at_s: point.at_s, value: point.p90_s })) },
      { className: "line-heard", points: heard.map((point) => ({ at_s: point.at_s, value: point.p50_s })) },
    ],
    strips: [strip("sessions", "sessions"), strip("barge-ins", "barge_ins"), strip("underruns", "underruns")],
    readings: history.map((bucket) => ({
      at_s: bucket.at_s,
      text: [
        clock(bucket.at_s),
        `sent p50 ${duration(bucket.ttfas_p50_s)}`,
        `p90 ${duration(bucket.ttfas_p90_s)}`,
        plural(bucket.underruns, "underrun"),
        plural(bucket.barge_ins, "barge-in"),
        plural(bucket.sessions, "session"),
      ].join(" · "),
    })),
    resting: `steps of ${bucket_s}\u00a0s`,
  };
}

/** How late the loop and its packets were since the page was opened; null before the first snapshot. */
export function loopChart({ snapshot, loop }: DashboardState): ChartData | null {
  if (snapshot === null) return null;
  return {
    from_s: snapshot.at_s - HISTORY_S,
    to_s: snapshot.at_s,
    bands: [],
    lines: [
      { className: "line-lag", points: loop.map((point) => ({ at_s: point.at_s, value: point.lag_p95_s })) },
      { className: "line-lateness", points: loop.map((point) => ({ at_s: point.at_s, value: point.lateness_p95_s })) },
    ],
    strips: [],
    readings: loop.map((point) => ({
      at_s: point.at_s,
      text: `${clock(point.at_s)} · lag ${duration(point.lag_p95_s)} · lateness ${duration(point.lateness_p95_s)}`,
    })),
    resting: "since this page opened",
  };
}
