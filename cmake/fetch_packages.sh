#!/bin/sh
# Unpacks Debian's packages for another machine, and all that they depend on, into a folder: what a cross compiler links with,
# and programs that run under qemu. Usage: fetch_packages.sh ARCHITECTURE FOLDER PACKAGE...
set -eu
. "$(dirname "$0")/debian_archive.sh"
architecture=$1
folder=$(realpath -m "$2")
shift 2
work=$folder.download
rm -rf "$folder"
debian_archive deb 'Dir::State::Status "/dev/null";' "APT::Architecture \"$architecture\";" \
  "APT::Architectures { \"$architecture\"; };"
apt-get -qq install -y --no-install-recommends --download-only "$@" >/dev/null
mkdir "$work/unpacked"
for package in "$work"/cache/archives/*.deb; do
  dpkg -x "$package" "$work/unpacked"
done
mv "$work/unpacked" "$folder"
