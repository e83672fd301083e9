#!/usr/bin/env bash
# Checks on a real GPU what the other tests check over a stand-in for the CUDA driver.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/gpu/check.sh storage|inference [--preset P] [--program F] [--help]

  storage      the accelerator of storage/: copies, checksums, sharing memory with a second process,
               errors, the cache over it; then how fast copies are beside the driver's own, and what
               scattered blocks cost a kernel that reads them.
  inference    a model on the GPU: its logits beside the CPU's, tokens per second of prompts and of answers
               that share a prefix, copies, and the first token out of each tier of a daemon whose arena is
               the GPU's memory.
  --preset P   how to build what is run (default: release with tests, in build/gpu)
  --program F  run this program instead of building one: it may come from another machine (the one of
               inference wants terraced and terrace-bench beside it)

Each takes less than three minutes and ends with one JSON line on standard output, or with status 77 and a line that says why where there is no
GPU.
TEXT
}

# shellcheck source=deploy/lib/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../deploy/lib/common.sh"
# shellcheck source=deploy/lib/build.sh
source "$TERRACE_ROOT/deploy/lib/build.sh"

readonly LIMIT_S=180

what=''
preset=gpu
program=''
while (($# > 0)); do
  case $1 in
    storage | inference) what=$1 ;;
    --preset | --program)
      (($# >= 2)) || die "$1 needs a value"
      if [[ $1 == --preset ]]; then preset=$2; else program=$2; fi
      shift
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown option '$1'; --help lists what there is" ;;
  esac
  shift
done
[[ -n $what ]] || die "say what to check: storage or inference"

if [[ -z $program ]]; then
  # Before minutes of building: without a driver there is nothing to check with.
  if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' &&
    [[ ! -e /dev/nvidiactl && -z ${LD_LIBRARY_PATH:-} ]]; then
    echo "check.sh: skipped: there is no CUDA driver on this machine" >&2
    exit 77
  fi
  build_preset "$preset" "gpu_${what}_check"
  program=$TERRACE_ROOT/build/$preset/bin/gpu_${what}_check
fi
status=0
timeout "$LIMIT_S" "$program" || status=$?
if ((status == 124)); then die "the check did not end within $LIMIT_S s"; fi
exit "$status"
