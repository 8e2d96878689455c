//go:build tools

package peers

import _ "sigs.k8s.io/controller-runtime/pkg/envtest"
