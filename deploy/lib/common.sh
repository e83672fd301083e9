# shellcheck shell=bash
# What every script of deploy/ uses: where the sources are, and how to speak to people.

TERRACE_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export TERRACE_ROOT

# Progress goes to standard error: standard output is for results.
say() { printf '== %s\n' "$*" >&2; }
warn() { printf 'warning: %s\n' "$*" >&2; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# "1 min 05 s", from seconds.
format_seconds() {
  if (($1 < 60)); then printf '%d s' "$1"; else printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}
