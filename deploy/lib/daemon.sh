# shellcheck shell=bash
# Starts and stops a terraced of our own, within bounds. One at a time.

readonly DAEMON_START_SECONDS=60
readonly DAEMON_STOP_SECONDS=60 # past its own drain deadline

daemon_pid=

# start_daemon BIN_DIR SOCKET DATA_DIR LOG : returns once it answers.
start_daemon() {
  local bin=$1 socket=$2 data=$3 log=$4 deadline=$((SECONDS + DAEMON_START_SECONDS))
  "$bin/terraced" --socket "$socket" --data-dir "$data" </dev/null >>"$log" 2>&1 &
  daemon_pid=$!
  until "$bin/terrace" --socket "$socket" stats --json >/dev/null 2>&1; do
    if ! kill -0 "$daemon_pid" 2>/dev/null; then
      tail -n 20 "$log" >&2
      daemon_pid=
      die "terraced ended while it started; above is the end of its log"
    fi
    if ((SECONDS > deadline)); then
      tail -n 20 "$log" >&2
      die "terraced did not answer within $DAEMON_START_SECONDS s; above is the end of its log"
    fi
    sleep 0.05
  done
}

# stop_daemon : SIGTERM, so that it writes what is worth keeping; SIGKILL if that takes too long.
stop_daemon() {
  local deadline=$((SECONDS + DAEMON_STOP_SECONDS)) pid=$daemon_pid
  if [[ -z $pid ]]; then return 0; fi
  daemon_pid=
  kill -TERM "$pid" 2>/dev/null || true
  while kill -0 "$pid" 2>/dev/null; do
    if ((SECONDS > deadline)); then
      warn "terraced did not stop within $DAEMON_STOP_SECONDS s, killing it"
      kill -KILL "$pid" 2>/dev/null || true
      break
    fi
    sleep 0.05
  done
  wait "$pid" 2>/dev/null || true
}
