# For scripts that take packages from the archive that this system takes its own from; needs apt, but neither root nor changes of
# the system's sources. It makes the folder $work, removed at exit, with the lists of lines that begin with the first argument,
# "deb" or "deb-src". Further arguments are lines of apt's configuration.
debian_archive() {
  type=$1
  shift
  rm -rf "$work" && mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  trap 'rm -rf "$work"' EXIT
  . /etc/os-release
  site=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' "Codename: $VERSION_CODENAME" | head -n 1)
  echo "$type $site $VERSION_CODENAME main" >"$work/sources.list"
  # A file, because options on the command line cannot have a folder with a space.
  export APT_CONFIG="$work/apt.conf"
  cat >"$APT_CONFIG" <<END
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::State::Lists "$work/lists";
Dir::Cache "$work/cache";
Acquire::Retries "10";
APT::Sandbox::User "$(id -un)";
END
  for line in "$@"; do
    echo "$line" >>"$APT_CONFIG"
  done
  apt-get -qq update
}
