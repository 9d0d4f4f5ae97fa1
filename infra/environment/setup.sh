#!/usr/bin/env bash
# Builds .venv from the lock and says nothing when it is built already. Called by `make run` and `make test`.
#
# Usage: setup.sh run|test       run: what the pipeline needs; test: that and the test group
# PYTHON                         the CPython 3.11 to build with; otherwise python3.11 or python3 on PATH
# PIP_FIND_LINKS, PIP_INDEX_URL  and all other settings of pip are pip's own; torch's CPU wheel is taken where they show one
# TANDEM_DEBIAN_MIRROR           see private_libc.sh; only where the C library is older than glibc 2.39
#
# .venv/.tandem-begun marks a folder that this script made: only such a folder is ever deleted. .venv/.tandem-stamp is written
# last and holds the digests of all that went in: an environment without it, or with another one, is built again from nothing.
# Exit codes: 0 ready, 2 cannot be built (one line says why), 130 interrupted.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
scripts=$root/infra/environment
venv=$root/.venv
log=$root/.venv-setup.log
stamp=$venv/.tandem-stamp
begun=$venv/.tandem-begun
needed_mb=6500   # measured with torch's CPU build: 5.6 GB at the peak of the installation, 4.8 GB afterwards
child=

say() { printf 'tandem set-up: %s\n' "$1" >&2; }
fail() { say "$1"; exit 2; }

# The stamp that an environment of group $1 has: the digest and the full path of everything that went in. A moved folder is
# another path: the scripts in .venv/bin and a private C library do not move along.
stamp_of() {
  local files=("$root/requirements.lock" "$scripts/setup.sh" "$scripts/private_libc.sh" "$root/pyproject.toml")
  [ "$1" = run ] || files+=("$root/requirements-test.lock")
  sha256sum "${files[@]}"
}

# The files of group $1 that are new or changed since the environment was built; all of them where there is no stamp.
changed() {
  if [ -f "$stamp" ]; then stamp_of "$1" | { grep -vxFf "$stamp" || true; }; else stamp_of "$1"; fi
}

has_test_group() { grep -qF "  $root/requirements-test.lock" "$stamp"; }

# A base Python that was removed since leaves an environment that cannot start.
starts() { "$venv/bin/python" -I -S -c '' >/dev/null 2>&1; }

is_ready() { [ -z "$(changed "$1")" ] && starts; }

# Runs a command with its output in the log. On failure: $1 (what failed), its own last error or last line, the remedy $2.
step() {
  local what=$1 remedy=$2 status=0 reason
  shift 2
  printf '\n== %s\n' "$*" >>"$log"
  "$@" >>"$log" 2>&1 </dev/null &
  child=$!
  wait "$child" || status=$?
  child=
  [ "$status" -eq 0 ] && return
  reason=$(grep -E '^(ERROR|error|tandem set-up): ' "$log" | tail -n 1 || true)
  [ -n "$reason" ] || reason=$(tail -n 1 "$log")
  reason=$(sed -E 's/^(ERROR|error|tandem set-up): //' <<<"$reason" | cut -c1-400)
  fail "$what: $reason; $remedy; details in $log"
}

interrupted() {
  trap - INT TERM HUP
  if [ -n "$child" ]; then kill -TERM "$child" 2>/dev/null || true; wait "$child" 2>/dev/null || true; fi
  say "interrupted; the next set-up starts clean"
  exit 130
}

# One line of facts about the interpreter $1: implementation, version, machine bits, glibc, venv, headers, its base executable.
probe() {
  "$1" -c '
import os, sys, platform, sysconfig
try:
    import ensurepip, venv
    has_venv = "venv"
except ImportError:
    has_venv = "no-venv"
try:
    glibc = os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
except (AttributeError, ValueError, OSError):
    glibc = "none"
headers = "headers" if os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")) else "no-headers"
bits = "64" if sys.maxsize > 2**32 else "32"
base = getattr(sys, "_base_executable", None) or sys.executable
print(platform.python_implementation(), "%d.%d.%d" % sys.version_info[:3], bits, glibc, has_venv, headers, base)
' 2>/dev/null </dev/null
}

