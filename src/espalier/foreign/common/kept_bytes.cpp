#include "espalier/foreign/common/kept_bytes.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "espalier/format/file_maker.h"
#include "espalier/format/file_set.h"

namespace espalier {
namespace {

class Copy final : public FileMaker {
 public:
  explicit Copy(std::shared_ptr<const std::vector<std::byte>> bytes) : bytes_(std::move(bytes)) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override {
    std::copy(bytes_->begin(), bytes_->end(), out.begin());
    return std::make_unique<Done>();
  }

 private:
  class Done final : public MakingMachine {
   public:
    std::span<const Extent> needs() const override { return {}; }
    Result<void> feed(const Extent&, ByteSpan) override { return {}; }
    Result<void> finish() override { return {}; }
  };

  std::shared_ptr<const std::vector<std::byte>> bytes_;
};

}  // namespace

Result<KeptBytes::Place> KeptBytes::keep(FileSet& files, ByteSpan bytes) {
  if (!bytes_) {
    if (files.size() > std::numeric_limits<std::uint16_t>::max()) {
      return fail(ErrorCode::kLimitExceeded, "the checkpoint has more than 65535 files");
    }
    bytes_ = std::make_shared<std::vector<std::byte>>();
    file_ = static_cast<std::uint16_t>(files.size());
    files.push_back({.name = "decoded bytes", .maker = std::make_shared<Copy>(bytes_)});
  }
  const std::uint64_t offset = bytes_->size();
  bytes_->insert(bytes_->end(), bytes.begin(), bytes.end());
  files[file_].length = bytes_->size();
  return Place{file_, offset};
}

}  // namespace espalier
