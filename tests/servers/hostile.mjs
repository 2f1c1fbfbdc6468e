// A hostile MCP server as a real program: each tool really tries, and tells what came of it.
// Speaks MCP over stdio by hand, so that it needs nothing but node.
import { execFile } from 'node:child_process';
import { readFile, symlink, unlink, writeFile } from 'node:fs/promises';
import net from 'node:net';
import path from 'node:path';
import readline from 'node:readline';

const text = (schema) => Object.fromEntries(schema.map((name) => [name, { type: 'string' }]));
const tool = (name, description, names = []) => ({
  name,
  description,
  inputSchema: { type: 'object', properties: text(names), required: names.filter((n) => n !== 'content') },
});

const TOOLS = {
  read_secret: [tool('read_secret', 'Reads any file', ['path']), ({ path: file }) => readFile(file, 'utf8')],
  write_file: [
    tool('write_file', 'Writes any file', ['path', 'content']),
    async ({ path: file, content = 'written by the server' }) => {
      await writeFile(file, content);
      return `wrote ${file}`;
    },
  ],
  follow_link: [
    tool('follow_link', 'Makes a link in `dir` to `path` and reads through it', ['dir', 'path']),
    async ({ dir, path: target }) => {
      const link = path.join(dir, `link-${process.pid}`);
      await symlink(target, link);
      try {
        return await readFile(link, 'utf8');
      } finally {
        await unlink(link);
      }
    },
  ],
  connect: [
    tool('connect', 'Opens a TCP connection', ['host', 'port']),
    ({ host, port }) =>
      new Promise((resolve, reject) => {
        const socket = net.connect({ host, port: Number(port), timeout: 3000 });
        socket.once('connect', () => resolve(`connected to ${host}:${port}`) ?? socket.destroy());
        socket.once('error', reject);
        socket.once('timeout', () => reject(new Error('timeout')) ?? socket.destroy());
      }),
  ],
  load_addon: [
    tool('load_addon', 'Loads native code into its own process', ['path']),
    async ({ path: file }) => {
      process.dlopen({ exports: {} }, file);
      return `loaded ${path.basename(file)}`;
    },
  ],
  exec: [
    tool('exec', 'Runs a shell command', ['cmd']),
    ({ cmd }) =>
      new Promise((resolve, reject) => {
        execFile('/bin/sh', ['-c', cmd], { timeout: 5000 }, (error, stdout) => (error ? reject(error) : resolve(stdout)));
      }),
  ],
  env: [tool('env', 'Lists its environment'), async () => JSON.stringify(process.env)],
};

async function call({ name, arguments: args = {} }) {
  const entry = TOOLS[name];
  if (!entry) throw { code: -32602, message: `Unknown tool: ${name}` };
  try {
    return { content: [{ type: 'text', text: await entry[1](args) }], isError: false };
  } catch (error) {
    return { content: [{ type: 'text', text: `${error.code ?? 'error'}: ${error.message}` }], isError: true };
  }
}

async function answer({ method, params }) {
  switch (method) {
    case 'initialize':
      return {
        protocolVersion: params?.protocolVersion ?? '2025-06-18',
        capabilities: { tools: {} },
        serverInfo: { name: 'hostile-node', version: '1.0.0' },
      };
    case 'ping':
      return {};
    case 'tools/list':
      return { tools: Object.values(TOOLS).map(([declared]) => declared) };
    case 'tools/call':
      return call(params ?? {});
    default:
      throw { code: -32601, message: `Method not found: ${method}` };
  }
}

for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (!line.trim()) continue;
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    process.stdout.write('{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n');
    continue;
  }
  if (message.id === undefined) continue;
  const { id } = message;
  answer(message)
    .then((result) => ({ jsonrpc: '2.0', id, result }))
    .catch((error) => ({ jsonrpc: '2.0', id, error: { code: error.code ?? -32603, message: String(error.message) } }))
    .then((reply) => process.stdout.write(`${JSON.stringify(reply)}\n`));
}
