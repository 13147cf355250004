#include "cli/opening/kept_files.h"

#include <system_error>

#include "cli/opening/urls.h"
#include "espalier/detail/catalog.h"
#include "espalier/format/file_set.h"

namespace espalier::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxLinks = 40;  // as many as Linux follows

}  // namespace

fs::path saved_file(const fs::path& name) {
  std::error_code error;
  fs::path file = name;
  for (int links = 0; links < kMaxLinks; ++links) {
    const fs::path folder =
        fs::weakly_canonical(file.has_parent_path() ? file.parent_path() : ".", error);
    file = folder / file.filename();
    if (!fs::is_symlink(fs::symlink_status(file, error))) break;
    const fs::path next = fs::read_symlink(file, error);
    if (error) break;
    file = folder / next;  // which stays `next` if that is absolute
  }
  return file;
}

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) || saved_file(a) == saved_file(b);
}

void KeptFiles::add(const std::string& file, const std::string& what) {
  files_.push_back({file, "this file is read as " + what});
}

void KeptFiles::add_parts(const std::string& name, const Catalog& catalog) {
  if (is_url(name)) return;
  std::error_code error;
  const fs::path folder =
      fs::is_directory(name, error) ? fs::path(name) : fs::path(name).parent_path();
  for (const FileEntry& file : catalog.files()) {
    // File 0 is the input itself, and made files lie in others.
    if (file.name.empty() || file.maker != nullptr) continue;
    files_.push_back({folder / file.name, "the input needs this file"});
  }
}

Result<void> KeptFiles::check(const fs::path& target) const {
  for (const Kept& kept : files_) {
    std::error_code ignored;
    if (!fs::equivalent(kept.file, target, ignored)) continue;
    return fail(ErrorCode::kInvalidArgument,
                kept.why + ", which would be replaced; write another one");
  }
  return {};
}

}  // namespace espalier::cli
