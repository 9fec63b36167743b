"""What belongs to replies beside the conversation, which timelines and turns are not about; stage work of theirs still shows."""

from __future__ import annotations

from duplex.payloads import CONVERSATION_LANE
from duplex.session.effects import CutLane, Effect, Enqueue, Send, Submit
from duplex.session.events import ReplyCreated, ReplyDone
from duplex.session.messages import Inbound, Sent


def beside(thing: Inbound | Effect) -> bool:
    """Return whether a message or an effect is of an out-of-band reply."""
    match thing:
        case Sent(lane=lane) | CutLane(lane=lane):
            return lane > CONVERSATION_LANE
        case Enqueue(address=address):
            return address.lane > CONVERSATION_LANE
        case Submit(job=job):
            return job.address.lane > CONVERSATION_LANE
        case Send(event=ReplyCreated(reply=reply) | ReplyDone(reply=reply)):
            return reply.out_of_band
        case _:
            return False
