# shellcheck shell=bash
# Configures (once) and builds a preset.

# One compiler takes up to this much memory; more of them at once would swap.
readonly TERRACE_COMPILER_KIB=$((1500 * 1024))

build_jobs() {
  local cores memory_kib jobs
  cores=$(nproc)
  memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
  jobs=$((memory_kib / TERRACE_COMPILER_KIB))
  if ((jobs > cores)); then jobs=$cores; fi
  if ((jobs < 1)); then jobs=1; fi
  echo "$jobs"
}

# build_preset PRESET [TARGET...] : into build/PRESET. Does nothing where nothing has changed. Files that
# are compiled together make the compiler guess wrong about what is uninitialized: warnings stay warnings.
build_preset() {
  local preset=$1 directory=$TERRACE_ROOT/build/$1 started=$SECONDS log
  local targets=()
  shift
  if (($# > 0)); then targets=(--target "$@"); fi
  # Ninja configures again by itself when a CMakeLists.txt changes, but does not know of the presets.
  if [[ ! -f $directory/build.ninja ||
    $TERRACE_ROOT/CMakePresets.json -nt $directory/build.ninja ]]; then
    say "configuring $preset"
    mkdir -p "$directory"
    log=$directory/configure.log
    if ! (cd "$TERRACE_ROOT" && cmake --preset "$preset" -DTERRACE_UNITY=ON -DTERRACE_WERROR=OFF) >"$log" 2>&1; then
      tail -n 40 "$log" >&2
      die "could not configure the $preset build; the whole log is $log"
    fi
    touch "$directory/build.ninja"
  fi
  say "building $preset"
  (cd "$TERRACE_ROOT" &&
    NINJA_STATUS='[%f/%t %es] ' cmake --build --preset "$preset" "${targets[@]}" -- -j"$(build_jobs)") >&2 ||
    die "could not build $preset"
  say "built $preset in $(format_seconds $((SECONDS - started)))"
}
