#include "viewer_page.h"

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

// This program's file, without links; empty if the system does not tell.
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

tl::unexpected<Failure> no_page(std::string folder, std::string message) {
  return fail_about(std::move(folder),
                    {ErrorCode::kFileNotFound, Error::kNoOffset, {}, std::move(message)});
}

tl::expected<fs::path, Failure> asked_for(const std::string& folder) {
  if (is_page(folder)) return folder;
  return no_page(folder,
                 "there is no viewer page (index.html) in this folder; scripts/viewer builds one "
                 "into web_demo/dist");
}

// Whether `folder` can be changed only by those who can change `programs`, the program's folder.
bool is_as_safe(const struct stat& folder, const struct stat& programs) {
  if (!S_ISDIR(folder.st_mode)) return false;
  if (folder.st_uid != 0 && folder.st_uid != ::geteuid() && folder.st_uid != programs.st_uid) {
    return false;
  }
  const mode_t writers = folder.st_mode & (S_IWGRP | S_IWOTH);
  if (writers == 0) return true;
  // The sticky bit protects a program from those who may write to its folder.
  return (programs.st_mode & S_ISVTX) == 0 && (writers & ~programs.st_mode) == 0 &&
         folder.st_gid == programs.st_gid;
}

// Whether whoever could put `page` where it is could as well replace the program in `programs`.
// Otherwise another user may have planted it, beside a program in /tmp/bin for one, and its scripts
// would read the files. The folders that lead to both need no look.
bool is_installed(fs::path page, const fs::path& programs) {
  struct stat beside = {};
  if (::stat(programs.c_str(), &beside) != 0) return false;
  for (; *programs.lexically_relative(page).begin() == ".."; page = page.parent_path()) {
    struct stat status = {};
    if (::lstat(page.c_str(), &status) != 0 || !is_as_safe(status, beside)) return false;
  }
  return true;
}

}  // namespace

tl::expected<fs::path, Failure> find_viewer_page(const std::string& wanted) {
  if (!wanted.empty()) return asked_for(wanted);
  const char* variable = std::getenv("ESPALIER_VIEWER");
  if (variable != nullptr && *variable != '\0') return asked_for(variable);
  const fs::path folder = program().parent_path();
  const fs::path page = (folder / ESPALIER_INSTALLED_PAGE).lexically_normal();
  if (folder.empty() || !is_page(page)) {
    return no_page({},
                   "the viewer's page is not installed; scripts/viewer builds it, and --page or "
                   "ESPALIER_VIEWER say where it is");
  }
  if (!is_installed(page, folder)) {
    return no_page(page.string(),
                   "this page is not served: users who cannot change the program can change its "
                   "folders; take that right from them, or name the folder with --page");
  }
  return page;
}

}  // namespace espalier::cli
