//go:build tools

// Package tools names what go.mod and go.sum have to cover besides the program here.
package main

import _ "sigs.k8s.io/cluster-api/cmd/clusterctl"
