#!/bin/sh
# Unpacks Debian's packages for another machine, and all that they depend on, into a folder: what a cross compiler links with,
# and programs that run under qemu. Usage: fetch_packages.sh ARCHITECTURE FOLDER PACKAGE... Needs apt, but neither root nor
# changes of the system's sources.
set -eu
architecture=$1
folder=$(realpath -m "$2")
shift 2
work=$folder.download
rm -rf "$work" "$folder" && mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/unpacked"
trap 'rm -rf "$work"' EXIT
. /etc/os-release
# The archive that this system takes its own packages from.
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" | head -n 1)
echo "deb $site $VERSION_CODENAME main" >"$work/sources.list"
options="-q -q -o Dir::Etc::SourceList=$work/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$work/lists
-o Dir::Cache=$work/cache -o Dir::State::Status=/dev/null -o APT::Architecture=$architecture -o APT::Architectures=$architecture
-o Acquire::Retries=10 -o APT::Sandbox::User=$(id -un)"
# shellcheck disable=SC2086  # a list of options
apt-get $options update
# shellcheck disable=SC2086
apt-get $options install -y --no-install-recommends --download-only "$@" >/dev/null
for package in "$work"/cache/archives/*.deb; do
  dpkg -x "$package" "$work/unpacked"
done
mv "$work/unpacked" "$folder"
