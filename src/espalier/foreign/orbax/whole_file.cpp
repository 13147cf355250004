#include "espalier/foreign/orbax/whole_file.h"

#include <algorithm>
#include <utility>

#include "espalier/base/counted.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMostJsonDepth = 200;

}  // namespace

Result<void> WholeFile::ask(FolderFiles& files, std::string name) {
  const auto number = files.number_of(name);
  if (!number) return propagate(number);
  name_ = std::move(name);
  number_ = *number;
  is_asked_ = true;
  return {};
}

Result<bool> WholeFile::step(FolderFiles& files, const Limits& limits) {
  if (!is_asked_ || is_wanted_) return true;
  if (!files.is_answered(number_)) return false;
  is_wanted_ = true;
  is_there_ = files.is_there(number_);
  if (!is_there_) return true;
  const std::uint64_t length = files[number_].length;
  if (length > limits.foreign_header_bytes) {
    Error error{ErrorCode::kLimitExceeded,
                Error::kNoOffset,
                {},
                "the file has " + counted(length, "byte") +
                    " and Limits::foreign_header_bytes allows " +
                    std::to_string(limits.foreign_header_bytes)};
    error.file = name_;
    return tl::unexpected<Error>(std::move(error));
  }
  bytes_.resize(static_cast<std::size_t>(length));
  files.want({number_, 0, length}, bytes_);
  return length == 0;
}

Result<std::optional<JsonRef>> WholeFile::object() {
  if (!is_there_) return std::nullopt;
  auto json = JsonTree::parse(as_text(bytes_), kMostJsonDepth, JsonDialect::kOfPython);
  if (json && json->root().is_object()) {
    json_ = std::move(*json);
    return std::optional(json_->root());
  }
  Error error{ErrorCode::kForeignInvalid,
              Error::kNoOffset,
              {},
              "the file is not a JSON object, as Orbax writes it; copy or download the checkpoint "
              "again"};
  error.file = name_;
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace espalier
