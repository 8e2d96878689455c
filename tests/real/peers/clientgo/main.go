// Command clientgo drives a Kubernetes API server with the libraries controllers are made of.
//
//	clientgo churn    informers, writers, leader election and a controller, then compares what the caches hold
//	clientgo survey   discovery, OpenAPI v2, and a list and watch of everything served, as GitOps engines do
//
// It ends with one JSON report on standard output; tests/real/test_clientgo.py reads it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// report is what a run found; it may be written to from everywhere.
type report struct {
	mutex       sync.Mutex
	Errors      []string       `json:"errors"`
	Differences []string       `json:"differences"`
	Objects     map[string]int `json:"objects"`
	Counts      map[string]int `json:"counts"`
	Leaders     []string       `json:"leaders"`
}

func newReport() *report {
	return &report{Errors: []string{}, Differences: []string{}, Objects: map[string]int{}, Counts: map[string]int{}}
}

func (r *report) count(what string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.Counts[what]++
}

func (r *report) fail(where string, err error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.Errors = append(r.Errors, fmt.Sprintf("%s: %v", where, err))
}

func (r *report) leader(name string) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.Leaders = append(r.Leaders, name)
}

func (r *report) print() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sort.Strings(r.Differences)
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		panic(err)
	}
}

// say tells the test how far this run is.
func say(what string) {
	fmt.Println(what)
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: clientgo churn|survey [flags]")
		os.Exit(2)
	}
	// A set of its own: libraries put theirs into the common one.
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "of the server to drive")
	namespace := flags.String("namespace", "default", "churn: where to write")
	duration := flags.Duration("duration", 8*time.Second, "churn: how long to write")
	cut := flags.Bool("cut", false, "churn: connections break, which is no error")
	flags.Parse(os.Args[2:])
	ctrl.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	config.QPS = -1
	result := newReport()
	switch os.Args[1] {
	case "churn":
		run := &churn{config: config, namespace: *namespace, cut: *cut, report: result}
		err = run.run(context.Background(), *duration)
	case "survey":
		err = survey(context.Background(), config, result)
	default:
		err = fmt.Errorf("no command %q", os.Args[1])
	}
	if err != nil {
		result.fail(os.Args[1], err)
	}
	result.print()
}

// protobuf is a copy of a configuration for typed clients of built-in kinds.
func protobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}
