// A client of `@modelcontextprotocol/sdk`. One argument: {"sdk": DIR, "command": PROGRAM, "steps": [...]}; see steps.mjs.
import { createRequire } from 'node:module';
import path from 'node:path';
import { steps, watchdog } from './steps.mjs';

const { sdk, command, steps: list } = JSON.parse(process.argv[2]);
// The SDK is installed elsewhere; imports would look for it beside this file.
const require = createRequire(path.join(sdk, 'package.json'));
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');

watchdog();
const client = new Client({ name: 'guard-tests-typescript-v1', version: '1.0.0' });
await client.connect(new StdioClientTransport({ command, args: [], stderr: 'inherit' }));
await steps(client, list, (params, options) => client.callTool(params, undefined, options));
await client.close();
