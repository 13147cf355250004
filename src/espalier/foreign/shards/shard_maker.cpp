#include "espalier/foreign/shards/shard_maker.h"

#include <utility>
#include <vector>

namespace espalier {
namespace {

// The needs of a machine that knows its file as number 0, as those of file `file`.
class MovedNeeds {
 public:
  explicit MovedNeeds(std::uint32_t file) : file_(file) {}

  void move(std::span<const Extent> needs) {
    needs_.assign(needs.begin(), needs.end());
    for (Extent& extent : needs_) extent.file = file_;
  }
  std::span<const Extent> needs() const { return needs_; }

 private:
  std::uint32_t file_;
  std::vector<Extent> needs_;
};

class MovedMachine final : public MakingMachine {
 public:
  MovedMachine(std::unique_ptr<MakingMachine> machine, std::uint32_t file)
      : machine_(std::move(machine)), needs_(file) {
    needs_.move(machine_->needs());
  }

  std::span<const Extent> needs() const override { return needs_.needs(); }
  Result<void> feed(const Extent& extent, ByteSpan bytes) override {
    auto fed = machine_->feed({0, extent.offset, extent.length}, bytes);
    needs_.move(machine_->needs());
    return fed;
  }
  Result<void> finish() override { return machine_->finish(); }

 private:
  std::unique_ptr<MakingMachine> machine_;
  MovedNeeds needs_;
};

class MovedStream final : public MakingStream {
 public:
  MovedStream(std::unique_ptr<MakingStream> stream, std::uint32_t file)
      : stream_(std::move(stream)), needs_(file) {
    needs_.move(stream_->needs());
  }

  std::span<const Extent> needs() const override { return needs_.needs(); }
  Result<std::size_t> feed(const Extent& extent, ByteSpan bytes, MutableByteSpan out) override {
    auto made = stream_->feed({0, extent.offset, extent.length}, bytes, out);
    needs_.move(stream_->needs());
    return made;
  }
  Result<void> finish() override { return stream_->finish(); }

 private:
  std::unique_ptr<MakingStream> stream_;
  MovedNeeds needs_;
};

class MovedMaker : public FileMaker {
 public:
  MovedMaker(std::shared_ptr<const FileMaker> maker, std::uint32_t file)
      : maker_(std::move(maker)), file_(file) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override {
    return std::make_unique<MovedMachine>(maker_->start(out), file_);
  }
  std::unique_ptr<MakingStream> stream(std::uint64_t length) const override {
    auto stream = maker_->stream(length);
    return stream ? std::make_unique<MovedStream>(std::move(stream), file_) : nullptr;
  }
  bool has_checksum() const override { return maker_->has_checksum(); }
  bool finds_damage() const override { return maker_->finds_damage(); }

 private:
  const std::shared_ptr<const FileMaker> maker_;
  const std::uint32_t file_;
};

}  // namespace

std::shared_ptr<const FileMaker> move_maker(std::shared_ptr<const FileMaker> maker,
                                            std::uint32_t file) {
  if (maker == nullptr) return nullptr;
  return std::make_shared<const MovedMaker>(std::move(maker), file);
}

}  // namespace espalier
