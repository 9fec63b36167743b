"""A prompt as the members of a chat completion's request. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from duplex.payloads import Message, Toolset


def request_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the conversation as the request's messages; empty ones are left out.

    Calls are numbered anew: servers take ids of 40, or of exactly nine, characters, and clients choose others.
    """
    made: list[dict[str, Any]] = []
    numbers: dict[str, str] = {}
    count = 0
    for message in messages:
        if message.role == "tool":
            made.append({"role": "tool", "tool_call_id": numbers[message.call_id or ""], "content": message.text})
        elif message.calls:
            calls: list[dict[str, Any]] = []
            for call in message.calls:
                count += 1
                numbers[call.id] = f"call{count:05d}"
                function = {"name": call.name, "arguments": call.arguments}
                calls.append({"id": numbers[call.id], "type": "function", "function": function})
            made.append({"role": message.role, "content": message.text or None, "tool_calls": calls})
        elif message.text.strip():
            made.append({"role": message.role, "content": message.text})
    return made


def request_tools(toolset: Toolset) -> Mapping[str, Any]:
    """Return the request's members for the tools; none without tools."""
    if not toolset.tools:
        return {}
    choice: Any = toolset.choice
    if choice == "named":
        choice = {"type": "function", "function": {"name": toolset.named}}
    tools = [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": json.loads(tool.parameters)},
        }
        for tool in toolset.tools
    ]
    only_one = {} if toolset.parallel else {"parallel_tool_calls": False}
    return {"tools": tools, "tool_choice": choice, **only_one}
