# shellcheck shell=bash
# The openai package for Python in an environment of its own, for the tests of the worker's server.

readonly TERRACE_OPENAI_REQUIREMENT='openai==2.54.0'

openai_client_path() { echo "${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/terrace/openai-client"; }

# install_openai_client : 0 once it is there, else 1 with the reason said. Needs common.sh.
install_openai_client() {
  local target
  target=$(openai_client_path)
  if [[ -f $target/installed ]] && [[ $(<"$target/installed") == "$TERRACE_OPENAI_REQUIREMENT" ]]; then
    return 0
  fi
  say "installing $TERRACE_OPENAI_REQUIREMENT, once, into $target"
  rm -rf "$target"
  # Made under its own name: an environment knows where it lies. "installed" is written last.
  if ! /usr/bin/python3 -m venv "$target" >&2 ||
    ! "$target/bin/python" -m pip install --quiet --disable-pip-version-check --only-binary :all: \
      "$TERRACE_OPENAI_REQUIREMENT" >&2; then
    rm -rf "$target"
    warn "could not install $TERRACE_OPENAI_REQUIREMENT: is there a network, and python3-venv?"
    return 1
  fi
  echo "$TERRACE_OPENAI_REQUIREMENT" >"$target/installed"
}
