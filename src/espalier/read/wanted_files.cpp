#include "espalier/read/wanted_files.h"

#include <algorithm>
#include <utility>

#include "espalier/base/counted.h"

namespace espalier {

bool is_sibling_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  return std::none_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '/' || c == '\\' || c == ':';
  });
}

bool is_name_below(std::string_view name) {
  constexpr int kMostParts = 16;
  for (int parts = 1; parts <= kMostParts; ++parts) {
    const std::size_t end = std::min(name.find('/'), name.size());
    if (!is_sibling_name(name.substr(0, end))) return false;
    if (end == name.size()) return true;
    name.remove_prefix(end + 1);
  }
  return false;
}

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
