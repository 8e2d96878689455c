//go:build tools

// Package tools names what go.mod and go.sum have to cover.
package tools

import _ "github.com/rancher/local-path-provisioner"
