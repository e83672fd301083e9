#!/usr/bin/env bash
# The same set-up as quickstart.sh, then every test: as built for development, under the sanitizers,
# and quickstart.sh itself.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: deploy/test.sh [--preset dev|asan-ubsan|tsan]... [--no-quickstart] [--help]

  --preset P        only these presets (may be given several times), and no quickstart; without it
                    dev and asan-ubsan, and then tsan of the storage engine where the machine is
                    quick enough
  --no-quickstart   leave out deploy/quickstart.sh

The last line is "N passed, N failed, N skipped".
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
# shellcheck source=deploy/lib/openai_client.sh
source "$TERRACE_ROOT/deploy/lib/openai_client.sh"

presets=()
with_quickstart=true
while (($# > 0)); do
  case $1 in
    --preset)
      (($# >= 2)) || die "--preset needs a name"
      presets+=("$2")
      with_quickstart=false
      shift
      ;;
    --no-quickstart) with_quickstart=false ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) die "unknown option '$1'; --help lists what there is" ;;
  esac
  shift
done
with_tsan=false
if ((${#presets[@]} == 0)); then
  presets=(dev asan-ubsan)
  with_tsan=true
fi

# Tests that run a real model are for an optimized build: a sanitizer makes them take minutes and shows
# nothing that the tiny models do not show. Of the simulation's seeds some are enough there.
readonly SANITIZER_EXCLUDE='DemoModel|demo_model|(Simulation|Store)Slice.*/[2-4][16]$'

# ThreadSanitizer makes everything many times slower, and sees something only where there are threads.
TSAN_TARGETS=(storage_test disk_test redis_test cuda_test client_test daemon_test)
# Beside the other presets: where the most threads meet.
readonly TSAN_TARGETS_IN_ALL=(storage_test disk_test redis_test)
# Slow cases of one thread.
readonly TSAN_EXCLUDE='CacheRandom'
# All of it is to take less than 40 minutes: where it has taken so long already, the rest is left out.
readonly TSAN_BEGIN_WITHIN_S=1920

# run_preset PRESET : builds and tests it, adds up its results.
passed=0
failed=0
skipped=0
summary=()
run_preset() {
  local preset=$1 started=$SECONDS log=$TERRACE_ROOT/build/$1/test.log status=0
  local options=() targets=()
  case $preset in
    asan-ubsan)
      options=(--exclude-regex "$SANITIZER_EXCLUDE")
      export ASAN_OPTIONS=detect_leaks=1:abort_on_error=1 UBSAN_OPTIONS=print_stacktrace=1
      ;;
    tsan)
      # ctest shows what was left out of the build as tests of this name.
      options=(--exclude-regex "$SANITIZER_EXCLUDE|$TSAN_EXCLUDE|_NOT_BUILT")
      targets=("${TSAN_TARGETS[@]}")
      export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$TERRACE_ROOT/tests/support/tsan.supp
      ;;
  esac
  build_preset "$preset" "${targets[@]}"
  say "testing $preset"
  (cd "$TERRACE_ROOT" && ctest --preset "$preset" --parallel "$(nproc)" --no-tests=error \
    "${options[@]}") </dev/null 2>&1 | tee "$log" || status=$?

  local total failures skips
  total=$(sed -nE 's/^[0-9]+% tests passed, [0-9]+ tests failed out of ([0-9]+)$/\1/p' "$log")
  failures=$(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests failed out of [0-9]+$/\1/p' "$log")
  skips=$(grep -cE '\*\*\*(Skipped|Not Run)' "$log" || true)
  if [[ -z $total ]]; then # ctest itself failed
    total=1 failures=1
  elif ((status != 0 && failures == 0)); then
    failures=1
  fi
  passed=$((passed + total - failures - skips))
  failed=$((failed + failures))
  skipped=$((skipped + skips))
  summary+=("$preset: $((total - failures - skips)) passed, $failures failed, $skips skipped in $(format_seconds $((SECONDS - started)))")
}

run_quickstart() {
  local started=$SECONDS status=0
  "$TERRACE_ROOT/deploy/quickstart.sh" --bin "$TERRACE_ROOT/build/dev/bin" </dev/null || status=$?
  if ((status == 0)); then
    passed=$((passed + 1))
    summary+=("quickstart: passed in $(format_seconds $((SECONDS - started)))")
  else
    failed=$((failed + 1))
    summary+=("quickstart: failed with $status")
  fi
}

trap clean_up_fetch EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
install_packages "${TERRACE_BUILD_PACKAGES[@]}" "${TERRACE_TEST_PACKAGES[@]}"
if ! fetch_demo_model; then
  warn "there is no demo model: tests that need it are skipped, and so is quickstart.sh"
  with_quickstart=false
fi
install_openai_client || warn "tests that need it are skipped"
for preset in "${presets[@]}"; do
  run_preset "$preset"
  # With what was built for the tests, since a release build takes minutes more.
  if [[ $preset == dev ]] && $with_quickstart; then run_quickstart; fi
done
if $with_tsan; then
  if ((SECONDS <= TSAN_BEGIN_WITHIN_S)); then
    TSAN_TARGETS=("${TSAN_TARGETS_IN_ALL[@]}")
    run_preset tsan
  else
    skipped=$((skipped + 1))
    summary+=("tsan: left out after $(format_seconds "$SECONDS")")
  fi
fi

echo
say "all in $(format_seconds $SECONDS)"
printf '%s\n' "${summary[@]}"
echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
