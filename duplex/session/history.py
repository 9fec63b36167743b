"""The conversation in the order in which a thinker can read it: each call is followed by what it gave.

    items      text · call a · call b · result b · words of the user · result a
    messages   text, calls a and b · result of a: pending · result of b · words of the user · call a again · its result

A result that comes late stands where it came, so that the thinker sees what is new, and a prompt that was read before still
begins alike: chat protocols want every call to be followed by its result at once, and a result by nothing else.
"""

from __future__ import annotations

from dataclasses import replace

from duplex.payloads import Call, Message

PENDING = "(The result is not there yet.)"
"""Stands for the result of a call that still runs."""


class History:
    """Makes the messages of one prompt; its methods are called in the order of the conversation's items.

    Args:
        instructions: stand before all of it.
    """

    def __init__(self, instructions: str) -> None:
        self._messages: list[Message] = [Message(role="system", text=instructions)] if instructions else []
        self._calls: dict[str, Call] = {}
        """All so far."""
        self._open: dict[str, str] = {}
        """Of the last message, what its calls gave."""

    def said(self, role: str, text: str) -> None:
        """Somebody said something; turns of one role that follow each other become one message."""
        self._close()
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == role and role != "system":
            self._messages[-1] = replace(last, text=f"{last.text} {text}")
        else:
            self._messages.append(Message(role=role, text=text))

    def called(self, call: Call) -> None:
        """The assistant has called a function."""
        if any(result != PENDING for result in self._open.values()):
            self._close()  # it knows the result of the one before
        self._calls[call.id] = call
        last = self._messages[-1] if self._messages else None
        if last is not None and last.role == "assistant":
            self._messages[-1] = replace(last, calls=(*last.calls, call))
        else:
            self._messages.append(Message(role="assistant", text="", calls=(call,)))
        self._open[call.id] = PENDING

    def gave(self, call_id: str, result: str) -> None:
        """The client has told what a call gave."""
        if self._open.get(call_id) == PENDING:
            self._open[call_id] = result
        elif call_id in self._calls:
            self.called(self._calls[call_id])
            self._open[call_id] = result
        else:  # the call was left out of a long conversation, or deleted
            self.said("user", f"A function gave this result: {result}")

    def messages(self) -> tuple[Message, ...]:
        """Return all of them."""
        self._close()
        return tuple(self._messages)

    def _close(self) -> None:
        for call_id, result in self._open.items():
            self._messages.append(Message(role="tool", text=result, call_id=call_id))
        self._open = {}
