// An MCP client made of the official SDK: starts a server, lists its tools, makes the calls it is asked for.
// One argument: {"sdk": DIR, "command": PROGRAM, "args": [...], "env": {...}, "calls": [{"name", "arguments"}],
// "patience": SECONDS for one call}.
// Prints one JSON object. What the server or its guard says on stderr is in it, line by line.
import { createRequire } from 'node:module';
import path from 'node:path';

const { sdk, command, args, env = {}, calls = [], patience } = JSON.parse(process.argv[2]);
// The SDK is installed elsewhere; imports would look for it beside this file.
const require = createRequire(path.join(sdk, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport, getDefaultEnvironment } = require('@modelcontextprotocol/sdk/client/stdio.js');

const LIMIT = { timeout: patience * 1000 };
setTimeout(() => {
  console.error(`demo-client: not done after ${3 * patience} s`);
  process.exit(3);
}, 3 * patience * 1000).unref();

const transport = new StdioClientTransport({
  command,
  args,
  env: { ...getDefaultEnvironment(), ...env },
  stderr: 'pipe',
});
let stderr = '';
transport.stderr.setEncoding('utf8').on('data', (text) => (stderr += text));

const client = new Client({ name: 'demo-client', version: '1.0.0' });
try {
  await client.connect(transport, LIMIT);
  const { tools } = await client.listTools(undefined, LIMIT);
  const answers = [];
  for (const call of calls) {
    const { content, isError = false } = await client.callTool(call, undefined, LIMIT);
    const text = content.map((part) => part.text ?? `(${part.type})`).join('\n');
    answers.push({ text, is_error: isError });
  }
  await client.close();
  const report = { server: client.getServerVersion(), tools: tools.map(({ name }) => name), answers, stderr: lines() };
  console.log(JSON.stringify(report));
} catch (error) {
  await client.close().catch(() => {});
  console.error(`demo-client: ${error.message}`);
  for (const line of lines()) console.error(`  ${line}`);
  process.exitCode = 1;
}

function lines() {
  return stderr.split('\n').filter((line) => line.trim() !== '');
}
