// One call to a server with the browser's own WebRTC stack; records both sides' peaks on one clock, and every event.
const record = { rate: 0, rows: [], events: [], clock: [], stats: null };
let peer;
let channel;

async function start(url, session) {
  const raw = { echoCancellation: false, noiseSuppression: false, autoGainControl: false };
  const mic = await navigator.mediaDevices.getUserMedia({ audio: raw });
  const context = new AudioContext({ sampleRate: 48000 });
  await context.audioWorklet.addModule("peaks.js");
  const peaks = new AudioWorkletNode(context, "peaks", { numberOfInputs: 2, numberOfOutputs: 1 });
  peaks.connect(context.destination);
  record.rate = context.sampleRate;
  peaks.port.onmessage = ({ data }) => {
    record.rows.push(...data.rows);
    record.clock.push([record.rows.length, Date.now()]);
  };
  context.createMediaStreamSource(mic).connect(peaks, 0, 0);
  peer = new RTCPeerConnection();
  peer.addTrack(mic.getAudioTracks()[0], mic);
  peer.ontrack = ({ streams }) => {
    const out = document.getElementById("out");
    out.srcObject = streams[0];
    out.muted = true;
    context.createMediaStreamSource(streams[0]).connect(peaks, 0, 1);
  };
  channel = peer.createDataChannel("oai-events");
  channel.onmessage = ({ data }) => record.events.push({ wall: Date.now(), block: record.rows.length, event: JSON.parse(data) });
  await peer.setLocalDescription(await peer.createOffer());
  const form = new FormData();
  form.set("sdp", peer.localDescription.sdp);
  form.set("session", JSON.stringify(session));
  const answer = await fetch(`${url}/v1/realtime/calls`, { method: "POST", body: form });
  if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`);
  await peer.setRemoteDescription({ type: "answer", sdp: await answer.text() });
  await new Promise((resolve) => (channel.readyState === "open" ? resolve() : (channel.onopen = resolve)));
}

async function finish() {
  const stats = {};
  for (const report of (await peer.getStats()).values()) {
    if (report.type === "inbound-rtp" && report.kind === "audio") {
      for (const key of ["packetsLost", "jitter", "jitterBufferDelay", "jitterBufferEmittedCount", "concealedSamples",
        "silentConcealedSamples", "totalSamplesReceived"]) stats[key] = report[key];
    }
  }
  peer.close();
  return { ...record, stats };
}

globalThis.call = { start, finish, send: (event) => channel.send(JSON.stringify(event)), blocks: () => record.rows.length };
