//go:build tools

// Package tools names what go.mod and go.sum have to cover.
package tools

import _ "sigs.k8s.io/cri-tools/cmd/crictl"
