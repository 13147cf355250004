// A file that is made at once by what can also stream it.
#ifndef ESPALIER_FOREIGN_COMMON_WHOLE_MACHINE_H_
#define ESPALIER_FOREIGN_COMMON_WHOLE_MACHINE_H_

#include <memory>
#include <span>
#include <utility>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/format/file_maker.h"

namespace espalier {

/// The whole file at once: what is fed is used up, because there is room for all that it makes.
class WholeMachine final : public MakingMachine {
 public:
  WholeMachine(std::unique_ptr<MakingStream> stream, MutableByteSpan out)
      : stream_(std::move(stream)), out_(out) {
    // What is filled, or stands in memory, needs no bytes.
    if (stream_->needs().empty()) begun_ = take({}, {});
  }

  std::span<const Extent> needs() const override {
    return begun_ ? stream_->needs() : std::span<const Extent>();
  }
  Result<void> feed(const Extent& extent, ByteSpan bytes) override {
    if (!begun_) return begun_;
    return take(extent, bytes);
  }
  Result<void> finish() override {
    if (!begun_) return begun_;
    return stream_->finish();
  }

 private:
  Result<void> take(const Extent& extent, ByteSpan bytes) {
    const auto made = stream_->feed(extent, bytes, out_);
    if (!made) return propagate(made);
    out_ = out_.subspan(*made);
    return {};
  }

  std::unique_ptr<MakingStream> stream_;
  MutableByteSpan out_;
  Result<void> begun_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_WHOLE_MACHINE_H_
