// Asks a server of ours as its clients do, and says what they understood (JSON on stdout).
// Arguments: the client (ai, ai-v5, ai-v6, openai-chat, openai-responses, ag-ui), the base URL, and the question;
// for ag-ui also the answers to interrupts as JSON, for a second run. For the AI SDK also "resume", to leave after the
// first text and to come back, or the decision about a call as JSON, for a second request.
const [client, url, question] = process.argv.slice(2);

async function withSdk(name) {
  const { DefaultChatTransport, readUIMessageStream } = await import(name);
  const transport = new DefaultChatTransport({ api: `${url}/ui` });
  const messages = [{ id: "m-1", role: "user", parts: [{ type: "text", text: question }] }];
  const sent = { chatId: "chat-1", messages, trigger: "submit-message", abortSignal: undefined };
  const [read, seen] = (await transport.sendMessages(sent)).tee();
  const chunks = [];
  const watching = (async () => {
    for await (const chunk of seen) chunks.push(chunk);
  })();
  let message = null;
  let error = null;
  const onError = (raised) => {
    error = String(raised?.message ?? raised);
  };
  for await (const state of readUIMessageStream({ stream: read, onError })) message = state;
  await watching;
  return { message, error, chunks };
}

async function assembled(sdk, stream, message) {
  let error = null;
  let last = null;
  const onError = (raised) => {
    error = String(raised?.message ?? raised);
  };
  for await (const state of sdk.readUIMessageStream({ message, stream, onError })) last = state;
  return { message: last, error };
}

async function comingBack(sdk, transport, sent) {
  const left = new AbortController();
  const reader = (await transport.sendMessages({ ...sent, abortSignal: left.signal })).getReader();
  const before = [];
  while (!before.some((chunk) => chunk.type === "text-delta")) before.push((await reader.read()).value);
  left.abort();
  await reader.cancel().catch(() => undefined);
  const rest = await transport.reconnectToStream({ chatId: sent.chatId });
  const seen = await assembled(sdk, rest);
  await new Promise((done) => setTimeout(done, 200));
  const again = await transport.reconnectToStream({ chatId: sent.chatId });
  return { ...seen, before, again: again === null ? null : (await assembled(sdk, again)).message };
}

async function deciding(sdk, transport, sent, decision) {
  const asked = await assembled(sdk, await transport.sendMessages(sent));
  const call = asked.message.parts.find((part) => part.state === "approval-requested");
  call.state = "approval-responded";
  call.approval = { ...call.approval, ...decision };
  const messages = [...sent.messages, structuredClone(asked.message)];
  const done = await assembled(sdk, await transport.sendMessages({ ...sent, messages }), structuredClone(asked.message));
  return { asked, ...done };
}

async function twice(name, how) {
  const sdk = await import(name);
  const transport = new sdk.DefaultChatTransport({ api: `${url}/ui` });
  const messages = [{ id: "m-1", role: "user", parts: [{ type: "text", text: question }] }];
  const sent = { chatId: "chat-1", messages, trigger: "submit-message", abortSignal: undefined };
  if (how === "resume") return await comingBack(sdk, transport, sent);
  return await deciding(sdk, transport, sent, JSON.parse(how));
}

async function withOpenAI(kind) {
  const { default: OpenAI } = await import("openai");
  const openai = new OpenAI({ apiKey: "k", baseURL: `${url}/v1`, maxRetries: 0 });
  try {
    if (kind === "openai-chat") {
      const stream = openai.chat.completions.stream({
        model: "m",
        messages: [{ role: "user", content: question }],
        stream_options: { include_usage: true },
      });
      return { completion: await stream.finalChatCompletion() };
    }
    const types = [];
    const stream = openai.responses.stream({ model: "m", input: question });
    for await (const event of stream) types.push(event.type);
    return { types, response: await stream.finalResponse() };
  } catch (error) {
    return { error: String(error?.message ?? error) };
  }
}

async function withAgUi() {
  const { HttpAgent } = await import("@ag-ui/client");
  const agent = new HttpAgent({ url: `${url}/ag_ui`, threadId: "t-1" });
  agent.messages = [{ id: "m-1", role: "user", content: question }];
  const events = [];
  const errors = [];
  const subscriber = {
    onEvent: ({ event }) => void events.push(event),
    onRunFailed: ({ error }) => void errors.push(String(error?.message ?? error)),
  };
  const runs = process.argv[5] ? [{}, { resume: JSON.parse(process.argv[5]) }] : [{}];
  for (const given of runs) {
    try {
      await agent.runAgent(given, subscriber);
    } catch (error) {
      errors.push(String(error?.message ?? error));
    }
  }
  return { messages: agent.messages, state: agent.state, events, errors };
}

if (client === "ag-ui") {
  process.stdout.write(JSON.stringify(await withAgUi()));
  process.exit(0);
}
if (process.argv[5]) {
  process.stdout.write(JSON.stringify(await twice(client, process.argv[5])));
  process.exit(0);
}
const made = client.startsWith("ai") ? await withSdk(client) : await withOpenAI(client);
process.stdout.write(JSON.stringify(made));
