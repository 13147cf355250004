#include "espalier/foreign/zip/inflate_maker.h"

#include <algorithm>
#include <array>
#include <utility>

#include "espalier/base/counted.h"
#include "espalier/foreign/common/whole_machine.h"
#include "espalier/foreign/zip/inflate.h"
#include "espalier/read/gather.h"

namespace espalier {
namespace {

class InflateStream final : public MakingStream {
 public:
  InflateStream(const Extent& packed, std::optional<std::uint32_t> crc, std::string name,
                std::uint64_t length)
      : left_(packed),
        begin_(packed.offset),
        expected_crc_(crc),
        name_(std::move(name)),
        length_(length) {}

  std::span<const Extent> needs() const override {
    return left_.length == 0 ? std::span<const Extent>() : std::span(&left_, 1);
  }

  Result<std::size_t> feed(const Extent& extent, ByteSpan bytes, MutableByteSpan out) override {
    if (auto ok = check_fed(extent, bytes); !ok) return propagate(ok);
    const bool is_next = extent.file == left_.file && extent.offset == left_.offset;
    if ((!is_next && !bytes.empty()) || extent.length > left_.length) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    out = out.first(static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), length_ - made_)));
    const auto progress = inflater_.run(bytes, out);
    if (!progress) return explain(progress);
    if (expected_crc_) crc_ = crc32_after(crc_, out.first(progress->made));
    made_ += progress->made;
    use(progress->taken);
    if (made_ == length_ || inflater_.is_at_end()) {
      if (auto ok = check_rest(bytes.subspan(progress->taken)); !ok) return propagate(ok);
    }
    return progress->made;
  }

  Result<void> finish() override {
    if (left_.length > 0) return fail(ErrorCode::kIncomplete, "more bytes are needed to inflate");
    if (made_ < length_ || !inflater_.is_at_end()) {
      return bad("holds " + counted(made_, "byte") + " and not the " + std::to_string(length_) +
                 " that the archive's directory says");
    }
    if (expected_crc_ && crc_ != *expected_crc_) {
      return bad("does not match its CRC-32; copy or download the file again");
    }
    return {};
  }

 private:
  void use(std::size_t bytes) {
    left_.offset += bytes;
    left_.length -= bytes;
  }

  tl::unexpected<Error> bad(const std::string& message) const {
    return fail(ErrorCode::kForeignInvalid, "the compressed entry '" + name_ + "' " + message,
                begin_);
  }

  tl::unexpected<Error> explain(const Result<Inflater::Progress>& failed) const {
    if (failed.error().code != ErrorCode::kForeignInvalid) return propagate(failed);
    return bad("is damaged; copy or download the file again");
  }

  // `rest` is left of what was fed: the stream has ended, or all of the output is made.
  Result<void> check_rest(ByteSpan rest) {
    if (!inflater_.is_at_end()) {
      std::array<std::byte, 1> beyond{};
      const auto progress = inflater_.run(rest, beyond);
      if (!progress) return explain(progress);
      if (progress->made > 0) {
        return bad("holds more than the " + counted(length_, "byte") +
                   " that the archive's directory says");
      }
      use(progress->taken);
    }
    if (inflater_.is_at_end() && left_.length > 0) {
      return bad("ends before the " + counted(left_.length, "byte") +
                 " that the archive's directory has for it beyond");
    }
    return {};
  }

  Extent left_;
  const std::uint64_t begin_;
  std::optional<std::uint32_t> expected_crc_;
  std::uint32_t crc_ = 0;
  std::string name_;
  std::uint64_t length_;
  std::uint64_t made_ = 0;
  Inflater inflater_;
};

}  // namespace

std::unique_ptr<MakingMachine> InflateMaker::start(MutableByteSpan out) const {
  return std::make_unique<WholeMachine>(stream(out.size()), out);
}

std::unique_ptr<MakingStream> InflateMaker::stream(std::uint64_t length) const {
  return std::make_unique<InflateStream>(packed_, crc_, name_, length);
}

}  // namespace espalier
