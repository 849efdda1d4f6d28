import com.fasterxml.jackson.databind.JsonNode;
import io.dapr.actors.ActorId;
import io.dapr.actors.ActorMethod;
import io.dapr.actors.ActorType;
import io.dapr.actors.client.ActorClient;
import io.dapr.actors.client.ActorProxyBuilder;
import io.dapr.client.DaprClient;
import io.dapr.client.DaprClientBuilder;
import io.dapr.client.DaprHttp;
import io.dapr.client.domain.HttpExtension;
import io.dapr.exceptions.DaprException;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import reactor.core.publisher.Mono;

/**
 * Calls Holdfast with Dapr's SDK, by app id and by actor proxy.
 *
 * <pre>
 * mvn compile
 * DAPR_HTTP_PORT=8080 DAPR_GRPC_PORT=50001 java -cp 'target/classes:target/lib/*' Client [APP_ID]
 * </pre>
 */
public class Client {
  private final String appId;
  private final DaprClient dapr;
  private final ActorClient actors;

  Client(String appId, DaprClient dapr, ActorClient actors) {
    this.appId = appId;
    this.dapr = dapr;
    this.actors = actors;
  }

  void queueByAppId(String queue) {
    call("queue/" + queue + "/push", Map.of("item", Map.of("task_id", 123), "priority", 2));
    var withAck = Map.of("require_ack", List.of("true"), "ttl_seconds", List.of("60"));
    var post = new HttpExtension(DaprHttp.HttpMethods.POST, withAck, null);
    var locked = dapr.invokeMethod(appId, "queue/" + queue + "/pop", null, post, JsonNode.class).block();
    System.out.println("items " + locked.get("items"));

    // A refusal is an exception.
    try {
      call("queue/" + queue + "/pop", null);
    } catch (DaprException refused) {
      System.out.println("locked " + refused.getHttpStatusCode());
    }
    try {
      call("queue/" + queue + "/acknowledge", Map.of("lock_id", "wrong"));
    } catch (DaprException refused) {
      System.out.println("wrong lock " + refused.getHttpStatusCode());
    }
    var done = call("queue/" + queue + "/acknowledge", Map.of("lock_id", locked.get("lock_id")));
    System.out.println("acknowledged " + done.get("items_acknowledged"));
  }

  JsonNode call(String path, Object body) {
    return dapr.invokeMethod(appId, path, body, HttpExtension.POST, JsonNode.class).block();
  }

  void orchestrationByAppId(String instance) {
    call("orchestrations/order/start", Map.of("instance_id", instance, "input", List.of("oar", "rope")));
    var path = "orchestrations/" + instance + "/wait";
    var ended = dapr.invokeMethod(appId, path, null, HttpExtension.GET, JsonNode.class).block();
    System.out.println(ended.get("status").asText() + " " + ended.get("output"));
  }

  @ActorType(name = "PushPopActor")
  public interface Queue {
    @ActorMethod(name = "Push")
    JsonNode push(Map<String, ?> request);

    @ActorMethod(name = "Pop")
    JsonNode pop();

    @ActorMethod(name = "PopWithAck")
    JsonNode popWithAck(Map<String, ?> request);

    @ActorMethod(name = "Acknowledge")
    JsonNode acknowledge(Map<String, ?> request);
  }

  void queueByActorProxy(String name) {
    var queue = new ActorProxyBuilder<>(Queue.class, actors).build(new ActorId(name));
    queue.push(Map.of("item", Map.of("task_id", 124)));
    var locked = queue.popWithAck(Map.of("ttl_seconds", 60));
    System.out.println("items " + locked.get("items"));

    // A refusal is an answer like others.
    System.out.println("locked " + queue.pop().get("locked"));
    var refused = queue.acknowledge(Map.of("lock_id", "wrong"));
    System.out.println("wrong lock " + refused.get("error_code").asText());
    var done = queue.acknowledge(Map.of("lock_id", locked.get("lock_id")));
    System.out.println("acknowledged " + done.get("items_acknowledged"));
  }

  @ActorType(name = "OrchestrationActor")
  public interface Orchestration {
    @ActorMethod(name = "Start")
    JsonNode start(Map<String, ?> request);

    @ActorMethod(name = "Status")
    JsonNode status();
  }

  void orchestrationByActorProxy(String instance) throws InterruptedException {
    var order = new ActorProxyBuilder<>(Orchestration.class, actors).build(new ActorId(instance));
    order.start(Map.of("name", "order", "input", List.of("oar", "rope")));
    var seen = order.status();
    while (seen.get("status").asText().equals("RUNNING")) {
      Thread.sleep(100);
      seen = order.status();
    }
    System.out.println(seen.get("status").asText() + " " + seen.get("output"));
  }

  /** The actor of app.py. */
  @ActorType(name = "BasketActor")
  public interface Basket {
    @ActorMethod(name = "Add")
    int add(Line line);

    @ActorMethod(name = "Lines")
    Line[] lines();

    // With an argument, a method that returns nothing has to return Mono<Void>.
    @ActorMethod(name = "Remind")
    Mono<Void> remind(double seconds);

    @ActorMethod(name = "Watch")
    Mono<Void> watch(double seconds);

    @ActorMethod(name = "Fired")
    String[] fired();

    @ActorMethod(name = "Clear")
    void clear();
  }

  public record Line(String article) {}

  void ownActor(String id) throws InterruptedException {
    var basket = new ActorProxyBuilder<>(Basket.class, actors).build(new ActorId(id));
    System.out.println("basket " + basket.add(new Line("oar")) + " " + basket.lines()[0].article());

    basket.remind(0.1).block();
    basket.watch(0.1).block();
    var fired = basket.fired();
    while (fired.length < 2) {
      Thread.sleep(100);
      fired = basket.fired();
    }
    System.out.println("fired " + String.join(" ", fired));

    basket.clear();
    System.out.println("cleared " + basket.lines().length);
  }

  public static void main(String[] arguments) throws Exception {
    var appId = arguments.length > 0 ? arguments[0] : "holdfast";
    var id = UUID.randomUUID();
    // Threads of the SDK would keep the program running.
    Thread.setDefaultUncaughtExceptionHandler((thread, error) -> {
      error.printStackTrace();
      System.exit(1);
    });
    // The SDK takes the ports, and DAPR_API_TOKEN, from the environment.
    try (var dapr = new DaprClientBuilder().build(); var actors = new ActorClient()) {
      var client = new Client(appId, dapr, actors);
      client.queueByAppId("by-app-id-" + id);
      client.orchestrationByAppId("by-app-id-" + id);
      client.queueByActorProxy("by-proxy-" + id);
      client.orchestrationByActorProxy("by-proxy-" + id);
      client.ownActor("basket-" + id);
    }
    System.exit(0);
  }
}
