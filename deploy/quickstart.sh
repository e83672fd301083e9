#!/usr/bin/env bash
# Builds Terrace, runs a model over one long system prompt, and shows where the time to the first
# token goes: cold, with the prefix in the device tier, and with the prefix on disk.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: deploy/quickstart.sh [--model FILE.gguf] [--bin DIRECTORY] [--keep] [--help]

  --model FILE.gguf  a GGUF file of the llama architecture with a chat template (Llama 3 or ChatML)
                     and a context of 2,048 tokens or more, instead of the demo model
                     (SmolLM2-135M-Instruct, about 100 MB, fetched once into your cache directory)
  --bin DIRECTORY    programs that are built already, instead of building them
  --keep             leave the daemon running and its data where it is, and say how to use them

Installs the Debian packages that are missing (with sudo where not root). The last line of the
output is one JSON object. Exits with 1 if an answer differs from the one without a cache, or if
nothing was cached.
TEXT
}

# shellcheck source=deploy/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/common.sh"
# shellcheck source=deploy/lib/install_packages.sh
source "$TERRACE_ROOT/deploy/lib/install_packages.sh"
# shellcheck source=deploy/lib/build.sh
source "$TERRACE_ROOT/deploy/lib/build.sh"
# shellcheck source=deploy/lib/fetch_model.sh
source "$TERRACE_ROOT/deploy/lib/fetch_model.sh"
# shellcheck source=deploy/lib/daemon.sh
source "$TERRACE_ROOT/deploy/lib/daemon.sh"

readonly MAX_TOKENS=32
readonly SYSTEM_FILE=$TERRACE_ROOT/deploy/quickstart/system_prompt.txt
readonly COLD_QUESTION='Who founded the cooperative?'
readonly DEVICE_QUESTION='In which year was the cooperative founded?'
readonly DISK_QUESTION='How much does a complete overhaul cost?'

model=
bin=
keep=false
while (($# > 0)); do
  case $1 in
    --model)
      (($# >= 2)) || die "--model needs a file"
      model=$2
      shift
      ;;
    --model=*) model=${1#--model=} ;;
    --bin)
      (($# >= 2)) || die "--bin needs a directory"
      bin=$2
      shift
      ;;
    --bin=*) bin=${1#--bin=} ;;
    --keep) keep=true ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown option '$1'; --help lists what there is" ;;
  esac
  shift
done
if [[ -n $model ]]; then
  [[ -f $model && -r $model ]] || die "cannot read the model '$model'"
  model=$(realpath "$model")
fi
if [[ -n $bin ]]; then
  [[ -x $bin/terraced && -x $bin/terrace && -x $bin/terrace-worker ]] ||
    die "terraced, terrace and terrace-worker are not all in '$bin'"
  bin=$(realpath "$bin")
fi

work=
worker_pid=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
  local status=$?
  trap - EXIT INT TERM HUP
  clean_up_fetch
  if [[ -n $worker_pid ]]; then kill -TERM "$worker_pid" 2>/dev/null || true; fi
  if [[ -n $work ]] && ! { $keep && ((status == 0)); }; then
    stop_daemon
    rm -rf "$work"
  fi
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

if [[ -z $bin ]]; then
  install_packages "${TERRACE_BUILD_PACKAGES[@]}"
  build_preset release terraced terrace terrace-worker
  bin=$TERRACE_ROOT/build/release/bin
fi
if [[ -z $model ]]; then
  fetch_demo_model || die "there is no model to run"
  model=$(demo_model_path)
fi

# /var/tmp is on a disk where /tmp may be memory. A socket's path must be short.
temporary=${TMPDIR:-/var/tmp}
if ((${#temporary} > 60)) || [[ ! -w $temporary ]]; then temporary=/tmp; fi
work=$(mktemp -d "$temporary/terrace-quickstart-XXXXXX")
socket=$work/terraced.sock
log=$work/terraced.log

# ask NAME QUESTION [FLAG...] : the answer's JSON goes to $work/NAME.json. In the background, since a
# shell notices Ctrl-C only while it waits.
ask() {
  local name=$1 question=$2
  shift 2
  "$bin/terrace-worker" generate --model "$model" --system-file "$SYSTEM_FILE" \
    --prompt "$question" --max-tokens "$MAX_TOKENS" --json "$@" </dev/null >"$work/$name.json" &
  worker_pid=$!
  wait "$worker_pid" || die "terrace-worker failed; its message is above"
  worker_pid=
}

say "starting terraced on $socket with an empty data directory"
start_daemon "$bin" "$socket" "$work/data" "$log"

say "1 of 3, cold: $COLD_QUESTION"
ask cold "$COLD_QUESTION" --socket "$socket"
say "2 of 3, the same system prompt, now in the device tier: $DEVICE_QUESTION"
ask device "$DEVICE_QUESTION" --socket "$socket"
say "stopping terraced, which writes its blocks to disk, and starting it again"
stop_daemon
start_daemon "$bin" "$socket" "$work/data" "$log"
say "3 of 3, the same system prompt, from disk: $DISK_QUESTION"
ask disk "$DISK_QUESTION" --socket "$socket"

say "the same questions without a cache, to compare the answers"
ask cold_uncached "$COLD_QUESTION" --no-cache
ask device_uncached "$DEVICE_QUESTION" --no-cache
ask disk_uncached "$DISK_QUESTION" --no-cache

result=0
python3 "$TERRACE_ROOT/deploy/lib/quickstart_report.py" "$work" \
  "$COLD_QUESTION" "$DEVICE_QUESTION" "$DISK_QUESTION" >"$work/report.txt" || result=$?
# All but the JSON line, which must come last.
sed '$d' "$work/report.txt"
if $keep && ((result == 0)); then
  printf '\nterraced goes on as process %s. Talk to it:\n' "$daemon_pid"
  printf '  export TERRACE_SOCKET=%q\n  %q stats\n  %q ls --limit 20\n' \
    "$socket" "$bin/terrace" "$bin/terrace"
  printf '  %q generate --model %q --system-file %q --prompt %q\n' \
    "$bin/terrace-worker" "$model" "$SYSTEM_FILE" 'Where are lost keys kept?'
  printf 'Its log is %s. When you are done: kill %s; rm -r %q\n\n' "$log" "$daemon_pid" "$work"
fi
tail -n 1 "$work/report.txt"
exit "$result"
