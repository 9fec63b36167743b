// The package whip-whep, as a publisher that also listens, in a page of another origin than the server's.
import { WHIPClient } from "whip-whep/whip.js";
import { Microphone, checkHeardSound, readPlan, report } from "./page_steps.js";
import { Log, check, run } from "./steps.js";

const plan = await readPlan();
const microphone = new Microphone();
const log = new Log();
const peer = new RTCPeerConnection();
const whip = new WHIPClient();
let trickled = 0;
const fetched = window.fetch;
window.fetch = async (...asked) => {
  const answer = await fetched(...asked);
  if (asked[1]?.method === "PATCH" && answer.status === 204) trickled++;
  if (asked[1]?.method === "DELETE") log.add({ type: "deleted", status: answer.status });
  return answer;
};

await run(
  [
    [
      "connect",
      async () => {
        peer.addTransceiver(microphone.stream.getAudioTracks()[0], { direction: "sendrecv" });
        peer.ontrack = ({ track }) => (document.querySelector("audio").srcObject = new MediaStream([track]));
        await whip.publish(peer, `${plan.url}/whip`, plan.key);
        const watch = setInterval(() => log.add(), 50);
        await log.untilThat(() => peer.connectionState === "connected" && trickled > 0, "a connection, and trickle");
        clearInterval(watch);
      },
    ],
    [
      "voice turn",
      async () => {
        microphone.say(plan.question);
        let heard = false;
        while (!heard) {
          heard = await checkHeardSound(peer).then(() => true, () => false);
          await new Promise((resolve) => setTimeout(resolve, 100));
        }
      },
    ],
    [
      "clean end",
      async () => {
        await whip.stop();
        const { status } = await log.until("deleted");
        check(status === 200, `DELETE answered ${status}`);
        await microphone.stop();
      },
    ],
  ],
  report,
);
window.finished = true;
