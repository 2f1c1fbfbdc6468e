// A client of `@modelcontextprotocol/client` that speaks whatever era the server does: it starts the server once more, for a
// moment, to find out. One argument: {"sdk": DIR, "command": PROGRAM, "steps": [...]}; see steps.mjs.
import { createRequire } from 'node:module';
import path from 'node:path';
import { steps, watchdog } from './steps.mjs';

const { sdk, command, steps: list } = JSON.parse(process.argv[2]);
// The SDK is installed elsewhere; imports would look for it beside this file.
const require = createRequire(path.join(sdk, 'package.json'));
const { Client } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

watchdog();
const client = new Client(
  { name: 'guard-tests-typescript-v2', version: '1.0.0' },
  { versionNegotiation: { mode: 'auto' } },
);
await client.connect(new StdioClientTransport({ command, args: [], stderr: 'inherit' }));
await steps(client, list, (params, options) => client.callTool(params, options));
await client.close();
