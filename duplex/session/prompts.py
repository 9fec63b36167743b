"""What replies are made from: instructions, the conversation as heard, and what the camera shows."""

from __future__ import annotations

from collections.abc import Sequence

from duplex.payloads import Message
from duplex.session.camera import Camera, with_note
from duplex.session.context import ContextWindow
from duplex.session.conversation import Item
from duplex.session.events import ContextTrimmed
from duplex.session.lane import Reply
from duplex.session.messages import CreateReply
from duplex.session.shared import Shared
from duplex.session.speculation import Ask
from duplex.units import MonoNs


class Prompts:
    """Makes the prompts of one session.

    Args:
        shared: the session.
        camera: tells what it shows.
    """

    def __init__(self, shared: Shared, camera: Camera) -> None:
        self._shared = shared
        self._camera = camera
        self._window = self._window_of_its_own()

    def ask(self, request: CreateReply, now: MonoNs, said: str | None = None) -> Ask:
        """Return what a reply would be made from, as things stand (and with words that are not committed yet)."""
        config = self._shared.config
        instructions = config.instructions if request.instructions is None else request.instructions
        toolset = config.toolset if request.toolset is None else request.toolset
        return Ask(
            messages=self._messages(instructions, said),
            shown=self._camera.legible(now),
            modality="audio" if "audio" in (request.modalities or config.modalities) else "text",
            voice=request.voice or config.voice,
            speed=config.speed,
            tokens_max=request.tokens_max if request.tokens_max is not None else config.tokens_max,
            toolset=toolset,
        )

    def begin(self, reply: Reply, now: MonoNs) -> tuple[Message, ...]:
        """Return the prompt of a reply that begins; a reading that is not there by now is not waited for."""
        if reply.input is not None:
            return self.over(reply.input, reply.instructions)
        reply.input_audio = self._shared.conversation.take_fresh_audio()
        messages = self._messages(reply.instructions)
        greeting = reply.greeting
        if greeting is not None and greeting.instructions is not None:
            messages += (Message(role="user", text=greeting.instructions),)
        self._trim(reply.instructions)
        self._camera.give_up()
        return with_note(messages, self._camera.note(now))

    def adopt(self, reply: Reply) -> None:
        """A reply goes on that was begun from the same prompt."""
        reply.input_audio = self._shared.conversation.take_fresh_audio()
        self._camera.give_up()
        self._trim(reply.instructions)

    def over(self, items: Sequence[Item], instructions: str) -> tuple[Message, ...]:
        """Return a prompt over other items than the conversation's; what does not fit is left out of this one alone."""
        return self._window_of_its_own().messages(items, instructions)

    def draft(self, ask: Ask, now: MonoNs) -> tuple[Message, ...]:
        """Return the prompt of a reply that is begun in the dark: nothing is left out for good, no reading given up."""
        return with_note(ask.messages, self._camera.note(now))

    def overflows(self, instructions: str, items: Sequence[Item] | None = None, said: str | None = None) -> bool:
        """Return whether a prompt is longer than the thinker takes, in a session that has nothing left out.

        Args:
            items: other ones than the conversation's.
            said: words of a turn that is not committed yet.
        """
        if self._shared.config.truncation.trims:
            return False
        if items is not None:
            return self._window_of_its_own().overflows(items, instructions)
        return self._limited().overflows(self._shared.conversation.items(said), instructions)

    def ahead(self, said: str | None) -> tuple[Message, ...]:
        """Return what the next prompt begins with, most likely."""
        return self._messages(self._shared.config.instructions, said)

    def _window_of_its_own(self) -> ContextWindow:
        return ContextWindow(self._shared.traits.context, *self._limits())

    def _limited(self) -> ContextWindow:
        """Return the conversation's window, bounded as the session says at this moment."""
        self._window.limit(*self._limits())
        return self._window

    def _limits(self) -> tuple[int | None, float]:
        kept, truncation = self._shared.settings.conversation, self._shared.config.truncation
        bounds = [each for each in (kept.history_tokens_max, truncation.history_max) if each is not None]
        share = kept.history_kept_share if truncation.kept_share is None else truncation.kept_share
        return min(bounds, default=None), share

    def _messages(self, instructions: str, said: str | None = None) -> tuple[Message, ...]:
        return self._limited().messages(self._shared.conversation.items(said), instructions)

    def _trim(self, instructions: str) -> None:
        """A reply begins: what its prompt leaves out stays out, so that the next one begins alike."""
        trim = self._limited().step(self._shared.conversation.items(), instructions)
        if trim is not None:
            self._shared.outbox.observe("duplex_limits_total", 1, limit="context")
            self._shared.outbox.send(ContextTrimmed(first_item_id=trim.first_item_id, items=trim.items))
