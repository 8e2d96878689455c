"""flowcontrol.apiserver.k8s.io/v1: FlowSchema and PriorityLevelConfiguration."""
