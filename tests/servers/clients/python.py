"""A client of the Python SDK, 1.x or 2.x, whichever the interpreter has. One argument: {"command": PROGRAM, "steps":
[...]}, the steps of steps.mjs. Prints a line of JSON for each."""

import json
import sys

import anyio
import mcp
from mcp import ClientSession, StdioServerParameters
from mcp import types

TWO = hasattr(mcp, "Client")
if TWO:
    from mcp import Client
    from mcp import MCPError as ProtocolError
else:
    from mcp import McpError as ProtocolError
    from mcp.client.stdio import stdio_client

LISTS = {
    "tools": ("list_tools", "tools"),
    "resources": ("list_resources", "resources"),
    "templates": ("list_resource_templates", "resourceTemplates"),
    "prompts": ("list_prompts", "prompts"),
}


def plain(value):
    return value.model_dump(mode="json", by_alias=True, exclude_unset=True) if value is not None else None


def tell(line):
    print(json.dumps(line, sort_keys=True, ensure_ascii=False), flush=True)


async def pages(client, what):
    """All pages; the cursor is a keyword of both, which 1.x would like otherwise and still takes."""
    name, member = LISTS[what]
    found, cursor = [], None
    while True:
        page = plain(await getattr(client, name)(cursor=cursor))
        found += page[member]
        cursor = page.get("nextCursor")
        if cursor is None:
            return found


async def cancelled(client, call, after):
    """2.x tells the server when its caller gives up; of 1.x that is the caller's affair."""
    number = None if TWO else client._request_id
    with anyio.move_on_after(after / 1000) as scope:
        result = await client.call_tool(call["name"], call["arguments"])
    if not scope.cancelled_caught:
        return {"result": plain(result)}
    if not TWO:
        params = types.CancelledNotificationParams(requestId=number, reason="no longer wanted")
        note = types.CancelledNotification(method="notifications/cancelled", params=params)
        await client.send_notification(types.ClientNotification(note))
    return {"cancelled": True}


async def one(client, step):
    if "list" in step:
        return {"result": await pages(client, step["list"])}
    if "read" in step:
        return {"result": plain(await client.read_resource(step["read"] if TWO else mcp_url(step["read"])))}
    if "get" in step:
        return {"result": plain(await client.get_prompt(step["get"]["name"], step["get"].get("arguments")))}
    call = step["call"]
    if "cancel_after_ms" in step:
        return await cancelled(client, call, step["cancel_after_ms"])
    if not step.get("progress"):
        return {"result": plain(await client.call_tool(call["name"], call["arguments"]))}
    progress = []

    async def progressed(done, total, message):
        progress.append([done, total, message])

    result = await client.call_tool(call["name"], call["arguments"], progress_callback=progressed)
    return {"result": plain(result), "progress": progress}


def mcp_url(text):
    from pydantic import AnyUrl

    return AnyUrl(text)


async def run(client, steps):
    for step in steps:
        try:
            told = await one(client, step)
        except ProtocolError as error:
            told = {"error": plain(error.error)}
        tell({"step": step, **told})


async def main():
    asked = json.loads(sys.argv[1])
    server = StdioServerParameters(command=asked["command"])
    with anyio.fail_after(90):
        if TWO:
            async with Client(server) as client:
                hello = [client.protocol_version, plain(client.server_info), plain(client.server_capabilities)]
                tell({"server": hello, "instructions": client.instructions})
                await run(client, asked["steps"])
            return
        async with stdio_client(server) as (read, write):
            async with ClientSession(read, write) as session:
                tell({"server": plain(await session.initialize())})
                await run(session, asked["steps"])


anyio.run(main)
