#!/bin/sh
# Puts the source of a package into a folder, from Debian's archive: what a build for WebAssembly compiles. Usage:
# fetch_source.sh PACKAGE FOLDER.
set -eu
. "$(dirname "$0")/debian_archive.sh"
package=$1
folder=$(realpath -m "$2")
work=$folder.download
debian_archive deb-src
(cd "$work" && apt-get -qq source --download-only "$package")
mkdir "$work/source"
# Some have a signature beside them.
archive=$(find "$work" -maxdepth 1 -name "${package}_*.orig.tar.*" ! -name "*.asc")
tar -xf "$archive" -C "$work/source" --strip-components=1
rm -rf "$folder" && mv "$work/source" "$folder"
