"""Functions on the wire: what a client offers, what a reply may or has to call, and what a call gave.

    tools                [{"type": "function", "name", "description"?, "parameters"?: JSON Schema of an object}]
    tool_choice          "auto" | "none" | "required" | {"type": "function", "name"}
    parallel_tool_calls  a reply may call more than one

The session object shows tools as they are taken: each with all four members. Source: `openai.types.realtime`
(openai 3.57.0), RealtimeFunctionTool and RealtimeToolChoiceConfig.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duplex.config import ToolSettings
from duplex.payloads import Tool, Toolset
from duplex.protocol import errors
from duplex.protocol.client_events import Item, ItemCreate
from duplex.protocol.errors import RemoteProtocolError
from duplex.session.config import SessionConfig
from duplex.session.messages import CreateCall, CreateCallOutput
from duplex.session.tools import is_object

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBounds:
    """How much this server takes of tools."""

    tools_max: int
    schema_chars_max: int
    arguments_chars_max: int
    output_chars_max: int


def bounds_of(settings: ToolSettings, *, calls: bool) -> ToolBounds | None:
    """Return the bounds of a server whose model calls functions, or None where it does not."""
    if not calls:
        return None
    return ToolBounds(
        tools_max=settings.tools_max,
        schema_chars_max=settings.schema_chars_max,
        arguments_chars_max=settings.arguments_chars_max,
        output_chars_max=settings.output_chars_max,
    )


def read_tools(raw: Sequence[Any], bounds: ToolBounds | None, param: str) -> list[dict[str, Any]]:
    """Check the tools that a client offers, and return them as the session object shows them.

    Args:
        raw: as they came.
        bounds: None: the model calls no functions, and only an empty list is taken.
        param: what they are called in errors: `session.tools`.
    Raises:
        RemoteProtocolError: one cannot be taken; its place is in `param`.
    """
    if not raw:
        return []
    if bounds is None:
        raise RemoteProtocolError(
            errors.UNSUPPORTED, "This server's model calls no tools; send [] or leave them out.", param
        )
    if len(raw) > bounds.tools_max:
        raise RemoteProtocolError(errors.TOO_LONG, f"At most {bounds.tools_max} tools are taken.", param)
    tools = [_read_tool(tool, f"{param}.{i}") for i, tool in enumerate(raw)]
    names: set[str] = set()
    for i, tool in enumerate(tools):
        if tool["name"] in names:
            raise RemoteProtocolError(errors.INVALID_VALUE, "Two tools cannot have the same name.", f"{param}.{i}.name")
        names.add(tool["name"])
    if sum(len(json.dumps(tool)) for tool in tools) > bounds.schema_chars_max:
        raise RemoteProtocolError(
            errors.TOO_LONG, f"All tools together take {bounds.schema_chars_max} characters of JSON.", param
        )
    return tools


def _read_tool(raw: Any, param: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        raise _wrong_type(param, "an object")
    kind = raw.get("type", "function")
    if kind != "function":
        raise RemoteProtocolError(
            errors.UNSUPPORTED, "Tools are of type 'function'; no other (as mcp) is supported.", f"{param}.type"
        )
    name, description, parameters = raw.get("name"), raw.get("description"), raw.get("parameters")
    if name is None:
        raise RemoteProtocolError(
            errors.MISSING_PARAMETER, f"Missing required parameter: '{param}.name'.", f"{param}.name"
        )
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise RemoteProtocolError(
            errors.INVALID_VALUE, "A tool's name has 1 to 64 letters, digits, '_' and '-'.", f"{param}.name"
        )
    if description is not None and not isinstance(description, str):
        raise _wrong_type(f"{param}.description", "a string")
    if parameters is not None and not isinstance(parameters, dict):
        raise _wrong_type(f"{param}.parameters", "a JSON Schema, an object")
    if parameters is not None and parameters.get("type", "object") != "object":
        raise RemoteProtocolError(
            errors.INVALID_VALUE, "Arguments are an object: the schema's type is 'object'.", f"{param}.parameters.type"
        )
    return {
        "type": "function", "name": name, "description": description or "", "parameters": parameters or _NO_PARAMETERS,
    }  # fmt: skip


def _wrong_type(param: str, what: str) -> RemoteProtocolError:
    return RemoteProtocolError(errors.INVALID_TYPE, f"Invalid value for '{param}': should be {what}.", param)


def check_choice(choice: Any, tools: Sequence[Mapping[str, Any]], param: str) -> Any:
    """Return a client's choice, if it can be one over these tools.

    Raises:
        RemoteProtocolError: it names a function that is not there.
    """
    if isinstance(choice, dict) and all(tool["name"] != choice["name"] for tool in tools):
        raise RemoteProtocolError(errors.INVALID_VALUE, "No tool has the name that is chosen.", f"{param}.name")
    return choice or "auto"


def toolset_of(tools: Sequence[Mapping[str, Any]], choice: Any, parallel: bool) -> Toolset:
    """Return what a reply may call; a choice of a function that is not there is `auto`."""
    named = choice["name"] if isinstance(choice, dict) else None
    if named is not None and all(tool["name"] != named for tool in tools):
        choice = "auto"
    return Toolset(
        tools=tuple(
            Tool(
                name=tool["name"],
                description=tool["description"],
                parameters=json.dumps(tool["parameters"], separators=(",", ":")),
            )
            for tool in tools
        ),
        choice="named" if isinstance(choice, dict) else choice,
        named=named if isinstance(choice, dict) else None,
        parallel=parallel,
    )


def response_toolset(
    config: SessionConfig, tools: Sequence[Any] | None, choice: Any, parallel: bool | None, bounds: ToolBounds | None
) -> Toolset | None:
    """Return what one response may call, where it says so itself; None: the session's.

    Args:
        tools, choice, parallel: the response's own; None takes the session's.
    Raises:
        RemoteProtocolError: as `read_tools` and `check_choice`.
    """
    if tools is None and choice is None and parallel is None:
        return None
    wire = config.wire
    offered = wire["tools"] if tools is None else read_tools(tools, bounds, "response.tools")
    if choice is not None:
        check_choice(choice, offered, "response.tool_choice")
    chosen = wire["tool_choice"] if choice is None else choice
    return toolset_of(offered, chosen, config.toolset.parallel if parallel is None else parallel)


def create_call_item(event: ItemCreate, bounds: ToolBounds | None) -> CreateCall | CreateCallOutput:
    """Read a client's function call, or what one gave.

    Raises:
        RemoteProtocolError: a member is missing, wrong or too long, or the model calls no functions.
    """
    item = event.item
    if bounds is None:
        raise RemoteProtocolError(errors.UNSUPPORTED, "This server's model calls no tools.", "item.type")
    if item.type == "function_call":
        arguments = _needed(item.arguments, "item.arguments", bounds.arguments_chars_max)
        if arguments and not is_object(arguments):
            raise RemoteProtocolError(
                errors.INVALID_VALUE, "Arguments are the JSON text of an object.", "item.arguments"
            )
        name = _needed(item.name, "item.name", bounds.arguments_chars_max)
        if not _NAME.fullmatch(name):
            raise RemoteProtocolError(
                errors.INVALID_VALUE, "A function's name has 1 to 64 letters, digits, '_' and '-'.", "item.name"
            )
        return CreateCall(
            name=name, arguments=arguments, call_id=item.call_id, item_id=item.id,
            previous_item_id=event.previous_item_id, event_id=event.event_id,
        )  # fmt: skip
    return CreateCallOutput(
        call_id=_call_id(item), output=_needed(item.output, "item.output", bounds.output_chars_max), item_id=item.id,
        previous_item_id=event.previous_item_id, event_id=event.event_id,
    )  # fmt: skip


def _call_id(item: Item) -> str:
    if item.call_id is None:
        raise RemoteProtocolError(
            errors.MISSING_PARAMETER, "Missing required parameter: 'item.call_id'.", "item.call_id"
        )
    return item.call_id


def _needed(value: str | None, param: str, chars_max: int) -> str:
    if value is None:
        raise RemoteProtocolError(errors.MISSING_PARAMETER, f"Missing required parameter: '{param}'.", param)
    if len(value) > chars_max:
        raise RemoteProtocolError(errors.TOO_LONG, f"'{param}' takes {chars_max} characters.", param)
    return value
