"""karpenter.sh/v1: NodePool, NodeClaim and NodeOverlay, and the ClusterAPINodeClass."""
