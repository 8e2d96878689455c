//go:build tools

// Package tools names what go.mod and go.sum have to cover.
package tools

import (
	_ "helm.sh/helm/v3/cmd/helm"
	_ "helm.sh/helm/v4/cmd/helm"
)
