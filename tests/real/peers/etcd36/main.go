// The etcd of a kind node: kubeadm v1.36 passes flags that came with etcd 3.6.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
