#!/bin/bash
# The network of pods on a kind node, in place of kindnetd, which is in no Go module: point-to-point links with addresses
# of this node's podCIDR, routes to the other nodes, and the node's address for what leaves the network of pods.
# IPv4 only. It works once default-cni.yaml is in the cluster, so a cluster with disableDefaultCNI has none of it.
set -euo pipefail

export KUBECONFIG=/etc/kubernetes/kubelet.conf
config=/etc/cni/net.d/10-pods.conflist
this=$(hostname)
pods=$(sed -n 's/^ *podSubnet: *"\{0,1\}\([0-9.]*\/[0-9]*\).*/\1/p' /kind/kubeadm.conf | head -n 1)
shown='{.metadata.name}|{.spec.podCIDR}|{.status.addresses[?(@.type=="InternalIP")].address}{"\n"}'

masquerade() {
  local rule=(POSTROUTING -s "$1" ! -d "${pods:-$1}" -j MASQUERADE)
  iptables -t nat -C "${rule[@]}" 2>/dev/null || iptables -t nat -A "${rule[@]}"
}

configure() {
  [[ -e $config ]] && return
  mkdir -p "$(dirname "$config")"
  cat >"$config.new" <<EOF
{"cniVersion": "0.3.1", "name": "pods", "plugins": [
  {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "dataDir": "/run/pod-addresses",
    "routes": [{"dst": "0.0.0.0/0"}], "ranges": [[{"subnet": "$1"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
  mv "$config.new" "$config"
}

[[ -e $KUBECONFIG ]]
kubectl get nodes --watch -o "jsonpath=$shown" | while IFS='|' read -r name range address; do
  if [[ -z $range ]]; then
    continue
  elif [[ $name == "$this" ]]; then
    masquerade "$range"
    configure "$range"
  elif [[ -n $address ]]; then
    ip route replace "$range" via "$address"
  fi
done
