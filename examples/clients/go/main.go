// Calls Holdfast with Dapr's SDK, by app id and by actor proxy.
//
//	DAPR_GRPC_PORT=50001 go run . [APP_ID]
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/dapr/go-sdk/client"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

var appID = "holdfast"

type object = map[string]any

type popped struct {
	Items  json.RawMessage `json:"items"`
	LockID string          `json:"lock_id"`
	Locked bool            `json:"locked"`
}

type acknowledged struct {
	Count     int    `json:"items_acknowledged"`
	ErrorCode string `json:"error_code"`
}

type instance struct {
	Status string          `json:"status"`
	Output json.RawMessage `json:"output"`
}

// call makes a REST call by app id.
func call[Answer any](ctx context.Context, dapr client.Client, verb, path string, body any) (answer Answer, err error) {
	content, err := json.Marshal(body)
	if err != nil {
		return answer, err
	}
	data := &client.DataContent{Data: content, ContentType: "application/json"}
	reply, err := dapr.InvokeMethodWithContent(ctx, appID, path, verb, data)
	if err != nil {
		return answer, err
	}
	return answer, json.Unmarshal(reply, &answer)
}

func queueByAppID(ctx context.Context, dapr client.Client, queue string) error {
	push := object{"item": object{"task_id": 123}, "priority": 2}
	if _, err := call[object](ctx, dapr, "POST", "queue/"+queue+"/push", push); err != nil {
		return err
	}
	locked, err := call[popped](ctx, dapr, "POST", "queue/"+queue+"/pop?require_ack=true&ttl_seconds=60", nil)
	if err != nil {
		return err
	}
	fmt.Printf("items %s\n", locked.Items)

	// A refusal is an error.
	_, err = call[popped](ctx, dapr, "POST", "queue/"+queue+"/pop", nil)
	fmt.Println("locked", statusOf(err))
	_, err = call[acknowledged](ctx, dapr, "POST", "queue/"+queue+"/acknowledge", object{"lock_id": "wrong"})
	fmt.Println("wrong lock", statusOf(err))

	done, err := call[acknowledged](ctx, dapr, "POST", "queue/"+queue+"/acknowledge", object{"lock_id": locked.LockID})
	if err != nil {
		return err
	}
	fmt.Println("acknowledged", done.Count)
	return nil
}

// statusOf returns the HTTP status of a refusal. Its gRPC code says less.
func statusOf(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info.GetMetadata()["http.code"]
		}
	}
	return fmt.Sprint(err)
}

func orchestrationByAppID(ctx context.Context, dapr client.Client, id string) error {
	start := object{"instance_id": id, "input": []string{"oar", "rope"}}
	if _, err := call[object](ctx, dapr, "POST", "orchestrations/order/start", start); err != nil {
		return err
	}
	ended, err := call[instance](ctx, dapr, "GET", "orchestrations/"+id+"/wait", nil)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n", ended.Status, ended.Output)
	return nil
}

// pushPopActor is a queue. The SDK sets the functions, which are named as the actor's methods.
type pushPopActor struct {
	queue       string
	Push        func(context.Context, object) (object, error)
	Pop         func(context.Context) (popped, error)
	PopWithAck  func(context.Context, object) (popped, error)
	Acknowledge func(context.Context, object) (acknowledged, error)
}

func (*pushPopActor) Type() string { return "PushPopActor" }
func (a *pushPopActor) ID() string { return a.queue }

func queueByActorProxy(ctx context.Context, dapr client.Client, name string) error {
	queue := &pushPopActor{queue: name}
	dapr.ImplActorClientStub(queue)

	if _, err := queue.Push(ctx, object{"item": object{"task_id": 124}}); err != nil {
		return err
	}
	locked, err := queue.PopWithAck(ctx, object{"ttl_seconds": 60})
	if err != nil {
		return err
	}
	fmt.Printf("items %s\n", locked.Items)

	// A refusal is an answer like others.
	second, err := queue.Pop(ctx)
	if err != nil {
		return err
	}
	fmt.Println("locked", second.Locked)
	refused, err := queue.Acknowledge(ctx, object{"lock_id": "wrong"})
	if err != nil {
		return err
	}
	fmt.Println("wrong lock", refused.ErrorCode)

	done, err := queue.Acknowledge(ctx, object{"lock_id": locked.LockID})
	if err != nil {
		return err
	}
	fmt.Println("acknowledged", done.Count)
	return nil
}

type orchestrationActor struct {
	instance string
	Start    func(context.Context, object) (object, error)
	Status   func(context.Context) (instance, error)
}

func (*orchestrationActor) Type() string { return "OrchestrationActor" }
func (a *orchestrationActor) ID() string { return a.instance }

func orchestrationByActorProxy(ctx context.Context, dapr client.Client, id string) error {
	order := &orchestrationActor{instance: id}
	dapr.ImplActorClientStub(order)

	if _, err := order.Start(ctx, object{"name": "order", "input": []string{"oar", "rope"}}); err != nil {
		return err
	}
	for {
		seen, err := order.Status(ctx)
		if err != nil {
			return err
		}
		if seen.Status != "RUNNING" {
			fmt.Printf("%s %s\n", seen.Status, seen.Output)
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

type line struct {
	Article string `json:"article"`
}

// basketActor is the actor of app.py.
type basketActor struct {
	id     string
	Add    func(context.Context, line) (int, error)
	Lines  func(context.Context) ([]line, error)
	Remind func(context.Context, float64) error
	Watch  func(context.Context, float64) error
	Fired  func(context.Context) ([]string, error)
	Clear  func(context.Context) error
}

func (*basketActor) Type() string { return "BasketActor" }
func (a *basketActor) ID() string { return a.id }

func ownActor(ctx context.Context, dapr client.Client, id string) error {
	basket := &basketActor{id: id}
	dapr.ImplActorClientStub(basket)

	count, err := basket.Add(ctx, line{"oar"})
	if err != nil {
		return err
	}
	lines, err := basket.Lines(ctx)
	if err != nil {
		return err
	}
	fmt.Println("basket", count, lines[0].Article)

	if err := basket.Remind(ctx, 0.1); err != nil {
		return err
	}
	if err := basket.Watch(ctx, 0.1); err != nil {
		return err
	}
	for {
		fired, err := basket.Fired(ctx)
		if err != nil {
			return err
		}
		if len(fired) == 2 {
			fmt.Println("fired", strings.Join(fired, " "))
			break
		}
		time.Sleep(100 * time.Millisecond)
	}

	if err := basket.Clear(ctx); err != nil {
		return err
	}
	lines, err = basket.Lines(ctx)
	fmt.Println("cleared", len(lines))
	return err
}

func main() {
	if len(os.Args) > 1 {
		appID = os.Args[1]
	}
	client.SetLogger(log.New(os.Stderr, "", 0))
	// The SDK takes the port, and DAPR_API_TOKEN, from the environment.
	dapr, err := client.NewClient()
	if err != nil {
		log.Fatal(err)
	}
	defer dapr.Close()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()

	id := rand.Text()
	for _, run := range []func() error{
		func() error { return queueByAppID(ctx, dapr, "by-app-id-"+id) },
		func() error { return orchestrationByAppID(ctx, dapr, "by-app-id-"+id) },
		func() error { return queueByActorProxy(ctx, dapr, "by-proxy-"+id) },
		func() error { return orchestrationByActorProxy(ctx, dapr, "by-proxy-"+id) },
		func() error { return ownActor(ctx, dapr, "basket-"+id) },
	} {
		if err := run(); err != nil {
			log.Fatal(err)
		}
	}
}
