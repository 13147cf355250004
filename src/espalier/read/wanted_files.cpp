#include "espalier/read/wanted_files.h"

#include <utility>

#include "espalier/base/counted.h"

namespace espalier {

Result<void> WantedFiles::check_count(std::size_t more) const {
  if (more <= limit_ - files_.size()) return {};
  return fail(ErrorCode::kLimitExceeded,
              "the checkpoint has bytes in " + counted(files_.size() + more, "further file") +
                  " and Limits::files allows " + std::to_string(limit_) +
                  "; if you trust it, raise the limit, or join the files with `espalier merge`");
}

Result<void> WantedFiles::want(std::vector<std::string> names) {
  if (auto ok = check_count(names.size()); !ok) return ok;
  for (std::string& name : names) {
    files_.push_back({static_cast<std::uint32_t>(files_.size() + 1), std::move(name)});
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
