#include "viewer_page.h"

#include <cstdlib>
#include <system_error>

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

tl::expected<fs::path, Failure> asked_for(const std::string& folder) {
  if (is_page(folder)) return folder;
  return fail_about(folder, {ErrorCode::kFileNotFound,
                             Error::kNoOffset,
                             {},
                             "there is no viewer page (index.html) in this folder; scripts/viewer "
                             "builds one into web_demo/dist"});
}

}  // namespace

tl::expected<fs::path, Failure> find_viewer_page(const std::string& wanted) {
  if (!wanted.empty()) return asked_for(wanted);
  const char* variable = std::getenv("ESPALIER_VIEWER");
  if (variable != nullptr && *variable != '\0') return asked_for(variable);
  const fs::path folder = program().parent_path();
  // The second is for build/PRESET/espalier in the sources.
  for (const char* place : {ESPALIER_INSTALLED_PAGE, "../../web_demo/dist"}) {
    const fs::path page = (folder / place).lexically_normal();
    if (!folder.empty() && is_page(page)) return page;
  }
  return fail_about({}, {ErrorCode::kFileNotFound,
                         Error::kNoOffset,
                         {},
                         "the viewer's page is not installed; scripts/viewer builds it, and --page "
                         "or ESPALIER_VIEWER say where it is"});
}

}  // namespace espalier::cli
