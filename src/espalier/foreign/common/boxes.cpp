#include "espalier/foreign/common/boxes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <tuple>

#include "espalier/base/checked.h"
#include "espalier/dtype.h"
#include "espalier/read/gather.h"

namespace espalier {
namespace {

// Cuts the tensor into slabs at each edge of a box along one axis after the other. In the end, one
// box must be left.
class CoverCheck {
 public:
  CoverCheck(std::span<const std::uint64_t> shape, std::span<const Box> boxes)
      : shape_(shape), boxes_(boxes), steps_(kStepsForBox * (boxes.size() + kStepsForBox)) {}

  Cover run() {
    for (const Box& box : boxes_) {
      for (std::size_t axis = 0; axis < shape_.size(); ++axis) {
        if (!range_fits(box.offset[axis], box.size[axis], shape_[axis])) return Cover::kBeyond;
      }
    }
    std::vector<std::uint32_t> all(boxes_.size());
    std::iota(all.begin(), all.end(), 0u);
    return check(std::move(all), 0);
  }

 private:
  // More than there are axes, and twice as many as a grid takes.
  static constexpr std::uint64_t kStepsForBox = 256;

  std::uint64_t begin(std::uint32_t box, std::size_t axis) const {
    return boxes_[box].offset[axis];
  }
  std::uint64_t end(std::uint32_t box, std::size_t axis) const {
    return boxes_[box].offset[axis] + boxes_[box].size[axis];
  }

  bool spend(std::uint64_t steps) {
    if (steps > steps_) return false;
    steps_ -= steps;
    return true;
  }

  // Whether these boxes cover all that is left along the axes from `axis` on. It recurses as often
  // as there are axes.
  Cover check(std::vector<std::uint32_t> boxes, std::size_t axis) {
    if (boxes.empty()) return Cover::kHole;
    if (axis == shape_.size()) return boxes.size() == 1 ? Cover::kExact : Cover::kOverlap;
    if (!spend(boxes.size())) return Cover::kTangled;
    std::sort(boxes.begin(), boxes.end(),
              [&](std::uint32_t a, std::uint32_t b) { return begin(a, axis) < begin(b, axis); });
    std::vector<std::uint32_t> slab;
    std::size_t next = 0;
    for (std::uint64_t at = 0; at < shape_[axis];) {
      if (!spend(slab.size() + 1)) return Cover::kTangled;
      std::erase_if(slab, [&](std::uint32_t box) { return end(box, axis) <= at; });
      while (next < boxes.size() && begin(boxes[next], axis) <= at) slab.push_back(boxes[next++]);
      std::uint64_t edge = next < boxes.size() ? begin(boxes[next], axis) : shape_[axis];
      for (const std::uint32_t box : slab) edge = std::min(edge, end(box, axis));
      if (const Cover cover = check(slab, axis + 1); cover != Cover::kExact) return cover;
      at = edge;
    }
    return Cover::kExact;
  }

  std::span<const std::uint64_t> shape_;
  std::span<const Box> boxes_;
  std::uint64_t steps_;
};

class BoxMachine final : public MakingMachine {
 public:
  BoxMachine(std::shared_ptr<const std::vector<BoxCopy>> copies, MutableByteSpan out)
      : copies_(std::move(copies)), out_(out) {
    needs_.reserve(copies_->size());
    for (const BoxCopy& copy : *copies_) needs_.push_back(copy.from);
  }

  std::span<const Extent> needs() const override { return std::span(needs_).subspan(next_); }

  Result<void> feed(const Extent& extent, ByteSpan bytes) override {
    if (auto ok = check_fed(extent, bytes); !ok) return ok;
    if (next_ == needs_.size() || extent.file != needs_[next_].file ||
        extent.offset != needs_[next_].offset || extent.length > needs_[next_].length) {
      return fail(ErrorCode::kInvalidArgument, "the machine did not ask for these bytes");
    }
    const BoxCopy& copy = (*copies_)[next_];
    put(copy, extent.offset - copy.from.offset, bytes);
    needs_[next_].offset += extent.length;
    needs_[next_].length -= extent.length;
    if (needs_[next_].length == 0) ++next_;
    return {};
  }

  Result<void> finish() override {
    if (next_ < needs_.size()) {
      return fail(ErrorCode::kIncomplete, "more bytes are needed to put the tensor together");
    }
    return {};
  }

