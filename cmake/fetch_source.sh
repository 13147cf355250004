#!/bin/sh
# Puts the source of a package into a folder, from Debian's archive: what a build for WebAssembly compiles. Usage:
# fetch_source.sh PACKAGE FOLDER. Needs apt, but neither root nor changes of the system's sources.
set -eu
package=$1
folder=$(realpath -m "$2")
work=$folder.download
rm -rf "$work" && mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
trap 'rm -rf "$work"' EXIT
. /etc/os-release
# The archive that this system takes its own packages from.
site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" | head -n 1)
echo "deb-src $site $VERSION_CODENAME main" >"$work/sources.list"
options="-q -q -o Dir::Etc::SourceList=$work/sources.list -o Dir::Etc::SourceParts=/dev/null
-o Dir::State::Lists=$work/lists -o Dir::Cache=$work/cache -o Acquire::Retries=10 -o APT::Sandbox::User=$(id -un)"
# shellcheck disable=SC2086  # a list of options
apt-get $options update
# shellcheck disable=SC2086
(cd "$work" && apt-get $options source --download-only "$package")
mkdir "$work/source"
# Some have a signature beside them.
archive=$(find "$work" -maxdepth 1 -name "${package}_*.orig.tar.*" ! -name "*.asc")
tar -xf "$archive" -C "$work/source" --strip-components=1
rm -rf "$folder" && mv "$work/source" "$folder"
