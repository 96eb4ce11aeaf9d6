# shellcheck shell=bash
# Sourced at the root by quickstart.sh and test.sh: install_missing sees to it
# that every Debian package of packages.txt is there. With nothing missing it
# says nothing.

listed_packages() { sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' packages.txt; }

missing_packages() {
  # shellcheck disable=SC2046 # one word per package is what is wanted
  comm -23 <(listed_packages | sort) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $(listed_packages) \
        2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

# Boost 1.81's -dev packages exclude 1.74's; a person's are not ours to remove.
old_boost() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libboost*-dev' 2>/dev/null |
    sed -n -e 's/^installed \(libboost.*1\.74-dev\)$/\1/p' \
      -e 's/^installed \(libboost-\(all-\)\?dev\)$/\1/p'
}

# Sets as_root to what runs a command as root; false if nothing does.
find_root() {
  as_root=()
  if [ "$(id -u)" -eq 0 ]; then return 0; fi
  command -v sudo >/dev/null || return 1
  if sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  elif [ -t 0 ]; then
    echo "sudo may ask for your password."
    as_root=(sudo)
  else
    return 1
  fi
}

apt_install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
    --no-install-recommends --no-remove -o DPkg::Lock::Timeout=120 "$@"
}

install_missing() {
  if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    echo "This is no Debian system: what packages.txt lists must be there under" \
      "your system's names; CMake says what it does not find."
    return 0
  fi
  local missing conflict
  mapfile -t missing < <(missing_packages)
  if [ ${#missing[@]} -eq 0 ]; then return 0; fi

  mapfile -t conflict < <(old_boost)
  if [ ${#conflict[@]} -gt 0 ] && [[ "${missing[*]}" == *libboost* ]]; then
    echo "Boost 1.81 is needed, and its -dev packages exclude those of 1.74," \
      "which are installed here. Remove them, then start again:" >&2
    echo "  sudo apt-get remove ${conflict[*]}" >&2
    return 1
  fi
  if ! find_root; then
    echo "These Debian packages are missing, and neither root nor sudo is at hand" \
      "to install them. Ask somebody who may, then start again:" >&2
    echo "  apt-get update && apt-get install ${missing[*]}" >&2
    return 1
  fi

  echo "Installing from packages.txt what is missing: ${missing[*]}"
  apt_install --download-only "${missing[@]}" >/dev/null 2>&1 ||
    "${as_root[@]}" apt-get update -q # no lists, or old ones
  if ! apt_install "${missing[@]}"; then
    echo "apt-get could not install them; its last lines above say why." >&2
    return 1
  fi
}