 private:
  // Puts the bytes of a box that begin at `done` in it.
  void put(const BoxCopy& copy, std::uint64_t done, ByteSpan bytes) {
    while (!bytes.empty()) {
      std::uint64_t number = done / copy.run;
      const std::uint64_t in_run = done % copy.run;
      std::uint64_t to = copy.to + in_run;
      for (std::size_t i = copy.axes.size(); i-- > 0;) {
        to += number % copy.axes[i].count * copy.axes[i].step;
        number /= copy.axes[i].count;
      }
      const auto length =
          static_cast<std::size_t>(std::min<std::uint64_t>(copy.run - in_run, bytes.size()));
      std::memcpy(out_.data() + to, bytes.data(), length);
      bytes = bytes.subspan(length);
      done += length;
    }
  }

  std::shared_ptr<const std::vector<BoxCopy>> copies_;
  MutableByteSpan out_;
  std::vector<Extent> needs_;
  std::size_t next_ = 0;
};

}  // namespace

Cover check_cover(std::span<const std::uint64_t> shape, std::span<const Box> boxes) {
  return CoverCheck(shape, boxes).run();
}

std::optional<BoxCopy> plan_copy(std::span<const std::uint64_t> shape, const Box& box,
                                 std::uint64_t width, Extent place,
                                 std::span<const std::uint64_t> strides) {
  struct BoxAxis {
    std::uint64_t count;
    std::uint64_t stride;  // in the box, in elements
    std::uint64_t step;    // in the tensor, in bytes
  };
  std::vector<BoxAxis> axes;
  BoxCopy copy{.from = place, .run = width};
  std::uint64_t packed = 1;
  std::uint64_t step = width;
  for (std::size_t i = shape.size(); i-- > 0;) {
    copy.to += box.offset[i] * step;
    if (box.size[i] > 1) axes.push_back({box.size[i], strides.empty() ? packed : strides[i], step});
    packed *= box.size[i];
    step *= shape[i];
  }
  copy.from.length = packed * width;
  // As they lie in the box's file, the fastest first.
  std::stable_sort(axes.begin(), axes.end(),
                   [](const BoxAxis& a, const BoxAxis& b) { return a.stride < b.stride; });
  std::uint64_t filled = 1;
  for (const BoxAxis& axis : axes) {
    if (axis.stride != filled) return std::nullopt;
    filled *= axis.count;
    if (copy.axes.empty() && axis.step == copy.run) {
      copy.run *= axis.count;
    } else {
      copy.axes.push_back({axis.count, axis.step});
    }
  }
  std::reverse(copy.axes.begin(), copy.axes.end());
  return copy;
}

bool are_whole_chunks(std::vector<BoxCopy>& copies) {
  std::sort(copies.begin(), copies.end(),
            [](const BoxCopy& a, const BoxCopy& b) { return a.to < b.to; });
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const BoxCopy& copy = copies[i];
    if (!copy.is_whole() || copy.to % kChunkBytes != 0) return false;
    if (i == 0) continue;
    const Extent& before = copies[i - 1].from;
    const bool ascends =
        copy.from.file > before.file ||
        (copy.from.file == before.file && copy.from.offset >= before.offset + before.length);
    if (!ascends) return false;
  }
  return true;
}

void add_tensor_of_chunks(TableBuilder& builder, const ForeignTensor& tensor,
                          std::span<const BoxCopy> copies) {
  builder.tensor({tensor.dtype, tensor.shape, tensor.block});
  for (const BoxCopy& copy : copies) {
    Extent left = copy.from;
    while (left.length > 0 && builder.ok()) {
      const std::uint64_t length = std::min(left.length, kChunkBytes);
      builder.place_chunk({.offset = left.offset,
                           .hash = {},
                           .stored = static_cast<std::uint32_t>(length),
                           .file = static_cast<std::uint16_t>(left.file)});
      left.offset += length;
      left.length -= length;
    }
  }
}

BoxMaker::BoxMaker(std::vector<BoxCopy> copies) {
  // In the order of the files, which are then read from front to back.
  std::sort(copies.begin(), copies.end(), [](const BoxCopy& a, const BoxCopy& b) {
    return std::tie(a.from.file, a.from.offset) < std::tie(b.from.file, b.from.offset);
  });
  copies_ = std::make_shared<const std::vector<BoxCopy>>(std::move(copies));
}

std::unique_ptr<MakingMachine> BoxMaker::start(MutableByteSpan out) const {
  return std::make_unique<BoxMachine>(copies_, out);
}

}  // namespace espalier
