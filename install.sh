#!/bin/sh
# `make install`: orchestra for every project of this user.
#
#   install.sh install DATA LINK       an environment of its own in DATA/venv, and the program's only name, LINK
#   install.sh uninstall DATA LINK     removes both
#
# Nothing else is written: no shell file, nothing else on PATH. A file at LINK that is not ours is left alone.
set -eu
umask 022
what=$1 data=$2 link=$3
program=$data/venv/bin/orchestra

if [ -e "$link" ] || [ -L "$link" ]; then
  if [ "$(readlink "$link" || true)" != "$program" ]; then
    echo "orchestra: $link is there already, and make install did not write it: remove it first" >&2
    exit 2
  fi
fi

if [ "$what" = uninstall ]; then
  rm -f "$link"
  rm -rf "$data/venv"
  rmdir "$data" 2>/dev/null || true  # if nothing else is in it
  echo "removed $link and $data/venv"
  exit 0
fi

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "orchestra needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Try: make PYTHON=python3.12 install")'
echo "installing orchestra into $data/venv"
mkdir -p "$data" "$(dirname "$link")"
# An installation that works is kept until the new one does: without a network, a make install must not take it away.
rm -rf "$data/venv.old"
if [ -e "$link" ]; then
  mv "$data/venv" "$data/venv.old"
  trap 'if [ -d "$data/venv.old" ]; then rm -rf "$data/venv"; mv "$data/venv.old" "$data/venv"; echo "orchestra: that did not work; $("$link" --version), which was there, is kept" >&2; fi' EXIT
  trap 'exit 130' INT TERM HUP
fi
"$python" -m venv --clear "$data/venv"
"$data/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$(dirname "$0")"
ln -sfn "$program" "$link"
"$link" --version >/dev/null
rm -rf "$data/venv.old"
echo "wrote $link ($("$link" --version))"
case ":${PATH}:" in
  *":$(dirname "$link"):"*) echo "next: orchestra doctor, then in your project: orchestra" ;;
  *) echo "$(dirname "$link") is not on your PATH: add it in your shell's own file, then: orchestra doctor" ;;
esac
