// Calls Holdfast with Dapr's SDK, by app id and by actor proxy.
//
//   npm ci
//   DAPR_HTTP_PORT=8080 node client.js
//   DAPR_GRPC_PORT=50001 node client.js grpc

import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { ActorId, ActorProxyBuilder, CommunicationProtocolEnum, DaprClient, HttpMethod } from "@dapr/dapr";

const [protocol = "http", appId = "holdfast"] = process.argv.slice(2);

// The SDK takes the port, and DAPR_API_TOKEN, from the environment.
const client = new DaprClient({
  communicationProtocol: protocol === "grpc" ? CommunicationProtocolEnum.GRPC : CommunicationProtocolEnum.HTTP,
  logger: { level: "error" },
});

const post = (path, body) => client.invoker.invoke(appId, path, HttpMethod.POST, body);

async function queueByAppId(queue) {
  await post(`queue/${queue}/push`, { item: { task_id: 123 }, priority: 2 });
  // Over gRPC, the SDK sends no query.
  const locked =
    protocol === "http"
      ? await post(`queue/${queue}/pop?require_ack=true&ttl_seconds=60`)
      : await actor(PushPopActor, queue).PopWithAck({ ttl_seconds: 60 });
  console.log("items", JSON.stringify(locked.items));

  // A refusal is an error.
  await post(`queue/${queue}/pop`).catch((error) => console.log("locked", statusOf(error)));
  await post(`queue/${queue}/acknowledge`, { lock_id: "wrong" }).catch((error) =>
    console.log("wrong lock", statusOf(error)),
  );
  const done = await post(`queue/${queue}/acknowledge`, { lock_id: locked.lock_id });
  console.log("acknowledged", done.items_acknowledged);
}

async function orchestrationByAppId(instance) {
  await post("orchestrations/order/start", { instance_id: instance, input: ["oar", "rope"] });
  const ended = await client.invoker.invoke(appId, `orchestrations/${instance}/wait`, HttpMethod.GET);
  console.log(ended.status, JSON.stringify(ended.output));
}

// The SDK has the HTTP status in its message over HTTP, and in the metadata over gRPC.
function statusOf(error) {
  return Number(error.metadata?.get("dapr-http-status") ?? JSON.parse(error.message).status);
}

// The name of the class is the actor type, and each method that is called is a method of the actor.
class PushPopActor {}
class OrchestrationActor {}
class BasketActor {} // in app.py

const actor = (type, id) => new ActorProxyBuilder(type, client).build(new ActorId(id));

async function queueByActorProxy(name) {
  const queue = actor(PushPopActor, name);
  await queue.Push({ item: { task_id: 124 } });
  const locked = await queue.PopWithAck({ ttl_seconds: 60 });
  console.log("items", JSON.stringify(locked.items));

  // A refusal is an answer like others.
  console.log("locked", (await queue.Pop()).locked);
  console.log("wrong lock", (await queue.Acknowledge({ lock_id: "wrong" })).error_code);
  const done = await queue.Acknowledge({ lock_id: locked.lock_id });
  console.log("acknowledged", done.items_acknowledged);
}

async function orchestrationByActorProxy(instance) {
  const order = actor(OrchestrationActor, instance);
  await order.Start({ name: "order", input: ["oar", "rope"] });
  const ended = await until(() => order.Status(), (seen) => seen.status !== "RUNNING");
  console.log(ended.status, JSON.stringify(ended.output));
}

async function ownActor(name) {
  const basket = actor(BasketActor, name);
  const count = await basket.Add({ article: "oar" });
  const [line] = await basket.Lines();
  console.log("basket", count, line.article);

  await basket.Remind(0.1);
  await basket.Watch(0.1);
  const fired = await until(() => basket.Fired(), (seen) => seen.length === 2);
  console.log("fired", ...fired);

  await basket.Clear();
  console.log("cleared", (await basket.Lines()).length);
}

async function until(read, enough) {
  for (;;) {
    const seen = await read();
    if (enough(seen)) return seen;
    await setTimeout(100);
  }
}

const id = randomUUID();
await queueByAppId(`by-app-id-${id}`);
await orchestrationByAppId(`by-app-id-${id}`);
await queueByActorProxy(`by-proxy-${id}`);
await orchestrationByActorProxy(`by-proxy-${id}`);
await ownActor(`basket-${id}`);

await client.stop();
