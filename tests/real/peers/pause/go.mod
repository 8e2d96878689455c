// The container that holds the namespaces of a pod.
module shoal.dev/peers/pause

go 1.26.0
