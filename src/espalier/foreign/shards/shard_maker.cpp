#include "espalier/foreign/shards/shard_maker.h"

#include <utility>
#include <vector>

namespace espalier {
namespace {

class MovedMachine : public MakingMachine {
 public:
  MovedMachine(std::unique_ptr<MakingMachine> machine, std::uint32_t file)
      : machine_(std::move(machine)), file_(file) {
    move_needs();
  }

  std::span<const Extent> needs() const override { return needs_; }

  Result<void> feed(const Extent& extent, ByteSpan bytes) override {
    auto fed = machine_->feed({0, extent.offset, extent.length}, bytes);
    move_needs();
    return fed;
  }

  Result<void> finish() override { return machine_->finish(); }

 private:
  void move_needs() {
    const auto needs = machine_->needs();
    needs_.assign(needs.begin(), needs.end());
    for (Extent& extent : needs_) extent.file = file_;
  }

  const std::unique_ptr<MakingMachine> machine_;
  const std::uint32_t file_;
  std::vector<Extent> needs_;
};

class MovedMaker : public FileMaker {
 public:
  MovedMaker(std::shared_ptr<const FileMaker> maker, std::uint32_t file)
      : maker_(std::move(maker)), file_(file) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override {
    return std::make_unique<MovedMachine>(maker_->start(out), file_);
  }
  bool has_checksum() const override { return maker_->has_checksum(); }

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
