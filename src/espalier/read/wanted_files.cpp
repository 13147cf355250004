#include "espalier/read/wanted_files.h"

#include <cstddef>
#include <utility>

#include "espalier/base/counted.h"

namespace espalier {

namespace {

// Whether `name` is at most `parts` names of files, with '/' between them.
bool has_parts(std::string_view name, int parts) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= name.size(); ++i) {
    const char c = i < name.size() ? name[i] : '/';
    if (c == '/') {
      const std::string_view part = name.substr(begin, i - begin);
      if (part.empty() || part == "." || part == ".." || parts-- == 0) return false;
      begin = i + 1;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '\\' || c == ':') {
      return false;
    }
  }
  return true;
}

}  // namespace

bool is_sibling_name(std::string_view name) { return has_parts(name, 1); }
bool is_name_below(std::string_view name) { return has_parts(name, 16); }

Result<void> WantedFiles::check_count(std::size_t more) const {
  if (more <= limit_ - files_.size()) return {};
  return fail(ErrorCode::kLimitExceeded,
              "the checkpoint has bytes in " + counted(files_.size() + more, "further file") +
                  " and Limits::files allows " + std::to_string(limit_) +
                  "; if you trust it, raise the limit, or join the files with `espalier merge`");
}

Result<void> WantedFiles::want(std::vector<std::string> names, FilePlace place) {
  if (auto ok = check_count(names.size()); !ok) return ok;
  for (std::string& name : names) {
    files_.push_back({static_cast<std::uint32_t>(files_.size() + 1), std::move(name), place});
  }
  return {};
}

Result<void> WantedFiles::take_answer(std::uint32_t number) {
  if (waiting().empty() || waiting().front().number != number) {
    return fail(ErrorCode::kInvalidArgument,
                "the machine did not ask for a file with number " + std::to_string(number));
  }
  ++answered_;
  return {};
}

}  // namespace espalier
