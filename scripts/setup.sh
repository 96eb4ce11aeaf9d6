# shellcheck shell=bash
# quickstart.sh and test.sh source this file in the root folder. install_missing
# [<word>] installs the Debian packages of packages.txt that are missing, without those
# that have another word behind their name. If no package is missing, it prints nothing.

listed_packages() {
  awk -v word="${1-}" '{ sub(/#.*/, "") } NF == 1 || NF == 2 && $2 == word { print $1 }' packages.txt
}

missing_packages() {
  # shellcheck disable=SC2046 # one argument per package is intended
  comm -23 <(listed_packages "$@" | sort) \
    <(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $(listed_packages "$@") \
        2>/dev/null | sed -n 's/^installed //p' | sort -u)
}

# Lists installed -dev packages of Boost 1.74, which conflict with those of 1.81.
# The user has to remove them.
old_boost() {
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' 'libboost*-dev' 2>/dev/null |
    sed -n -e 's/^installed \(libboost.*1\.74-dev\)$/\1/p' \
      -e 's/^installed \(libboost-\(all-\)\?dev\)$/\1/p'
}

# Sets as_root to the command prefix that runs a command as root. Fails if this
# user cannot become root.
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
    echo "This is no Debian system. Install the equivalents of the packages in" \
      "packages.txt; CMake names those that it does not find."
    return 0
  fi
  local missing conflict
  mapfile -t missing < <(missing_packages "$@")
  if [ ${#missing[@]} -eq 0 ]; then return 0; fi

  mapfile -t conflict < <(old_boost)
  if [ ${#conflict[@]} -gt 0 ] && [[ "${missing[*]}" == *libboost* ]]; then
    echo "Boost 1.81 is needed. Its -dev packages conflict with those of 1.74," \
      "which are installed. Remove them, then start again:" >&2
    echo "  sudo apt-get remove ${conflict[*]}" >&2
    return 1
  fi
  if ! find_root; then
    echo "These Debian packages are missing, and installing them needs root or" \
      "sudo. Ask an administrator to install them, then start again:" >&2
    echo "  apt-get update && apt-get install ${missing[*]}" >&2
    return 1
  fi

  echo "Installing missing packages of packages.txt: ${missing[*]}"
  apt_install --download-only "${missing[@]}" >/dev/null 2>&1 ||
    "${as_root[@]}" apt-get update -q # package lists are missing or old
  if ! apt_install "${missing[@]}"; then
    echo "apt-get could not install them; see its last lines above." >&2
    return 1
  fi
}
