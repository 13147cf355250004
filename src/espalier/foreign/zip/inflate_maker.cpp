#include "espalier/foreign/zip/inflate_maker.h"

#include <array>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/zip/inflate.h"
#include "espalier/read/gather.h"

namespace espalier {
namespace {

class InflateMachine final : public MakingMachine {
 public:
  InflateMachine(const Extent& packed, std::optional<std::uint32_t> crc, std::string name,
                 MutableByteSpan out)
      : left_(packed), expected_crc_(crc), name_(std::move(name)), out_(out) {}

  std::span<const Extent> needs() const override {
    return left_.length == 0 ? std::span<const Extent>() : std::span(&left_, 1);
  }

  Result<void> feed(const Extent& extent, ByteSpan bytes) override {
    if (auto ok = check_fed(extent, bytes); !ok) return ok;
    if (extent.file != left_.file || extent.offset != left_.offset ||
        extent.length > left_.length) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    const auto progress = inflater_.run(bytes, out_.subspan(made_));
    if (!progress) return explain(progress);
    if (expected_crc_) crc_ = crc32_after(crc_, out_.subspan(made_, progress->made));
    made_ += progress->made;
    left_.offset += bytes.size();
    left_.length -= bytes.size();
    return check_rest(bytes.subspan(progress->taken));
  }

  Result<void> finish() override {
    if (left_.length > 0) return fail(ErrorCode::kIncomplete, "more bytes are needed to inflate");
    if (made_ < out_.size() || !inflater_.is_at_end()) {
      return bad("holds " + counted(made_, "byte") + " and not the " + std::to_string(out_.size()) +
                 " that the archive's directory says");
    }
    if (expected_crc_ && crc_ != *expected_crc_) {
      return bad("does not match its CRC-32; copy or download the file again");
    }
    return {};
  }

 private:
  tl::unexpected<Error> bad(const std::string& message) const {
    return fail(ErrorCode::kForeignInvalid, "the compressed entry '" + name_ + "' " + message,
                left_.offset);
  }

  tl::unexpected<Error> explain(const Result<Inflater::Progress>& failed) const {
    if (failed.error().code != ErrorCode::kForeignInvalid) return propagate(failed);
    return bad("is damaged; copy or download the file again");
  }

  // `rest` was fed and not taken: the stream has ended, or all of the output is made.
  Result<void> check_rest(ByteSpan rest) {
    if (!inflater_.is_at_end()) {
      std::array<std::byte, 1> beyond{};
      const auto progress = inflater_.run(rest, beyond);
      if (!progress) return explain(progress);
      if (progress->made > 0) {
        // Where the output is not full, run() has taken all of its input.
        return bad("holds more than the " + counted(out_.size(), "byte") +
                   " that the archive's directory says");
      }
      rest = rest.subspan(progress->taken);
    }
    if (inflater_.is_at_end() && rest.size() + left_.length > 0) {
      return bad("ends before the " + counted(rest.size() + left_.length, "byte") +
                 " that the archive's directory has for it beyond");
    }
    return {};
  }

  Extent left_;
  std::optional<std::uint32_t> expected_crc_;
  std::uint32_t crc_ = 0;
  std::string name_;
  MutableByteSpan out_;
  std::size_t made_ = 0;
  Inflater inflater_;
};

}  // namespace

std::unique_ptr<MakingMachine> InflateMaker::start(MutableByteSpan out) const {
  return std::make_unique<InflateMachine>(packed_, crc_, name_, out);
}

}  // namespace espalier
