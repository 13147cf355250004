#include "cli/view/viewer_page.h"

#include <cstdlib>
#include <system_error>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#ifdef __APPLE__
#include <array>
#include <cstdint>

#include <mach-o/dyld.h>
#endif

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

// The path of this program without links; empty if the system does not provide it.
fs::path program() {
  std::error_code error;
#ifdef __APPLE__
  std::array<char, 4096> path = {};
  auto size = static_cast<std::uint32_t>(path.size());
  if (::_NSGetExecutablePath(path.data(), &size) != 0) return {};
  return fs::canonical(path.data(), error);
#else
  return fs::read_symlink("/proc/self/exe", error);
#endif
}

bool is_page(const fs::path& folder) {
  std::error_code error;
  return fs::is_regular_file(folder / "index.html", error);
}

tl::unexpected<Failure> no_page(std::string folder, std::string_view message) {
  return fail_about(std::move(folder), {ErrorCode::kFileNotFound, Error::kNoOffset, {}, message});
}

tl::expected<fs::path, Failure> asked_for(const std::string& folder) {
  if (is_page(folder)) return folder;
  return no_page(folder,
                 "this folder has no viewer page (index.html); run scripts/viewer, which builds "
                 "one into web_demo/dist");
}

tl::unexpected<Failure> unsafe(const fs::path& part, const std::string& reason) {
  return no_page(part.string(), "the viewer's page is not served because " + reason +
                                    "; fix that, or pass the page's folder with --page");
}

// Checks this file, folder or link of the page: only users who can change `programs`, the program's
// folder, may be able to change it. `status` receives its lstat().
tl::expected<void, Failure> check_part(const fs::path& part, const struct stat& programs,
                                       struct stat& status) {
  if (::lstat(part.c_str(), &status) != 0) return unsafe(part, "this cannot be examined");
  if (status.st_uid != 0 && status.st_uid != ::geteuid() && status.st_uid != programs.st_uid) {
    return unsafe(part, "this belongs to another user");
  }
  if (S_ISLNK(status.st_mode)) return {};  // It has no mode: its folder's mode protects it.
  const mode_t writers = status.st_mode & (S_IWGRP | S_IWOTH);
  // The sticky bit protects a program from other users who may write to its folder.
  if (writers == 0 || ((programs.st_mode & S_ISVTX) == 0 && (writers & ~programs.st_mode) == 0 &&
                       status.st_gid == programs.st_gid)) {
    return {};
  }
  return unsafe(part, "users who cannot change the program can write to this");
}

// Returns the page's path without links. Checks each folder and link on the way, except folders
// that also lead to `folder`, the program's own. Another user may have planted the page, for
// example beside a program in /tmp/bin, and its scripts would read the files.
tl::expected<fs::path, Failure> resolve_page(fs::path page, const fs::path& folder,
                                             const struct stat& programs) {
  constexpr int kMaxLinks = 40;  // as in Linux; links may form a circle
  for (int links = 0; links < kMaxLinks; ++links) {
    fs::path link;  // the topmost one: nothing above it is a link
    for (fs::path part = page; *folder.lexically_relative(part).begin() == "..";
         part = part.parent_path()) {
      struct stat status = {};
      if (auto ok = check_part(part, programs, status); !ok) return tl::unexpected(ok.error());
      if (S_ISLNK(status.st_mode)) link = part;
    }
    if (link.empty()) return page;
    std::error_code error;
    const fs::path target = fs::read_symlink(link, error);
    if (error) return unsafe(link, "this symbolic link cannot be read");
    page = (link.parent_path() / target / page.lexically_relative(link)).lexically_normal();
    if (!page.has_filename()) page = page.parent_path();
  }
  return unsafe(page, "too many symbolic links lead to it");
}

// Checks all files and folders of the page: one writable file is enough to plant a script.
tl::expected<void, Failure> check_content(const fs::path& page, const struct stat& programs) {
  constexpr int kMaxEntries = 1000;  // The page has a few dozen.
  std::error_code error;
  int entries = 0;
  for (fs::recursive_directory_iterator entry(page, error), end; entry != end;
       entry.increment(error)) {
    struct stat status = {};
    if (auto ok = check_part(entry->path(), programs, status); !ok) return ok;
    if (S_ISLNK(status.st_mode))
      return unsafe(entry->path(), "the page contains this symbolic link");
    if (++entries > kMaxEntries) return unsafe(page, "it has more than 1000 files and folders");
  }
  if (error) return unsafe(page, "its folders cannot be listed: " + error.message());
  return {};
}

}  // namespace

tl::expected<fs::path, Failure> find_viewer_page(const std::string& wanted) {
  if (!wanted.empty()) return asked_for(wanted);
  const char* variable = std::getenv("ESPALIER_VIEWER");
  if (variable != nullptr && *variable != '\0') return asked_for(variable);
  const fs::path folder = program().parent_path();
  const fs::path page = (folder / ESPALIER_INSTALLED_PAGE).lexically_normal();
  if (folder.empty() || !is_page(page)) {
    return no_page(
        {},
        "the viewer's page is not installed; run scripts/viewer, which builds it into "
        "web_demo/dist; then install again, or pass web_demo/dist with --page or ESPALIER_VIEWER");
  }
  struct stat programs = {};
  if (::stat(folder.c_str(), &programs) != 0) return unsafe(folder, "this cannot be examined");
  auto resolved = resolve_page(page, folder, programs);
  if (!resolved) return resolved;
  if (auto ok = check_content(*resolved, programs); !ok) return tl::unexpected(ok.error());
  return resolved;
}

}  // namespace espalier::cli
