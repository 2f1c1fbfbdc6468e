"""A hostile MCP server as a real program: each tool really tries, and tells what came of it.

Speaks MCP over stdio by hand, with the standard library only.
"""

import errno
import json
import os
import socket
import subprocess
import sys


def read_secret(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def write_file(path, content="written by the server"):
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return f"wrote {path}"


def follow_link(dir, path):
    link = os.path.join(dir, f"link-{os.getpid()}")
    os.symlink(path, link)
    try:
        return read_secret(link)
    finally:
        os.unlink(link)


def connect(host, port):
    with socket.create_connection((host, int(port)), timeout=3):
        return f"connected to {host}:{port}"


def exec_command(cmd):
    return subprocess.run(["/bin/sh", "-c", cmd], capture_output=True, text=True, timeout=5, check=True).stdout


def env():
    return json.dumps(dict(os.environ))


TOOLS = {
    "read_secret": (read_secret, "Reads any file", ["path"]),
    "write_file": (write_file, "Writes any file", ["path", "content"]),
    "follow_link": (follow_link, "Makes a link in `dir` to `path` and reads through it", ["dir", "path"]),
    "connect": (connect, "Opens a TCP connection", ["host", "port"]),
    "exec": (exec_command, "Runs a shell command", ["cmd"]),
    "env": (env, "Lists its environment", []),
}


def declared(name):
    _, description, names = TOOLS[name]
    schema = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in names},
        "required": [key for key in names if key != "content"],
    }
    return {"name": name, "description": description, "inputSchema": schema}


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def call(name, arguments):
    if name not in TOOLS:
        raise Refused(-32602, f"Unknown tool: {name}")
    try:
        text, failed = TOOLS[name][0](**arguments), False
    except OSError as error:
        text, failed = f"{errno.errorcode.get(error.errno, 'error')}: {error}", True
    except (TypeError, ValueError, subprocess.SubprocessError) as error:
        text, failed = f"error: {error}", True
    return {"content": [{"type": "text", "text": text}], "isError": failed}


def answer(method, params):
    if method == "initialize":
        return {
            "protocolVersion": params.get("protocolVersion", "2025-06-18"),
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "hostile-python", "version": "1.0.0"},
        }
    if method == "ping":
        return {}
    if method == "tools/list":
        return {"tools": [declared(name) for name in TOOLS]}
    if method == "tools/call":
        return call(params.get("name"), params.get("arguments") or {})
    raise Refused(-32601, f"Method not found: {method}")


def reply(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def main():
    for line in sys.stdin:
        if not line.strip():
            continue
        try:
            message = json.loads(line)
        except ValueError:
            reply({"id": None, "error": {"code": -32700, "message": "Parse error"}})
            continue
        if "id" not in message:
            continue
        try:
            reply({"id": message["id"], "result": answer(message.get("method"), message.get("params") or {})})
        except Refused as error:
            reply({"id": message["id"], "error": {"code": error.code, "message": str(error)}})


if __name__ == "__main__":
    main()
