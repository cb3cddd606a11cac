// Asks a server of ours as its clients do, and says what they understood (JSON on stdout).
// Arguments: the client (ai, ai-v5, ai-v6, openai-chat, openai-responses), the base URL, and the question.
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

const made = client.startsWith("ai") ? await withSdk(client) : await withOpenAI(client);
process.stdout.write(JSON.stringify(made));