# Sets base_python and base_glibc to a usable CPython 3.11, or says what was found, what is needed and how to get it.
find_python() {
  local candidates=(python3.11 python3 python) found='' candidate kind version bits glibc has_venv headers base lacks
  [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
  for candidate in "${candidates[@]}"; do
    if ! command -v "$candidate" >/dev/null 2>&1; then found+=", $candidate: not there"; continue; fi
    if ! read -r kind version bits glibc has_venv headers base < <(probe "$candidate"); then found+=", $candidate: does not start"; continue; fi
    # The Python of a virtual environment may run on that environment's private C library: its base tells the truth.
    if [ "$base" != "$candidate" ]; then
      read -r kind version bits glibc has_venv headers base < <(probe "$base") || { found+=", $candidate: its base $base does not start"; continue; }
    fi
    lacks=
    [ "$kind ${version%.*} $bits" = "CPython 3.11 64" ] || lacks+=" but is not 64-bit CPython 3.11"
    [ "$has_venv" = venv ] || lacks+=" without venv (Debian, Ubuntu: install python3.11-venv)"
    [ "$headers" = headers ] || lacks+=" without Python.h (Debian, Ubuntu: install python3.11-dev)"
    [ "$glibc" != none ] || lacks+=" without glibc (musl systems are not supported: use the container image, infra/Dockerfile)"
    if [ -z "$lacks" ]; then base_python=$base; base_glibc=$glibc; base_version=$version; return; fi
    found+=", $candidate: $kind $version$lacks"
  done
  fail "needs CPython 3.11 with venv and headers, found ${found#, }; get one from your distribution, \`uv python install 3.11\` or \`pyenv install 3.11\`, then set PYTHON to its path"
}

check_machine() {
  local machine free_mb old_mb=0
  machine=$(uname -s)-$(uname -m)
  [ "$machine" = Linux-x86_64 ] || fail "needs Linux on x86-64 (TensorFlow Extended has no other wheels), this is $machine; use such a machine or a virtual one"
  free_mb=$(df -Pm "$root" | awk 'NR == 2 { print $4 }')
  [ ! -d "$venv" ] || old_mb=$(du -sm "$venv" | cut -f1)
  [ $((free_mb + old_mb)) -ge "$needed_mb" ] ||
    fail "needs $needed_mb MB of free disk at $root, there are $((free_mb + old_mb)); free some, or move the folder to a larger disk"
}

# True when the base Python's glibc is older than 2.39, which the wheels of ml-metadata and TFDV ask for.
libc_is_old() { [ "$(printf '%s\n2.39\n' "$base_glibc" | sort -V | head -n 1)" != 2.39 ]; }

clean_start() {
  if [ -e "$venv" ] && [ ! -e "$begun" ] && [ -n "$(ls -A "$venv")" ]; then
    fail "$venv was not made by this set-up, so it is left alone; move it away or delete it, then try again"
  fi
  mkdir -p "$venv"
  : >"$begun"
  # The mark stays while the rest goes: a deletion that is interrupted goes on next time.
  find "$venv" -mindepth 1 -maxdepth 1 ! -name "${begun##*/}" -exec rm -rf {} +
}

# pyfarmhash (needed by TFDV) comes as C++ source. Where there is no compiler, one from PyPI is used for it and thrown away.
prepare_compiler() {
  if command -v c++ >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1; then return; fi
  local zig=$TMPDIR/zig name
  say "no C++ compiler here: fetching one for the build of one package (about 3 minutes more)"
  step "no C++ compiler, and pip could not fetch one" "install g++" "$venv/bin/python" -m pip install --no-deps --target "$zig" ziglang==0.17.1
  for name in cc c++; do
    printf '#!/bin/sh\nexec "%s" %s -target x86_64-linux-gnu.2.28 "$@"\n' "$zig/ziglang/zig" "$name" >"$zig/$name"
    chmod +x "$zig/$name"
  done
  export CC=$zig/cc CXX=$zig/c++ ZIG_GLOBAL_CACHE_DIR=$zig/cache ZIG_LOCAL_CACHE_DIR=$zig/cache
}

create_environment() {
  local build_tools
  step "the virtual environment could not be made with $base_python" "check that Python's venv module works" \
    "$base_python" -m venv --copies "$venv"
  if libc_is_old; then
    say "glibc here is $base_glibc, the pipeline's wheels need 2.39: giving this environment a private, newer one"
    step "no private C library" "use the container image (infra/Dockerfile) or a newer Linux" bash "$scripts/private_libc.sh" "$venv" "$base_python"
  fi
  # First what builds the few packages that come as source, so that they are built with the locked versions too.
  mapfile -t build_tools < <(grep -E '^(setuptools|wheel)==' "$root/requirements.lock")
  step "pip could not install ${build_tools[*]}" "check the network and pip's settings" "$venv/bin/python" -m pip install "${build_tools[@]}"
}

install_packages() {
  local files=("$root/requirements.lock") locks=()
  [ "$1" = run ] || files+=("$root/requirements-test.lock")
  for file in "${files[@]}"; do locks+=(-r "$file"); done
  say "installing $(cat "${files[@]}" | grep -c '==') packages from the lock (about 7 minutes on a quiet machine; pip's output goes to $log)"
  step "pip could not install the lock" "check the network, pip's settings and the disk" \
    "$venv/bin/python" -m pip install --no-build-isolation --progress-bar off "${locks[@]}"
  step "the installed packages do not fit together" "report it with the log" "$venv/bin/python" -m pip check
}

# Makes the command `tandem` and the packages of this folder known to the environment; needs no network. `compat` is a plain line
# in a .pth file; setuptools' other way, an import hook, costs every start of Python 20 ms.
install_project() {
  step "the project could not be installed into $venv" "see the log" \
    "$venv/bin/python" -m pip install --no-deps --no-build-isolation --no-index \
    --config-settings editable_mode=compat --editable "$root"
}

# Whether only additions are missing (the test group, a new pyproject.toml). All else is built again from nothing.
can_be_completed() {
  [ -f "$stamp" ] && starts || return 1
  if has_test_group; then
    [ -z "$(changed test | grep -vF "  $root/pyproject.toml")" ]
  else
    [ -z "$(changed run | grep -vF "  $root/pyproject.toml")" ]
  fi
}

write_stamp() {
  rm -rf "$venv/.tmp"
  stamp_of "$1" >"$stamp.new"
  mv "$stamp.new" "$stamp"
}

build() {
  local group=$1 began=$SECONDS fresh='' packages=yes
  if can_be_completed; then
    if has_test_group; then group=test packages=; fi
    if [ "$1" = run ]; then packages=; fi
  else
    fresh=yes
    find_python
    check_machine
    clean_start
  fi
  printf '== set-up of group %s\n' "$group" >"$log"
  rm -rf "$stamp" "$venv/.tmp"
  export TMPDIR=$venv/.tmp
  mkdir "$TMPDIR"
  if [ -n "$fresh" ]; then
    say "building $venv with CPython $base_version ($base_python)"
    create_environment
    prepare_compiler
  fi
  if [ -n "$packages" ]; then install_packages "$group"; fi
  install_project
  write_stamp "$group"
  say "ready in $((SECONDS - began)) s"
}

main() {
  case ${1:-} in run | test) ;; *) fail "usage: setup.sh run|test" ;; esac
  for file in requirements.lock requirements-test.lock pyproject.toml; do
    [ -f "$root/$file" ] || fail "$root/$file is missing; restore it from the repository"
  done
  is_ready "$1" && return
  # What would lead pip or Python away from the environment being built.
  unset PYTHONPATH PYTHONHOME PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV
  export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
  trap interrupted INT TERM HUP
  # Children inherit the lock: a set-up whose shell was killed holds it until its pip has ended too.
  exec 9>"$root/.venv-setup.lock"
  if ! flock -n 9; then
    say "another set-up is at work here; waiting for it"
    flock 9
    is_ready "$1" && return
  fi
  build "$1"
}

main "$@"
