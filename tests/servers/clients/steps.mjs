// What the clients of both TypeScript SDKs do with a connection: the steps they were given, one after the other, and a
// line of JSON for each. `call(params, options)` hides that the two SDKs order the arguments differently.

export async function steps(client, list, call) {
  const LISTS = {
    tools: [(cursor) => client.listTools(cursor), 'tools'],
    resources: [(cursor) => client.listResources(cursor), 'resources'],
    templates: [(cursor) => client.listResourceTemplates(cursor), 'resourceTemplates'],
    prompts: [(cursor) => client.listPrompts(cursor), 'prompts'],
  };
  tell({ server: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions() });
  for (const step of list) {
    const progress = [];
    const told = { step };
    try {
      if (step.list) {
        const [page, member] = LISTS[step.list];
        told.result = [];
        let cursor;
        do {
          const got = await page(cursor === undefined ? undefined : { cursor });
          told.result.push(...got[member]);
          cursor = got.nextCursor;
        } while (cursor !== undefined);
      } else if (step.read) {
        told.result = await client.readResource({ uri: step.read });
      } else if (step.get) {
        told.result = await client.getPrompt(step.get);
      } else {
        told.result = await call(step.call, options(step, progress));
      }
    } catch (error) {
      if (step.cancel_after_ms) told.cancelled = true;
      else told.error = { code: error.code, message: error.message, data: error.data };
    }
    if (progress.length > 0) told.progress = progress;
    tell(told);
  }
}

function options(step, progress) {
  const options = { timeout: 30_000 };
  // The last word of progress comes with the answer. Read in one piece, the SDK takes the answer first and has nobody left
  // to tell the progress to: what it makes of that one is chance, with or without anybody in between.
  if (step.progress) options.onprogress = (one) => one.progress !== one.total && progress.push(one);
  if (step.cancel_after_ms) {
    const abort = new AbortController();
    options.signal = abort.signal;
    setTimeout(() => abort.abort('no longer wanted'), step.cancel_after_ms);
  }
  return options;
}

function tell(line) {
  process.stdout.write(`${JSON.stringify(line)}\n`);
}

// A client that hangs is a failure, not a wait.
export function watchdog() {
  setTimeout(() => {
    process.stderr.write('the client is not done after 90 s\n');
    process.exit(3);
  }, 90_000).unref();
}
